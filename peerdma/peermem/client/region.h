/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * region.h - one registration: from the core's acquire to its release.
 *
 *	acquire ---- get_pages ---- dma_map ---- dma_unmap ---- put_pages ---- release
 *	 pinned                      mapped       unmapped       table freed    unpinned
 *
 * The memory is pinned once, in acquire, before the core knows the region: so it may go away at any point.
 *
 *	before dma_map has returned	the core need not be told: get_pages or dma_map fails (-EFAULT)
 *	mapped				the core's invalidate is called, and has the adapter stopped when it returns
 *	unmapped			nothing is left to stop
 *
 * Cores hold locks of their own around our calls, or wait in invalidate for the thread that is in one; and the
 * memory's owner may hold a lock (a GPU driver's, a dma-buf's) around the revocation.  So none of our calls waits
 * for a revocation, or asks for memory's owner's lock, of a region that is being revoked: what is left of such a
 * region ends in a work item (peerdma's unmap and unpin wait).
 *
 * Lock order: whatever the core holds; region.lock, innermost, not held across any call.
 */
#ifndef PEERDMA_PEERMEM_REGION_H
#define PEERDMA_PEERMEM_REGION_H

#include <linux/scatterlist.h>
#include <linux/types.h>

#include <rdma/peer_mem.h>

struct device;

/* One registration with the core: for memory that may be taken away, or for memory that stays until it is put. */
struct peermem_client {
	void *handle;				/* the core's */
	invalidate_peer_memory invalidate;	/* NULL: pins are persistent */
	bool persistent;
};

/* What the core's calls of the same names do; a region is their client_context. */
int peermem_acquire(const struct peermem_client *client, unsigned long addr, size_t size, void **region);
int peermem_get_pages(unsigned long addr, size_t size, int write, int force, struct sg_table *table,
		      void *region, u64 core_context);
int peermem_dma_map(struct sg_table *table, void *region, struct device *dev, int dmasync, int *nmap);
int peermem_dma_unmap(struct sg_table *table, void *region, struct device *dev);
void peermem_put_pages(struct sg_table *table, void *region);
unsigned long peermem_page_size(void *region);
void peermem_release(void *region);

int peermem_regions_init(void);
/* No region is left; waits for those that are still on their way out. */
void peermem_regions_exit(void);

#endif
