/* SPDX-License-Identifier: MIT */
/*
 * verbs_abi.h - the layouts and numbers of libibverbs's ABI (1.1 and later), as far as the
 * probe needs them; so it needs no header to be built, and no library to start.
 * tests/doctor/verbs_abi.c holds them against libibverbs's own, where that is there.
 */
#pragma once

#include <stdint.h>

/* Calls that programs find in the context, not in the library. */
enum { VERBS_POLL_CQ = 11, VERBS_POST_SEND = 25, VERBS_OPS = 32 };

struct verbs_opened {
	void *device;
	void (*ops[VERBS_OPS])(void);
};

struct verbs_mr {
	struct verbs_opened *context;
	void *pd, *addr;
	uint64_t length;
	uint32_t handle, lkey, rkey;
};

struct verbs_qp {
	struct verbs_opened *context;
	void *own, *pd, *send_cq, *recv_cq, *srq;
	uint32_t handle, number;
};

struct verbs_cap {
	uint32_t send_wr, recv_wr, send_sge, recv_sge, inline_data;
};

struct verbs_qp_init {
	void *own, *send_cq, *recv_cq, *srq;
	struct verbs_cap cap;
	int type, signal_all;
};
#define VERBS_RC	2

struct verbs_address {
	_Alignas(8) uint8_t gid[16];
	uint32_t flow_label;
	uint8_t own_gid, hop_limit, traffic_class;
	uint16_t lid;
	uint8_t service, path_bits, rate, global, port;
};

struct verbs_qp_attr {
	int state, current_state, mtu, migration;
	uint32_t qkey, rq_psn, sq_psn, peer;
	unsigned int access;
	struct verbs_cap cap;
	struct verbs_address address, other_address;
	uint16_t pkey, other_pkey;
	uint8_t notify, draining, reads, peer_reads, rnr_timer, port, timeout, retries, rnr_retries,
		other_port, other_timeout;
	uint32_t rate_limit;
};

enum { VERBS_INIT = 1, VERBS_RTR, VERBS_RTS };
enum {			/* which of the attributes are given */
	VERBS_A_STATE = 1 << 0, VERBS_A_ACCESS = 1 << 3, VERBS_A_PKEY = 1 << 4,
		VERBS_A_PORT = 1 << 5,
	VERBS_A_ADDRESS = 1 << 7, VERBS_A_MTU = 1 << 8, VERBS_A_TIMEOUT = 1 << 9,
	VERBS_A_RETRIES = 1 << 10, VERBS_A_RNR_RETRIES = 1 << 11, VERBS_A_RQ_PSN = 1 << 12,
	VERBS_A_READS = 1 << 13, VERBS_A_RNR_TIMER = 1 << 15, VERBS_A_SQ_PSN = 1 << 16,
	VERBS_A_PEER_READS = 1 << 17, VERBS_A_PEER = 1 << 20,
};

struct verbs_port {
	int state, max_mtu, active_mtu, gids;
	uint32_t flags, max_message, bad_pkeys, qkey_violations;
	uint16_t pkeys, lid, sm_lid;
	uint8_t lmc, max_vl, sm_sl, subnet_timeout, init_type, width, speed, physical, link_layer,
		flags8;
	uint16_t flags16;
	uint64_t later[8];	/* what later releases may add */
};
#define VERBS_PORT_ACTIVE 4

struct verbs_part {
	uint64_t addr;
	uint32_t length, lkey;
};

struct verbs_request {
	uint64_t id;
	struct verbs_request *next;
	struct verbs_part *parts;
	int count, opcode;
	unsigned int flags;
	uint32_t immediate;
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t later[16];
};
enum { VERBS_RDMA_WRITE = 0, VERBS_RDMA_READ = 4 };
#define VERBS_SIGNALED	2

struct verbs_done {
	uint64_t id;
	int status, opcode;
	uint32_t vendor_error, length, immediate, qp, source_qp;
	unsigned int flags;
	uint16_t pkey, lid;
	uint8_t service, path_bits;
};

enum { VERBS_LOCAL_WRITE = 1, VERBS_REMOTE_WRITE = 2, VERBS_REMOTE_READ = 4 };
