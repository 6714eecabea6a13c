// SPDX-License-Identifier: MIT
/*
 * get.c - the hit: a region is held, and given back.
 */
#include "../base/cancel.h"
#include "../internal.h"
#include "state.h"
#include "lock.h"
#include "calls.h"
#include "front.h"

#define REQUEST_FIRST	END_OF(struct peerdma_cache_request, reserved)
/* A line of instructions begins with it: where it lay instead, a hit took up to a third longer. */
#define HOT	__attribute__((aligned(64)))

/* ---- put ---- */

static void __attribute__((noinline)) spill(struct peerdma_cache *cache, struct front *f, uint32_t number)
{
	cache_lock(cache);
	front_spill(f, number);
	cache_unlock(cache);
}

static void __attribute__((noinline)) put_without_front(struct peerdma_cache *cache, struct region *region)
{
	cache_lock(cache);
	region->holds--;
	cache_unlock(cache);
	end_last_hold(cache, region_number(cache, region));
}

/* Given back where it is not the common case.  done: what hold_give() said. */
static void __attribute__((noinline)) put_slowly(struct peerdma_cache *cache, struct front *f, struct region *region,
						 enum hold done)
{
	struct record *record = front_meet(f, region);

	/* This thread puts the region for the first time, or the last hold of all is put. */
	if (done == HOLD_NO && hold_given(record, &region->life) == HOLD_UNDONE)
		end_last_hold(cache, region_number(cache, region));
	if (WORD_LOW(ord_load(&record->word)))
		spill(cache, f, region_number(cache, region));
}

/* If the front in front_words may belong to another cache, or fences are needed. */
static void __attribute__((noinline)) put_carefully(struct peerdma_cache *cache, struct region *region)
{
	struct front *f;
	struct record *record;
	enum hold done;
	uint32_t word;

	if (cache_foreign(cache) || ord_load(&cache->closing))
		return;
	f = front_if_any(cache);
	if (!f)
		f = front_of(cache);
	if (f && ord_load(&f->marked))
		drain_now(cache, f);
	if (f && !f->fence)
		front_hurry(f);
	record = f ? front_meet(f, region) : NULL;
	if (!record) {
		put_without_front(cache, region);
		return;
	}
	done = hold_give(record, f->fence, &word);
	if (done != HOLD_YES || WORD_LOW(word))
		put_slowly(cache, f, region, done);
}

static void __attribute__((noinline)) put_given(struct peerdma_cache *cache, struct region *region)
{
	if (!cache_foreign(cache))
		put_slowly(cache, front_if_any(cache), region, HOLD_NO);
}

static void __attribute__((noinline)) put_low(struct peerdma_cache *cache, struct region *region)
{
	put_slowly(cache, front_if_any(cache), region, HOLD_YES);
}

/* As a hit, this saves no register: all that is not the common case is a call at its end. */
EXPORT HOT void peerdma_cache_put(struct peerdma_cache *cache, struct peerdma_cached *hold)
{
	struct region *region = (struct region *)hold;
	struct front *f;
	uint64_t gate;
	uint32_t word;

	if (__builtin_expect(!cache || !hold, 0))
		return;
	gate = cache_gate(cache);
	f = front_words.front[gate % FRONT_WORDS];
	if (__builtin_expect(ord_load(&f->put_serial) != gate, 0))
		put_carefully(cache, region);
	else if (__builtin_expect(hold_give(record_of(f, region), false, &word) == HOLD_NO, 0))
		put_given(cache, region);
	else if (__builtin_expect(WORD_LOW(word), 0))
		put_low(cache, region);
}

/* ---- get ---- */

static bool __attribute__((noinline)) gone(struct peerdma_cache *cache, struct region *region, uint64_t life)
{
	if (life_state(life) == STATE_LIVE)
		end_stale(cache, front_if_any(cache), region, life);
	put_carefully(cache, region);
	return false;
}

/* Held: a thread that ended here would hold it for ever. */
static bool asked(struct peerdma_cache *cache, const struct region *region, uint64_t addr, uint64_t length)
{
	int was = cancel_off();
	bool good = cache->ops.check(cache->arg, &region->pub, addr, length);

	cancel_back(was);
	return good;
}

/* Held; but is it still what is at this address?  If not, the hold is given back. */
static inline bool still_good(struct peerdma_cache *cache, struct region *region, uint64_t addr, uint64_t length)
{
	uint64_t life = ord_load(&region->life);
	bool good = !region->word || ord_load_acquire(region->word) == region->expected;

	if (good && cache->ops.check && !(cache->word_will_do && region->word))
		/* That of pins takes care itself, where there is something to be cancelled. */
		good = cache->word_will_do ? cache->ops.check(cache->arg, &region->pub, addr, length) :
		       asked(cache, region, addr, length);
	return __builtin_expect(good, 1) || gone(cache, region, life);
}

/* In the index, without the lock.  The index may be wrong, and the region another by now: held, it is looked at again. */
static struct region *find(struct peerdma_cache *cache, struct front *f, uint64_t addr, uint64_t last, uint32_t access)
{
	uint32_t entry = index_floor(&cache->index, &f->place, addr), number = entry_number(entry), word;
	struct record *record;
	struct region *region;
	bool first;
	uint64_t life;

	if (!entry_may_reach(entry, f->place.key, addr) || number >= ord_load(&cache->ready))
		return NULL;
	region = &cache->regions[number];
	life = ord_load_acquire(&region->life);
	if (life_state(life) != STATE_LIVE || access & ~life_access(life) || !region_covers(region, addr, last))
		return NULL;
	record = front_meet(f, region);
	if (!record)
		return NULL;
	first = ord_load(&record->gen) != life_gen(life);
	if (!first && hold_take(record, f->fence, &word) == HOLD_UNDONE) {
		hold_untake(record, word);
		end_last_hold(cache, number);
		return NULL;
	}
	if (first && hold_take_first(record, &region->life, life) == HOLD_UNDONE) {
		end_last_hold(cache, number);
		return NULL;
	}
	if (WORD_FULL(ord_load(&record->word)))
		spill(cache, f, number);
	if (!region_covers(region, addr, last)) {
		put_carefully(cache, region);
		return NULL;
	}
	/* A thread's table has only what will do for all who do not say what they want. */
	if (!(cache->options.access & ~life_access(life)))
		front_remember(f, region, addr);
	return region;
}

/* Makes one, which may be stale at once; hence several. */
static int make_good(struct peerdma_cache *cache, struct front *f, struct asked *asked, struct peerdma_cached **hold)
{
	struct region *region;
	int ret;

	for (int tries = 0; tries < GET_TRIES; tries++) {
		ret = region_make(cache, f, asked, &region);
		if (ret)
			return ret;
		if (!cache->monitored || still_good(cache, region, asked->addr, asked->length)) {
			*hold = &region->pub;
			return 0;
		}
		if (!asked->counted)
			miss_after_all(cache);
	}
	miss_failed(cache, asked->counted);
	return fail(-ESTALE, "peerdma_cache_get: [0x%llx, +%llu): each of %d new registrations was stale at once, by check() or by "
		    "its word", (unsigned long long)asked->addr, (unsigned long long)asked->length, GET_TRIES);
}

/* What no slot knows. */
static int __attribute__((noinline)) get_asked(struct peerdma_cache *cache, struct asked *asked, struct peerdma_cached **hold)
{
	struct front *f = front_words.front[cache_gate(cache) % FRONT_WORDS];
	uint64_t addr = asked->addr, length = asked->length;
	struct region *region;
	int ret;

	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_get");
	ret = check_range("peerdma_cache_get", addr, length);
	if (ret)
		return ret;
	if (gate_closed(cache))
		invalidate_left(cache);
	if (f->serial != cache_serial(cache))
		f = front_of(cache);
	if (f) {
		if (ord_load(&f->marked))
			drain_now(cache, f);
		region = find(cache, f, addr, addr + length - 1, asked->access);
		if (region && (!cache->monitored || still_good(cache, region, addr, length))) {
			ord_store(&f->index_hits, f->index_hits + 1);
			*hold = &region->pub;
			return 0;
		}
	}
	return make_good(cache, f, asked, hold);
}

static int __attribute__((noinline)) get_slowly(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						struct peerdma_cached **hold)
{
	struct asked asked = { .addr = addr, .length = length, .access = cache->options.access };

	return get_asked(cache, &asked, hold);
}

/* Taken, but the region ended, just now or long ago. */
static int __attribute__((noinline)) get_undone(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						struct peerdma_cached **hold, struct record *record)
{
	struct front *f = front_words.front[cache_gate(cache) % FRONT_WORDS];

	hold_untake(record, ord_load(&record->word));
	end_last_hold(cache, (uint32_t)(record - f->records));
	return get_slowly(cache, addr, length, hold);
}

static int __attribute__((noinline)) get_full(struct peerdma_cache *cache, struct peerdma_cached *hold)
{
	spill(cache, front_if_any(cache), region_number(cache, (struct region *)hold));
	return 0;
}

/* In the thread's table, where fences may be needed, or something must be looked at first.  NULL: not there, or not any more. */
static inline __attribute__((always_inline)) struct region *front_get(struct peerdma_cache *cache, struct front *f,
								      uint64_t addr, uint64_t length)
{
	struct region *region;
	struct record *record;
	uint32_t word, at;

	if (gate_closed(cache) && !cache_foreign(cache))
		invalidate_left(cache);
	if (ord_load(&f->marked) && !cache_foreign(cache))
		drain_now(cache, f);
	at = *front_slot(f, addr, front_words.block[f->serial % FRONT_WORDS]);
	if (!covered_at(f, at, addr, length) && !front_look(f, addr, length, &at))
		return NULL;
	region = region_at(f, at);
	record = record_at(f, at);
	if (hold_take(record, f->fence, &word) == HOLD_UNDONE) {
		hold_untake(record, ord_load(&record->word));
		end_last_hold(cache, region_number(cache, region));
		return NULL;
	}
	if (WORD_FULL(word))
		spill(cache, f, region_number(cache, region));
	if (f->monitored && !still_good(cache, region, addr, length))
		return NULL;
	ord_store(&f->hits, f->hits + 1);
	return region;
}

/* Where it takes more, or the thread's word is another cache's. */
static int __attribute__((noinline)) get_carefully(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						   struct peerdma_cached **hold)
{
	struct front *f = front_words.front[cache_gate(cache) % FRONT_WORDS];
	struct region *region;

	if (f->serial != cache_serial(cache))
		f = front_if_any(cache);
	region = f ? front_get(cache, f, addr, length) : NULL;
	if (!region)
		return get_slowly(cache, addr, length, hold);
	*hold = &region->pub;
	return 0;
}

static inline int get_known(struct peerdma_cache *cache, struct front *f, uint32_t at, uint64_t addr, uint64_t length,
			    struct peerdma_cached **hold)
{
	struct record *record = record_at(f, at);
	uint32_t word;

	if (__builtin_expect(hold_take(record, false, &word) == HOLD_UNDONE, 0))
		return get_undone(cache, addr, length, hold, record);
	ord_store(&f->hits, f->hits + 1);
	*hold = &region_at(f, at)->pub;
	return __builtin_expect(WORD_FULL(word), 0) ? get_full(cache, *hold) : 0;
}

/* Blocks are of another size here than they were at the last hit, or two regions are in this one. */
static int __attribute__((noinline)) get_elsewhere(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						   struct peerdma_cached **hold)
{
	struct front *f = front_words.front[cache_gate(cache) % FRONT_WORDS];
	uint32_t at;

	if (!front_look(f, addr, length, &at))
		return get_slowly(cache, addr, length, hold);
	return get_known(cache, f, at, addr, length, hold);
}

static int __attribute__((noinline)) get_refused(const struct peerdma_cache *cache, struct peerdma_cached **hold)
{
	return check_given("peerdma_cache_get", "cache", cache, "hold", hold, NULL);
}

/* As put. */
EXPORT HOT int peerdma_cache_get(struct peerdma_cache *cache, const void *ptr, size_t length,
			     struct peerdma_cached **hold)
{
	uint64_t gate, addr = (uintptr_t)ptr;
	struct front *f;
	uint32_t at;

	if (__builtin_expect(!cache || !hold, 0))
		return get_refused(cache, hold);
	gate = cache_gate(cache);
	f = front_words.front[gate % FRONT_WORDS];
	if (__builtin_expect(ord_load(&f->get_serial) != gate, 0))
		return get_carefully(cache, addr, length, hold);
	at = *front_slot(f, addr, front_words.block[gate % FRONT_WORDS]);
	if (__builtin_expect(!covered_at(f, at, addr, length), 0))
		return get_elsewhere(cache, addr, length, hold);
	return get_known(cache, f, at, addr, length, hold);
}

EXPORT int peerdma_cache_get_with(struct peerdma_cache *cache, const void *ptr, size_t length,
				  const struct peerdma_cache_request *request, struct peerdma_cached **hold)
{
	struct peerdma_cache_request r;
	struct asked asked = { .addr = (uintptr_t)ptr, .length = length, .request = &r };
	struct region *region;
	struct front *f;
	int ret = check_given("peerdma_cache_get_with", "cache", cache, "request", request, "hold", hold, NULL);

	if (!ret)
		ret = take_in("peerdma_cache_get_with", &r, sizeof(r), REQUEST_FIRST, request);
	if (ret)
		return ret;
	f = front_words.front[cache_gate(cache) % FRONT_WORDS];
	if (r.flags & ~PEERDMA_REQUEST_DMABUF || r.access & ~cache->access_all || !all_zero(r.reserved, sizeof(r.reserved)))
		return fail(-EINVAL, "peerdma_cache_get_with: flags 0x%x, access 0x%x: this cache knows flags 0x%x and access 0x%x; and "
			    "reserved fields are 0", r.flags, r.access, PEERDMA_REQUEST_DMABUF, cache->access_all);
	/* What is in the thread's table has what peerdma_cache_get() asks for. */
	if (f->serial != cache_serial(cache))
		f = front_if_any(cache);
	if (f && !(r.access & ~cache->options.access)) {
		region = front_get(cache, f, asked.addr, asked.length);
		if (region) {
			*hold = &region->pub;
			return 0;
		}
	}
	asked.access = r.access;
	return get_asked(cache, &asked, hold);
}

EXPORT void *peerdma_cache_payload(const struct peerdma_cache *cache, const struct peerdma_cached *hold)
{
	if (!cache || !hold)
		return NULL;
	return cache->payload + (size_t)region_number(cache, (const struct region *)hold) * cache->payload_step;
}
