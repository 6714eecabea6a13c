/* SPDX-License-Identifier: MIT */
/*
 * pending.h - regions that are being registered.
 *
 * A region is PENDING until its add() has returned.  Other threads that need its memory wait for
 * it.  A PENDING region that overlaps other regions is in the list cache->overlapping, not in the
 * index.  The index contains the other regions until the new one replaces them.
 */
#pragma once

#include "thread_cache.h"

/* Lock.  Functions for the list of overlapping regions. */
void overlapping_add(struct peerdma_cache *cache, struct region *region);
void overlapping_remove(struct peerdma_cache *cache, const struct region *region);
/* Returns a PENDING region of the list that touches [from, to), or NULL. */
struct region *overlapping_find(const struct peerdma_cache *cache, uint64_t from, uint64_t to);
/*
 * The memory at [from, to) is being freed: makes the list's regions that touch it KILLED.  Returns
 * their number.
 */
uint32_t overlapping_kill(struct peerdma_cache *cache, uint64_t from, uint64_t to);

/*
 * Lock, released during the wait.  Waits until the region's state word differs from state_word.
 * NULL: it does.  If this wait would never end, returns the reason at once.
 */
const char *pending_wait(struct peerdma_cache *cache, struct region *pending, uint64_t state_word);
void pending_wake(struct peerdma_cache *cache);

/*
 * No lock.  A region has left PENDING: wakes the threads that wait for it.  A caller with the lock
 * uses ord_wake_all(&cache->settled) instead.
 */
static inline void pending_settled(struct peerdma_cache *cache)
{
	if (ord_load(&cache->waiting))
		pending_wake(cache);
}
