// SPDX-License-Identifier: MIT
/*
 * evict.c - see evict.h.
 */
#include "bar1.h"
#include "evict.h"
#include "lock.h"

/*
 * The clock algorithm.  A hand goes round the regions, and spares each region that was used since
 * the hand last passed.  The threads' counts of gets show that, so hits need not mark regions.
 */
/* Lock.  Begins the teardown of up to n regions that have one of these bits in their state word. */
static void choose(struct peerdma_cache *cache, uint32_t n, uint64_t bits, struct teardown *list)
{
	for (uint64_t steps = 0; n && steps < 2ULL * cache->stats.used; steps++) {
		uint32_t number = cache->hand < cache->stats.used ? cache->hand : 0;
		struct region *region = &cache->regions[number];
		uint32_t gets;

		cache->hand = number + 1;
		if (state_of(ord_load(&region->state_word)) != STATE_LIVE ||
		    !(ord_load(&region->state_word) & bits))
			continue;
		gets = (uint32_t)region_gets(cache, number);
		if (gets != region->clock) {
			region->clock = gets;
			continue;
		}
		if (region_refs(cache, number))
			continue;
		teardown_begin(cache, number, list, ENDED_EVICTED);
		n--;
	}
}

/* ---- limits ---- */

/*
 * leaving: the part of `now` that will end.  A region that is evicted and also replaced is counted
 * twice in it.
 */
static bool over(uint64_t now, uint64_t leaving, uint64_t coming, uint64_t max)
{
	return max && (now > leaving ? now - leaving : 0) + coming > max;
}

/*
 * The regions that will end: those that the new region replaces when it is registered, and those
 * that were evicted for it.
 */
struct leaving {
	uint64_t bytes, host, device;
	uint32_t regions;
};

/*
 * Returns the kind of regions to evict for a limit that is exceeded, as a bit of the state word.
 * UINT64_MAX: any kind.  0: no limit is exceeded.
 */
static uint64_t over_limit(struct peerdma_cache *cache, const struct plan *plan,
			   const struct leaving *leaving)
{
	const struct peerdma_cache_options *o = &cache->options;
	uint64_t length = plan->to - plan->from;

	if (over(cache->stats.count, leaving->regions, 1, o->max_regions) ||
	    over(cache->stats.bytes, leaving->bytes, length, o->max_bytes))
		return UINT64_MAX;
	if (plan->properties & STATE_IS_HOST &&
	    over(cache->stats.host, leaving->host, length, o->max_host))
		return STATE_IS_HOST;
	if (plan->properties & STATE_IS_DEVICE &&
	    over(cache->stats.device, leaving->device, length, o->max_device))
		return STATE_IS_DEVICE;
	if (plan->properties & STATE_BAR1 &&
	    over(cache->stats.bar1_use, 0,
		 bar1_added(cache, plan->from, plan->to, plan->properties), o->max_aperture))
		return STATE_BAR1;
	return 0;
}

static void count_leaving(const struct peerdma_cache *cache, uint32_t number,
			  struct leaving *leaving)
{
	uint64_t state_word = ord_load(&cache->regions[number].state_word);
	uint64_t length = cache->regions[number].pub.length;

	leaving->regions++;
	leaving->bytes += length;
	leaving->host += state_word & STATE_IS_HOST ? length : 0;
	leaving->device += state_word & STATE_IS_DEVICE ? length : 0;
}

void evict_for(struct peerdma_cache *cache, const struct plan *plan, struct teardown *list)
{
	const struct peerdma_cache_options *o = &cache->options;
	struct leaving leaving = {
		.regions = plan->replaced, .bytes = plan->replaced_bytes,
		.host = plan->properties & STATE_IS_HOST ? plan->replaced_bytes : 0,
		.device = plan->properties & STATE_IS_DEVICE ? plan->replaced_bytes : 0,
	};
	uint32_t before = list->count, many = 1 + o->max_regions / EVICT_SHARE;
	uint64_t bits;

	while ((bits = over_limit(cache, plan, &leaving))) {
		uint32_t last = list->first;

		choose(cache, over(cache->stats.count, 0, 1, o->max_regions) ? many : 1, bits,
		       list);
		if (list->first == last)
			break;
		for (uint32_t i = list->first; i != last; i = cache->regions[i].next)
			count_leaving(cache, i, &leaving);
	}
	cache->stats.evictions += list->count - before;
}

uint32_t evict_idle(struct peerdma_cache *cache, uint32_t n)
{
	struct teardown list = TEARDOWN_NONE;
	uint32_t count;

	cache_lock(cache);
	choose(cache, n, UINT64_MAX, &list);
	teardown_commit(cache, thread_cache_find(cache), &list);
	count = list.count;
	cache->stats.evictions += count;
	cache_unlock(cache);
	teardown_finish(cache, &list);
	return count;
}
