/* SPDX-License-Identifier: MIT */
/*
 * space.h - allocates extents of a linear space (VRAM, or a process's window of device
 * addresses).  It takes the lowest extent that fits, so that addresses are reused soon and
 * the space stays compact.  O(log n).
 *
 * Taking may fail for lack of memory.  Giving back cannot fail: an allocated extent
 * contains the node that is needed to return it.  The caller holds a lock.
 */
#ifndef SG_MEMORY_SPACE_H
#define SG_MEMORY_SPACE_H

#include "../base/tree.h"

struct sg_extent {
	struct sg_node node;		/* key: start, len: length */
	struct sg_extent *next;		/* for the holder's use */
};

struct sg_space {
	struct sg_tree free;
	u64 free_len;
};

int sg_space_init(struct sg_space *space, u64 start, u64 len);
/* All extents must have been given back. */
void sg_space_fini(struct sg_space *space);

/* -ENOSPC: no room; -ENOMEM.  align is a power of two. */
int sg_space_take(struct sg_space *space, u64 len, u64 align, struct sg_extent **out);
int sg_space_take_at(struct sg_space *space, u64 start, u64 len, struct sg_extent **out);
/* Takes the longest free piece, but at most len. */
int sg_space_take_longest(struct sg_space *space, u64 len, struct sg_extent **out);
void sg_space_give(struct sg_space *space, struct sg_extent *extent);

#endif
