// SPDX-License-Identifier: MIT
/*
 * room.c - room for another region: within the limits, and memory for what is kept of it.
 */
#include "state.h"
#include "lock.h"
#include "miss.h"

#define READY_FIRST	1024U
#define READY_MOST	65536U

/* less: of now, what goes; some may be counted twice, as evicted and as replaced. */
static bool over(uint64_t now, uint64_t less, uint64_t more, uint64_t max)
{
	return max && (now > less ? now - less : 0) + more > max;
}

struct need {
	uint64_t length, bytes, host, device;	/* the last three: what goes */
	uint32_t regions;
};

/* Which regions must go: bits of STATE_PROPERTIES of which one will do; UINT64_MAX: any; 0: none. */
static uint64_t who_goes(struct peerdma_cache *cache, const struct wish *w, const struct need *need)
{
	const struct peerdma_cache_options *o = &cache->options;

	if (over(cache->count, need->regions, 1, o->max_regions) || over(cache->bytes, need->bytes, need->length, o->max_bytes))
		return UINT64_MAX;
	if (w->fixed & STATE_IS_HOST && over(cache->host, need->host, need->length, o->max_host))
		return STATE_IS_HOST;
	if (w->fixed & STATE_IS_DEVICE && over(cache->device, need->device, need->length, o->max_device))
		return STATE_IS_DEVICE;
	if (w->fixed & STATE_BAR1 && over(cache->bar1_use, 0, bar1_added(cache, w->from, w->to, w->fixed), o->max_aperture))
		return STATE_BAR1;
	return 0;
}

void room_make(struct peerdma_cache *cache, const struct wish *w, struct teardown *list)
{
	const struct peerdma_cache_options *o = &cache->options;
	/* What it replaces ends when it is there. */
	struct need need = { .length = w->to - w->from, .bytes = w->replaced_bytes, .regions = w->replaced };
	uint32_t first = list->count, many = 1 + o->max_regions / EVICT_SHARE;
	uint64_t who;

	need.host = w->fixed & STATE_IS_HOST ? need.bytes : 0;
	need.device = w->fixed & STATE_IS_DEVICE ? need.bytes : 0;
	while ((who = who_goes(cache, w, &need))) {
		uint32_t last = list->first, n = list->count;

		evict_choose(cache, over(cache->count, 0, 1, o->max_regions) ? many : 1, who, list);
		if (list->count == n)
			break;
		need.regions += list->count - n;
		for (uint32_t i = list->first; i != last; i = cache->regions[i].next) {
			uint64_t state_word = ord_load(&cache->regions[i].state_word), length = cache->regions[i].pub.length;

			need.bytes += length;
			need.host += state_word & STATE_IS_HOST ? length : 0;
			need.device += state_word & STATE_IS_DEVICE ? length : 0;
		}
	}
	cache->evictions += list->count - first;
}

uint32_t room_evict(struct peerdma_cache *cache, uint32_t n)
{
	struct teardown list = TEARDOWN_NONE;
	uint32_t count;

	cache_lock(cache);
	evict_choose(cache, n, UINT64_MAX, &list);
	teardown_commit(cache, thread_cache_find(cache), &list);
	count = list.count;
	cache->evictions += count;
	cache_unlock(cache);
	teardown_finish(cache, &list);
	return count;
}

static bool use(struct peerdma_cache *cache, void *nodes, uint32_t regions)
{
	return memory_use(cache->regions, cache->capacity * sizeof(*cache->regions), regions * sizeof(*cache->regions)) &&
	       (!cache->payload || memory_use(cache->payload, (size_t)cache->capacity * cache->payload_step,
					      (size_t)regions * cache->payload_step)) &&
	       memory_use(nodes, index_size(cache->capacity), index_needed(cache->capacity, regions));
}

bool room_begin(struct peerdma_cache *cache, void *nodes)
{
	uint32_t first = cache->capacity < READY_FIRST ? cache->capacity : READY_FIRST;

	if (!use(cache, nodes, first))
		return false;
	index_init(&cache->index, nodes, cache->capacity);
	index_use(&cache->index, first);
	cache->ready = first;
	return true;
}

bool room_more(struct peerdma_cache *cache)
{
	uint32_t ready = ord_load(&cache->ready), more = ready < READY_MOST ? 2 * ready : ready + READY_MOST;

	if (ready == cache->capacity)
		return false;
	if (more > cache->capacity)
		more = cache->capacity;
	if (!use(cache, cache->index.hints, more))
		return false;
	cache_lock(cache);
	if (cache->ready < more) {
		thread_caches_mark(cache);	/* first: a put of what is among them must not look for a refs that is not there */
		index_use(&cache->index, more);
		ord_store(&cache->ready, more);
	}
	cache_unlock(cache);
	return true;
}

void room_ahead(struct peerdma_cache *cache, struct thread_cache *tc, uint32_t number, uint32_t many)
{
	memory_ahead(cache->regions, cache->capacity * sizeof(*cache->regions), number * sizeof(*cache->regions),
		     many * sizeof(*cache->regions));
	memory_ahead(cache->index.hints, index_size(cache->capacity), index_used(&cache->index),
		     many / (INDEX_FAN / 2) * sizeof(struct index_node));
	if (tc)
		memory_ahead(tc->refs, tc->capacity * sizeof(*tc->refs), number * sizeof(*tc->refs),
			     many * sizeof(*tc->refs));
}
