/* SPDX-License-Identifier: MIT */
/*
 * regions.h - the table of regions: their numbers, their memory, and the index that finds them by address.
 *
 * Regions may overlap, but none lies within another.  So their ends are in the order of their
 * beginnings, and of all regions that begin at or before an address the last one reaches farthest.
 */
#pragma once

#include "thread_cache.h"

/* No lock.  Memory for the first regions; nodes: the memory for the index. */
bool regions_begin(struct peerdma_cache *cache, void *nodes);
/* No lock.  Memory for more regions than before; false: the cache has all that its capacity allows, or there is no memory. */
bool regions_more(struct peerdma_cache *cache);

/* Lock.  A number that no region has; NO_REGION: there is memory for no more. */
uint32_t number_take(struct peerdma_cache *cache, const struct thread_cache *tc);
void number_give(struct peerdma_cache *cache, uint32_t number);

/* Lock.  Into the index and out of it; the cache's use of BAR1 follows. */
void region_insert(struct peerdma_cache *cache, struct index_place *place, uint32_t number);
void region_remove(struct peerdma_cache *cache, struct region *region);
/* Lock.  Into the cache's counters (n is 1) or out of them (-1). */
void region_count(struct peerdma_cache *cache, const struct region *region, int n);

/* Lock.  Sums over all threads. */
int64_t region_refs(const struct peerdma_cache *cache, uint32_t number);
uint64_t region_gets(const struct peerdma_cache *cache, uint32_t number);

/* Lock.  Calls fn for each region in the index that begins in [from, to) or reaches into it. */
void regions_touched(struct peerdma_cache *cache, struct index_place *place, uint64_t from,
		     uint64_t to, bool (*fn)(void *arg, uint32_t entry), void *arg);

/* Lock.  Whether the region of this entry, which begins at key, ends after x. */
static inline bool region_reaches(const struct peerdma_cache *cache, uint32_t entry, uint64_t key,
				  uint64_t x)
{
	return entry_may_reach(entry, key, x) &&
	       key + cache->regions[entry_number(entry)].pub.length > x;
}

/* Lock.  True: no region touches [from, to).  False: one does, or it takes more than one leaf of the index to know. */
static inline bool regions_none(const struct peerdma_cache *cache, struct index_place *place,
				uint64_t from, uint64_t to)
{
	uint32_t before;

	return index_gap(&cache->index, place, from, to, &before) &&
	       !region_reaches(cache, before, place->key, from);
}

/*
 * The first touch of a page costs as much as some misses.  So memory is populated ahead, as much again as is in use.
 * Small caches begin later, and a step has a limit: little memory stays unused.
 */
#define AHEAD_FIRST	16U
#define AHEAD_LEAST	256U
#define AHEAD_MOST	1024U

/* Lock.  How many regions from this number on should be populated now; 0: none. */
static inline uint32_t regions_to_populate(struct peerdma_cache *cache, uint32_t number)
{
	if (number < cache->ahead || number < AHEAD_FIRST)
		return 0;
	/* Powers of two, then multiples of the greatest: not a page, nor a huge one, that is not needed. */
	cache->ahead = number < AHEAD_LEAST ? AHEAD_LEAST :
		number + (number > AHEAD_MOST ? AHEAD_MOST : number);
	return cache->ahead - number;
}

/* No lock.  Populates memory for `many` regions from this number on. */
void regions_populate(struct peerdma_cache *cache, struct thread_cache *tc, uint32_t number,
		      uint32_t many);
