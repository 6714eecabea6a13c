/* SPDX-License-Identifier: MIT */
/*
 * verbs_forced.h - whether ibv_reg_mr() of a GPU address would register host memory in its place.
 *
 * Before Linux 6.2, the kernel's RDMA core pins memory with FOLL_FORCE if nothing may write through
 * the MR. CUDA reserves the addresses of its memory by a private mapping without access rights.
 * With FOLL_FORCE the kernel puts zero pages there, and ibv_reg_mr() succeeds with an MR of these
 * pages. Later kernels refuse such an address, or ask a peer-memory client.
 */
#pragma once

#include <stddef.h>

struct ibv_mr;
struct ibv_pd;

/*
 * Tries to register a page without access rights. reg, dereg: ibv_reg_mr() and ibv_dereg_mr() of
 * libibverbs. access: that of the MR to be made. Changes errno. Thread-safe.
 *
 * 1: the kernel registers such a page. 0: the kernel refuses it. -errno: the trial failed for lack
 * of memory and shows nothing. The caller must then return that error and not register: by then
 * there may be memory, and the result could be an MR of zero pages.
 */
int verbs_forced(struct ibv_mr *(*reg)(struct ibv_pd *pd, void *addr, size_t length, int access),
		 int (*dereg)(struct ibv_mr *mr), struct ibv_pd *pd, int access);
