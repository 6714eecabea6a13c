/* SPDX-License-Identifier: MIT */
/*
 * fake_verbs.h - a stand-in for libibverbs.so.1 with those functions that libpeerdma and
 * libpeerdma-verbs call.  There is no device behind it: it writes down what it was asked
 * for, and refuses what the test says.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FAKE_MRS 64

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
