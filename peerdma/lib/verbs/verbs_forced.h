/* SPDX-License-Identifier: MIT */
/*
 * verbs_forced.h - whether ibv_reg_mr() of a GPU's address registers host memory in its place.
 *
 * Before Linux 6.2 the kernel's RDMA core pins memory by force (FOLL_FORCE) if nothing may write through the MR. CUDA
 * reserves the addresses of its memory by a private mapping that no one may access: by force the kernel puts pages of
 * zeros there, and ibv_reg_mr() succeeds with an MR of those pages. Later kernels refuse such an address, or ask a
 * peer-memory client.
 */
#ifndef VERBS_FORCED_H
#define VERBS_FORCED_H

#include <stddef.h>

struct ibv_mr;
struct ibv_pd;

/*
 * Tries it with a page of its own, which no one may access. reg, dereg: libibverbs' ibv_reg_mr() and ibv_dereg_mr(); access:
 * that of the MR to be made. Changes errno. Thread-safe.
 *
 * 1: the kernel registers such a page by force. 0: the kernel refuses it. -errno: the trial failed for want of memory, and
 * shows nothing. The caller returns that error and does not register: by then there may be memory, for an MR of zeros.
 */
int verbs_forced(struct ibv_mr *(*reg)(struct ibv_pd *pd, void *addr, size_t length, int access), int (*dereg)(struct ibv_mr *mr),
		 struct ibv_pd *pd, int access);

#endif
