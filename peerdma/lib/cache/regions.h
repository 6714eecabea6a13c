/* SPDX-License-Identifier: MIT */
/*
 * regions.h - the table of regions: their numbers, their memory, and the index that finds them by
 * address.
 *
 * Regions may overlap, but none lies within another.  So their ends have the same order as their
 * beginnings.  Of all regions that begin at or before an address, the last one ends last.
 */
#pragma once

#include "thread_cache.h"

/* No lock.  Makes memory for the first regions.  nodes: the address space for the index. */
bool regions_begin(struct peerdma_cache *cache, void *nodes);
/*
 * No lock.  Makes memory for more regions.  False: the cache already has memory for its capacity,
 * or there is no memory.
 */
bool regions_more(struct peerdma_cache *cache);

/*
 * Lock.  Returns a number that no region has.  NO_REGION: all numbers that have memory are taken.
 */
uint32_t number_take(struct peerdma_cache *cache, const struct thread_cache *tc);
void number_give(struct peerdma_cache *cache, uint32_t number);

/* Lock.  Adds a region to the index, or removes it.  Updates the cache's use of BAR1. */
void region_insert(struct peerdma_cache *cache, struct index_place *place, uint32_t number);
void region_remove(struct peerdma_cache *cache, struct region *region);
/* Lock.  Adds the region to the cache's counters (n is 1), or subtracts it (-1). */
void region_count(struct peerdma_cache *cache, const struct region *region, int n);

/* Lock.  Return sums over all threads. */
int64_t region_refs(const struct peerdma_cache *cache, uint32_t number);
uint64_t region_gets(const struct peerdma_cache *cache, uint32_t number);

/* Lock.  Calls fn for each region of the index that touches [from, to). */
void regions_touched(struct peerdma_cache *cache, struct index_place *place, uint64_t from,
		     uint64_t to, bool (*fn)(void *arg, uint32_t entry), void *arg);

/* Lock.  Returns whether the entry's region, which begins at key, ends after x. */
static inline bool region_reaches(const struct peerdma_cache *cache, uint32_t entry, uint64_t key,
				  uint64_t x)
{
	return entry_may_reach(entry, key, x) &&
	       key + cache->regions[entry_number(entry)].pub.length > x;
}

/*
 * Lock.  True: no region touches [from, to).  False: a region does, or a single leaf of the index
 * does not show it.
 */
static inline bool regions_none(const struct peerdma_cache *cache, struct index_place *place,
				uint64_t from, uint64_t to)
{
	uint32_t before;

	return index_gap(&cache->index, place, from, to, &before) &&
	       !region_reaches(cache, before, place->key, from);
}

/*
 * The first access to a page costs as much as some misses.  So memory is populated ahead, as much
 * again as is in use.  Small caches begin later, and each step has a limit, so little memory stays
 * unused.
 */
#define AHEAD_FIRST	16U
#define AHEAD_LEAST	256U
#define AHEAD_MOST	1024U

/* Lock.  Returns how many regions from this number on should be populated now. */
static inline uint32_t regions_to_populate(struct peerdma_cache *cache, uint32_t number)
{
	if (number < cache->ahead || number < AHEAD_FIRST)
		return 0;
	/*
	 * The steps are powers of two, then multiples of the greatest.  So no page, and no huge
	 * page, is populated without need.
	 */
	cache->ahead = number < AHEAD_LEAST ? AHEAD_LEAST :
		number + (number > AHEAD_MOST ? AHEAD_MOST : number);
	return cache->ahead - number;
}

/* No lock.  Populates memory for `many` regions, from this number on. */
void regions_populate(struct peerdma_cache *cache, struct thread_cache *tc, uint32_t number,
		      uint32_t many);
