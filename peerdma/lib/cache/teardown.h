/* SPDX-License-Identifier: MIT */
/*
 * teardown.h - how regions end: by invalidation, eviction, merging, or because they are stale.
 *
 *	teardown_begin()	takes the region out of the index, and makes it DYING
 *	teardown_commit()	empties each thread's refs of it, waits for hits under way, then
 *				sums the refs.  A held region becomes DEAD; the put of its last ref
 *				deregisters it.  Others become ENDING.  If this thread cannot wait
 *				for hits, the refs are summed later (teardown_unsettled())
 *	teardown_finish()	deregisters ENDING regions, without the lock; their numbers are free
 */
#pragma once

#include "thread_cache.h"

struct teardown {
	uint32_t first;			/* through region->next */
	uint32_t count;
	/* The memory is being freed: ended() is called for held regions */
	bool freed;
	/* These regions, linked by region->next, have one extra ref each until teardown_notify() */
	uint32_t notify;
};

#define TEARDOWN_NONE ((struct teardown){ .first = NO_REGION, .notify = NO_REGION })

/*
 * Lock.  Takes a LIVE or PENDING region out of the index, so that no get finds it.  Adds it to the
 * list if it was LIVE.
 */
void teardown_begin(struct peerdma_cache *cache, uint32_t number, struct teardown *list,
		    enum inspect_reason why);
/*
 * Lock, released while it waits for other threads.  From here on no thread can take a ref of the
 * list's regions.  Held regions leave the list.
 */
void teardown_commit(struct peerdma_cache *cache, struct thread_cache *self, struct teardown *list);
/* No lock.  Deregisters the list's regions. */
void teardown_finish(struct peerdma_cache *cache, struct teardown *list);
/*
 * Lock.  Call this instead of teardown_finish() where remove() must not be called.  A later call
 * deregisters the regions (deferred.c).
 */
void teardown_later(struct peerdma_cache *cache, struct teardown *list);
/*
 * No lock.  Calls ended() for held regions.  Defers the deregistration of those that are no longer
 * held afterwards.
 */
void teardown_notify(struct peerdma_cache *cache, struct teardown *list);

/*
 * Lock.  A thread cache has begun to make fences, or has left.  If it was the last one, sums the
 * refs of the unsettled regions.
 */
void teardown_unsettled(struct peerdma_cache *cache);
/*
 * No lock.  A ref of a region that may be DEAD was put.  Deregisters the region if that was the
 * last ref.
 */
void teardown_last_ref(struct peerdma_cache *cache, uint32_t number);
/* No lock.  Ends a region that a hit found to be stale, unless its state word has changed. */
void teardown_stale(struct peerdma_cache *cache, struct thread_cache *self, struct region *region,
		    uint64_t state_word);
/*
 * No lock; no thread has a thread cache any more.  Ends all regions, held or not, and returns their
 * number.
 */
uint32_t teardown_all(struct peerdma_cache *cache);
