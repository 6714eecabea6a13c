// SPDX-License-Identifier: MIT
/*
 * invalidate.c - regions end because somebody says so: their memory goes away, or there are too many.
 */
#include "../internal.h"
#include "cache.h"
#include "calls.h"
#include "miss.h"

struct gathering {
	struct peerdma_cache *cache;
	uint32_t first, count;		/* through region->next, the last address first */
};

static bool gather(void *arg, uint32_t entry)
{
	struct gathering *g = arg;
	uint32_t number = entry_number(entry);

	g->cache->regions[number].next = g->first;
	g->first = number;
	g->count++;
	return true;
}

EXPORT int peerdma_cache_invalidate(struct peerdma_cache *cache, const void *ptr, size_t length)
{
	struct gathering g = { cache, NO_REGION, 0 };
	struct ending list = ENDING_NONE;
	uint64_t addr = (uintptr_t)ptr, end = addr + length;
	uint32_t number;

	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_invalidate");
	if (end < addr)
		end = UINT64_MAX;
	if (end == addr)
		return 0;
	ord_lock(&cache->lock);
	regions_touched(cache, &cache->index.finger, addr, end, gather, &g);
	/* From the end: the index has least to move so. */
	while ((number = g.first) != NO_REGION) {
		g.first = cache->regions[number].next;
		end_begin(cache, number, &list, END_INVALIDATED);
	}
	cache->invalidations += g.count;
	end_commit(cache, front_if_any(cache), &list);
	ord_unlock(&cache->lock);
	end_finish(cache, &list);
	return g.count > INT32_MAX ? INT32_MAX : (int)g.count;
}

EXPORT int peerdma_cache_trim(struct peerdma_cache *cache, uint32_t n)
{
	return cache_foreign(cache) ? cache_refuse("peerdma_cache_trim") : (int)room_evict(cache, n);
}
