/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * region.h - one registration: from the core's acquire to its release.
 *
 *	acquire ---- get_pages ---- dma_map ---- dma_unmap ---- put_pages ---- release
 *	 pinned                      mapped       unmapped       table freed    unpinned
 *
 * The memory is pinned once, in acquire, before the core knows the region.  So it may be
 * revoked at any point:
 *
 *	before dma_map has returned	no notification: get_pages or dma_map fails (-EFAULT)
 *	mapped				the core's invalidate is called, and stops the adapter
 *	unmapped			nothing is left to stop
 *
 * Cores hold locks of their own around our calls, or wait in invalidate for a thread that
 * is in one of our calls.  The memory's owner may hold a lock (a GPU driver's, a dma-buf's)
 * around the revocation.  So for a region that is being revoked, none of our calls waits
 * for the revocation or takes a lock of the memory's owner. peerdma's unmap and unpin do
 * wait: a work item calls them for such a region.
 *
 * Lock order: locks that the core holds; region.lock, innermost, not held across any call.
 */
#ifndef PEERDMA_PEERMEM_REGION_H
#define PEERDMA_PEERMEM_REGION_H

#include <linux/scatterlist.h>
#include <linux/types.h>

#include <rdma/peer_mem.h>

struct device;

/*
 * One registration with the core: for revocable memory, or for memory that stays until
 * put_pages.
 */
struct peermem_client {
	void *handle;				/* the core's */
	invalidate_peer_memory invalidate;	/* NULL: pins are persistent */
	bool persistent;
};

/* Implement the core's calls of the same names; client_context is the region. */
int peermem_acquire(const struct peermem_client *client, unsigned long addr, size_t size,
		    void **region);
int peermem_get_pages(unsigned long addr, size_t size, int write, int force, struct sg_table *table,
		      void *region, u64 core_context);
int peermem_dma_map(struct sg_table *table, void *region, struct device *dev, int dmasync,
		    int *nmap);
int peermem_dma_unmap(struct sg_table *table, void *region, struct device *dev);
void peermem_put_pages(struct sg_table *table, void *region);
unsigned long peermem_page_size(void *region);
void peermem_release(void *region);

int peermem_regions_init(void);
/* Called when no region is left.  Waits for work items that are still ending regions. */
void peermem_regions_exit(void);

#endif
