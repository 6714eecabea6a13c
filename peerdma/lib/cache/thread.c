// SPDX-License-Identifier: MIT
/*
 * thread.c - which front is the calling thread's.
 *
 * Found through a few words of the thread's own, by the cache's serial number; with more
 * caches than that through a table, where up to SERIAL_WORDS that are open have each its place.  A
 * front ends with its thread or with its cache, and whichever comes second finds
 * nothing left to do but to free it.
 */
#include <sched.h>
#include <stdlib.h>

#include "../base/thread_end.h"
#include "../internal.h"
#include "state.h"
#include "lock.h"
#include "front.h"

static _Thread_local struct front *mine __attribute__((tls_model("initial-exec")));
/* SERIAL_WORDS of them, or NULL. */
static _Thread_local struct front **table __attribute__((tls_model("initial-exec")));

/* ---- ends ---- */

/* The thread's part: of the cache's memory nothing is touched if the cache is, or may be, gone. */
static void front_end(struct front *f)
{
	struct peerdma_cache *cache = f->cache;
	struct record *records = f->records;
	uint32_t capacity = f->capacity;

	if (!ord_replace(&f->owner, FRONT_BOTH, FRONT_LEAVING)) {
		front_free(f);
		return;
	}
	cache_lock(cache);
	front_leave(cache, f);
	end_doubtful(cache);
	cache_unlock(cache);
	records_free(records, capacity);
	front_free(f);
}

/* Before it is freed: that may call us. */
static void *table_take(void)
{
	void *p = table;

	table = NULL;
	return p;
}

/* It is in `mine' no more, or it would be found again: whatever is freed may call us. */
static void forget(const struct front *f)
{
	/* In this order: a signal handler may look in the table, and then it is in a word. */
	if (table && table[f->serial % SERIAL_WORDS] == f)
		table[f->serial % SERIAL_WORDS] = NULL;
	ord_fence_light();
	for (int i = 0; i < FRONT_WORDS; i++) {
		if (front_words.front[i] == f)
			front_words.front[i] = &front_none;
	}
}

static void fronts_end(void)
{
	struct front *f;

	free(table_take());
	while ((f = mine)) {
		mine = f->mine;
		forget(f);
		/* A child's locks may be held for ever by threads that it does not have. */
		if (f->process == process_id())
			front_end(f);
	}
}

static struct thread_end end = { .fn = fronts_end };

/* Of caches that were closed while this thread lived. */
static void orphans_free(void)
{
	struct front **p = &mine, *f;

	while ((f = *p)) {
		if (ord_load_acquire(&f->owner) != FRONT_ORPHAN) {
			p = &f->mine;
			continue;
		}
		*p = f->mine;
		forget(f);
		front_free(f);
	}
}

void fronts_orphan(struct peerdma_cache *cache)
{
	struct front *f;

	for (;;) {
		cache_lock(cache);
		f = cache->fronts;
		if (!f)
			break;
		if (ord_load(&f->owner) == FRONT_BOTH) {
			struct record *records = f->records;
			uint32_t capacity = f->capacity;

			front_leave(cache, f);
			end_doubtful(cache);
			/* From here on it may be gone any time; or its thread ends just now, and waits for the lock. */
			if (ord_replace(&f->owner, FRONT_BOTH, FRONT_ORPHAN)) {
				cache_unlock(cache);
				records_free(records, capacity);
				continue;
			}
			front_join(f);
		}
		cache_unlock(cache);
		sched_yield();
	}
	cache_unlock(cache);
	/* This thread's own: remove() may call us yet. */
	orphans_free();
}

/* ---- beginnings ---- */

static struct front *front_find(const struct peerdma_cache *cache)
{
	struct front **place = table ? &table[cache_gate(cache) % SERIAL_WORDS] : NULL, *f = place ? *place : NULL;

	if (!f || f->serial != cache_serial(cache)) {
		for (f = mine; f && f->serial != cache_serial(cache); f = f->mine)
			;
	}
	if (f)
		front_words.front[cache_gate(cache) % FRONT_WORDS] = f;
	if (f && place)
		*place = f;
	return f;
}

struct front *front_if_any(const struct peerdma_cache *cache)
{
	struct front *f = front_words.front[cache_gate(cache) % FRONT_WORDS];

	return f->serial == cache_serial(cache) ? f : front_find(cache);
}

struct front *front_of(struct peerdma_cache *cache)
{
	struct front *f = front_if_any(cache);

	if (f)
		return f;
	orphans_free();
	if (!thread_end_told(&end))
		return NULL;
	f = front_make(cache);
	if (!f)
		return NULL;
	if (mine && !table)
		table = calloc(SERIAL_WORDS, sizeof(struct front *));
	f->mine = mine;
	mine = f;
	front_words.front[cache_gate(cache) % FRONT_WORDS] = f;
	cache_lock(cache);
	front_join(f);
	cache_unlock(cache);
	return f;
}

