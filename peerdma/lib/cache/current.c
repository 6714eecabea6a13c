// SPDX-License-Identifier: MIT
/*
 * current.c - finds the calling thread's thread cache of a cache.
 *
 * this_thread contains the last THREAD_LAST thread caches, indexed by the caches' serials.  A
 * thread that uses more caches also has a table with SERIAL_WORDS places, one for each open cache.
 * A thread cache ends with its thread or with its cache.  The first of the two removes it from the
 * cache's list, and the second frees it.
 */
#include <sched.h>
#include <stdlib.h>

#include "../base/thread_end.h"
#include "../internal.h"
#include "lock.h"
#include "teardown.h"

/*
 * All thread caches of this thread, linked by their `mine`; and the table, NULL or of SERIAL_WORDS
 * places.
 */
static _Thread_local struct thread_cache *mine __attribute__((tls_model("initial-exec")));
static _Thread_local struct thread_cache **table __attribute__((tls_model("initial-exec")));

/* ---- ends ---- */

/* The thread ends.  Does not touch memory of a cache that may be closed already. */
static void thread_cache_end(struct thread_cache *tc)
{
	struct peerdma_cache *cache = tc->cache;
	struct thread_refs *refs = tc->refs;
	uint32_t capacity = tc->capacity;

	if (!ord_replace(&tc->owner, OWNER_BOTH, OWNER_LEAVING)) {
		thread_cache_free(tc);
		return;
	}
	cache_lock(cache);
	thread_cache_leave(cache, tc);
	teardown_unsettled(cache);
	cache_unlock(cache);
	refs_free(refs, capacity);
	thread_cache_free(tc);
}

/* Clears `table` before the free: a monitor of free() may call this cache. */
static void *table_take(void)
{
	void *p = table;

	table = NULL;
	return p;
}

/*
 * Call this after removing tc from the list `mine`.  Otherwise a free that calls this cache would
 * find tc again.
 */
static void forget(const struct thread_cache *tc)
{
	/*
	 * The table is cleared first: a signal handler that finds tc there copies it into
	 * this_thread.
	 */
	if (table && table[tc->serial % SERIAL_WORDS] == tc)
		table[tc->serial % SERIAL_WORDS] = NULL;
	ord_fence_light();
	for (int i = 0; i < THREAD_LAST; i++) {
		if (this_thread.last[i] == tc)
			this_thread.last[i] = &thread_cache_none;
	}
}

static void thread_caches_end(void)
{
	struct thread_cache *tc;

	free(table_take());
	while ((tc = mine)) {
		mine = tc->mine;
		forget(tc);
		/*
		 * In a forked child, a thread that does not exist there may hold the lock for ever.
		 */
		if (tc->process == process_id())
			thread_cache_end(tc);
	}
}

static struct thread_end end = { .fn = thread_caches_end };

/* Frees the thread caches of caches that were closed. */
static void orphans_free(void)
{
	struct thread_cache **p = &mine, *tc;

	while ((tc = *p)) {
		if (ord_load_acquire(&tc->owner) != OWNER_ORPHAN) {
			p = &tc->mine;
			continue;
		}
		*p = tc->mine;
		forget(tc);
		thread_cache_free(tc);
	}
}

void thread_caches_orphan(struct peerdma_cache *cache)
{
	struct thread_cache *tc;

	for (;;) {
		cache_lock(cache);
		tc = cache->threads;
		if (!tc)
			break;
		if (ord_load(&tc->owner) == OWNER_BOTH) {
			struct thread_refs *refs = tc->refs;
			uint32_t capacity = tc->capacity;

			thread_cache_leave(cache, tc);
			teardown_unsettled(cache);
			/*
			 * The thread may free an orphan at any time.  If the replacement fails, the
			 * thread is ending and waits for the lock.
			 */
			if (ord_replace(&tc->owner, OWNER_BOTH, OWNER_ORPHAN)) {
				cache_unlock(cache);
				refs_free(refs, capacity);
				continue;
			}
			thread_cache_join(tc);
		}
		cache_unlock(cache);
		sched_yield();
	}
	cache_unlock(cache);
	/*
	 * Frees this thread's own thread cache.  remove() may be called after this, and must not
	 * find it.
	 */
	orphans_free();
}

/* ---- beginnings ---- */

static struct thread_cache *look_up(const struct peerdma_cache *cache)
{
	struct thread_cache **place = table ? &table[cache_gate(cache) % SERIAL_WORDS] : NULL;
	struct thread_cache *tc = place ? *place : NULL;

	if (!tc || tc->serial != cache_serial(cache)) {
		for (tc = mine; tc && tc->serial != cache_serial(cache); tc = tc->mine)
			;
	}
	if (tc)
		this_thread.last[cache_gate(cache) % THREAD_LAST] = tc;
	if (tc && place)
		*place = tc;
	return tc;
}

struct thread_cache *thread_cache_find(const struct peerdma_cache *cache)
{
	struct thread_cache *tc = this_thread.last[cache_gate(cache) % THREAD_LAST];

	return tc->serial == cache_serial(cache) ? tc : look_up(cache);
}

struct thread_cache *thread_cache_get(struct peerdma_cache *cache)
{
	struct thread_cache *tc = thread_cache_find(cache);

	if (tc)
		return tc;
	orphans_free();
	if (!thread_end_register(&end))
		return NULL;
	tc = thread_cache_make(cache);
	if (!tc)
		return NULL;
	if (mine && !table)
		table = calloc(SERIAL_WORDS, sizeof(struct thread_cache *));
	tc->mine = mine;
	mine = tc;
	this_thread.last[cache_gate(cache) % THREAD_LAST] = tc;
	cache_lock(cache);
	thread_cache_join(tc);
	cache_unlock(cache);
	return tc;
}

