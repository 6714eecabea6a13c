/* SPDX-License-Identifier: MIT */
/*
 * fake_verbs.h - a stand-in for libibverbs.so.1 with those functions that libpeerdma and
 * libpeerdma-verbs call.  There is no device behind it: it writes down what it was asked
 * for, and refuses what the test says.  In new-verbs it has ibv_reg_mr_ex() as well.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FAKE_MRS 64

/* What ibv_reg_mr_ex() takes. The fields of rdma-core 60; later releases have more behind them. */
struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
};

#define MASK_IOVA	(1 << 0)
#define MASK_ADDR	(1 << 1)
#define MASK_FD		(1 << 2)
#define MASK_FD_OFFSET	(1 << 3)
#define MASK_DMAH	(1 << 4)

struct fake_mr {
	/* As programs know it */
	void *context, *pd, *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
	int type, access_behind;
	/* The stand-in's */
	uint64_t iova, offset;
	int access, by_dmabuf, live;
};

struct fake_verbs {
	int error;		/* errno of the next registrations of addresses; 0: they work */
	void *not_memory;	/* an address that has no memory for the kernel: EFAULT */
	int (*not_host)(const void *addr);	/* or: whether an address is such a one */
	int (*peer)(const void *addr);	/* whether a peer-memory client has this address */
	int forces;		/* as Linux before 6.2: what is not to be written is registered all the same, at any address */
	int dmabuf_error;	/* likewise, of dma-bufs, by the provider library */
	int kernel_error;	/* of the kernel's own registration of a dma-buf, if it has that */
	int kernel_has_dmabuf;	/* so that it works without the provider library */
	int dereg_error;
	int registered, by_dmabuf, deregistered, by_kernel, reregistered, domains_ended;	/* counted */
	int by_ex;		/* calls of ibv_reg_mr_ex(), counted */
	const void *dmah;	/* of the last of these that had a DMA handle */
	void (*at_reg)(struct fake_mr *mr);	/* called with it made, not returned yet */
	void (*at_dereg)(struct fake_mr *mr);
	struct fake_mr mrs[FAKE_MRS];
};

struct fake_verbs *fake_verbs(void);

/* How many MRs are registered; less than 0 each that was deregistered twice. */
static inline int fake_verbs_live(const struct fake_verbs *verbs)
{
	int n = 0;

	for (int i = 0; i < FAKE_MRS; i++)
		n += verbs->mrs[i].live;
	return n;
}
