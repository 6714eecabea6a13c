// SPDX-License-Identifier: MIT
/*
 * pins.c - a cache of pins: peerdma_pin()'s regions, valid for as long as their word
 * says so (the kernel's page of generations, or a back-end's), or, of those that
 * nobody tells of, CUDA's buffer id.
 */
#include <stdlib.h>
#include <string.h>

#include "../backend.h"
#include "cache.h"
#include "peerdma_verbs.h"

#define GPU_PAGE 65536ULL
#define TRIM 64		/* pins, with their MRs, where there is no room for another MR */

struct pins {
	struct peerdma *ctx;
	struct peerdma_cache *cache;
	unsigned int flags;		/* of peerdma_pin() */
	bool whole;
};

/* Two that differ by their addresses: 0 and expected to be. */
static const uint32_t by_hooks, by_nobody;

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	struct pins *p = arg;
	struct peerdma_region *region;
	int ret = region_pin(p->ctx, (void *)(uintptr_t)addr, length, p->flags, NULL, true, &region);

	if (ret)
		return ret;
	out->handle = region;
	if (region->backend == &backend_locked) {
		out->word = &by_nobody;
	} else if (!region->by_id) {
		out->word = region->validity.slot;
		out->expected = region->validity.generation;
	} else if (cache_hooks_complete(p->cache, loader_loads())) {
		out->word = &by_hooks;
	} else {
		__atomic_add_fetch(&p->cache->checked, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

/* Of regions without a word.  What is asked for is in one allocation: extent() saw to it, or the pin would not be. */
static int check(void *arg, const struct peerdma_cached *cached, uint64_t addr, uint64_t length)
{
	const struct peerdma_region *region = cached->registration;

	(void)arg;
	(void)length;
	return cuda_has_id(addr, region->buffer_id);
}

/* -EBUSY: a device that cannot be told to let go has it by a dma-buf; then the pin is the context's until it closes. */
static void end_pin(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	(void)arg;
	(void)addr;
	(void)length;
	peerdma_unpin(handle);
}

/*
 * GPU memory: the GPU's pages that the range touches, or all of its allocation, and
 * never beyond that: the next one ends at another time, and SYNC_MEMOPS is set
 * on one only.  The host's: whole granules.
 */
static int extent(void *arg, uint64_t addr, uint64_t length, struct peerdma_extent *e)
{
	struct pins *p = arg;
	struct peerdma_memory m = { .size = sizeof(m) };
	uint64_t end = addr + length;

	if (p->flags & PEERDMA_HOST || peerdma_query(p->ctx, (void *)(uintptr_t)addr, &m))
		return 0;
	if (m.kind != PEERDMA_KIND_DEVICE || !m.base || addr < m.base || end > m.base + m.length)
		return 0;
	e->aperture = 1;
	e->addr = addr & ~(GPU_PAGE - 1);
	end = (end + GPU_PAGE - 1) & ~(GPU_PAGE - 1);
	if (p->whole || e->addr < m.base)
		e->addr = m.base;
	if (p->whole || end > m.base + m.length)
		end = m.base + m.length;
	e->length = end - e->addr;
	return 0;
}

EXPORT int peerdma_cache_open(struct peerdma *ctx, const struct peerdma_cache_options *options,
			      struct peerdma_cache **cache)
{
	struct peerdma_cache_ops ops = {
		.size = sizeof(ops), .monitors = PEERDMA_MONITOR_WORD,
		.add = add, .remove = end_pin, .extent = extent, .check = check,
	};
	struct pins *p;
	int ret = check_owner(ctx, "peerdma_cache_open");

	if (ret)
		return ret;
	p = malloc(sizeof(*p));
	if (!p)
		return fail(-ENOMEM, "peerdma_cache_open: out of memory");
	*p = (struct pins){ .ctx = ctx };
	ret = peerdma_cache_create(&ops, p, options, cache);
	if (ret) {
		free(p);
		return ret;
	}
	p->cache = *cache;
	(*cache)->word_will_do = true;
	p->whole = (*cache)->options.flags & PEERDMA_CACHE_WHOLE;
	p->flags = ((*cache)->options.flags & PEERDMA_CACHE_READONLY ? PEERDMA_READONLY : 0) |
		   ((*cache)->options.flags & PEERDMA_CACHE_STAGING ? PEERDMA_STAGING : 0);
	(*cache)->closed = free;
	(*cache)->by_hooks = &by_hooks;
	(*cache)->by_nobody = &by_nobody;
	return 0;
}

EXPORT int peerdma_cache_map(struct peerdma_cache *cache, struct peerdma_cached *hold, const char *pci,
			     unsigned int flags, struct peerdma_mapping **mapping)
{
	if (cache->ops.add != add)
		return fail(-EINVAL, "peerdma_cache_map: this is no cache of pins");
	return map_shared(hold->registration, pci, flags, mapping);
}

EXPORT int peerdma_cache_mr(struct peerdma_cache *cache, struct peerdma_cached *hold, struct ibv_pd *pd, int access,
			    const struct peerdma_mr **mr)
{
	int ret;

	if (cache->ops.add != add)
		return fail(-EINVAL, "peerdma_cache_mr: this is no cache of pins");
	do {
		ret = mr_of_cached(hold->registration, pd, access, cache->options.flags & PEERDMA_CACHE_CALLS, mr);
	} while ((ret == -ENOMEM || ret == -ENOSPC) && peerdma_cache_trim(cache, TRIM) > 0);
	return ret;
}
