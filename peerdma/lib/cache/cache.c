// SPDX-License-Identifier: MIT
/*
 * cache.c - the calls of peerdma_cache.h, and the hit.
 */
#include <stdlib.h>
#include <string.h>

#include "../internal.h"
#include "cache.h"
#include "front.h"
#include "totals.h"

#define CAPACITY_DEFAULT	(1U << 20)
#define CAPACITY_MAX		ENTRY_NUMBERS
#define GRANULARITY_MIN		(1U << RANGE_SHIFT)
#define GRANULARITY_MAX		(1U << 30)

#define OPTIONS_FIRST	END_OF(struct peerdma_cache_options, reserved)
#define OPS_FIRST	END_OF(struct peerdma_cache_ops, check)
#define COUNTERS_FIRST	END_OF(struct peerdma_cache_counters, reserved)

static bool foreign(const struct peerdma_cache *cache)
{
	return __builtin_expect(cache->process != process_id(), 0);
}

static int refuse(const char *call)
{
	return fail(-EPERM, "%s: this cache was made by a parent process and holds that process's memory; "
		    "make one in this process", call);
}

/* ---- making and closing ---- */

static int options_check(const struct peerdma_cache_options *o)
{
	int ret = check_size("peerdma_cache_create", o->size, OPTIONS_FIRST);

	if (ret)
		return ret;
	if (o->flags & ~(PEERDMA_CACHE_WHOLE | PEERDMA_CACHE_READONLY | PEERDMA_CACHE_CALLS | PEERDMA_CACHE_STAGING))
		return fail(-EINVAL, "peerdma_cache_create: unknown flags 0x%x", o->flags);
	if (o->granularity && (o->granularity & (o->granularity - 1) || o->granularity < GRANULARITY_MIN ||
			       o->granularity > GRANULARITY_MAX))
		return fail(-EINVAL, "peerdma_cache_create: granularity %u is not a power of two from %u to %u",
			    o->granularity, GRANULARITY_MIN, GRANULARITY_MAX);
	if (o->capacity > CAPACITY_MAX)
		return fail(-EINVAL, "peerdma_cache_create: capacity %u is above %u", o->capacity, CAPACITY_MAX);
	return 0;
}

EXPORT int peerdma_cache_create(const struct peerdma_cache_ops *ops, void *arg,
			 const struct peerdma_cache_options *options, struct peerdma_cache **out)
{
	static uint64_t serials;
	struct peerdma_cache_options o = { .size = sizeof(o) };
	struct peerdma_cache *cache;
	void *nodes;
	int ret;

	if (options) {
		ret = options_check(options);
		if (ret)
			return ret;
		memcpy(&o, options, END_OF(struct peerdma_cache_options, reserved));
	}
	ret = check_size("peerdma_cache_create", ops->size, OPS_FIRST);
	if (ret)
		return ret;
	if (ops->monitors & ~PEERDMA_MONITOR_WORD)
		return fail(-EINVAL, "peerdma_cache_create: ops->monitors is 0 or PEERDMA_MONITOR_WORD");
	if (!ops->add || !ops->remove)
		return fail(-EINVAL, "peerdma_cache_create: add() and remove() are needed");
	if (!o.capacity)
		o.capacity = CAPACITY_DEFAULT;
	if (!o.granularity)
		o.granularity = GRANULARITY_MIN;

	cache = aligned_alloc(64, (sizeof(*cache) + 63) / 64 * 64);
	if (!cache)
		return fail(-ENOMEM, "peerdma_cache_create: out of memory");
	memset(cache, 0, sizeof(*cache));
	cache->regions = memory_get(o.capacity * sizeof(struct region), false);
	nodes = memory_get(index_size(o.capacity), false);
	if (!cache->regions || !nodes) {
		memory_put(nodes, index_size(o.capacity));
		memory_put(cache->regions, o.capacity * sizeof(struct region));
		free(cache);
		return fail(-ENOMEM, "peerdma_cache_create: no address space for %u regions (ulimit -v?); give a smaller capacity",
			    o.capacity);
	}
	index_init(&cache->index, nodes, o.capacity);
	memcpy(&cache->ops, ops, OPS_FIRST);
	cache->arg = arg;
	cache->options = o;
	cache->capacity = o.capacity;
	cache->granule_shift = (uint8_t)__builtin_ctz(o.granularity);
	cache->process = process_id();
	cache->fence = !ord_fence_others_works();
	cache->monitored = ops->check || ops->monitors;
	cache->limited = o.max_regions || o.max_bytes || o.max_aperture;
	cache->free = cache->returned = NO_REGION;
	cache->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	pthread_mutex_init(&cache->lock, NULL);
	pthread_cond_init(&cache->settled, NULL);
	/* Last: it may be told of a free at once. */
	cache->hooked = cache_hooks_begin(cache);
	cache_seen_begin(cache);
	*out = cache;
	return 0;
}

EXPORT void peerdma_cache_close(struct peerdma_cache *cache)
{
	bool owner;

	if (!cache)
		return;
	owner = !foreign(cache);
	if (cache->hooked)
		cache_hooks_end(cache);
	if (owner) {
		cache_seen_end(cache);
		fronts_orphan(cache);
		for (uint32_t i = 0; i < cache->used; i++) {
			struct region *r = &cache->regions[i];

			if (life_state(r->life) == STATE_LIVE || life_state(r->life) == STATE_DEAD)
				cache->ops.remove(cache->arg, r->pub.addr, r->pub.length, r->pub.registration);
		}
	}
	if (cache->closed)
		cache->closed(cache->arg);
	memory_put(cache->index.nodes, index_size(cache->capacity));
	memory_put(cache->regions, cache->capacity * sizeof(struct region));
	if (owner) {
		pthread_cond_destroy(&cache->settled);
		pthread_mutex_destroy(&cache->lock);
	}
	free(cache);
}

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

	if (foreign(cache))
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

	if (foreign(cache))
		return refuse("peerdma_cache_get");
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

/* ---- ending from outside ---- */

struct gathering {
	struct peerdma_cache *cache;
	uint32_t first, count;		/* through region->next, the last address first */
};

static bool gather(void *arg, uint32_t entry)
{
	struct gathering *g = arg;
	uint32_t number = entry_number(entry);

	g->cache->regions[number].next = g->first;
	g->first = number;
	g->count++;
	return true;
}

EXPORT int peerdma_cache_invalidate(struct peerdma_cache *cache, const void *ptr, size_t length)
{
	struct gathering g = { cache, NO_REGION, 0 };
	struct ending list = ENDING_NONE;
	uint64_t addr = (uintptr_t)ptr, end = addr + length;
	uint32_t number;

	if (foreign(cache))
		return refuse("peerdma_cache_invalidate");
	if (end < addr)
		end = UINT64_MAX;
	if (end == addr)
		return 0;
	ord_lock(&cache->lock);
	regions_touched(cache, &cache->index.finger, addr, end, gather, &g);
	/* From the end: the index has least to move so. */
	while ((number = g.first) != NO_REGION) {
		g.first = cache->regions[number].next;
		end_begin(cache, number, &list, END_INVALIDATED);
	}
	cache->invalidations += g.count;
	end_commit(cache, front_if_any(cache), &list);
	ord_unlock(&cache->lock);
	end_finish(cache, &list);
	return g.count > INT32_MAX ? INT32_MAX : (int)g.count;
}

EXPORT int peerdma_cache_trim(struct peerdma_cache *cache, uint32_t n)
{
	struct ending list = ENDING_NONE;
	uint32_t count;

	if (foreign(cache))
		return refuse("peerdma_cache_trim");
	ord_lock(&cache->lock);
	end_choose(cache, n, &list);
	end_commit(cache, front_if_any(cache), &list);
	count = list.count;
	cache->evictions += count;
	ord_unlock(&cache->lock);
	end_finish(cache, &list);
	return (int)count;
}

/* ---- counters ---- */

void cache_count(const struct peerdma_cache *cache, struct peerdma_cache_counters *out)
{
	totals_begin(cache, out);
	for (const struct front *f = cache->fronts; f; f = f->next)
		totals_add(f, out);
	totals_end(out);
}

EXPORT int peerdma_cache_counters(struct peerdma_cache *cache, struct peerdma_cache_counters *out)
{
	struct peerdma_cache_counters c;
	int ret = check_size("peerdma_cache_counters", out->size, COUNTERS_FIRST);

	if (ret)
		return ret;
	if (foreign(cache))
		return refuse("peerdma_cache_counters");
	ord_lock(&cache->lock);
	cache_count(cache, &c);
	ord_unlock(&cache->lock);
	c.size = out->size;
	put_out(out, &c, sizeof(c));
	return 0;
}

struct listing {
	struct peerdma_cache *cache;
	struct peerdma_cache_entry *entries;
	size_t n, max;
};

static bool list_one(void *arg, uint32_t entry)
{
	struct listing *l = arg;
	uint32_t number = entry_number(entry);
	const struct region *r = &l->cache->regions[number];

	if (l->n == l->max)
		return false;
	l->entries[l->n++] = (struct peerdma_cache_entry){
		.addr = r->pub.addr, .length = r->pub.length,
		.gets = region_gets(l->cache, number), .holds = region_holds(l->cache, number),
	};
	return true;
}

EXPORT int peerdma_cache_list(struct peerdma_cache *cache, uint64_t addr, struct peerdma_cache_entry *entries,
		       size_t n)
{
	struct listing l = { cache, entries, 0, n > INT32_MAX ? INT32_MAX : n };

	if (foreign(cache))
		return refuse("peerdma_cache_list");
	ord_lock(&cache->lock);
	index_visit(&cache->index, addr, UINT64_MAX, list_one, &l);
	ord_unlock(&cache->lock);
	return (int)l.n;
}
