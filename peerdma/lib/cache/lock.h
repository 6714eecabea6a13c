/* SPDX-License-Identifier: MIT */
/*
 * lock.h - the cache's lock, and signal handlers that free memory while their thread has it.
 *
 * A handler that waited for a lock of its own thread would wait for ever.  So a thread counts the locks that it
 * has or is about to take, of all caches.  If there is one, peerdma_cache_invalidate() in the handler stores
 * the range in the cache and closes the cache's gate: no get is a hit until the stored ranges have ended.  When the
 * thread releases its lock, it calls this_thread.left, which the handler set (invalidate.c).  That ends what was
 * left in all caches, since the lock may be of another cache than the range.
 */
#pragma once

#include "thread_cache.h"

static inline void cache_lock(struct peerdma_cache *cache)
{
	this_thread.locks++;
	ord_fence_light();
	ord_lock(&cache->lock);
}

/* Once the lock is released, another thread may close the cache: nothing of it is read after that. */
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
