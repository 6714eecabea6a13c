/* SPDX-License-Identifier: MIT */
/*
 * libibverbs.h - libibverbs itself, behind the calls that this library stands in front of.
 * Names and types are those of libibverbs.so.1 (IBVERBS_1.1 and later), which do not change.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ibv_context;
struct ibv_pd;

/* As programs know it. */
struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

/* What ibv_reg_mr_ex() takes (rdma-core 60). Later releases have fields behind these; comp_mask says which are meant. */
struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
};

/* Bits of comp_mask: enum ibv_mr_init_attr_mask. */
#define MR_IOVA		(1ULL << 0)
#define MR_ADDR		(1ULL << 1)
#define MR_FD		(1ULL << 2)
#define MR_FD_OFFSET	(1ULL << 3)
#define MR_DMAH		(1ULL << 4)

/* A NULL member: this release of libibverbs has no such call. */
struct verbs_calls {
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
	struct ibv_mr *(*reg_mr_iova)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      int access);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access);
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
	int (*rereg_mr)(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	int (*dealloc_pd)(struct ibv_pd *pd);
	void *library;
};

/* Found by the first call. Never NULL; its members are, where libibverbs is not loaded. */
const struct verbs_calls *verbs_calls(void);
