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

/*
 * A retry goes on behind what is acknowledged.  The oldest request may be that to its end: where the acknowledgement came while
 * it was being made again, rxe completes it with a later one.  rxe would make an empty packet of it, with a number behind its
 * last one, and all later packets would have numbers that are the other end's for others: bytes in the wrong place, or one
 * message's in another's memory.
 */
static inline bool hca_is_acked(struct rxe_qp *qp, struct rxe_send_wqe *wqe, unsigned int mask)
{
	return mask & WR_WRITE_OR_SEND_MASK && psn_compare(qp->comp.psn, wqe->last_psn) > 0;
}

/* It is completed, and the retry begins with the next one. */
static inline void hca_skip(struct rxe_qp *qp, struct rxe_send_wqe *wqe, unsigned int wqe_index)
{
	wqe->state = wqe_state_done;
	qp->req.wqe_index = queue_next_index(qp->sq.queue, wqe_index);
}

/*
 * An acknowledgement for the oldest request, which is being sent: of its last packet, where it is a retry.  Later ones may be
 * lost, and nothing is waited for when the requester is through with it; so the requester goes on behind it at once (hca_is_acked()),
 * and it is completed then.  Not here: the requester reads its memory.
 */
static inline void hca_acked_while_sent(struct rxe_qp *qp, const struct rxe_pkt_info *pkt, const struct rxe_send_wqe *wqe)
{
	if (pkt->psn != wqe->last_psn)
		return;
	qp->comp.psn = (pkt->psn + 1) & BTH_PSN_MASK;
	/* The retry begins behind it. */
	qp->req.need_retry = 1;
}

/* The request's own error, if it is the one that failed. */
static inline enum ib_wc_status hca_flush_status(const struct rxe_send_wqe *wqe)
{
	return wqe->state == wqe_state_error ? wqe->status : IB_WC_WR_FLUSH_ERR;
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
	if (!lost) {
		int err = rxe_xmit_packet(qp, pkt, skb);

		/* Since 6.9 rxe takes a full queue of the net device for the end of the queue pair. */
		if (err != -EAGAIN || LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0))
			return err;
	} else {
		kfree_skb(skb);
	}
	if (qp_type(qp) != IB_QPT_RC && pkt->mask & RXE_END_MASK)
		pkt->wqe->state = wqe_state_done;
	return 0;
}

#endif
