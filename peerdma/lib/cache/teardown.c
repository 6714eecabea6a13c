// SPDX-License-Identifier: MIT
/*
 * teardown.c - see teardown.h.
 */
#ifdef PEERDMA_DEBUG
#include <stdlib.h>
#include <unistd.h>
#endif

#include "../base/cancel.h"
#include "bar1.h"
#include "lock.h"
#include "regions.h"
#include "teardown.h"

static void set_state(struct region *region, enum state state)
{
	ord_store_release(&region->state_word, state_changed(ord_load(&region->state_word), state));
}

static void remember(struct peerdma_cache *cache, uint32_t number, enum inspect_reason why)
{
	const struct region *region = &cache->regions[number];

	cache->stats.ended[cache->stats.ended_count++ % INSPECT_ENDED] = (struct inspect_ended){
		.addr = region->pub.addr, .length = region->pub.length,
		.gets = region_gets(cache, number), .why = why,
	};
}

void teardown_begin(struct peerdma_cache *cache, uint32_t number, struct teardown *list,
		    enum inspect_reason why)
{
	struct region *region = &cache->regions[number];
	uint64_t state_word = ord_load_acquire(&region->state_word);

	remember(cache, number, why);
	region_remove(cache, region);
	/*
	 * The registering thread makes the region LIVE without the lock.  Only one of the two
	 * replacements succeeds.
	 */
	if (state_of(state_word) == STATE_PENDING &&
	    ord_replace(&region->state_word, state_word, state_changed(state_word, STATE_KILLED)))
		return;
	set_state(region, STATE_DYING);
	region->next = list->first;
	list->first = number;
	list->count++;
}

/* Lock.  The region has no refs and can get none.  From here on only the caller uses it. */
static void take_out(struct peerdma_cache *cache, struct region *region)
{
	region_count(cache, region, -1);
	set_state(region, STATE_ENDING);
}

/*
 * Lock, when all gets are visible.  Returns the sum of the refs.  A negative sum means that there
 * were puts without a get.  Those are counted as bad puts and subtracted, so that the next region
 * of this number begins with 0.
 */
static int64_t refs_checked(struct peerdma_cache *cache, uint32_t number)
{
	int64_t refs = region_refs(cache, number);

	if (refs >= 0)
		return refs;
	cache->stats.bad_puts += (uint64_t)-refs;
	cache->regions[number].refs -= (int32_t)refs;
#ifdef PEERDMA_DEBUG
	static const char text[] = "peerdma_cache_put: more puts than gets of a region\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
		abort();
#endif
	return 0;
}

/*
 * Lock, when all gets are visible.  Regions with refs become DEAD and leave the list.  The others
 * become ENDING.
 */
static void sum_up(struct peerdma_cache *cache, struct teardown *list)
{
	uint32_t *link = &list->first, n;

	while ((n = *link) != NO_REGION) {
		struct region *region = &cache->regions[n];

		if (!refs_checked(cache, n)) {
			take_out(cache, region);
			link = &region->next;
		} else {
			set_state(region, STATE_DEAD);
			cache->stats.dead++;
			bar1_charge(cache, region);
			*link = region->next;
			list->count--;
			if (list->freed) {
				region->refs++;
				region->next = list->notify;
				list->notify = n;
			}
		}
	}
}

/*
 * Lock.  Empties all threads' refs of the region.  True: another thread, which makes no fences, may
 * be in the middle of a hit.
 */
static bool may_be_hit(struct peerdma_cache *cache, const struct thread_cache *self,
		       uint32_t number)
{
	uint32_t gen = state_gen(ord_load(&cache->regions[number].state_word));
	bool unsettled = false;

	for (struct thread_cache *tc = cache->threads; tc; tc = tc->next) {
		if (number < tc->capacity)
			unsettled |= refs_empty(&tc->refs[number], gen) && tc != self && !tc->fence;
	}
	return unsettled;
}

static void set_unsettled(struct peerdma_cache *cache, struct region *region)
{
	region->next = cache->unsettled;
	cache->unsettled = region_number(cache, region);
	cache->stats.unsettled++;
}

/*
 * Lock.  membarrier has stopped working, because a sandbox forbids it.  Each thread makes its own
 * fences from its next call on.  A region that may be in a hit stays unsettled until all threads
 * have made such a call.  If its memory is being freed now, ended() is called before that
 * (teardown_notify()).
 */
static void set_aside(struct peerdma_cache *cache, struct teardown *list)
{
	uint32_t *link = &list->first, n;

	cache->fence = true;
	thread_caches_mark(cache);
	while ((n = *link) != NO_REGION) {
		struct region *region = &cache->regions[n];

		if (!region->clock) {
			link = &region->next;
			continue;
		}
		*link = region->next;
		list->count--;
		if (list->freed) {
			region->refs++;
			region->next = list->notify;
			list->notify = n;
		} else {
			set_unsettled(cache, region);
		}
	}
}

void teardown_later(struct peerdma_cache *cache, struct teardown *list)
{
	uint32_t *link = &list->first;

	if (list->first == NO_REGION)
		return;
	while (*link != NO_REGION)
		link = &cache->regions[*link].next;
	*link = cache->deferred;
	cache->stats.deferred += list->count;
	if (cache->deferred == NO_REGION)
		thread_caches_mark(cache);
	ord_store(&cache->deferred, list->first);
	list->first = NO_REGION;
	list->count = 0;
}

void teardown_unsettled(struct peerdma_cache *cache)
{
	struct teardown list = { .first = cache->unsettled,
				 .count = (uint32_t)cache->stats.unsettled, .notify = NO_REGION };

	if (list.first == NO_REGION)
		return;
	for (const struct thread_cache *tc = cache->threads; tc; tc = tc->next) {
		if (!tc->fence)
			return;
	}
	cache->unsettled = NO_REGION;
	cache->stats.unsettled = 0;
	sum_up(cache, &list);
	teardown_later(cache, &list);
}

void teardown_commit(struct peerdma_cache *cache, struct thread_cache *self, struct teardown *list)
{
	bool others = false, done = true;

	if (list->first == NO_REGION)
		return;
	ord_fence();
	for (uint32_t n = list->first; n != NO_REGION; n = cache->regions[n].next) {
		cache->regions[n].clock = may_be_hit(cache, self, n);
		others |= cache->regions[n].clock;
	}
	if (others) {
		cache->stats.fences++;
		cache_unlock(cache);
		done = ord_fence_others();
		cache_lock(cache);
	} else {
		ord_fence();
	}
	if (!done)
		set_aside(cache, list);
	sum_up(cache, list);
}

void teardown_finish(struct peerdma_cache *cache, struct teardown *list)
{
	uint32_t n = list->first, next, top;
	int was;

	if (n == NO_REGION)
		return;
	was = cancel_off();
	for (; n != NO_REGION; n = next) {
		struct region *region = &cache->regions[n];

		next = region->next;
		cache->ops.remove(cache->arg, region->pub.addr, region->pub.length,
				  region->pub.registration);
		set_state(region, STATE_FREE);
		do {
			top = ord_load(&cache->returned);
			region->next = top;
		} while (!ord_replace(&cache->returned, top, n));
	}
	cancel_back(was);
	*list = TEARDOWN_NONE;
}

/* Lock.  The last ref of a DEAD region has been put. */
static void take_dead(struct peerdma_cache *cache, struct region *region, struct teardown *list)
{
	cache->stats.dead--;
	bar1_uncharge(cache, region);
	take_out(cache, region);
	region->next = NO_REGION;
	list->first = region_number(cache, region);
	list->count = 1;
}

/* Tears the regions down one by one, because remove() may put or end other regions. */
uint32_t teardown_all(struct peerdma_cache *cache)
{
	uint32_t count = 0;

	for (uint32_t n = 0; n < cache->stats.used; n++) {
		struct region *region = &cache->regions[n];
		struct teardown list = TEARDOWN_NONE;

		cache_lock(cache);
		if (state_of(ord_load(&region->state_word)) == STATE_LIVE) {
			teardown_begin(cache, n, &list, ENDED_EVICTED);
			take_out(cache, region);
		} else if (state_of(ord_load(&region->state_word)) == STATE_DEAD) {
			take_dead(cache, region, &list);
		}
		cache_unlock(cache);
		count += list.count;
		teardown_finish(cache, &list);
	}
	return count;
}

void teardown_notify(struct peerdma_cache *cache, struct teardown *list)
{
	uint32_t n = list->notify, next;
	int was;

	if (n == NO_REGION)
		return;
	was = cancel_off();
	for (; n != NO_REGION; n = next) {
		struct region *region = &cache->regions[n];
		struct teardown over = TEARDOWN_NONE;

		next = region->next;
		cache->options.ended(cache->options.arg, &region->pub);
		cache_lock(cache);
		region->refs--;
		if (state_of(ord_load(&region->state_word)) == STATE_DYING) {
			set_unsettled(cache, region);
			teardown_unsettled(cache);
		} else if (!refs_checked(cache, n))
			take_dead(cache, region, &over);
		teardown_later(cache, &over);
		cache_unlock(cache);
	}
	cancel_back(was);
	list->notify = NO_REGION;
}

void teardown_last_ref(struct peerdma_cache *cache, uint32_t number)
{
	struct region *region = &cache->regions[number];
	struct teardown list = TEARDOWN_NONE;
	enum state state;

	cache_lock(cache);
	state = state_of(ord_load(&region->state_word));
	/* The region has been deregistered already, so this was a put without a get. */
	if (state == STATE_FREE || state == STATE_ENDING)
		refs_checked(cache, number);
	if (state == STATE_DEAD && !refs_checked(cache, number))
		take_dead(cache, region, &list);
	cache_unlock(cache);
	teardown_finish(cache, &list);
}

void teardown_stale(struct peerdma_cache *cache, struct thread_cache *self, struct region *region,
		    uint64_t state_word)
{
	struct teardown list = TEARDOWN_NONE;

	cache_lock(cache);
	if (ord_load(&region->state_word) == state_word) {
		teardown_begin(cache, region_number(cache, region), &list, ENDED_STALE);
		cache->stats.stale++;
		list.freed = cache->options.ended;
		teardown_commit(cache, self, &list);
	}
	cache_unlock(cache);
	teardown_notify(cache, &list);
	teardown_finish(cache, &list);
}
