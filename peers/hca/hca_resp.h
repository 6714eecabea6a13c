/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * hca_resp.h - what the responder does about memory that has moved or is gone.  Part of rxe_resp.c.
 *
 * Moved: an RNR NAK for the packet, with nothing of it done: the requester sends it again after min_rnr_timer.  Its
 * rnr_retry counts those (7: as often as it takes).  For datagrams it is a packet lost.
 */
#ifndef PEERDMA_HCA_RESP_H
#define PEERDMA_HCA_RESP_H

/* The packet's receive work request, if it took one, is for when it comes again. */
static inline enum resp_states hca_again(struct rxe_qp *qp)
{
	qp->resp.hca_again = true;
	return RESPST_ERR_RNR;
}

/* Is there such a one?  Then an SRQ is not asked for another. */
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

/* An answer of one packet that was not made: as if it had not been asked for. */
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
 * A read's answer ends before the packet that is due.  The NAK is for that one: the requester has those before it, and asks
 * again from there on, or takes it for the error that it is.
 */
static inline enum resp_states hca_read_failed(struct rxe_qp *qp, struct rxe_pkt_info *pkt, struct resp_res *res, int err)
{
	qp->resp.res = NULL;
	/* What was answered once must stay known: it is a duplicate when it comes again. */
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
 * Does the rest of a read's answer wait?  It does while more than some packets of the queue pair are on their way to the wire;
 * rxe_skb_tx_dtor() wakes it.
 */
static inline bool hca_read_waits(struct rxe_qp *qp, int some)
{
	WRITE_ONCE(qp->resp.hca_waits, false);
	if (atomic_read(&qp->skb_out) <= some)
		return false;
	WRITE_ONCE(qp->resp.hca_waits, true);
	/* And then count again: the last packet's destructor has seen it, or has counted before. */
	smp_mb();
	return atomic_read(&qp->skb_out) > 0;
}

/*
 * Before each packet of a read's answer but the first: RESPST_NONE, or what to do instead.  Without a pause a long answer fills
 * the net device's queue, which drops what is too much, and most of it is asked for again and again.
 */
static inline enum resp_states hca_read_goes_on(struct rxe_qp *qp)
{
	/* The queue pair is being destroyed, which waits for this request. */
	if (READ_ONCE(qp->resp.hca_ends)) {
		qp->resp.res = NULL;
		return RESPST_CLEANUP;
	}
	return hca_read_waits(qp, RXE_INFLIGHT_SKBS_PER_QP_HIGH) ? RESPST_EXIT : RESPST_NONE;
}

/*
 * There was no memory for the packet that is due, or no place for it in the net device's queue. It is made again when others of
 * the queue pair have left; where there are none, or it is the first, the requester asks again.
 */
static inline enum resp_states hca_read_not_sent(struct rxe_qp *qp, struct rxe_pkt_info *pkt, struct resp_res *res)
{
	if (res->cur_psn != res->first_psn && hca_read_waits(qp, 0))
		return RESPST_EXIT;
	return hca_read_failed(qp, pkt, res, -EAGAIN);
}

/*
 * What kind of header is before a datagram, for a completion's service level, which means nothing else on Ethernet. Verbs
 * have no field for it, and an IPv4 header is not where an IPv6 header is.  As ConnectX has it, which UCX relies on: UDP,
 * and IPv6 or IPv4.
 */
static inline u8 hca_header_kind(struct rxe_pkt_info *pkt)
{
	return 0x8 | (PKT_TO_SKB(pkt)->protocol == htons(ETH_P_IP) ? 0x2 : 0x1);
}

#endif
