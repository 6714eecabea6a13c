/* SPDX-License-Identifier: MIT */
/*
 * peerdma_verbs.h - libpeerdma: verbs' memory regions (MRs) of pinned memory.
 *
 *	const struct peerdma_mr *mr;
 *
 *	peerdma_cache_get(cache, ptr, length, &hold);
 *	peerdma_cache_mr(cache, hold, pd, IBV_ACCESS_LOCAL_WRITE, &mr);
 *	... a work request has addr = ptr, whatever memory that is, and mr->lkey ...
 *	peerdma_cache_put(cache, hold);
 *
 * A region has one MR for each protection domain and access that was asked for.  It is
 * registered once, lives as long as the region and is deregistered before the memory is
 * unpinned: by peerdma_unpin(), by a cache that ends the region, and, where the back-end
 * reports frees in this process ("soft"), by the thread that frees the memory.  Where the
 * kernel reports them, it takes the memory away from the device itself; the MR that is left
 * reaches nothing.
 *
 * The library does not link libibverbs.  It uses the one that the program has loaded.
 *
 * An MR is registered by the first of these methods that works; peerdma_mr reports it, and why
 * no earlier one did:
 *
 *   host	host memory: ibv_reg_mr()
 *   dmabuf	GPU memory: ibv_reg_dmabuf_mr() of the region's dma-buf (back-ends kernel and dmabuf)
 *   peer	GPU memory: ibv_reg_mr() of its address, on kernels with a peer-memory client for
 *		the GPU (nvidia-peermem)
 *   view	memory of the software GPU: ibv_reg_mr() of a CPU view (back-end soft)
 *   staging	a copy in host memory, with PEERDMA_STAGING: peerdma_sync() copies
 *
 * A range over several allocations has one MR if one dma-buf or view of it can be made.  Else
 * the result is -EOPNOTSUPP, and each of peerdma_segments() has an MR of its own (peerdma.h).
 *
 * Conventions (results, units, ownership, threads, fork) are those of peerdma.h.
 */
#ifndef PEERDMA_VERBS_H
#define PEERDMA_VERBS_H

#include "peerdma.h"
#include "peerdma_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_mr;
struct ibv_pd;

/*
 * Belongs to the library, which allocates it.  Later releases add fields at its end, so programs
 * must not copy it or take its size.
 */
struct peerdma_mr {
	uint32_t lkey, rkey;
	uint64_t addr;		/* as pinned: work requests and remote peers use the program's addresses; of a dma-buf, offsets */
	uint64_t length;
	struct ibv_mr *verbs;	/* of the library: do not deregister it */
	const char *way;	/* the method, as above */
	const char *why;	/* why no earlier method: "dmabuf: ..."; "" if there is none */
};

/*
 * The region's MR in a protection domain.  access: IBV_ACCESS_*, without ZERO_BASED.  The first
 * call registers and may block; later ones with the same domain and access find its result
 * without a lock or a system call.  *mr lives as long as the region.  Once the region is
 * revoked its keys reach nothing.
 *
 *   -EINVAL      pd is NULL; access has ZERO_BASED, or writes to a PEERDMA_READONLY region
 *   -EOPNOTSUPP  no method works; the text has each reason
 *   -ENODEV      this process has not loaded libibverbs.so.1
 *   -ESTALE      the region is revoked
 *   -ENOMEM      out of memory; RLIMIT_MEMLOCK is reached
 *   -EMFILE, -ENFILE, -ENOSPC  as ibv_reg_mr() reports
 *   -EDQUOT      the user's limit on dma-bufs or mappings is reached (peerdma_export_dmabuf())
 *   -EPERM       the context belongs to a parent process
 */
int peerdma_verbs_mr(struct peerdma_region *region, struct ibv_pd *pd, int access, const struct peerdma_mr **mr);

/*
 * The same for a held region of a cache of pins; the MR lives as long as the region in the
 * cache.  -EINVAL also: not a cache of pins.
 *
 * An MR keeps the pages that it was registered with.  It ends with its region, when the memory goes
 * away: the get that pinned host memory has started a monitor (peerdma_cache_open()).
 */
int peerdma_cache_mr(struct peerdma_cache *cache, struct peerdma_cached *hold, struct ibv_pd *pd, int access,
		     const struct peerdma_mr **mr);

/*
 * Deregisters all MRs of the context's regions in a domain.  Call it before ibv_dealloc_pd(), when
 * no thread uses them.  Blocks until other threads' deregistrations in that domain have ended.
 *
 *   -EBUSY  memory windows are bound to an MR, which is kept; other errno as ibv_dereg_mr()
 *   -EPERM  the context belongs to a parent process
 */
int peerdma_verbs_end(struct peerdma *ctx, struct ibv_pd *pd);

#ifdef __cplusplus
}
#endif

#endif
