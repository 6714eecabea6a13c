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

/* The first time that this thread gives back this region, or the last time that anybody does. */
static void __attribute__((noinline)) put_slowly(struct peerdma_cache *cache, struct front *f, struct region *region,
						 enum hold done)
{
	uint32_t number = region_number(cache, region);

	if (cache_foreign(cache))
		return;
	if (!f)
		f = front_of(cache);
	if (!f) {
		put_without_front(cache, region);
		return;
	}
	if (done == HOLD_NO)
		done = hold_give_first(&f->records[number], &region->life);
	if (done == HOLD_UNDONE)
		end_last_hold(cache, number);
	if (WORD_LOW(ord_load(&f->records[number].word)))
		spill(cache, f, number);
}

/* With a front that may be anybody's, or need fences. */
static void __attribute__((noinline)) put_carefully(struct peerdma_cache *cache, struct region *region)
{
	struct front *f = front_if_any(cache);
	enum hold done = HOLD_NO;
	uint32_t word = WORD_START;

	if (f)
		done = hold_give(&f->records[region_number(cache, region)], f->fence, &word);
	if (done != HOLD_YES || WORD_LOW(word))
		put_slowly(cache, f, region, done);
}

static void __attribute__((noinline)) put_undone(struct peerdma_cache *cache, struct region *region)
{
	put_slowly(cache, front_if_any(cache), region, HOLD_UNDONE);
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
	struct record *record = &f->records[(uint32_t)(region - f->regions)];
	enum hold done;
	uint32_t word;

	if (__builtin_expect(f->serial != cache->serial || f->fence, 0)) {
		put_carefully(cache, region);
		return;
	}
	done = hold_give(record, false, &word);
	if (__builtin_expect(done == HOLD_NO, 0))
		put_carefully(cache, region);
	else if (__builtin_expect(done == HOLD_UNDONE, 0))
		put_undone(cache, region);
	else if (__builtin_expect(WORD_LOW(word), 0))
		put_low(cache, region);
}

/* ---- get ---- */

/* Held; but is it still what is at this address?  If not, the hold is given back. */
static bool still_good(struct peerdma_cache *cache, struct region *region, uint64_t addr, uint64_t length)
{
	uint64_t life = ord_load(&region->life);
	bool good = !region->word || ord_load_acquire(region->word) == region->expected;

	if (good && cache->ops.check && !(cache->word_will_do && region->word))
		good = cache->ops.check(cache->arg, &region->pub, addr, length);
	if (good)
		return true;
	if (life_state(life) == STATE_LIVE)
		end_stale(cache, region, life);
	put_carefully(cache, region);
	return false;
}

/* In the index, without the lock.  The index may be wrong, and the region another by now: held, it is looked at again. */
static struct region *find(struct peerdma_cache *cache, struct front *f, uint64_t addr, uint64_t last)
{
	uint32_t entry = index_floor(&cache->index, &f->place, addr), number = entry_number(entry), word;
	struct record *record;
	struct region *region;
	enum hold hold;
	uint64_t life;

	if (!entry_may_reach(entry, f->place.key, addr) || number >= cache->capacity)
		return NULL;
	region = &cache->regions[number];
	record = &f->records[number];
	life = ord_load_acquire(&region->life);
	if (life_state(life) != STATE_LIVE || !region_covers(region, addr, last))
		return NULL;
	hold = ord_load(&record->gen) == life_gen(life) ? hold_take(record, f->fence, &word) : HOLD_NO;
	if (hold == HOLD_NO)
		hold = hold_take_first(record, &region->life, life);
	if (hold == HOLD_UNDONE) {
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

/* f: what is in the thread's word, whosever that is. */
static int __attribute__((noinline)) get_slowly(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						struct peerdma_cached **hold, struct front *f)
{
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

static int __attribute__((noinline)) get_undone(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						struct peerdma_cached **hold, uint32_t number)
{
	end_last_hold(cache, number);
	return get_slowly(cache, addr, length, hold, front_words[cache->serial % FRONT_WORDS]);
}

static int __attribute__((noinline)) get_full(struct peerdma_cache *cache, uint32_t number)
{
	spill(cache, front_if_any(cache), number);
	return 0;
}

/* Where fences are needed, or something must be looked at first. */
static int __attribute__((noinline)) get_carefully(struct peerdma_cache *cache, uint64_t addr, uint64_t length,
						   struct peerdma_cached **hold, uint32_t number)
{
	struct front *f = front_words[cache->serial % FRONT_WORDS];
	struct region *region = &f->regions[number];
	uint32_t word;

	switch (hold_take(&f->records[number], f->fence, &word)) {
	case HOLD_YES:
		break;
	case HOLD_UNDONE:
		end_last_hold(cache, number);
		/* fall through */
	default:
		return get_slowly(cache, addr, length, hold, f);
	}
	if (WORD_FULL(word))
		spill(cache, f, number);
	if (f->monitored && !still_good(cache, region, addr, length))
		return get_slowly(cache, addr, length, hold, f);
	ord_store(&f->hits, f->hits + 1);
	*hold = &region->pub;
	return 0;
}

EXPORT int peerdma_cache_get(struct peerdma_cache *cache, const void *ptr, size_t length,
			     struct peerdma_cached **hold)
{
	struct front *f = front_words[cache->serial % FRONT_WORDS];
	uint64_t addr = (uintptr_t)ptr, page = addr >> RANGE_SHIFT;
	uint64_t last = (addr + length - 1) >> RANGE_SHIFT;
	struct record *record;
	uint32_t word, number;
	enum hold done;

	if (__builtin_expect(f->serial != cache->serial, 0))
		return get_slowly(cache, addr, length, hold, f);
	number = *front_slot(f, page);
	record = &f->records[number];
	if (__builtin_expect(!range_covers(record->range, page, last) || !length, 0))
		return get_slowly(cache, addr, length, hold, f);
	if (__builtin_expect(f->careful, 0))
		return get_carefully(cache, addr, length, hold, number);
	done = hold_take(record, false, &word);
	if (__builtin_expect(done == HOLD_NO, 0))
		return get_slowly(cache, addr, length, hold, f);
	if (__builtin_expect(done == HOLD_UNDONE, 0))
		return get_undone(cache, addr, length, hold, number);
	ord_store(&f->hits, f->hits + 1);
	*hold = &f->regions[number].pub;
	return __builtin_expect(WORD_FULL(word), 0) ? get_full(cache, number) : 0;
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
