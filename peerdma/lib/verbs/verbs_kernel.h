/* SPDX-License-Identifier: MIT */
/*
 * verbs_kernel.h - dma-buf MRs for devices whose kernel driver has them and whose user-space
 * provider does not. The MR is made by libibverbs' own command for providers, without the provider.
 */
#ifndef VERBS_KERNEL_H
#define VERBS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_mr;
struct ibv_pd;

/*
 * As ibv_reg_dmabuf_mr(): NULL and errno on failure, EOPNOTSUPP where the kernel or this
 * release of libibverbs cannot. library: libibverbs' handle of dlopen(). Thread-safe.
 */
struct ibv_mr *verbs_kernel_reg_dmabuf(void *library, struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				       int fd, int access);

/* False: another has made this MR. Else it is deregistered, or *error is an errno and it is as before. */
bool verbs_kernel_dereg(void *library, struct ibv_mr *mr, int *error);

#endif
