// SPDX-License-Identifier: MIT
/*
 * deferred.c - deferred deregistrations.  invalidate() and hooks run where memory is freed, and
 * must not call remove().  A later call of any thread calls it.
 *
 * A hit takes no lock and does not look at the list.  Instead each thread cache is marked, and its
 * fast path is closed.  The thread's next get or put drains the list and opens the path again.
 */
#include "deferred.h"
#include "lock.h"
#include "teardown.h"

/* Lock.  Takes the whole list. */
static struct teardown take(struct peerdma_cache *cache)
{
	struct teardown list = { .first = cache->deferred, .count = (uint32_t)cache->stats.deferred,
				 .notify = NO_REGION };

	ord_store(&cache->deferred, NO_REGION);
	cache->stats.deferred = 0;
	return list;
}

/* remove() may call the cache.  Regions that it defers wait for the next call. */
static uint32_t finish(struct peerdma_cache *cache, struct thread_cache *tc, struct teardown *list)
{
	uint32_t count = list->count;

	if (tc)
		tc->draining = true;
	teardown_finish(cache, list);
	if (tc)
		tc->draining = false;
	return count;
}

uint32_t deferred_drain(struct peerdma_cache *cache, struct thread_cache *tc)
{
	bool marked = tc && ord_load(&tc->marked);
	struct teardown list;

	if ((ord_load(&cache->deferred) == NO_REGION && !marked) || (tc && tc->draining))
		return 0;
	if (marked)
		refs_keep_up(tc);
	cache_lock(cache);
	if (marked) {
		thread_cache_unmark(cache, tc);
		ord_fence();
		teardown_unsettled(cache);
	}
	list = take(cache);
	cache_unlock(cache);
	return finish(cache, tc, &list);
}
