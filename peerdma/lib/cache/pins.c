// SPDX-License-Identifier: MIT
/*
 * pins.c - a cache of pins: its regions are pins of peerdma_pin().  A word shows whether a region
 * is valid.  It is in the kernel's page of generations or in the back-end.  If frees of the memory
 * are not reported, CUDA's buffer id shows whether the region is valid.
 */

#include "../backend.h"
#include "../base/cancel.h"
#include "../monitor/monitor.h"
#include "monitored.h"
#include "peerdma_verbs.h"

#define GPU_PAGE 65536ULL
#define TRIM 64		/* idle pins to end, with their MRs, when a new MR cannot be made */

struct pins {
	struct peerdma *ctx;
	struct peerdma_cache *cache;
	unsigned int flags;		/* of peerdma_pin() */
	bool whole;
};

/*
 * Words of regions whose frees libpeerdma-hooks reports, and of regions that the program ends by
 * calls.  Both stay 0, the expected value.  Readers of the cache tell them apart by address.
 */
static const uint32_t by_hooks, by_calls;

/* Pins the request's dma-buf.  Without one, pins the memory at the address. */
static int pin(const struct pins *p, uint64_t addr, uint64_t length,
	       const struct peerdma_registration *r, struct peerdma_region **region)
{
	const struct peerdma_cache_request *q = r->request;
	unsigned int flags = p->flags | (r->access & PEERDMA_ACCESS_WRITE ? 0 : PEERDMA_READONLY);

	if (!q || !(q->flags & PEERDMA_REQUEST_DMABUF)) {
		if (q && q->memory && q->memory->kind == PEERDMA_KIND_HOST)
			flags |= PEERDMA_HOST;
		return region_pin(p->ctx, (void *)(uintptr_t)addr, length, flags, NULL, true,
				  region);
	}
	if (addr < q->dmabuf_addr)
		return fail(-ENXIO, "peerdma_cache_get_with: 0x%llx is below dmabuf_addr, 0x%llx",
			    (unsigned long long)addr, (unsigned long long)q->dmabuf_addr);
	return region_pin_dmabuf(p->ctx, q->dmabuf, addr - q->dmabuf_addr, length,
				 flags & PEERDMA_READONLY, NULL, true, region);
}

/*
 * If peerdma_unpin() returns -EBUSY, a dma-buf of the pin has an importer that cannot be revoked.
 * Then the context ends the pin when it is closed.
 */
static void end_pin(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	uint32_t was = attempt_begin();

	(void)arg;
	(void)addr;
	(void)length;
	peerdma_unpin(handle);
	attempt_end(was, 0);
}

/*
 * The back-end `host` is not notified of frees.  So its regions can be cached only if a monitor of
 * host memory, or the program, ends them in time.
 */
static bool wants_monitor(const struct peerdma_cache *cache, const struct peerdma_region *region)
{
	return region->backend == &backend_locked &&
	       !(cache->options.flags & PEERDMA_CACHE_CALLS) && !cache->off &&
	       !__atomic_load_n(&cache->host_monitored, __ATOMIC_ACQUIRE);
}

static int monitor_begin(struct peerdma_cache *cache)
{
	int ret = cache_monitor_host(cache);

	if (!ret)
		return 0;
	if (ret == -ENOMEM)
		return fail(ret, "peerdma_cache_get: %s", peerdma_last_error());
	return fail(-EOPNOTSUPP, "peerdma_cache_get: %s; load peerdma.ko, or call peerdma_cache_invalidate() before memory goes and say so "
		    "with PEERDMA_CACHE_CALLS", peerdma_last_error());
}

/*
 * Frees before monitor_begin() were not reported.  So the first pin that needs the monitor is ended
 * and made again after it.
 */
static int pin_monitored(const struct pins *p, uint64_t addr, uint64_t length,
			 const struct peerdma_registration *r, struct peerdma_region **region)
{
	int ret = pin(p, addr, length, r, region);

	if (ret || !wants_monitor(p->cache, *region))
		return ret;
	end_pin(NULL, addr, length, *region);
	ret = monitor_begin(p->cache);
	return ret ? ret : pin(p, addr, length, r, region);
}

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	struct pins *p = arg;
	struct peerdma_region *region;
	int ret = pin_monitored(p, addr, length, out, &region);

	if (ret)
		return ret;
	out->handle = region;
	if (region->backend == &backend_locked) {
		out->word = &by_calls;
	} else if (region->ends != ENDS_UNREPORTED) {
		/* With several words, check() compares them all. */
		out->word = region->validity.several ? NULL : region->validity.slot;
		out->expected = region->validity.generation;
	} else if (p->cache->hooked && device_monitor_complete()) {
		out->word = &by_hooks;
	} else {
		__atomic_add_fetch(&p->cache->stats.checked, 1, __ATOMIC_RELAXED);
		cache_monitors_set(p->cache, PEERDMA_MONITOR_CHECK, true);
	}
	return 0;
}

/* Disables cancellation: calls of CUDA may be cancellation points.  Reads of words are not. */
static bool __attribute__((noinline)) still(const struct peerdma_region *region, uint64_t addr,
					    uint64_t length)
{
	int was = cancel_off();
	bool is = allocations_valid(region, addr, length) &&
		  allocations_present(region, addr, length);

	cancel_back(was);
	return is;
}

/*
 * Returns whether an MR of the region may have ended.  It ends when any of the region's allocations
 * is freed, and a get of a part of the region does not check that the other allocations are the
 * same as before.
 */
static bool mr_may_be_over(const struct peerdma_region *region, uint64_t addr, uint64_t length)
{
	size_t n = region->allocation_count;

	return n > 1 && __atomic_load_n(&region->by_peer, __ATOMIC_ACQUIRE) &&
	       !(addr < region->allocations[1].addr &&
		 addr + length > region->allocations[n - 1].addr);
}

/*
 * Called for regions without a word.  Compares buffer ids: the allocations of the get's range must
 * be the same as before, and the other allocations must still exist.  With several words, all must
 * have their expected values.
 */
static int check(void *arg, const struct peerdma_cached *cached, uint64_t addr, uint64_t length)
{
	const struct peerdma_region *region = cached->registration;

	(void)arg;
	return region->ends != ENDS_UNREPORTED ? segments_valid(region) :
	       !mr_may_be_over(region, addr, length) && still(region, addr, length);
}

/*
 * Replaces m, the first allocation of the range, by the last one.  False: a part of the range is
 * not memory of the same kind.
 */
static bool last_of(struct pins *p, uint64_t end, struct peerdma_memory *m)
{
	uint32_t kind = m->kind;

	while (m->kind == kind && m->base && end > m->base + m->length) {
		if (peerdma_query(p->ctx, (void *)(uintptr_t)(m->base + m->length), m))
			return false;
	}
	return m->kind == kind && m->base;
}

/*
 * Registers whole granules, which *e already describes.  With a monitor of host memory, registers
 * only whole pages of the range: another thread may be unmapping a page beside it, and the monitor
 * may have reported that before the page is registered.
 */
static int host_extent(const struct pins *p, uint64_t addr, uint64_t end, struct peerdma_extent *e)
{
	uint64_t page = page_size();

	if (p->cache->options.flags & PEERDMA_CACHE_CALLS || p->cache->options.granularity <= page)
		return 0;
	e->addr = addr & ~(page - 1);
	e->length = ((end + page - 1) & ~(page - 1)) - e->addr;
	return 0;
}

/*
 * For GPU memory: the GPU pages that the range touches, or all its allocations
 * (PEERDMA_CACHE_WHOLE).  For host memory that CUDA knows: not more than the range's allocations,
 * because others may be freed at any time.
 */
static int extent(void *arg, uint64_t addr, uint64_t length, struct peerdma_extent *e)
{
	struct pins *p = arg;
	struct peerdma_memory first = { .size = sizeof(first) }, last;
	uint64_t end = addr + length;
	bool all;

	if (e->request && e->request->memory) {
		int ret = take_in("peerdma_cache_get_with", &first, sizeof(first), MEMORY_FIRST,
				  e->request->memory);

		if (ret)
			return ret;
	} else if (peerdma_query(p->ctx, (void *)(uintptr_t)addr, &first)) {
		return host_extent(p, addr, end, e);
	}
	e->kind = first.kind;
	if (first.kind != PEERDMA_KIND_DEVICE && !(first.flags & PEERDMA_MEMORY_CUDA))
		return host_extent(p, addr, end, e);
	last = first;
	all = addr >= first.base && last_of(p, end, &last);
	e->bound_addr = all ? first.base : e->addr;
	e->bound_length = all ? last.base + last.length - first.base : e->length;
	if (first.kind != PEERDMA_KIND_DEVICE)
		return host_extent(p, addr, end, e);
	if (!all)
		return 0;
	e->aperture = GPU_PAGE;
	e->addr = addr & ~(GPU_PAGE - 1);
	end = (end + GPU_PAGE - 1) & ~(GPU_PAGE - 1);
	if (p->whole || e->addr < first.base)
		e->addr = first.base;
	if (p->whole || end > last.base + last.length)
		end = last.base + last.length;
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
	static const char call[] = "peerdma_cache_open";
	int ret = check_given(call, "ctx", ctx, NULL);

	if (!ret)
		ret = check_owner(ctx, call);
	if (ret)
		return ret;
	ret = cache_make(call, &ops, NULL, options,
			 PEERDMA_CACHE_WHOLE | PEERDMA_CACHE_CALLS | PEERDMA_CACHE_STAGING |
			 PEERDMA_CACHE_OFF, PEERDMA_ACCESS_READ | PEERDMA_ACCESS_WRITE, cache);
	if (ret)
		return ret;
	_Static_assert(sizeof(*p) <= sizeof((*cache)->own), "it is in the cache's own memory");
	p = (struct pins *)(*cache)->own;
	*p = (struct pins){ .ctx = ctx, .cache = *cache };
	(*cache)->arg = p;
	(*cache)->word_will_do = true;
	/* The first region without a word sets this bit. */
	cache_monitors_set(*cache, PEERDMA_MONITOR_CHECK, false);
	p->whole = (*cache)->options.flags & PEERDMA_CACHE_WHOLE;
	p->flags = (*cache)->options.flags & PEERDMA_CACHE_STAGING ? PEERDMA_STAGING : 0;
	if (!(*cache)->options.access)
		(*cache)->options.access = PEERDMA_ACCESS_READ | PEERDMA_ACCESS_WRITE;
	(*cache)->stats.by_hooks = (uintptr_t)&by_hooks;
	(*cache)->stats.by_calls = (uintptr_t)&by_calls;
	return 0;
}

struct peerdma *cache_pins_context(const struct peerdma_cache *cache)
{
	return cache->ops.add == add ? ((const struct pins *)cache->own)->ctx : NULL;
}

EXPORT int peerdma_cache_map(struct peerdma_cache *cache, struct peerdma_cached *hold,
			     const char *pci, unsigned int flags, struct peerdma_mapping **mapping)
{
	int ret = check_given("peerdma_cache_map", "cache", cache, "hold", hold, "pci", pci,
			      "mapping", mapping, NULL);

	if (ret)
		return ret;
	if (cache->ops.add != add)
		return fail(-EINVAL, "peerdma_cache_map: this is no cache of pins");
	return map_shared(hold->registration, pci, flags, mapping);
}

EXPORT int peerdma_cache_mr(struct peerdma_cache *cache, struct peerdma_cached *hold,
			    struct ibv_pd *pd, int access, const struct peerdma_mr **mr)
{
	int ret = check_given("peerdma_cache_mr", "cache", cache, "hold", hold, "pd", pd, "mr", mr,
			      NULL);
	uint32_t was;

	if (ret)
		return ret;
	if (cache->ops.add != add)
		return fail(-EINVAL, "peerdma_cache_mr: this is no cache of pins");
	was = attempt_begin();
	do {
		ret = peerdma_verbs_mr(hold->registration, pd, access, mr);
	} while ((ret == -ENOMEM || ret == -ENOSPC || ret == -EDQUOT) &&
		 peerdma_cache_trim(cache, TRIM) > 0);
	return attempt_end(was, ret);
}
