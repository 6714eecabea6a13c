/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * memtype.h - reserves physical memory as write-combined with the kernel, so that all
 * mappings of it agree.  Reservations are counted: a range may be reserved any number of
 * times, and costs the kernel the same as once.
 *
 * Both calls sleep, and take a mutex inside which no other lock of this module is taken.
 */
#ifndef PEERDMA_MEMTYPE_H
#define PEERDMA_MEMTYPE_H

#include <linux/types.h>

/*
 * phys and length are multiples of the page.  Returns 0, -EBUSY (part of the range is mapped
 * with another memory type) or -ENOMEM; an error reserves nothing.
 */
int peerdma_memtype_reserve(phys_addr_t phys, u64 length);

/* Undoes one peerdma_memtype_reserve() of exactly this range. */
void peerdma_memtype_free(phys_addr_t phys, u64 length);

#endif
