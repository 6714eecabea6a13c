// SPDX-License-Identifier: MIT
/*
 * regions.c - see regions.h.
 */
#include "../base/memory.h"
#include "bar1.h"
#include "lock.h"
#include "regions.h"

#define READY_FIRST	1024U
#define READY_MOST	65536U

/* ---- memory ---- */

/*
 * The cache has reserved address space for all regions, their payloads and the index (cache.c).
 * Makes memory for the first `regions` of them usable.
 */
static bool use(struct peerdma_cache *cache, void *nodes, uint32_t regions)
{
	return memory_use(cache->regions, cache->capacity * sizeof(*cache->regions),
			  regions * sizeof(*cache->regions)) &&
	       (!cache->payload ||
		memory_use(cache->payload, (size_t)cache->capacity * cache->payload_step,
					      (size_t)regions * cache->payload_step)) &&
	       memory_use(nodes, index_size(cache->capacity),
			  index_needed(cache->capacity, regions));
}

bool regions_begin(struct peerdma_cache *cache, void *nodes)
{
	uint32_t first = cache->capacity < READY_FIRST ? cache->capacity : READY_FIRST;

	if (!use(cache, nodes, first))
		return false;
	index_init(&cache->index, nodes, cache->capacity);
	index_use(&cache->index, first);
	cache->ready = first;
	return true;
}

bool regions_more(struct peerdma_cache *cache)
{
	uint32_t ready = ord_load(&cache->ready);
	uint32_t more = ready < READY_MOST ? 2 * ready : ready + READY_MOST;

	if (ready == cache->capacity)
		return false;
	if (more > cache->capacity)
		more = cache->capacity;
	if (!use(cache, cache->index.hints, more))
		return false;
	cache_lock(cache);
	if (cache->ready < more) {
		/*
		 * Mark the threads first: one that puts a new region has too few refs, and must not
		 * use the fast path.
		 */
		thread_caches_mark(cache);
		index_use(&cache->index, more);
		ord_store(&cache->ready, more);
	}
	cache_unlock(cache);
	return true;
}

void regions_populate(struct peerdma_cache *cache, struct thread_cache *tc, uint32_t number,
		      uint32_t many)
{
	memory_ahead(cache->regions, cache->capacity * sizeof(*cache->regions),
		     number * sizeof(*cache->regions), many * sizeof(*cache->regions));
	memory_ahead(cache->index.hints, index_size(cache->capacity), index_used(&cache->index),
		     many / (INDEX_FAN / 2) * sizeof(struct index_node));
	if (tc)
		memory_ahead(tc->refs, tc->capacity * sizeof(*tc->refs), number * sizeof(*tc->refs),
			     many * sizeof(*tc->refs));
}

/* ---- numbers ---- */

/*
 * Takes the first number of the list `free`.  If that is empty, takes all numbers that were
 * returned without the lock.
 */
static uint32_t take_free(struct peerdma_cache *cache)
{
	uint32_t number = cache->free;

	if (number != NO_REGION)
		return number;
	do {
		number = ord_load(&cache->returned);
	} while (number != NO_REGION && !ord_replace(&cache->returned, number, NO_REGION));
	return number;
}

uint32_t number_take(struct peerdma_cache *cache, const struct thread_cache *tc)
{
	uint32_t number = take_free(cache);

	if (number == NO_REGION)
		return cache->stats.used < cache->ready ? cache->stats.used++ : NO_REGION;
	cache->free = cache->regions[number].next;
	/* The next miss will use these two. */
	if (cache->free != NO_REGION) {
		__builtin_prefetch(&cache->regions[cache->free], 1);
		if (tc && cache->free < tc->capacity)
			__builtin_prefetch(&tc->refs[cache->free], 1);
	}
	/* The threads' refs still include gets of earlier generations.  Subtract them. */
	cache->regions[number].gets = 0;
	cache->regions[number].gets -= region_gets(cache, number);
	return number;
}

void number_give(struct peerdma_cache *cache, uint32_t number)
{
	cache->regions[number].next = cache->free;
	cache->free = number;
}

/* ---- the index, and sums ---- */

void region_insert(struct peerdma_cache *cache, struct index_place *place, uint32_t number)
{
	const struct region *r = &cache->regions[number];
	uint64_t addr = ord_load(&r->pub.addr), length = ord_load(&r->pub.length);

	if (index_insert_at(&cache->index, place, addr, entry_of(number, length)))
		__builtin_trap();	/* index_size() reserves room for every number */
	cache->stats.bar1_use += bar1_added(cache, addr, addr + length, ord_load(&r->state_word));
}

void region_remove(struct peerdma_cache *cache, struct region *r)
{
	cache->stats.bar1_use -= bar1_added(cache, r->pub.addr, r->pub.addr + r->pub.length,
					    ord_load(&r->state_word));
	index_remove(&cache->index, r->pub.addr);
}

void region_count(struct peerdma_cache *cache, const struct region *r, int n)
{
	uint64_t state_word = ord_load(&r->state_word);
	uint64_t bytes = ord_load(&r->pub.length) * (uint64_t)n;

	cache->stats.count += (uint64_t)n;
	cache->stats.bytes += bytes;
	if (state_word & STATE_IS_HOST)
		cache->stats.host += bytes;
	if (state_word & STATE_IS_DEVICE)
		cache->stats.device += bytes;
}

int64_t region_refs(const struct peerdma_cache *cache, uint32_t number)
{
	int64_t sum = cache->regions[number].refs;

	for (const struct thread_cache *tc = cache->threads; tc; tc = tc->next) {
		if (number < tc->capacity)
			sum += inspect_held(ord_load_acquire(&tc->refs[number].count));
	}
	return sum;
}

uint64_t region_gets(const struct peerdma_cache *cache, uint32_t number)
{
	uint64_t sum = cache->regions[number].gets;

	for (const struct thread_cache *tc = cache->threads; tc; tc = tc->next) {
		if (number < tc->capacity)
			sum += inspect_gets(ord_load(&tc->refs[number].count));
	}
	return sum;
}

void regions_touched(struct peerdma_cache *cache, struct index_place *place, uint64_t from,
		     uint64_t to, bool (*fn)(void *arg, uint32_t entry), void *arg)
{
	/*
	 * Goes backwards to the first region that does not reach into the range.  The regions
	 * before it end earlier still.
	 */
	for (uint64_t x = from; x; x = place->key) {
		uint32_t entry = index_floor(&cache->index, place, x - 1);

		if (!region_reaches(cache, entry, place->key, from))
			break;
		fn(arg, entry);
	}
	index_visit(&cache->index, from, to, fn, arg);
}
