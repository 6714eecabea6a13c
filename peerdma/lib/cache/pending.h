/* SPDX-License-Identifier: MIT */
/*
 * pending.h - regions that are being registered.
 *
 * A region is PENDING until its add() has returned.  Other threads that need its memory wait for it.
 * If it overlaps other regions, it is in the list cache->overlapping and not in the index,
 * where the others are found until it replaces them.
 */
#pragma once

#include "thread_cache.h"

/* Lock.  The list of overlapping regions. */
void overlapping_add(struct peerdma_cache *cache, struct region *region);
void overlapping_remove(struct peerdma_cache *cache, const struct region *region);
/* A PENDING one that touches [from, to), or NULL. */
struct region *overlapping_find(const struct peerdma_cache *cache, uint64_t from, uint64_t to);
/* The memory at [from, to) goes away: those that touch it become KILLED.  Returns how many. */
uint32_t overlapping_kill(struct peerdma_cache *cache, uint64_t from, uint64_t to);

/*
 * Lock, released during the wait.  Waits until the region has another state word than this one.  NULL; or why it would
 * never have: then it did not wait.
 */
const char *pending_wait(struct peerdma_cache *cache, struct region *pending, uint64_t state_word);
void pending_wake(struct peerdma_cache *cache);

/* No lock.  A region is PENDING no more: threads that wait look again.  With the lock: ord_wake_all(&cache->settled). */
static inline void pending_settled(struct peerdma_cache *cache)
{
	if (ord_load(&cache->waiting))
		pending_wake(cache);
}
