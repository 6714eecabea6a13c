/* SPDX-License-Identifier: MIT */
/* verbs_calls.h - the calls of libibverbs that libpeerdma-verbs answers, as programs see them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ibv_mr {
	void *context, *pd, *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

struct ibv_mr_init_attr;	/* fake_verbs.h */

struct ibv_mr *ibv_reg_mr(void *pd, void *addr, size_t length, int access);
struct ibv_mr *ibv_reg_mr_iova(void *pd, void *addr, size_t length, uint64_t iova, int access);
struct ibv_mr *ibv_reg_mr_iova2(void *pd, void *addr, size_t length, uint64_t iova, unsigned int access);
struct ibv_mr *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
struct ibv_mr *ibv_reg_mr_ex(void *pd, struct ibv_mr_init_attr *attr);
int ibv_rereg_mr(struct ibv_mr *mr, int flags, void *pd, void *addr, size_t length, int access);
int ibv_dereg_mr(struct ibv_mr *mr);
int ibv_dealloc_pd(void *pd);
