// SPDX-License-Identifier: MIT
/*
 * get.c - the hit: a region is held, and given back.
 */
#include "../internal.h"
#include "cache.h"
#include "calls.h"
#include "front.h"

/* ---- put ---- */

static void __attribute__((noinline)) spill(struct peerdma_cache *cache, struct front *f, uint32_t number)
{
	ord_lock(&cache->lock);
	front_spill(f, number);
	ord_unlock(&cache->lock);
}

static void __attribute__((noinline)) put_without_front(struct peerdma_cache *cache, struct region *region)
{
	ord_lock(&cache->lock);
	region->holds--;
	ord_unlock(&cache->lock);
	end_last_hold(cache, region_number(cache, region));
}

/* Given back where it is not the common case.  done: what hold_give() said. */
static void __attribute__((noinline)) put_slowly(struct peerdma_cache *cache, struct front *f, struct region *region,
						 enum hold done)
{
	struct record *record = record_of(f, region);

	/* The first time that this thread gives back this region, or the last time that anybody does. */
	if (done == HOLD_NO && hold_given(record, &region->life) == HOLD_UNDONE)
		end_last_hold(cache, region_number(cache, region));
	if (WORD_LOW(ord_load(&record->word)))
		spill(cache, f, region_number(cache, region));
}

/* With a front that may be anybody's, or need fences. */
static void __attribute__((noinline)) put_carefully(struct peerdma_cache *cache, struct region *region)
{
	struct front *f = front_if_any(cache);
	enum hold done;
	uint32_t word;

	if (cache_foreign(cache))
		return;
	if (!f)
		f = front_of(cache);
	if (!f) {
		put_without_front(cache, region);
		return;
	}
	done = hold_give(record_of(f, region), f->fence, &word);
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
EXPORT void peerdma_cache_put(struct peerdma_cache *cache, struct peerdma_cached *hold)
{
	struct front *f = front_words[cache->serial % FRONT_WORDS];
	struct region *region = (struct region *)hold;
	uint32_t word;

	if (__builtin_expect(f->put_serial != cache->serial, 0))
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
		end_stale(cache, region, life);
	put_carefully(cache, region);
	return false;
}

/* Held; but is it still what is at this address?  If not, the hold is given back. */
static inline bool still_good(struct peerdma_cache *cache, struct region *region, uint64_t addr, uint64_t length)
{
	uint64_t life = ord_load(&region->life);
	bool good = !region->word || ord_load_acquire(region->word) == region->expected;

	if (good && cache->ops.check && !(cache->word_will_do && region->word))
		good = cache->ops.check(cache->arg, &region->pub, addr, length);
	return __builtin_expect(good, 1) || gone(cache, region, life);
}

/* In the index, without the lock.  The index may be wrong, and the region another by now: held, it is looked at again. */
static struct region *find(struct peerdma_cache *cache, struct front *f, uint64_t addr, uint64_t last)
{
	uint32_t entry = index_floor(&cache->index, &f->place, addr), number = entry_number(entry), word;
	struct record *record;
	struct region *region;
	bool first;
	uint64_t life;

	if (!entry_may_reach(entry, f->place.key, addr) || number >= cache->capacity)
		return NULL;
	region = &cache->regions[number];
	record = record_of(f, region);
	life = ord_load_acquire(&region->life);
	if (life_state(life) != STATE_LIVE || !region_covers(region, addr, last))
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
	front_remember(f, region, addr);
	return region;
}

/* What no slot knows. */
static int __attribute__((noinline)) get_slowly(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						struct peerdma_cached **hold)
{
	struct front *f = front_words[cache->serial % FRONT_WORDS];
	struct region *region;
	int ret;

	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_get");
	if (!length || addr + (length - 1) < addr)
		return fail(-EINVAL, "peerdma_cache_get: [0x%llx, +%llu) is empty or wraps",
			    (unsigned long long)addr, (unsigned long long)length);
	if (f->serial != cache->serial)
		f = front_of(cache);
	if (f) {
		region = find(cache, f, addr, addr + length - 1);
		if (region && (!cache->monitored || still_good(cache, region, addr, length))) {
			ord_store(&f->index_hits, f->index_hits + 1);
			*hold = &region->pub;
			return 0;
		}
	}
	do {
		ret = region_make(cache, f, addr, length, &region);
		if (ret)
			return ret;
	} while (cache->monitored && !still_good(cache, region, addr, length));
	*hold = &region->pub;
	return 0;
}

static inline struct region *region_at(const struct front *f, uint32_t at)
{
	return (struct region *)((char *)f->regions + (uint64_t)at * RECORDS_STEP);
}

/* Taken, but the region ended, just now or long ago. */
static int __attribute__((noinline)) get_undone(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						struct peerdma_cached **hold, struct record *record)
{
	struct front *f = front_words[cache->serial % FRONT_WORDS];

	hold_untake(record, ord_load(&record->word));
	end_last_hold(cache, (uint32_t)(record - f->records));
	return get_slowly(cache, addr, length, hold);
}

static int __attribute__((noinline)) get_full(struct peerdma_cache *cache, struct peerdma_cached *hold)
{
	spill(cache, front_if_any(cache), region_number(cache, (struct region *)hold));
	return 0;
}

/* Where fences are needed, or something must be looked at first, or the thread's word is another cache's. */
static int __attribute__((noinline)) get_carefully(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						   struct peerdma_cached **hold)
{
	struct front *f = front_words[cache->serial % FRONT_WORDS];
	struct region *region;
	struct record *record;
	uint32_t word;

	if (f->serial != cache->serial)
		return get_slowly(cache, addr, length, hold);
	region = region_at(f, *front_slot(f, addr));
	record = record_of(f, region);
	if (!range_covers(ord_load(&record->range), addr, length))
		return get_slowly(cache, addr, length, hold);
	if (hold_take(record, f->fence, &word) == HOLD_UNDONE)
		return get_undone(cache, addr, length, hold, record);
	if (WORD_FULL(word))
		spill(cache, f, region_number(cache, region));
	if (f->monitored && !still_good(cache, region, addr, length))
		return get_slowly(cache, addr, length, hold);
	ord_store(&f->hits, f->hits + 1);
	*hold = &region->pub;
	return 0;
}

/* As put. */
EXPORT int peerdma_cache_get(struct peerdma_cache *cache, const void *ptr, size_t length,
			     struct peerdma_cached **hold)
{
	struct front *f = front_words[cache->serial % FRONT_WORDS];
	uint64_t addr = (uintptr_t)ptr;
	struct record *record;
	uint32_t word, at;

	if (__builtin_expect(f->get_serial != cache->serial, 0))
		return get_carefully(cache, addr, length, hold);
	at = *front_slot(f, addr);
	record = (struct record *)((char *)f->records + at);
	if (__builtin_expect(!range_covers(ord_load(&record->range), addr, length), 0))
		return get_slowly(cache, addr, length, hold);
	if (__builtin_expect(hold_take(record, false, &word) == HOLD_UNDONE, 0))
		return get_undone(cache, addr, length, hold, record);
	ord_store(&f->hits, f->hits + 1);
	*hold = &region_at(f, at)->pub;
	return __builtin_expect(WORD_FULL(word), 0) ? get_full(cache, *hold) : 0;
}

EXPORT int peerdma_cache_get_many(struct peerdma_cache *cache, const struct peerdma_range *ranges, size_t n,
			   struct peerdma_cached **holds)
{
	for (size_t i = 0; i < n; i++) {
		int ret = peerdma_cache_get(cache, (void *)(uintptr_t)ranges[i].addr, ranges[i].length, &holds[i]);

		if (ret) {
			while (i--)
				peerdma_cache_put(cache, holds[i]);
			return ret;
		}
	}
	return 0;
}

EXPORT int peerdma_cache_prefetch(struct peerdma_cache *cache, const void *ptr, size_t length)
{
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, ptr, length, &hold);

	if (!ret)
		peerdma_cache_put(cache, hold);
	return ret;
}
