/* SPDX-License-Identifier: MIT */
/*
 * teardown.h - how regions end: by invalidation, eviction, merging, or because they are stale.
 *
 *	teardown_begin()	takes the region out of the index: DYING
 *	teardown_commit()	empties every thread's refs of it, waits for hits under way, then sums the
 *				refs.  Held: DEAD, and the put of the last ref finishes.
 *				Not held: ENDING, and this thread finishes.  If hits cannot be
 *				waited for, the refs are summed later (teardown_unsettled())
 *	teardown_finish()	deregisters, without the lock; then the number is free
 */
#pragma once

#include "thread_cache.h"

struct teardown {
	uint32_t first;			/* through region->next */
	uint32_t count;
	/* Their memory goes away: ended() is called for held regions */
	bool freed;
	/* Through region->next: these regions, with a ref each until teardown_notify() */
	uint32_t notify;
};

#define TEARDOWN_NONE ((struct teardown){ .first = NO_REGION, .notify = NO_REGION })

/* Lock.  Takes a LIVE or PENDING region out of the index, so that no hit finds it; into the list if it was LIVE. */
void teardown_begin(struct peerdma_cache *cache, uint32_t number, struct teardown *list,
		    enum inspect_reason why);
/*
 * Lock, released if other threads must be waited for.  From here on no ref of the list's regions can be taken.
 * Held regions leave the list.
 */
void teardown_commit(struct peerdma_cache *cache, struct thread_cache *self, struct teardown *list);
/* No lock.  Deregisters the list's regions. */
void teardown_finish(struct peerdma_cache *cache, struct teardown *list);
/* Lock.  In place of teardown_finish(): a later call deregisters them (deferred.c). */
void teardown_later(struct peerdma_cache *cache, struct teardown *list);
/* No lock.  Calls ended() for held regions.  Those that are not held any more afterwards are deferred. */
void teardown_notify(struct peerdma_cache *cache, struct teardown *list);

/* Lock.  A thread cache began to make fences, or left: sums the refs of unsettled regions if it was the last to wait for. */
void teardown_unsettled(struct peerdma_cache *cache);
/* No lock.  A ref was put of a region that may be DEAD: finishes if it was the last. */
void teardown_last_ref(struct peerdma_cache *cache, uint32_t number);
/* No lock.  Ends a region that a hit found stale, unless its state word has changed. */
void teardown_stale(struct peerdma_cache *cache, struct thread_cache *self, struct region *region,
		    uint64_t state_word);
/* No lock, and no thread caches any more.  Ends all regions, held or not, and returns how many. */
uint32_t teardown_all(struct peerdma_cache *cache);
