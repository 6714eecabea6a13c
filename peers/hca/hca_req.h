/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * hca_req.h - what the requester does when the memory that it sends from has moved.  Part of rxe_req.c and rxe_comp.c.
 *
 * RC waits a while, and then goes on from the first packet that is not acknowledged, as after an RNR NAK.  Of other
 * transports the packet is as good as sent and lost; nothing else is promised there.
 */
#ifndef PEERDMA_HCA_REQ_H
#define PEERDMA_HCA_REQ_H

#include <linux/version.h>

#include "compat.h"

/* Long before the acknowledgement timer: memory that moves often would have moved again. */
static inline void hca_later(struct rxe_qp *qp)
{
	qp->req.wait_for_rnr_timer = 1;
	mod_timer(&qp->rnr_nak_timer, jiffies + msecs_to_jiffies(1));
}

/* Does this queue pair wait?  Then the packet is not made. */
static inline bool hca_wait(struct rxe_qp *qp, struct rxe_send_wqe *wqe, int err)
{
	if (err != -EAGAIN || qp_type(qp) != IB_QPT_RC)
		return false;
	/* A retry has put it back, but not to its beginning; the next one must look at it again. */
	if (wqe->dma.resid < wqe->dma.length)
		wqe->state = wqe_state_processing;
	hca_later(qp);
	return true;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
/* The timer may fire after a later request has failed. */
static inline void hca_forget_retry(struct rxe_qp *qp)
{
	if (qp->req.state == QP_STATE_ERROR && qp->req.need_retry) {
		qp->req.need_retry = 0;
		rxe_sched_task(&qp->comp.task);
	}
}
#endif

/* Goes on behind the packet's bytes. err: finish_packet()'s result; *lost: whether this packet is. */
static inline int hca_pass(struct rxe_send_wqe *wqe, u32 payload, int err, bool *lost)
{
	*lost = err == -EAGAIN;
	return *lost ? advance_dma_data(&wqe->dma, payload) : err;
}

static inline int hca_xmit(struct rxe_qp *qp, struct rxe_pkt_info *pkt, struct sk_buff *skb, bool lost)
{
	if (!lost)
		return rxe_xmit_packet(qp, pkt, skb);
	kfree_skb(skb);
	if (qp_type(qp) != IB_QPT_RC && pkt->mask & RXE_END_MASK) {
		pkt->wqe->state = wqe_state_done;
		hca_complete(qp);
	}
	return 0;
}

#endif
