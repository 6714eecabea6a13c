/* SPDX-License-Identifier: MIT */
/*
 * lock.h - the cache's lock, and signal handlers that free memory while their thread has it.
 *
 * A handler that waited for a lock of its own thread would wait for ever.  So a thread counts
 * the locks that it has or is about to take, of all caches.  If it has one, peerdma_cache_invalidate()
 * stores its range in the cache and closes the cache's gate: from then on no thread's get is a hit until
 * the stored ranges have ended.  The thread ends them when it releases the lock, in every cache: the
 * lock may belong to another cache than the range, and its own cache may be gone by then (invalidate.c).
 */
#ifndef CACHE_LOCK_H
#define CACHE_LOCK_H

#include "front.h"

static inline void cache_lock(struct peerdma_cache *cache)
{
	front_words.locks++;
	ord_fence_light();
	ord_lock(&cache->lock);
}

/* invalidate.c: what handlers left while this thread had a lock. */
void invalidate_all_left(void);

/* The cache may be gone once the lock is open: nothing of it is read then. */
static inline void cache_unlock(struct peerdma_cache *cache)
{
	ord_unlock(&cache->lock);
	ord_fence_light();
	front_words.locks--;
	ord_fence_light();
	if (__builtin_expect(front_words.left, 0))
		invalidate_all_left();
}

#endif
