/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * memtype.h - reserves physical memory as write-combined with the kernel, so that all
 * mappings of it agree.  Reservations are counted: a range may be reserved any number of
 * times, and costs the kernel the same as once.
 *
 * All calls sleep.  reserve and free take a mutex inside which no other lock of this module
 * is taken, and which all users share; so they allocate nothing that is charged.  What
 * reserve needs is allocated before, with no lock held: the caller counts the range's
 * blocks, and fills a list of spares with so many.
 */
#ifndef PEERDMA_MEMTYPE_H
#define PEERDMA_MEMTYPE_H

#include <linux/types.h>

struct peerdma_spare_blocks {
	struct hlist_head list;		/* of struct peerdma_block */
	u32 count;
};

/* The number of blocks that a range is divided into.  phys and length are multiples of the page. */
u32 peerdma_memtype_blocks(phys_addr_t phys, u64 length);
/* Allocates until there are so many spares.  0 or -ENOMEM.  No lock held. */
int peerdma_memtype_fill(struct peerdma_spare_blocks *spares, u32 count);
void peerdma_memtype_drop(struct peerdma_spare_blocks *spares);

/*
 * Takes at most as many spares as the range has blocks; there must be so many.  Returns 0,
 * -EBUSY (part of the range is mapped with another memory type) or -ENOMEM; an error
 * reserves nothing.
 */
int peerdma_memtype_reserve(phys_addr_t phys, u64 length, struct peerdma_spare_blocks *spares);

/* Undoes one peerdma_memtype_reserve() of exactly this range. */
void peerdma_memtype_free(phys_addr_t phys, u64 length);

void peerdma_memtype_init(void);

#endif
