// SPDX-License-Identifier: MIT
/*
 * miss.c - makes a region for a range that no region covers.
 *
 *	plan_extent()		plans the range, without its neighbours (plan.c)
 *	find_or_begin()		under the lock: adapts the plan to the neighbours (plan_decide()),
 *	  |			evicts regions for it (evict.c), and makes the region, PENDING
 *	add()			the caller's function registers the region, without the lock
 *	  |
 *	publish()		makes it LIVE, with this thread's ref as the first
 *	abandon()		if add() failed, or the memory was freed meanwhile: removes the
 *				region; then there is another attempt, or the get fails
 *
 * The region is in the index while it is PENDING: threads that need the same memory wait for it,
 * and an invalidation finds it.  A region that overlaps others enters the index only when it is
 * registered (pending.h).  In a cache that is off, no region enters it, so no other get finds one.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../base/cancel.h"
#include "../internal.h"
#include "bar1.h"
#include "deferred.h"
#include "evict.h"
#include "lock.h"
#include "miss.h"
#include "pending.h"

#define EVICT_MANY	64	/* idle regions to end when add() reports a full resource */

struct miss {
	struct plan plan;
	struct region *region;		/* begun, PENDING; or found */
	uint64_t state_word;		/* of the region, PENDING */
	bool counted;			/* as a miss */
};

/* ---- beginning ---- */

/* Lock. */
static void begin(struct peerdma_cache *cache, struct miss *m, uint32_t number)
{
	struct region *r = &cache->regions[number];
	const struct plan *plan = &m->plan;
	uint64_t length = plan->to - plan->from;
	uint32_t gen;

	/* The store comes before the load: a load would fault the zero page in first. */
	ord_store(&r->pub.length, length);
	gen = state_gen(ord_load(&r->state_word)) + 1;
	m->region = r;
	m->state_word = STATE_WORD(gen ? gen : 1, STATE_PENDING) | plan->properties |
			(uint64_t)plan->with_access << STATE_ACCESS_AT;
	/* Gets read the range before they hold a ref. */
	ord_store(&r->pub.addr, plan->from);
	/*
	 * Identifies the thread that registers the region.  Any address of thread-local memory
	 * would do.
	 */
	ord_store(&r->pub.registration, &this_thread);
	r->word = NULL;
	/*
	 * The clock's hand counts this get as seen, so a region that is used only once goes first.
	 */
	r->clock = 1;
	ord_store_release(&r->state_word, m->state_word);
	region_count(cache, r, 1);
}

/* Lock.  Adds the region where other threads search for it. */
static void insert(struct peerdma_cache *cache, struct index_place *place, struct miss *m,
		   uint32_t number)
{
	if (cache->off || m->plan.overlapping)
		bar1_charge(cache, m->region);
	else
		region_insert(cache, place, number);
	if (m->plan.overlapping)
		overlapping_add(cache, m->region);
}

/* Lock.  Takes a ref of a region that another thread added after this get had searched. */
static void take_found(struct peerdma_cache *cache, const struct miss *m)
{
	m->region->refs++;
	m->region->gets++;
	cache->stats.late_hits += !m->counted;
}

/* No lock.  0: a number is free now. */
static int more_numbers(struct peerdma_cache *cache, struct thread_cache *tc)
{
	if (regions_more(cache))
		return 0;
	if (deferred_drain(cache, tc) + evict_idle(cache, 1 + cache->capacity / EVICT_SHARE))
		return 0;
	return fail(-ENOBUFS,
		    "peerdma_cache_get: all %u regions that this cache can have are held; "
		    "put some, or give it a greater capacity", cache->capacity);
}

/*
 * PLAN_HIT or PLAN_REGISTER: m->region is the region.  Otherwise *error is set, or the caller calls
 * this again.
 */
static inline enum plan_step find_or_begin(struct peerdma_cache *cache, struct thread_cache *tc,
					   struct miss *m, int *error)
{
	struct index_place *place = tc ? &tc->place : &cache->index.cursor;
	struct teardown evicted = TEARDOWN_NONE;
	enum plan_step step;
	uint32_t number, populate;

	cache_lock(cache);
	step = plan_decide(cache, place, &m->plan, &m->region);
	if (step == PLAN_HIT)
		take_found(cache, m);
	if (step != PLAN_REGISTER) {
		cache_unlock(cache);
		if (step == PLAN_DEADLOCK)
			*error = fail(-EDEADLK, "peerdma_cache_get: %s", m->plan.why);
		return step;
	}
	number = number_take(cache, tc);
	if (number == NO_REGION) {
		cache_unlock(cache);
		*error = more_numbers(cache, tc);
		return PLAN_AGAIN;
	}
	if (cache->limited)
		evict_for(cache, &m->plan, &evicted);
	populate = regions_to_populate(cache, number);
	cache->stats.misses += !m->counted;
	m->counted = true;
	begin(cache, m, number);
	insert(cache, place, m, number);
	if (evicted.count)
		teardown_commit(cache, tc, &evicted);
	cache_unlock(cache);
	if (evicted.count)
		teardown_finish(cache, &evicted);
	if (populate)
		regions_populate(cache, tc, number, populate);
	return PLAN_REGISTER;
}

/* ---- registering ---- */

static int add(struct peerdma_cache *cache, const struct miss *m,
	       struct peerdma_registration *registration)
{
	const struct region *r = m->region;
	uint32_t texts = fail_count();
	int ret;

	memset(registration, 0, sizeof(*registration));
	registration->request = m->plan.request;
	registration->access = m->plan.with_access;
	if (cache->payload) {
		registration->payload = cache->payload +
			(size_t)region_number(cache, r) * cache->payload_step;
		memset(registration->payload, 0, cache->payload_step);
	}
	ret = cache->ops.add(cache->arg, r->pub.addr, r->pub.length, registration);
	return callback_result("add", ret, texts);
}

/* add() failed, or the memory was freed meanwhile.  Removes the region. */
static void __attribute__((noinline)) abandon(struct peerdma_cache *cache, const struct miss *m)
{
	struct region *r = m->region;

	cache_lock(cache);
	if (m->plan.overlapping)
		overlapping_remove(cache, r);
	if (cache->off || m->plan.overlapping)
		bar1_uncharge(cache, r);
	else if (state_of(ord_load(&r->state_word)) == STATE_PENDING)
		region_remove(cache, r);
	region_count(cache, r, -1);
	ord_store(&r->state_word, STATE_WORD(state_gen(ord_load(&r->state_word)), STATE_FREE));
	number_give(cache, region_number(cache, r));
	if (cache->waiting)
		ord_wake_all(&cache->settled);
	cache_unlock(cache);
}

static void undo(struct peerdma_cache *cache, const struct miss *m,
		 const struct peerdma_registration *registration)
{
	cache->ops.remove(cache->arg, m->region->pub.addr, m->region->pub.length,
			  registration->handle);
	abandon(cache, m);
}

/* A line for options.log. */
static void __attribute__((format(printf, 2, 3))) cache_log(const struct peerdma_cache *cache,
							    const char *fmt, ...)
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

static bool is_full(int error)
{
	return error == -ENOSPC || error == -ENOMEM || error == -EMFILE || error == -ENFILE ||
	       error == -EDQUOT || error == -ENOBUFS;
}

/*
 * add() failed, and the region was abandoned.  0: another attempt may succeed, because idle regions
 * were ended or the range is smaller now.
 */
static int __attribute__((noinline)) add_failed(struct peerdma_cache *cache,
						struct thread_cache *tc, struct plan *plan,
						int error)
{
	unsigned long long from = plan->from, to = plan->to;

	/* The memory was freed during add().  Another allocation may be there now. */
	if (error == -ESTALE)
		return plan_extent(cache, plan);
	if (is_full(error) && deferred_drain(cache, tc) + evict_idle(cache, EVICT_MANY))
		cache_log(cache, "add() failed with %d for [0x%llx, 0x%llx): idle regions were removed, and it is called again", error,
			  from, to);
	else if (plan_narrow(cache, plan))
		cache_log(cache, "add() failed with %d for [0x%llx, 0x%llx): it is called for [0x%llx, 0x%llx)", error, from, to,
			  (unsigned long long)plan->own_from, (unsigned long long)plan->own_to);
	else
		return error;
	cache_lock(cache);
	cache->stats.retries++;
	cache_unlock(cache);
	return 0;
}

static int unread_word(struct peerdma_cache *cache, const struct miss *m,
		       const struct peerdma_registration *registration)
{
	undo(cache, m, registration);
	return fail(-EINVAL, "peerdma_cache_get: add() set a word, which no hit would read; set PEERDMA_MONITOR_WORD "
		    "in ops.monitors");
}

/* ---- publishing ---- */

/*
 * Lock.  Puts a registered region that overlaps others into the index, and begins the teardown of
 * the regions that it replaces.
 */
static void replace(struct peerdma_cache *cache, struct region *region, struct teardown *list)
{
	struct index_place *place = &cache->index.cursor;
	struct replaced old = plan_replaced(cache, place, region->pub.addr,
					    region->pub.addr + region->pub.length);

	overlapping_remove(cache, region);
	bar1_uncharge(cache, region);
	cache->stats.merges += old.count;
	while (old.first != NO_REGION) {
		uint32_t number = old.first;

		old.first = cache->regions[number].next;
		teardown_begin(cache, number, list, ENDED_MERGED);
	}
	region_insert(cache, place, region_number(cache, region));
}

/*
 * Counts the first ref in region->refs.  In a cache that is off, the region is DEAD at once, so its
 * last put ends it.
 */
static bool __attribute__((noinline)) publish_locked(struct peerdma_cache *cache,
						     const struct miss *m, uint64_t live)
{
	struct teardown replaced = TEARDOWN_NONE;
	struct region *r = m->region;
	bool done;

	cache_lock(cache);
	done = ord_load(&r->state_word) == m->state_word;
	if (done && m->plan.overlapping)
		replace(cache, r, &replaced);
	if (done && cache->off) {
		live = state_changed(live, STATE_DEAD);
		cache->stats.dead++;
	}
	if (done) {
		r->refs++;
		r->gets++;
		ord_store_release(&r->state_word, live);
		ord_wake_all(&cache->settled);
		teardown_commit(cache, thread_cache_find(cache), &replaced);
	}
	cache_unlock(cache);
	teardown_finish(cache, &replaced);
	return done;
}

/*
 * Makes the region LIVE for other threads.  The first ref is normally counted in the thread's refs,
 * without the lock.  False: an invalidation has killed the region.
 */
static inline bool publish(struct peerdma_cache *cache, struct thread_cache *tc,
			   const struct miss *m, const struct peerdma_registration *registration)
{
	uint64_t live = m->state_word + (STATE_LIVE - STATE_PENDING);
	struct region *r = m->region;
	struct thread_refs *refs;
	uint32_t before, count;

	r->word = registration->word;
	r->expected = registration->expected;
	ord_store(&r->pub.registration, registration->handle);
	refs = tc && !m->plan.overlapping && !cache->off ? refs_meet(tc, r) : NULL;
	if (!refs)
		return publish_locked(cache, m, live);
	/*
	 * The store comes before the load, as in begin().  Only the ender of a LIVE region reads
	 * these refs, so nothing else reads them yet.
	 */
	refs_fill(refs, state_gen(live));
	before = ord_load(&refs->count);
	count = before + COUNT_GET;
	ord_store(&refs->count, count);
	if (!ord_replace(&r->state_word, m->state_word, live)) {
		ord_store(&refs->gen, 0);
		ord_store_release(&refs->count, before);
		return false;
	}
	if (COUNT_FULL(count))
		refs_spill(tc, region_number(cache, r));
	pending_settled(cache);
	return true;
}

/* ---- all of it ---- */

void miss_failed(struct peerdma_cache *cache, bool counted)
{
	cache_lock(cache);
	cache->stats.misses += !counted;
	cache->stats.failures++;
	cache_unlock(cache);
}

void miss_found_stale(struct peerdma_cache *cache)
{
	cache_lock(cache);
	cache->stats.late_hits--;
	cache_unlock(cache);
}

static int make(struct peerdma_cache *cache, struct thread_cache *tc, struct request *request,
		struct region **out)
{
	struct miss m = {
		.plan = { .addr = request->addr, .last = request->addr + request->length - 1,
			  .access = request->access,
			  .request = request->request },
		.counted = request->counted,
	};
	struct peerdma_registration registration;
	enum plan_step step;
	int ret;

	deferred_drain(cache, tc);
	ret = plan_extent(cache, &m.plan);
	for (int tries = 0; !ret && tries < MISS_TRIES;) {
		step = find_or_begin(cache, tc, &m, &ret);
		if (step == PLAN_HIT) {
			request->counted = m.counted;
			*out = m.region;
			return 0;
		}
		if (step != PLAN_REGISTER)
			continue;
		tries++;
		ret = add(cache, &m, &registration);
		if (ret) {
			abandon(cache, &m);
			ret = add_failed(cache, tc, &m.plan, ret);
		} else if (registration.word && !cache->monitored) {
			ret = unread_word(cache, &m, &registration);
		} else if (publish(cache, tc, &m, &registration)) {
			request->counted = true;
			*out = m.region;
			return 0;
		} else {
			undo(cache, &m, &registration);
			ret = plan_extent(cache, &m.plan);
		}
	}
	if (!ret)
		ret = fail(-ESTALE, "peerdma_cache_get: [0x%llx, +%llu): freed during the call, again and again",
			   (unsigned long long)request->addr, (unsigned long long)request->length);
	miss_failed(cache, m.counted);
	return ret;
}

/*
 * A thread that is cancelled in add(), or in the wait for another thread's add(), would leave the
 * region PENDING and other threads waiting.
 */
int miss(struct peerdma_cache *cache, struct thread_cache *tc, struct request *request,
	 struct region **out)
{
	int was = cancel_off(), ret;
	uint32_t texts = attempt_begin();

	/* If a get succeeds at last, removes the error texts of its failed attempts. */
	ret = attempt_end(texts, make(cache, tc, request, out));
	cancel_back(was);
	return ret;
}
