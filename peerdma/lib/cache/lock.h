/* SPDX-License-Identifier: MIT */
/*
 * lock.h - the cache's lock, and signal handlers that free memory while their thread has it.
 *
 * A handler that waited for a lock of its own thread would wait for ever.  So a thread counts
 * the locks that it has or is about to take, of all caches.  If it has one, peerdma_cache_invalidate()
 * stores its range in the cache and closes the cache's gate: from then on no thread's get is a hit until
 * the stored ranges have ended.  The thread ends them when it releases the lock, by the function that the
 * handler gave it (invalidate.c), in every cache: the lock may belong to another cache than the range, and
 * its own cache may be gone by then.
 */
#ifndef CACHE_LOCK_H
#define CACHE_LOCK_H

#include "thread_cache.h"

static inline void cache_lock(struct peerdma_cache *cache)
{
	this_thread.locks++;
	ord_fence_light();
	ord_lock(&cache->lock);
}

/* The cache may be gone once the lock is open: nothing of it is read then. */
static inline void cache_unlock(struct peerdma_cache *cache)
{
	void (*left)(void);

	ord_unlock(&cache->lock);
	ord_fence_light();
	this_thread.locks--;
	ord_fence_light();
	left = this_thread.left;
	if (__builtin_expect(left != NULL, 0))
		left();
}

#endif
