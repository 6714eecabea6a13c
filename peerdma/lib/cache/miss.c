// SPDX-License-Identifier: MIT
/*
 * miss.c - makes a region for a range that no region covers.
 *
 * The region is in the index, PENDING, before it is registered: threads that need the
 * same memory wait for it, and an invalidation in the meantime finds it.  A region that
 * overlaps others enters the index only after it is registered.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../base/cancel.h"
#include "../internal.h"
#include "state.h"
#include "lock.h"
#include "thread_cache.h"
#include "miss.h"

#define EVICT_MANY	64	/* when the provider says that it is full */

/* Whole granules; or, where ops know better what belongs together, what was asked for and no more. */
static void plain_extent(const struct peerdma_cache *cache, struct wish *w)
{
	uint64_t mask = cache->ops.extent ? 0 : (1ULL << cache->granule_shift) - 1;

	w->own_from = w->addr & ~mask;
	w->own_to = (w->last | mask) + 1;
	w->bound_from = 0;
	w->bound_to = UINT64_MAX;
}

/*
 * A positive result would pass as one of the get's, whose caller looks for negative ones.  Where the function
 * called nothing that left a text, the text that is there is of an earlier failure.
 */
static int result_of(const char *function, int ret, uint32_t texts)
{
	if (ret > 0)
		return fail(-EINVAL, "peerdma_cache_get: %s() returned %d; it returns 0 or -errno", function, ret);
	if (ret < 0 && fail_count() == texts)
		return fail(ret, "peerdma_cache_get: %s() returned %d: %s", function, ret, error_words(ret));
	return ret;
}

static int __attribute__((noinline)) asked_extent(struct peerdma_cache *cache, struct wish *w)
{
	uint64_t mask = (1ULL << cache->granule_shift) - 1;
	struct peerdma_extent e = {
		.addr = w->addr & ~mask, .length = (w->last | mask) + 1 - (w->addr & ~mask), .request = w->request,
	};
	uint32_t texts = fail_count();
	int ret = result_of("extent", cache->ops.extent(cache->arg, w->addr, w->last - w->addr + 1, &e), texts);

	if (ret)
		return ret;
	if (e.aperture & (e.aperture - 1))
		return fail(-EINVAL, "peerdma_cache_get: extent() set the aperture's page size to %u, which is not a power of two",
			    e.aperture);
	w->fixed = (e.aperture ? (uint64_t)(__builtin_ctz(e.aperture) + 1) << STATE_BAR1_AT : 0) |
		   (e.kind == PEERDMA_KIND_HOST ? STATE_IS_HOST : e.kind == PEERDMA_KIND_DEVICE ? STATE_IS_DEVICE : 0);
	if (w->how == WHOLE && e.addr <= w->own_from && e.length >= w->own_to - e.addr && e.addr + e.length > e.addr) {
		w->own_from = e.addr;
		w->own_to = e.addr + e.length;
	}
	if (e.bound_length && e.bound_addr <= UINT64_MAX - e.bound_length) {
		w->bound_from = e.bound_addr < w->own_from ? e.bound_addr : w->own_from;
		w->bound_to = e.bound_addr + e.bound_length > w->own_to ? e.bound_addr + e.bound_length : w->own_to;
	}
	return 0;
}

static inline int extent(struct peerdma_cache *cache, struct wish *w)
{
	uint64_t mask = (1ULL << cache->granule_shift) - 1;

	if ((w->last | mask) == UINT64_MAX)
		return fail(-EINVAL, "peerdma_cache_get: [0x%llx, 0x%llx] reaches the end of all addresses",
			    (unsigned long long)w->addr, (unsigned long long)w->last);
	plain_extent(cache, w);
	return cache->ops.extent ? asked_extent(cache, w) : 0;
}

/* Lock.  What the next miss will use comes nearer meanwhile. */
static inline uint32_t number_get(struct peerdma_cache *cache, const struct thread_cache *tc)
{
	uint32_t number = cache->free;

	if (number == NO_REGION) {
		do {
			number = ord_load(&cache->returned);
		} while (number != NO_REGION && !ord_replace(&cache->returned, number, NO_REGION));
	}
	if (number != NO_REGION) {
		cache->free = cache->regions[number].next;
		if (cache->free != NO_REGION) {
			__builtin_prefetch(&cache->regions[cache->free], 1);
			if (tc && cache->free < tc->capacity)
				__builtin_prefetch(&tc->refs[cache->free], 1);
		}
		/* Takes that threads still have in their refs were of other generations. */
		cache->regions[number].gets = 0;
		cache->regions[number].gets -= region_gets(cache, number);
		return number;
	}
	return cache->used < cache->ready ? cache->used++ : NO_REGION;
}

static void number_put(struct peerdma_cache *cache, uint32_t number)
{
	cache->regions[number].next = cache->free;
	cache->free = number;
}

static void __attribute__((noinline)) wake_all(struct peerdma_cache *cache)
{
	cache_lock(cache);
	ord_wake_all(&cache->settled);
	cache_unlock(cache);
}

static inline void wake(struct peerdma_cache *cache)
{
	if (ord_load(&cache->waiting))
		wake_all(cache);
}

static struct region *begin(struct peerdma_cache *cache, struct wish *w, uint32_t number)
{
	struct region *r = &cache->regions[number];
	uint64_t length = w->to - w->from;
	uint32_t gen;

	/* Before anything of it is read: a page is given once when it is written first, and twice otherwise. */
	ord_store(&r->pub.length, length);
	gen = state_gen(ord_load(&r->state_word)) + 1;
	w->state_word = STATE_WORD(gen ? gen : 1, STATE_PENDING) | w->fixed | (uint64_t)w->with_access << STATE_ACCESS_AT;
	/* find() looks before it holds. */
	ord_store(&r->pub.addr, w->from);
	/* Identifies the thread that makes it: any address of thread-local memory does. */
	ord_store(&r->pub.registration, &this_thread);
	r->word = NULL;
	r->clock = 1;	/* the get that makes it is no use yet: what is used once goes first */
	ord_store_release(&r->state_word, w->state_word);
	region_count(cache, r, 1);
	return r;
}

/* It was not to be: registration failed, or the memory went away meanwhile. */
static void __attribute__((noinline)) abandon(struct peerdma_cache *cache, const struct wish *w, struct region *r)
{
	cache_lock(cache);
	if (w->alone) {
		cache->bar1_use -= bar1_alone(r);
	} else if (w->apart) {
		apart_remove(cache, r);
		cache->bar1_use -= bar1_alone(r);
	} else if (state_of(ord_load(&r->state_word)) == STATE_PENDING) {
		region_remove(cache, r);
	}
	region_count(cache, r, -1);
	ord_store(&r->state_word, STATE_WORD(state_gen(ord_load(&r->state_word)), STATE_FREE));
	number_put(cache, region_number(cache, r));
	if (cache->waiting)
		ord_wake_all(&cache->settled);
	cache_unlock(cache);
}

/* Where there is no thread cache, or others end in its favour. */
static bool __attribute__((noinline)) publish_locked(struct peerdma_cache *cache, const struct wish *w, struct region *r,
						     uint64_t live)
{
	struct teardown list = TEARDOWN_NONE;
	bool done;

	cache_lock(cache);
	done = ord_load(&r->state_word) == w->state_word;
	if (done && w->apart)
		overlap_replace(cache, r, &list);
	if (done && w->alone) {
		live = STATE_WORD(state_gen(live), STATE_DEAD) | (live & STATE_PROPERTIES);
		cache->dead++;
	}
	if (done) {
		r->refs++;
		r->gets++;
		ord_store_release(&r->state_word, live);
		ord_wake_all(&cache->settled);
		teardown_commit(cache, thread_cache_find(cache), &list);
	}
	cache_unlock(cache);
	teardown_finish(cache, &list);
	return done;
}

static void __attribute__((noinline)) spill(struct peerdma_cache *cache, struct thread_cache *tc, uint32_t number)
{
	cache_lock(cache);
	thread_cache_spill(tc, number);
	cache_unlock(cache);
}

/*
 * Registered: from here on it is everybody's, and the caller's first ref is in it.  False: killed.
 * Not in region->refs or gets, if that can be: the lock is not held.
 */
static inline bool publish(struct peerdma_cache *cache, struct thread_cache *tc, const struct wish *w, struct region *r,
			   const struct peerdma_registration *registration)
{
	uint64_t live = w->state_word + (STATE_LIVE - STATE_PENDING);
	uint32_t number = region_number(cache, r), before, count;
	struct thread_refs *refs;

	r->word = registration->word;
	r->expected = registration->expected;
	ord_store(&r->pub.registration, registration->handle);
	refs = tc && !w->apart && !w->alone ? refs_meet(tc, r) : NULL;
	if (!refs)
		return publish_locked(cache, w, r, live);
	/* Written before it is read, as in begin(); what is not LIVE has no ender who looks at it. */
	refs_fill(refs, state_gen(live));
	before = ord_load(&refs->count);
	count = before + COUNT_GET;
	ord_store(&refs->count, count);
	if (!ord_replace(&r->state_word, w->state_word, live)) {
		ord_store(&refs->gen, 0);
		ord_store_release(&refs->count, before);
		return false;
	}
	if (COUNT_FULL(count))
		spill(cache, tc, number);
	wake(cache);
	return true;
}

/* Under the lock the index does not err: what is wanted is there, or coming, or we begin it. */
static inline enum step find_or_begin(struct peerdma_cache *cache, struct thread_cache *tc, struct wish *w, struct region **out,
				      int *error)
{
	struct index_place *place = tc ? &tc->place : &cache->index.cursor;
	struct teardown list = TEARDOWN_NONE;
	enum step step = MADE;
	uint32_t number;

	w->from = w->own_from;
	w->to = w->own_to;
	w->apart = false;
	w->alone = cache->off;
	w->with_access = w->access;
	w->replaced = 0;
	w->replaced_bytes = 0;
	cache_lock(cache);
	if (!w->alone && (cache->apart != NO_REGION || !regions_none(cache, place, w->from, w->to)))
		step = overlap_look(cache, place, w, out, error);
	if (step != MADE) {
		cache_unlock(cache);
		if (step == FAILED)	/* here, since a text is an allocation */
			fail(*error, "peerdma_cache_get: %s", w->why);
		return step;
	}
	number = number_get(cache, tc);
	if (number == NO_REGION) {
		cache_unlock(cache);
		if (room_more(cache))
			return AGAIN;
		if (deferred_drain(cache, tc) + room_evict(cache, 1 + cache->capacity / EVICT_SHARE))
			return AGAIN;
		*error = fail(-ENOBUFS, "peerdma_cache_get: all %u regions that this cache can have are held; "
			      "put some, or give it a greater capacity", cache->capacity);
		return FAILED;
	}
	if (cache->limited)
		room_make(cache, w, &list);
	w->ahead = room_is_new(cache, number);
	cache->misses += !w->counted;
	w->counted = true;
	*out = begin(cache, w, number);
	if (w->alone) {
		cache->bar1_use += bar1_alone(*out);
	} else if (w->apart) {
		(*out)->next = cache->apart;
		cache->apart = number;
		cache->bar1_use += bar1_alone(*out);
	} else {
		region_insert(cache, place, number);
	}
	if (list.count)
		teardown_commit(cache, tc, &list);
	cache_unlock(cache);
	if (list.count)
		teardown_finish(cache, &list);
	if (w->ahead)
		room_ahead(cache, tc, number, w->ahead);
	return MADE;
}

/* After a failure: is there something that may help? */
static bool __attribute__((noinline)) worth_another(struct peerdma_cache *cache, struct thread_cache *tc, struct wish *w, int error)
{
	bool full = error == -ENOSPC || error == -ENOMEM || error == -EMFILE || error == -ENFILE ||
		    error == -EDQUOT || error == -ENOBUFS;
	bool room = full && deferred_drain(cache, tc) + room_evict(cache, EVICT_MANY);

	if (room)
		cache_log(cache, "add() failed with %d for [0x%llx, 0x%llx): idle regions were removed, and it is called again", error,
			  (unsigned long long)w->from, (unsigned long long)w->to);
	/* Less, then: the neighbours' memory, or the rest of the allocation, may be what cannot be had. */
	if (!room) {
		if (w->how == PLAIN)
			return false;
		w->how = PLAIN;
		plain_extent(cache, w);
		if (w->own_from == w->from && w->own_to == w->to)
			return false;
		cache_log(cache, "add() failed with %d for [0x%llx, 0x%llx): it is called for [0x%llx, 0x%llx)", error,
			  (unsigned long long)w->from, (unsigned long long)w->to, (unsigned long long)w->own_from,
			  (unsigned long long)w->own_to);
	}
	cache_lock(cache);
	cache->retries++;
	cache_unlock(cache);
	return true;
}

void cache_log(const struct peerdma_cache *cache, const char *fmt, ...)
{
	char text[256];
	va_list args;

	if (!cache->options.log)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	cache->options.log(cache->options.arg, text);
}

/* What add() gets: the request, and the payload's place. */
static void registration_begin(const struct peerdma_cache *cache, const struct wish *w, const struct region *r,
			       struct peerdma_registration *registration)
{
	memset(registration, 0, sizeof(*registration));
	registration->request = w->request;
	registration->access = w->with_access;
	if (!cache->payload)
		return;
	registration->payload = cache->payload + (size_t)region_number(cache, r) * cache->payload_step;
	memset(registration->payload, 0, cache->payload_step);
}

void miss_failed(struct peerdma_cache *cache, bool counted)
{
	cache_lock(cache);
	cache->misses += !counted;
	cache->failures++;
	cache_unlock(cache);
}

void miss_after_all(struct peerdma_cache *cache)
{
	cache_lock(cache);
	cache->late_hits--;
	cache_unlock(cache);
}

static int make(struct peerdma_cache *cache, struct thread_cache *tc, struct request *request, struct region **out)
{
	uint64_t addr = request->addr, length = request->length;
	struct peerdma_registration registration;
	struct wish w = { .addr = addr, .last = addr + length - 1, .counted = request->counted,
			  .access = request->access, .request = request->request };
	struct region *r = NULL;
	uint32_t texts;
	int ret;

	deferred_drain(cache, tc);
	ret = extent(cache, &w);

	for (int tries = 0; !ret && tries < GET_TRIES;) {
		switch (find_or_begin(cache, tc, &w, &r, &ret)) {
		case FOUND:
			request->counted = w.counted;
			*out = r;
			return 0;
		case AGAIN:
			continue;
		case FAILED:
			continue;
		case MADE:
			break;
		}
		tries++;
		registration_begin(cache, &w, r, &registration);
		texts = fail_count();
		ret = result_of("add", cache->ops.add(cache->arg, r->pub.addr, r->pub.length, &registration), texts);
		if (ret) {
			abandon(cache, &w, r);
			if (ret == -ESTALE) {	/* freed meanwhile; what is there now is another allocation */
				w.how = WHOLE;
				ret = extent(cache, &w);
			} else if (worth_another(cache, tc, &w, ret)) {
				ret = 0;
			}
			continue;
		}
		if (registration.word && !cache->monitored) {
			cache->ops.remove(cache->arg, r->pub.addr, r->pub.length, registration.handle);
			abandon(cache, &w, r);
			ret = fail(-EINVAL, "peerdma_cache_get: add() set a word, which no hit would read; set PEERDMA_MONITOR_WORD "
				   "in ops.monitors");
			continue;
		}
		if (publish(cache, tc, &w, r, &registration)) {
			request->counted = true;
			*out = r;
			return 0;
		}
		cache->ops.remove(cache->arg, r->pub.addr, r->pub.length, registration.handle);
		abandon(cache, &w, r);
		w.how = WHOLE;
		ret = extent(cache, &w);
	}
	if (!ret)
		ret = fail(-ESTALE, "peerdma_cache_get: [0x%llx, +%llu): freed during the call, again and again",
			   (unsigned long long)addr, (unsigned long long)length);
	miss_failed(cache, w.counted);
	return ret;
}

/* A thread that ended in add(), or while it waits for another's, would leave others to wait for ever. */
int region_make(struct peerdma_cache *cache, struct thread_cache *tc, struct request *request, struct region **out)
{
	int was = cancel_off(), ret;
	uint32_t texts = attempt_begin();

	/* What fails on the way may be made good: by less memory, or when others were removed. */
	ret = attempt_end(texts, make(cache, tc, request, out));
	cancel_back(was);
	return ret;
}
