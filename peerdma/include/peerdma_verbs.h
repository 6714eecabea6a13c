/* SPDX-License-Identifier: MIT */
/*
 * peerdma_verbs.h - pins for RDMA devices: memory regions (MRs) of verbs.
 *
 *	const struct peerdma_mr *mr;
 *
 *	peerdma_cache_get(cache, ptr, length, &hold);
 *	peerdma_cache_mr(cache, hold, pd, IBV_ACCESS_LOCAL_WRITE, &mr);
 *	... a work request has addr = ptr, whatever memory that is, and mr->lkey ...
 *	peerdma_cache_put(cache, hold);
 *
 * A pin has an MR for each protection domain and access that was asked for. It is made
 * once, lives as long as the pin, and is deregistered before the pin ends, so before
 * the memory is let go: by peerdma_unpin(), by a cache that ends the region, and in the thread
 * that frees the memory where the back-end tells of that in this process ("soft").
 * Where the kernel tells, it takes the memory out of the device's reach by itself, and
 * the MR that is left reaches nothing.
 *
 * libibverbs is not linked: it is the one from which the program has its protection domain.
 *
 * An MR is made in the first of these ways that works, and says which, and why not a better one:
 *
 *   host	host memory: ibv_reg_mr()
 *   dmabuf	a GPU's memory: ibv_reg_dmabuf_mr() of the pin's export (back-ends kernel and dmabuf)
 *   peer	a GPU's memory: ibv_reg_mr() of its address, which a kernel with a peer-memory
 *		client for that GPU understands (nvidia-peermem)
 *   view	the software GPU's memory as the CPU has it (back-end soft)
 *   staging	a copy in host memory, of pins with PEERDMA_STAGING: bytes move by peerdma_sync()
 *
 * Results, units, threads and fork are as peerdma.h has them.
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

/* The library's. Later releases may add to its end. */
struct peerdma_mr {
	uint32_t lkey, rkey;
	uint64_t addr;		/* as pinned: addresses in work requests, and remote ones, are the program's own; of a dma-buf, offsets */
	uint64_t length;
	struct ibv_mr *verbs;	/* not to be deregistered by others */
	const char *way;	/* as above */
	const char *why;	/* not a better one: "dmabuf: ..."; "": there is none better */
};

/*
 * The pin's MR in a domain. access: IBV_ACCESS_*, of which ZERO_BASED is not for it. The
 * first call registers; others with the same domain and access find what it made, with
 * no lock and no call. *mr is good until the pin ends; when the pin is
 * revoked its keys reach nothing any more.
 *
 *   -EINVAL      access: ZERO_BASED, or writing to what was pinned PEERDMA_READONLY
 *   -EOPNOTSUPP  in none of these ways; the text has the reason of each
 *   -ENODEV      this process has not loaded libibverbs.so.1
 *   -ESTALE      the pin is revoked
 *   -ENOMEM      memory, or RLIMIT_MEMLOCK
 *   -EMFILE, -ENFILE, -ENOSPC  as verbs says
 *   -EPERM       the context belongs to a parent process
 */
int peerdma_verbs_mr(struct peerdma_region *region, struct ibv_pd *pd, int access, const struct peerdma_mr **mr);

/*
 * The same for a held region of a cache of pins; the MR lives as long as the region in
 * the cache. -EINVAL also: not a cache of pins.
 *
 * An MR keeps the pages that it was made of. Of host memory without peerdma.ko (back-end
 * host) nobody tells the cache that other pages are at the address, so there it is
 * -EOPNOTSUPP, unless the program tells (PEERDMA_CACHE_CALLS) or the device
 * follows the addresses (IBV_ACCESS_ON_DEMAND).
 */
int peerdma_cache_mr(struct peerdma_cache *cache, struct peerdma_cached *hold, struct ibv_pd *pd, int access,
		     const struct peerdma_mr **mr);

/*
 * Deregisters all MRs that the context's pins have in a domain. To be called before
 * ibv_dealloc_pd(), when nobody uses them any more. 0, or -errno of one that could not be, such
 * as -EBUSY: memory windows are bound to it; -EPERM.
 */
int peerdma_verbs_end(struct peerdma *ctx, struct ibv_pd *pd);

#ifdef __cplusplus
}
#endif

#endif
