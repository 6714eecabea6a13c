/* SPDX-License-Identifier: MIT */
/*
 * verbs_kernel.h - dma-buf MRs for devices whose kernel driver supports them and whose user-space
 * provider does not. The library bypasses the provider: it calls the function by which providers
 * send the command to the kernel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_mr;
struct ibv_pd;

/*
 * Like ibv_reg_dmabuf_mr(): NULL and errno on failure. EOPNOTSUPP: the kernel or this release of
 * libibverbs does not support it. library: handle of dlopen() for libibverbs. Thread-safe.
 */
struct ibv_mr *verbs_kernel_reg_dmabuf(void *library, struct ibv_pd *pd, uint64_t offset,
				       size_t length, uint64_t iova, int fd, int access);

/*
 * False: the MR was not made by verbs_kernel_reg_dmabuf(). Otherwise *error is 0 and the MR is
 * deregistered, or *error is an errno and the MR is unchanged.
 */
bool verbs_kernel_dereg(void *library, struct ibv_mr *mr, int *error);
