// SPDX-License-Identifier: MIT
/*
 * thread.c - which front is the calling thread's.
 *
 * Found through four words of the thread's own, by the cache's serial number.  A
 * front ends with its thread or with its cache, and whichever comes second finds
 * nothing left to do but to free it.
 */
#include <sched.h>

#include "../internal.h"
#include "cache.h"
#include "front.h"

static struct front nobody;		/* serials 0: no cache's */

/* In the room that the loader keeps for such: no call is needed to find it. */
_Thread_local struct front *front_words[FRONT_WORDS] __attribute__((tls_model("initial-exec"))) = {
	&nobody, &nobody, &nobody, &nobody,
};
static _Thread_local struct front *mine __attribute__((tls_model("initial-exec")));

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
	ord_lock(&cache->lock);
	front_leave(cache, f);
	ord_unlock(&cache->lock);
	records_free(records, capacity);
	front_free(f);
}

void fronts_end(void)
{
	struct front *f;

	for (int i = 0; i < FRONT_WORDS; i++)
		front_words[i] = &nobody;
	while ((f = mine)) {
		mine = f->mine;
		/* A child's locks may be held for ever by threads that it does not have. */
		if (f->process == process_id())
			front_end(f);
	}
}

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
		for (int i = 0; i < FRONT_WORDS; i++) {
			if (front_words[i] == f)
				front_words[i] = &nobody;
		}
		front_free(f);
	}
}

void fronts_orphan(struct peerdma_cache *cache)
{
	struct front *f;

	for (;;) {
		ord_lock(&cache->lock);
		f = cache->fronts;
		if (!f)
			break;
		if (ord_load(&f->owner) == FRONT_BOTH) {
			struct record *records = f->records;
			uint32_t capacity = f->capacity;

			front_leave(cache, f);
			/* From here on it may be gone any time; or its thread ends just now, and waits for the lock. */
			if (ord_replace(&f->owner, FRONT_BOTH, FRONT_ORPHAN)) {
				ord_unlock(&cache->lock);
				records_free(records, capacity);
				continue;
			}
			front_join(f);
		}
		ord_unlock(&cache->lock);
		sched_yield();
	}
	ord_unlock(&cache->lock);
}

/* ---- beginnings ---- */

static struct front *front_find(const struct peerdma_cache *cache)
{
	struct front *f;

	for (f = mine; f && f->serial != cache->serial; f = f->mine)
		;
	if (f)
		front_words[cache->serial % FRONT_WORDS] = f;
	return f;
}

struct front *front_if_any(const struct peerdma_cache *cache)
{
	struct front *f = front_words[cache->serial % FRONT_WORDS];

	return f->serial == cache->serial ? f : front_find(cache);
}

struct front *front_of(struct peerdma_cache *cache)
{
	struct front *f = front_if_any(cache);

	if (f)
		return f;
	orphans_free();
	if (!thread_end_told())
		return NULL;
	f = front_make(cache);
	if (!f)
		return NULL;
	f->mine = mine;
	mine = f;
	front_words[cache->serial % FRONT_WORDS] = f;
	ord_lock(&cache->lock);
	front_join(f);
	ord_unlock(&cache->lock);
	return f;
}

