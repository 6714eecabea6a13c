/* SPDX-License-Identifier: MIT */
/*
 * lock.h - the cache's lock, and signal handlers that free memory while their thread holds it.
 *
 * A handler must not wait for a lock that its own thread holds.  So each thread counts the cache
 * locks that it holds or is about to take.  If the count is not 0, peerdma_cache_invalidate() in
 * the handler only stores the range in the cache and closes the cache's gate.  The range is then a
 * left range, and no get is a hit until its regions have ended.  After the thread has released its
 * lock, it calls this_thread.left, which the handler set (invalidate.c).  That ends the regions of
 * the left ranges in all caches, because the handler's cache may not be the one whose lock the
 * thread held.
 */
#pragma once

#include "thread_cache.h"

static inline void cache_lock(struct peerdma_cache *cache)
{
	this_thread.locks++;
	ord_fence_light();
	ord_lock(&cache->lock);
}

/*
 * Once the lock is released, another thread may close the cache.  So the cache is not read after
 * that.
 */
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
