/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * access.h - reads and writes memory of other devices.
 *
 * Both return 0; -EAGAIN: the memory has moved, and new addresses were requested; -EFAULT:
 * it was revoked, or an address has no translation (which is logged); -EINVAL: not aligned.
 * at: offset in the region, which the caller has checked.  Any context.
 */
#ifndef PEERDMA_HCA_ACCESS_H
#define PEERDMA_HCA_ACCESS_H

#include <linux/types.h>

struct hca_memory;

int hca_access(struct hca_memory *memory, u64 at, void *buffer, size_t length, bool to_memory);

struct hca_modify {
	enum { HCA_STORE, HCA_ADD, HCA_SWAP_IF } kind;
	u64 compare, operand;
	u64 original;		/* result */
};

/* Accesses eight bytes atomically, relative to the adapter's own accesses. */
int hca_modify(struct hca_memory *memory, u64 at, struct hca_modify *op);

#endif
