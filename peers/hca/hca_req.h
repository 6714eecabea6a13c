/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * hca_req.h - what the requester does if the memory that it sends from has moved, and how it repeats requests.  Part of
 * rxe_req.c and rxe_comp.c.
 *
 * An RC queue pair waits a millisecond, and then continues from the first packet that was not acknowledged, as after an
 * RNR NAK.  With other transports the packet counts as sent and lost; they promise no more than that.
 */
#ifndef PEERDMA_HCA_REQ_H
#define PEERDMA_HCA_REQ_H

#include <linux/version.h>

#include "compat.h"

/* The queue pair is being destroyed: what it has asked for is of no use, and answers do not find it any more. */
static inline bool hca_is_ending(struct rxe_qp *qp)
{
	return qp_type(qp) == IB_QPT_RC && READ_ONCE(qp->resp.hca_ends);
}

/* Much shorter than the acknowledgement timeout: by then, memory that moves often would have moved again. */
static inline void hca_later(struct rxe_qp *qp)
{
	qp->req.wait_for_rnr_timer = 1;
	mod_timer(&qp->rnr_nak_timer, jiffies + msecs_to_jiffies(1));
}

/*
 * The memory that an answer is written to has moved.  The answer stays the first one in the queue, and the completer looks at it
 * again in a millisecond, without a retry.  If it were dropped, the responder would send it again only behind all its other
 * answers.  By then, memory that moves often would have moved again, and a long read would never end.  Returns whether it stays.
 */
static inline bool hca_hold(struct rxe_qp *qp)
{
	/* The answer has a reference to the queue pair: it must go if that is being destroyed. */
	qp->comp.hca_keeps = !READ_ONCE(qp->resp.hca_ends);
	return qp->comp.hca_keeps;
}

/*
 * Answers that wait do not belong to their sender any more.  If it is a queue pair of this machine, its end would wait for them
 * otherwise, and the kernel gives up waiting after 50 s.
 */
static inline void hca_orphan_all(struct sk_buff_head *list)
{
	struct sk_buff *skb;
	unsigned long flags;

	spin_lock_irqsave(&list->lock, flags);
	skb_queue_walk(list, skb)
		skb_orphan(skb);
	spin_unlock_irqrestore(&list->lock, flags);
}

/*
 * The completer is done with the packet.  Returns whether it goes back into the queue.
 *
 * hca_held stays set while the completer looks at the answer again, as it does for each one that arrives behind it: the timer
 * may expire meanwhile, and must not request a retry, which would bring all the answers again.
 */
static inline bool hca_kept(struct rxe_qp *qp, struct rxe_pkt_info *pkt)
{
	bool again = qp->comp.hca_held;

	WRITE_ONCE(qp->comp.hca_held, qp->comp.hca_keeps);
	if (!qp->comp.hca_keeps)
		return false;
	qp->comp.hca_keeps = false;
	skb_queue_head(&qp->resp_pkts, PKT_TO_SKB(pkt));
	/* Otherwise the timer has not expired since. */
	if (!again || !qp->req.wait_for_rnr_timer) {
		hca_orphan_all(&qp->resp_pkts);
		hca_later(qp);
	}
	return true;
}

/* The most answers of a queue pair that wait behind one that is held: more than come in the milliseconds of a usual move. */
#define HCA_HELD_MAX 1024

/*
 * An answer has arrived.  False: it was dropped.  An answer may be held for as long as the exporter likes, and the other end may
 * send whatever it likes meanwhile.
 */
static inline bool hca_may_wait(struct rxe_qp *qp, struct sk_buff *skb)
{
	if (likely(!READ_ONCE(qp->comp.hca_held)))
		return true;
	if (skb_queue_len_lockless(&qp->resp_pkts) < HCA_HELD_MAX) {
		skb_orphan(skb);
		return true;
	}
	WRITE_ONCE(qp->comp.hca_dropped, true);
	kfree_skb(skb);
	ib_device_put(qp->ibqp.device);
	/* Not the last reference: rxe_rcv_pkt() has one. */
	rxe_put(qp);
	return false;
}

/*
 * Returns whether answers were dropped, and those that have waited are done: requests a retry, which begins with the first answer
 * that was dropped.  The acknowledgement timeout would do the same later, or never if it is infinite.
 */
static inline bool hca_asks_again(struct rxe_qp *qp)
{
	if (likely(!READ_ONCE(qp->comp.hca_dropped)) || !skb_queue_empty(&qp->resp_pkts))
		return false;
	WRITE_ONCE(qp->comp.hca_dropped, false);
	if (psn_compare(qp->req.psn, qp->comp.psn) <= 0)
		return false;
	qp->req.need_retry = 1;
	return true;
}

/* Returns whether the queue pair has to wait; the packet is then not sent. err: finish_packet()'s result. */
static inline bool hca_wait(struct rxe_qp *qp, struct rxe_send_wqe *wqe, int err)
{
	if (err != -EAGAIN || qp_type(qp) != IB_QPT_RC)
		return false;
	/* A retry has reset this request, but not to its beginning: the next retry must compute its position again. */
	if (wqe->dma.resid < wqe->dma.length)
		wqe->state = wqe_state_processing;
	hca_later(qp);
	return true;
}

/*
 * Many packets of the queue pair are in the net device's queue.  Returns whether rxe_skb_tx_dtor() will schedule the task when
 * they have left.
 */
static inline bool hca_waits_for_packets(struct rxe_qp *qp)
{
	qp->need_req_skb = 1;
	/* Read the counter again: the last packet's destructor either saw need_req_skb, or has decremented the counter before. */
	smp_mb();
	return atomic_read(&qp->skb_out) > 0;
}

/*
 * Returns whether all packets of the request are acknowledged.  A retry must skip such a request.  It can only be the oldest
 * one: if its last acknowledgement came while it was being sent again, rxe completes it only with a later acknowledgement.  rxe's
 * own retry would send an empty packet for it, with a packet number behind its last one.  All later packets would then have
 * numbers that the responder expects for other packets, and their bytes would be written to the wrong addresses.
 */
static inline bool hca_is_acked(struct rxe_qp *qp, struct rxe_send_wqe *wqe, unsigned int mask)
{
	return mask & WR_WRITE_OR_SEND_MASK && psn_compare(qp->comp.psn, wqe->last_psn) > 0;
}

/* Marks the request as completed, and lets the retry begin with the next one. */
static inline void hca_skip(struct rxe_qp *qp, struct rxe_send_wqe *wqe, unsigned int wqe_index)
{
	wqe->state = wqe_state_done;
	qp->req.wqe_index = queue_next_index(qp->sq.queue, wqe_index);
}

/*
 * An acknowledgement came for the oldest request while it is being sent.  If it is for the request's last packet, the request
 * is being sent again, and no further acknowledgement may come.  So the requester skips the rest of it at once (hca_is_acked()),
 * and the completer completes it then.  It is not completed here, because the requester still reads its memory.
 */
static inline void hca_acked_while_sent(struct rxe_qp *qp, const struct rxe_pkt_info *pkt, const struct rxe_send_wqe *wqe)
{
	if (pkt->psn != wqe->last_psn)
		return;
	qp->comp.psn = (pkt->psn + 1) & BTH_PSN_MASK;
	/* The retry begins behind this request. */
	qp->req.need_retry = 1;
}

/* Returns the request's own error if it is the one that failed. */
static inline enum ib_wc_status hca_flush_status(const struct rxe_send_wqe *wqe)
{
	return wqe->state == wqe_state_error ? wqe->status : IB_WC_WR_FLUSH_ERR;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
/*
 * If a later request has failed, nothing is sent any more, so a retry that was requested before will not happen.  The requests
 * that wait for it are flushed here; newer versions of rxe flush them at once.
 */
static inline void hca_flush_retry(struct rxe_qp *qp)
{
	if (qp->req.state == QP_STATE_ERROR && qp->req.need_retry) {
		qp->req.need_retry = 0;
		rxe_qp_error(qp);
	}
}
#endif

/* A packet was sent.  hca_end: behind the last packet number that was ever sent; a retry sets req.psn back. */
static inline void hca_sent(struct rxe_qp *qp)
{
	if (psn_compare(qp->req.psn, qp->req.hca_end) > 0)
		qp->req.hca_end = qp->req.psn;
}

/*
 * Returns whether this answers a packet that was not sent.  It may be a late answer to an earlier connection of the queue pair.
 * rxe takes an acknowledgement for one of all packets before it.
 */
static inline bool hca_is_ghost(const struct rxe_qp *qp, const struct rxe_pkt_info *pkt)
{
	return psn_compare(pkt->psn, qp->req.hca_end) >= 0;
}

/*
 * Returns whether this is a NAK that reports an error of the responder's queue pair, and the request is not one that the NAK
 * acknowledges.  If the request is a read, an atomic, or is being sent again, rxe takes such a NAK for a lost answer and repeats
 * the request, but a responder in error never answers.  With a retry_cnt of 7, which rxe takes as unlimited, it repeats for ever.
 */
static inline bool hca_is_over(const struct rxe_qp *qp, struct rxe_pkt_info *pkt, const struct rxe_send_wqe *wqe)
{
	/* No packet waits for an answer, or it is an answer to a request before this one. */
	if (psn_compare(qp->comp.psn, qp->req.hca_end) >= 0 ||
	    (psn_compare(pkt->psn, qp->comp.psn) < 0 && psn_compare(pkt->psn, wqe->first_psn) < 0))
		return false;
	if (pkt->opcode != IB_OPCODE_RC_ACKNOWLEDGE || (aeth_syn(pkt) & AETH_TYPE_MASK) != AETH_NAK ||
	    aeth_syn(pkt) == AETH_NAK_PSN_SEQ_ERROR)
		return false;
	if (wqe->state == wqe_state_done || wqe->state == wqe_state_error)
		return false;
	return wqe->state != wqe_state_pending || wqe->mask & WR_ATOMIC_OR_READ_MASK ||
	       psn_compare(pkt->psn, wqe->last_psn) <= 0;
}

/* A read's bytes have been copied from this answer.  Returns whether the answer ends before the bytes do, or after them. */
static inline bool hca_ends_wrongly(const struct rxe_pkt_info *pkt, const struct rxe_send_wqe *wqe)
{
	return !(pkt->mask & RXE_END_MASK) != !!wqe->dma.resid;
}

/* Advances past the packet's bytes. err: finish_packet()'s result; *lost: set if the packet counts as lost. */
static inline int hca_pass(struct rxe_send_wqe *wqe, u32 payload, int err, bool *lost)
{
	*lost = err == -EAGAIN;
	return *lost ? advance_dma_data(&wqe->dma, payload) : err;
}

static inline int hca_xmit(struct rxe_qp *qp, struct rxe_pkt_info *pkt, struct sk_buff *skb, bool lost)
{
	if (!lost) {
		int err = rxe_xmit_packet(qp, pkt, skb);

		/* Since 6.9 rxe ends the queue pair if the net device's queue is full. */
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
