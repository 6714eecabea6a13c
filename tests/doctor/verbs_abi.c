// SPDX-License-Identifier: MIT
/*
 * verbs_abi.c - the doctor's own declarations of libibverbs's ABI beside libibverbs's: each size,
 * offset and number that it uses is the same.  To be compiled is to pass.
 */
#include <infiniband/verbs.h>
#include <stddef.h>

#include "doctor/verbs_abi.h"

#define SAME(ours, a, theirs, b) \
	_Static_assert(offsetof(struct ours, a) == offsetof(struct theirs, b) && \
		       sizeof(((struct ours *)0)->a) == sizeof(((struct theirs *)0)->b), #theirs "." #b)

SAME(verbs_opened, device, ibv_context, device);
_Static_assert(offsetof(struct verbs_opened, ops[VERBS_POLL_CQ]) == offsetof(struct ibv_context, ops.poll_cq), "poll_cq");
_Static_assert(offsetof(struct verbs_opened, ops[VERBS_POST_SEND]) == offsetof(struct ibv_context, ops.post_send), "post_send");
SAME(verbs_opened, ops, ibv_context, ops);

SAME(verbs_mr, lkey, ibv_mr, lkey);
SAME(verbs_mr, rkey, ibv_mr, rkey);
SAME(verbs_qp, number, ibv_qp, qp_num);

_Static_assert(sizeof(struct verbs_qp_init) == sizeof(struct ibv_qp_init_attr), "ibv_qp_init_attr");
SAME(verbs_qp_init, send_cq, ibv_qp_init_attr, send_cq);
SAME(verbs_qp_init, recv_cq, ibv_qp_init_attr, recv_cq);
SAME(verbs_qp_init, cap.send_wr, ibv_qp_init_attr, cap.max_send_wr);
SAME(verbs_qp_init, cap.recv_wr, ibv_qp_init_attr, cap.max_recv_wr);
SAME(verbs_qp_init, cap.send_sge, ibv_qp_init_attr, cap.max_send_sge);
SAME(verbs_qp_init, cap.recv_sge, ibv_qp_init_attr, cap.max_recv_sge);
SAME(verbs_qp_init, type, ibv_qp_init_attr, qp_type);
_Static_assert(VERBS_RC == IBV_QPT_RC, "IBV_QPT_RC");

_Static_assert(sizeof(struct verbs_qp_attr) == sizeof(struct ibv_qp_attr), "ibv_qp_attr");
SAME(verbs_qp_attr, state, ibv_qp_attr, qp_state);
SAME(verbs_qp_attr, mtu, ibv_qp_attr, path_mtu);
SAME(verbs_qp_attr, peer, ibv_qp_attr, dest_qp_num);
SAME(verbs_qp_attr, access, ibv_qp_attr, qp_access_flags);
SAME(verbs_qp_attr, address.gid, ibv_qp_attr, ah_attr.grh.dgid);
SAME(verbs_qp_attr, address.own_gid, ibv_qp_attr, ah_attr.grh.sgid_index);
SAME(verbs_qp_attr, address.hop_limit, ibv_qp_attr, ah_attr.grh.hop_limit);
SAME(verbs_qp_attr, address.lid, ibv_qp_attr, ah_attr.dlid);
SAME(verbs_qp_attr, address.global, ibv_qp_attr, ah_attr.is_global);
SAME(verbs_qp_attr, address.port, ibv_qp_attr, ah_attr.port_num);
SAME(verbs_qp_attr, reads, ibv_qp_attr, max_rd_atomic);
SAME(verbs_qp_attr, peer_reads, ibv_qp_attr, max_dest_rd_atomic);
SAME(verbs_qp_attr, rnr_timer, ibv_qp_attr, min_rnr_timer);
SAME(verbs_qp_attr, port, ibv_qp_attr, port_num);
SAME(verbs_qp_attr, timeout, ibv_qp_attr, timeout);
SAME(verbs_qp_attr, retries, ibv_qp_attr, retry_cnt);
SAME(verbs_qp_attr, rnr_retries, ibv_qp_attr, rnr_retry);
_Static_assert((int)VERBS_INIT == IBV_QPS_INIT && (int)VERBS_RTR == IBV_QPS_RTR && (int)VERBS_RTS == IBV_QPS_RTS, "ibv_qp_state");
_Static_assert((int)VERBS_A_STATE == IBV_QP_STATE && (int)VERBS_A_ACCESS == IBV_QP_ACCESS_FLAGS &&
	       (int)VERBS_A_PKEY == IBV_QP_PKEY_INDEX && (int)VERBS_A_PORT == IBV_QP_PORT && (int)VERBS_A_ADDRESS == IBV_QP_AV &&
	       (int)VERBS_A_MTU == IBV_QP_PATH_MTU && (int)VERBS_A_TIMEOUT == IBV_QP_TIMEOUT &&
	       (int)VERBS_A_RETRIES == IBV_QP_RETRY_CNT && (int)VERBS_A_RNR_RETRIES == IBV_QP_RNR_RETRY &&
	       (int)VERBS_A_RQ_PSN == IBV_QP_RQ_PSN && (int)VERBS_A_READS == IBV_QP_MAX_QP_RD_ATOMIC &&
	       (int)VERBS_A_RNR_TIMER == IBV_QP_MIN_RNR_TIMER && (int)VERBS_A_SQ_PSN == IBV_QP_SQ_PSN &&
	       (int)VERBS_A_PEER_READS == IBV_QP_MAX_DEST_RD_ATOMIC && (int)VERBS_A_PEER == IBV_QP_DEST_QPN, "ibv_qp_attr_mask");

_Static_assert(sizeof(struct verbs_port) > sizeof(struct ibv_port_attr), "ibv_port_attr");
SAME(verbs_port, state, ibv_port_attr, state);
SAME(verbs_port, active_mtu, ibv_port_attr, active_mtu);
SAME(verbs_port, gids, ibv_port_attr, gid_tbl_len);
SAME(verbs_port, lid, ibv_port_attr, lid);
_Static_assert(VERBS_PORT_ACTIVE == IBV_PORT_ACTIVE, "ibv_port_state");

SAME(verbs_part, addr, ibv_sge, addr);
SAME(verbs_part, length, ibv_sge, length);
SAME(verbs_part, lkey, ibv_sge, lkey);
_Static_assert(sizeof(struct verbs_request) >= sizeof(struct ibv_send_wr), "ibv_send_wr");
SAME(verbs_request, parts, ibv_send_wr, sg_list);
SAME(verbs_request, count, ibv_send_wr, num_sge);
SAME(verbs_request, opcode, ibv_send_wr, opcode);
SAME(verbs_request, flags, ibv_send_wr, send_flags);
SAME(verbs_request, remote_addr, ibv_send_wr, wr.rdma.remote_addr);
SAME(verbs_request, rkey, ibv_send_wr, wr.rdma.rkey);
_Static_assert((int)VERBS_RDMA_WRITE == IBV_WR_RDMA_WRITE && (int)VERBS_RDMA_READ == IBV_WR_RDMA_READ, "ibv_wr_opcode");
_Static_assert(VERBS_SIGNALED == IBV_SEND_SIGNALED, "ibv_send_flags");

_Static_assert(sizeof(struct verbs_done) == sizeof(struct ibv_wc), "ibv_wc");
SAME(verbs_done, status, ibv_wc, status);
_Static_assert(IBV_WC_SUCCESS == 0, "ibv_wc_status");
_Static_assert((int)VERBS_LOCAL_WRITE == IBV_ACCESS_LOCAL_WRITE && (int)VERBS_REMOTE_WRITE == IBV_ACCESS_REMOTE_WRITE &&
	       (int)VERBS_REMOTE_READ == IBV_ACCESS_REMOTE_READ, "ibv_access_flags");
