/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * access.h - reading and writing memory of other devices.
 *
 * 0; -EAGAIN: it has moved, and its new addresses are being asked for; -EFAULT: it is gone, or an address has no
 * translation (a line in the log says which); -EINVAL: not aligned.  at: offset in the region; the caller has checked
 * it.  Any context.
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

/* Eight bytes at once, as far as the adapter's own accesses go. */
int hca_modify(struct hca_memory *memory, u64 at, struct hca_modify *op);

#endif
