/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* trim.h - from a client's table to the one that drivers see. */
#ifndef PEER_CORE_TRIM_H
#define PEER_CORE_TRIM_H

#include <linux/scatterlist.h>

/*
 * Copies the first nmap entries of from, which begin at the client's page of addr, cut to
 * the CPU's pages that [addr, addr + size) touches, adjacent ones merged. 0; -EINVAL: the
 * table is not aligned, or is longer or shorter than the client's pages of the range, or
 * page_size is not a power of two of at least PAGE_SIZE; -ENOMEM. sg_free_table() undoes it.
 */
int peer_trim_table(struct sg_table *to, const struct sg_table *from, int nmap,
		    unsigned long addr, size_t size, unsigned long page_size);

#endif
