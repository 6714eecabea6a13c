/* SPDX-License-Identifier: MIT */
/*
 * two.h - an RC queue pair on each of two machines, connected; a TCP connection beside it for what both must know.
 * Calls end the program, with a line that says why, where something fails that these tests are not about.
 */
#pragma once

#include "pair.h"

struct two {
	struct pair pair;		/* its adapter, protection domain and a completion queue */
	struct ibv_qp *qp;
	struct ibv_mr *mr;		/* what the other side reaches */
	int tcp;
	struct two_end {
		union ibv_gid gid;
		uint64_t addr;
		uint32_t qpn, rkey;
	} other;
};

/* Before two_connect(). machine: the one that listens; NULL: this one does, on TCP port 18600. */
void two_meet(struct two *t, const char *machine);
/* Both sides send each other as many bytes. */
void two_swap(struct two *t, const void *mine, void *its, size_t size);
/*
 * A queue pair with that many requests at most each way. t->pair is open; t->mr is registered, at addr.
 * timeout: ibv_qp_attr's: the adapter waits 4 us << timeout for an answer.
 */
void two_connect(struct two *t, uint64_t addr, uint32_t depth, enum ibv_mtu mtu, int timeout);
