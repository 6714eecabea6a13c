// SPDX-License-Identifier: MIT
/*
 * overlap.c - which regions a range touches.
 */
#include "cache.h"

void regions_touched(struct peerdma_cache *cache, struct index_place *place, uint64_t from, uint64_t to,
		     bool (*fn)(void *arg, uint32_t entry), void *arg)
{
	uint32_t before = index_floor(&cache->index, place, from);

	if (place->key < from && region_reaches(cache, before, place->key, from))
		fn(arg, before);
	index_visit(&cache->index, from, to, fn, arg);
}
