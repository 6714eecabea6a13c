/* SPDX-License-Identifier: MIT */
/* verbs.h - the calls of libibverbs that the library needs. Each returns 0, or -errno with text. */
#pragma once

#include <stdint.h>

struct ibv_mr;
struct ibv_pd;

/* IBV_ACCESS_LOCAL_WRITE, REMOTE_WRITE, REMOTE_ATOMIC */
#define VERBS_WRITES	(1 << 0 | 1 << 1 | 1 << 3)
#define VERBS_ZERO_BASED (1 << 5)
#define VERBS_ON_DEMAND	(1 << 6)

int verbs_find(void);
/* iova: the address of the memory in work requests. */
int verbs_reg(struct ibv_pd *pd, void *ptr, uint64_t length, uint64_t iova, int access,
	      struct ibv_mr **mr);
/* Registers [offset, offset + length) of a dma-buf. */
int verbs_reg_dmabuf(struct ibv_pd *pd, int fd, uint64_t offset, uint64_t length, uint64_t iova,
		     int access, struct ibv_mr **mr);
int verbs_dereg(struct ibv_mr *mr);
/* See verbs_forced.h. 1, 0, or -errno with text. */
int verbs_reg_is_forced(struct ibv_pd *pd, int access);
uint32_t verbs_lkey(const struct ibv_mr *mr);
uint32_t verbs_rkey(const struct ibv_mr *mr);
