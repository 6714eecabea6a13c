/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * hca_resp.h - what the responder does if memory has moved or was revoked, and how it paces the answers to reads.  Part of
 * rxe_resp.c.
 *
 * If memory has moved, nothing of the packet is executed, and the answer is an RNR NAK: the requester sends the packet again
 * after min_rnr_timer, up to rnr_retry times (7: without limit).  Datagrams are dropped.
 */
#ifndef PEERDMA_HCA_RESP_H
#define PEERDMA_HCA_RESP_H

/* Answers with an RNR NAK.  The packet's receive work request, if it took one, is kept for its repetition. */
static inline enum resp_states hca_again(struct rxe_qp *qp)
{
	qp->resp.hca_again = true;
	return RESPST_ERR_RNR;
}

/* Drops the region of a packet that was not finished.  Otherwise the region could not be deregistered before the queue pair. */
static inline void hca_let_go(struct rxe_qp *qp)
{
	if (qp->resp.mr)
		rxe_put(qp->resp.mr);
	qp->resp.mr = NULL;
}

/* Returns whether this is the first time that the queue pair is flushed, since it was created or reset. */
static inline bool hca_first_flush(struct rxe_qp *qp)
{
	bool first = !qp->resp.hca_flushed;

	qp->resp.hca_flushed = true;
	return first;
}

/* Returns whether a receive work request was kept; then none is taken from the SRQ. */
static inline bool hca_kept_wqe(struct rxe_qp *qp)
{
	struct rxe_recv_wqe *wqe = qp->resp.wqe;
	bool kept = qp->resp.hca_again && wqe;

	qp->resp.hca_again = false;
	if (kept) {
		wqe->dma.resid = wqe->dma.length;
		wqe->dma.cur_sge = 0;
		wqe->dma.sge_offset = 0;
	}
	return kept;
}

/* An answer of one packet could not be sent: forgets the request, so that its repetition is executed. */
static inline enum resp_states hca_atomic_failed(struct rxe_qp *qp, struct resp_res *res, enum resp_states state)
{
	res->type = 0;
	qp->resp.res = NULL;
	return state == RESPST_ERR_RNR ? hca_again(qp) : state;
}

static inline enum resp_states hca_atomic_state(int err)
{
	switch (err) {
	case 0:
		return RESPST_NONE;
	case -EAGAIN:
		return RESPST_ERR_RNR;
	case -EINVAL:
		return RESPST_ERR_MISALIGNED_ATOMIC;
	default:
		return RESPST_ERR_RKEY_VIOLATION;
	}
}

/*
 * Ends a read's answer before the packet that is due.  The NAK has that packet's number: the requester has the packets before
 * it, and repeats the read from there on, or completes it with an error.
 */
static inline enum resp_states hca_read_failed(struct rxe_qp *qp, struct rxe_pkt_info *pkt, struct resp_res *res, int err)
{
	qp->resp.res = NULL;
	/* A request that was answered before must stay known: if it comes again, it is a duplicate. */
	if (!res->replay && res->cur_psn == res->first_psn)
		res->type = 0;
	pkt->psn = res->cur_psn;
	if (err != -EAGAIN)
		return RESPST_ERR_RKEY_VIOLATION;
	if (psn_compare(res->cur_psn, qp->resp.psn) > 0)
		qp->resp.psn = res->cur_psn;
	return RESPST_ERR_RNR;
}

/*
 * Returns whether the rest of a read's answer has to wait: more than `some' packets of the queue pair are in the net device's
 * queue.  rxe_skb_tx_dtor() schedules the responder again when they have left.
 */
static inline bool hca_read_waits(struct rxe_qp *qp, int some)
{
	WRITE_ONCE(qp->resp.hca_waits, false);
	if (atomic_read(&qp->skb_out) <= some)
		return false;
	WRITE_ONCE(qp->resp.hca_waits, true);
	/* Read the counter again: the last packet's destructor either saw hca_waits, or has decremented the counter before. */
	smp_mb();
	return atomic_read(&qp->skb_out) > 0;
}

/*
 * To be called before each packet of a read's answer but the first.  RESPST_NONE: send it; else the next state.  Without pauses, a
 * long answer overflows the net device's queue, packets are dropped, and the requester repeats most of the read again and again.
 */
static inline enum resp_states hca_read_goes_on(struct rxe_qp *qp)
{
	/* The queue pair is being destroyed, and its destruction waits for this request to end. */
	if (READ_ONCE(qp->resp.hca_ends)) {
		qp->resp.res = NULL;
		return RESPST_CLEANUP;
	}
	return hca_read_waits(qp, RXE_INFLIGHT_SKBS_PER_QP_HIGH) ? RESPST_EXIT : RESPST_NONE;
}

/*
 * There was no memory for the packet that is due, or the net device's queue was full.  The packet is tried again when other
 * packets of the queue pair have left the queue.  If there are none, or it is the first packet, the requester repeats the read.
 */
static inline enum resp_states hca_read_not_sent(struct rxe_qp *qp, struct rxe_pkt_info *pkt, struct resp_res *res)
{
	if (res->cur_psn != res->first_psn && hca_read_waits(qp, 0))
		return RESPST_EXIT;
	return hca_read_failed(qp, pkt, res, -EAGAIN);
}

/*
 * The kind of a datagram's header, for the completion's service level, which has no other meaning on Ethernet.  Verbs have no
 * field for it, but programs need it, because an IPv4 header begins at another offset than an IPv6 header.  The encoding is that of
 * ConnectX, on which UCX relies: 0x8 UDP, 0x1 IPv6, 0x2 IPv4.
 */
static inline u8 hca_header_kind(struct rxe_pkt_info *pkt)
{
	return 0x8 | (PKT_TO_SKB(pkt)->protocol == htons(ETH_P_IP) ? 0x2 : 0x1);
}

#endif
