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
/*
 * A later request has failed, and nothing is sent any more; a retry that is due then will not come, and what waits for it is
 * flushed, as later rxe does at once.
 */
static inline void hca_flush_retry(struct rxe_qp *qp)
{
	if (qp->req.state == QP_STATE_ERROR && qp->req.need_retry) {
		qp->req.need_retry = 0;
		rxe_qp_error(qp);
	}
}
#endif

/*
 * Is this the NAK after which the responder's queue pair is in error, and the request not one that it acknowledges?  rxe takes
 * it for a lost answer where the request is a read, an atomic, or being made again; it asks again, and nothing answers.
 * With a retry_cnt of 7, which rxe takes for no end, that is for ever.
 */
static inline bool hca_is_over(struct rxe_pkt_info *pkt, const struct rxe_send_wqe *wqe)
{
	if (pkt->opcode != IB_OPCODE_RC_ACKNOWLEDGE || (aeth_syn(pkt) & AETH_TYPE_MASK) != AETH_NAK ||
	    aeth_syn(pkt) == AETH_NAK_PSN_SEQ_ERROR)
		return false;
	if (wqe->state == wqe_state_done || wqe->state == wqe_state_error)
		return false;
	return wqe->state != wqe_state_pending || wqe->mask & WR_ATOMIC_OR_READ_MASK ||
	       psn_compare(pkt->psn, wqe->last_psn) <= 0;
}

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
