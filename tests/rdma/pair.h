/* SPDX-License-Identifier: MIT */
/*
 * pair.h - two connected RC queue pairs of one adapter, in one process: what leaves one arrives at the other.
 * Calls end the program, with a line that says why, where verbs fail that these tests are not about.
 */
#pragma once

#include <infiniband/verbs.h>

#include "../check.h"

struct pair {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_srq *srq;		/* of qp[1], or NULL */
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	enum ibv_mtu mtu;
	union ibv_gid gid;
	int gid_index;
	/* For the next connection: as in ibv_qp_attr.  psn: the first packet's number that each queue pair sends. */
	uint8_t timeout, retry_cnt, min_rnr_timer, dest_rd_atomic;
	unsigned int access;
	uint32_t psn[2];
};

/* Ends the program, with errno. */
#define die(...) do { check_failed(__FILE__, __LINE__, "", " " __VA_ARGS__); abort(); } while (0)

/* name: such as rxe0; NULL: the first adapter. srq: the second queue pair receives from one. */
void pair_open(struct pair *p, const char *name, int srq);
/* Usable again, after an error; what was posted is lost. */
void pair_connect(struct pair *p);
/* One of them to RESET, INIT, RTR, RTS, SQD or ERR. 0, or ibv_modify_qp()'s error. */
int pair_modify(struct pair *p, int which, enum ibv_qp_state state);
void pair_close(struct pair *p);

/* One work request of one element, by queue pair 0 or 1; id is the completion's wr_id. */
struct request {
	enum ibv_wr_opcode opcode;
	const struct ibv_mr *local;
	uint64_t local_addr;
	uint32_t length;
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint64_t id;
};

/* 0, or ENOMEM: the queue is full; EINVAL. */
int pair_post(struct pair *p, int which, const struct request *r);
void pair_receive(struct pair *p, int which, const struct ibv_mr *mr, uint64_t addr, uint32_t length);

/* The next completion's status, within ten seconds. wc may be NULL. */
enum ibv_wc_status pair_wait(struct pair *p, int which, struct ibv_wc *wc);

/* How many packets the adapter has received and accepted. */
long pair_packets(const struct pair *p);

/* Both: posts at 0 and waits. */
enum ibv_wc_status pair_do(struct pair *p, const struct request *r);
