// SPDX-License-Identifier: MIT
/*
 * overlap.c - which regions a range touches.
 */
#include "cache.h"

static bool ends_after(const struct region *region, uint64_t addr)
{
	return region->pub.addr + region->pub.length > addr;
}

void regions_touched(struct peerdma_cache *cache, struct index_place *place, uint64_t from, uint64_t to,
		     bool (*fn)(void *arg, uint32_t entry), void *arg)
{
	uint32_t before;
	bool gap = index_gap(&cache->index, place, from, to, &before);
	bool reaches = entry_may_reach(before, place->key, from) &&
		       ends_after(&cache->regions[entry_number(before)], from);

	/* Mostly there is none, and one leaf of the index says so. */
	if (gap && !reaches)
		return;
	if (reaches && place->key < from)
		fn(arg, before);
	index_visit(&cache->index, from, to, fn, arg);
}
