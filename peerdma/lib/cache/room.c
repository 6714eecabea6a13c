// SPDX-License-Identifier: MIT
/*
 * room.c - room for another region: within the limits, and memory for what is kept of it.
 */
#include "cache.h"
#include "miss.h"

static bool over(uint64_t now, uint64_t more, uint64_t max)
{
	return max && now + more > max;
}

void room_make(struct peerdma_cache *cache, const struct wish *w, struct ending *list)
{
	const struct peerdma_cache_options *o = &cache->options;
	uint64_t length = w->to - w->from;
	uint32_t before = list->count, many = 1 + o->max_regions / EVICT_SHARE;
	uint64_t bytes = 0, aperture = 0;

	while (over(cache->count - (list->count - before), 1, o->max_regions) ||
	       over(cache->bytes - bytes, length, o->max_bytes) ||
	       (w->aperture && over(cache->aperture - aperture, length, o->max_aperture))) {
		uint32_t last = list->first, n = list->count;

		end_choose(cache, o->max_regions && over(cache->count, 1, o->max_regions) ? many : 1, list);
		if (list->count == n)
			break;
		for (uint32_t i = list->first; i != last; i = cache->regions[i].next) {
			bytes += cache->regions[i].pub.length;
			if (ord_load(&cache->regions[i].life) & LIFE_APERTURE)
				aperture += cache->regions[i].pub.length;
		}
	}
	cache->evictions += list->count - before;
}

uint32_t room_evict(struct peerdma_cache *cache, uint32_t n)
{
	struct ending list = ENDING_NONE;
	uint32_t count;

	ord_lock(&cache->lock);
	end_choose(cache, n, &list);
	end_commit(cache, front_if_any(cache), &list);
	count = list.count;
	cache->evictions += count;
	ord_unlock(&cache->lock);
	end_finish(cache, &list);
	return count;
}

void room_ahead(struct peerdma_cache *cache, struct front *f, uint32_t number, uint32_t many)
{
	memory_ahead(cache->regions, cache->capacity * sizeof(*cache->regions), number * sizeof(*cache->regions),
		     many * sizeof(*cache->regions));
	memory_ahead(cache->index.hints, index_size(cache->capacity), index_used(&cache->index),
		     many / (INDEX_FAN / 2) * sizeof(struct index_node));
	if (f)
		memory_ahead(f->records, f->capacity * sizeof(*f->records), number * sizeof(*f->records),
			     many * sizeof(*f->records));
}
