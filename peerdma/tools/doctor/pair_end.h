/* SPDX-License-Identifier: MIT */
/*
 * pair_end.h - one end of a rail: an RDMA device, memory of a GPU or of the host, and a queue pair that is
 * connected to the other end's.  Both machines have one (pair_probe.c, pair_serve.c).
 */
#pragma once

#include "probe.h"
#include "rdma.h"

enum end_memory { END_HOST, END_DMABUF, END_PEERMEM, END_MEMORIES };

struct pair_end {
	struct rdma rdma;
	struct probe probe;
	bool is_open, has_gpu;
	enum end_memory memory;
	struct rdma_place own, other;	/* own.mr NULL: none is registered */
	struct verbs_mr key;		/* other.mr: has an rkey only */
	char why[192];			/* what has failed last */
};

const char *end_word(enum end_memory memory);

/* gpu NULL: host memory only.  All: false: why.  end_close() in any case. */
bool end_open(struct pair_end *e, const char *device, const char *gpu, int gid_index);
void end_close(struct pair_end *e);
bool end_use(struct pair_end *e, enum end_memory memory);
bool end_offer(struct pair_end *e, struct rdma_end *own);
bool end_meet(struct pair_end *e, const struct rdma_end *other, uint64_t addr, uint32_t rkey);
bool end_fill(struct pair_end *e, unsigned int salt);
bool end_check(struct pair_end *e, unsigned int salt, unsigned int *wrong, unsigned int *first);
/* Own memory to the other's; by_read: the other's into own memory. */
bool end_carry(struct pair_end *e, bool by_read);
