// SPDX-License-Identifier: MIT
/* queue.c - a side's queue pair: see side.h. */
#include <errno.h>
#include <string.h>

#include "side.h"

#define DEPTH	16
#define TIMEOUT	19	/* 4096 ns << 19 is two seconds: emulated machines are slow on a busy computer */

bool side_queue(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq, .recv_cq = s->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_wc wc;

	if (s->qp && ibv_destroy_qp(s->qp)) {
		why_set(&s->why, "ibv_destroy_qp: %s", strerror(errno));
		return false;
	}
	while (ibv_poll_cq(s->cq, 1, &wc) > 0)
		;
	s->qp = ibv_create_qp(s->pd, &init);
	if (!s->qp) {
		why_set(&s->why, "ibv_create_qp: %s", strerror(errno));
		return false;
	}
	s->own.qp = s->qp->qp_num;
	return true;
}

bool side_connect(struct side *s, const struct address *other)
{
	struct ibv_qp_attr attr = {
		.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = s->mtu, .dest_qp_num = other->qp, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = other->gid, .sgid_index = (uint8_t)s->gid_index, .hop_limit = 1 } },
		.timeout = TIMEOUT, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
	};
	static const struct { enum ibv_qp_state state; int mask; } steps[] = {
		{ IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
		{ IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER },
		{ IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			       IBV_QP_MAX_QP_RD_ATOMIC },
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int error;

		attr.qp_state = steps[i].state;
		error = ibv_modify_qp(s->qp, &attr, steps[i].mask);
		if (error) {
			why_set(&s->why, "ibv_modify_qp to state %d: %s", attr.qp_state, strerror(error));
			return false;
		}
	}
	return true;
}

bool side_write(struct side *s, uint64_t at, uint64_t length, uint64_t remote, uint32_t rkey, uint64_t tag)
{
	struct ibv_sge part = { .addr = side_base(s) + at, .length = (uint32_t)length, .lkey = s->mr->lkey };
	struct ibv_send_wr *bad, write = { .wr_id = tag, .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1, .sg_list = &part };
	int error;

	write.wr.rdma.remote_addr = remote + at;
	write.wr.rdma.rkey = rkey;
	error = ibv_post_send(s->qp, &write, &bad);
	if (error)
		why_set(&s->why, "ibv_post_send: %s", strerror(error));
	return !error;
}

int side_poll(struct side *s, struct ibv_wc *wc, unsigned int ms)
{
	uint64_t end = now_ns() + ms * 1000000ull;
	int n;

	while (!(n = ibv_poll_cq(s->cq, 1, wc)) && now_ns() < end)
		sleep_ms(1);
	if (n < 0)
		why_set(&s->why, "ibv_poll_cq fails");
	return n;
}
