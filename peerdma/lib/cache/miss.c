// SPDX-License-Identifier: MIT
/*
 * miss.c - a range that no region covers: one is made.
 *
 * It is in the index, PENDING, before it is registered: whoever needs the same
 * memory waits for it, and an invalidation that comes meanwhile finds it.
 */
#include <string.h>

#include "../internal.h"
#include "cache.h"
#include "front.h"
#include "miss.h"

#define TRIES		16	/* memory that is freed during each call is not worth another */
#define EVICT_MANY	64	/* when the provider says that it is full */

/* Whole granules; or, where ops know better what belongs together, what was asked for and no more. */
static void plain_extent(const struct peerdma_cache *cache, struct wish *w)
{
	uint64_t mask = cache->ops.extent ? 0 : (1ULL << cache->granule_shift) - 1;

	w->from = w->addr & ~mask;
	w->to = (w->last | mask) + 1;
}

static int __attribute__((noinline)) asked_extent(struct peerdma_cache *cache, struct wish *w)
{
	uint64_t mask = (1ULL << cache->granule_shift) - 1;
	struct peerdma_extent e = { .addr = w->addr & ~mask, .length = (w->last | mask) + 1 - (w->addr & ~mask) };
	int ret = cache->ops.extent(cache->arg, w->addr, w->last - w->addr + 1, &e);

	if (ret)
		return ret;
	w->aperture = e.aperture;
	if (w->how == WHOLE && e.addr <= w->from && e.length >= w->to - e.addr && e.addr + e.length > e.addr) {
		w->from = e.addr;
		w->to = e.addr + e.length;
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
static inline uint32_t number_get(struct peerdma_cache *cache, const struct front *f)
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
			if (f)
				__builtin_prefetch(&f->records[cache->free], 1);
		}
		/* Takes that threads still have in their records were of other generations. */
		cache->regions[number].gets = 0;
		cache->regions[number].gets -= region_gets(cache, number);
		return number;
	}
	return cache->used < cache->capacity ? cache->used++ : NO_REGION;
}

static void number_put(struct peerdma_cache *cache, uint32_t number)
{
	cache->regions[number].next = cache->free;
	cache->free = number;
}

static void __attribute__((noinline)) wake_all(struct peerdma_cache *cache)
{
	ord_lock(&cache->lock);
	ord_wake_all(&cache->settled);
	ord_unlock(&cache->lock);
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
	gen = life_gen(ord_load(&r->life)) + 1;
	w->life = LIFE(gen ? gen : 1, STATE_PENDING) | (w->aperture ? LIFE_APERTURE : 0);
	/* find() looks before it holds. */
	ord_store(&r->pub.addr, w->from);
	/* Any address that is this thread's alone tells makers apart. */
	ord_store(&r->pub.registration, front_words);
	r->word = NULL;
	r->clock = 1;	/* the get that makes it is no use yet: what is used once goes first */
	ord_store_release(&r->life, w->life);
	cache->count++;
	cache->bytes += length;
	if (w->aperture)
		cache->aperture += length;
	return r;
}

/* It was not to be: registration failed, or the memory went away meanwhile. */
static void __attribute__((noinline)) abandon(struct peerdma_cache *cache, struct region *r)
{
	ord_lock(&cache->lock);
	if (life_state(ord_load(&r->life)) == STATE_PENDING)
		index_remove(&cache->index, r->pub.addr);
	cache->count--;
	cache->bytes -= r->pub.length;
	if (ord_load(&r->life) & LIFE_APERTURE)
		cache->aperture -= r->pub.length;
	ord_store(&r->life, LIFE(life_gen(ord_load(&r->life)), STATE_FREE));
	number_put(cache, region_number(cache, r));
	if (cache->waiting)
		ord_wake_all(&cache->settled);
	ord_unlock(&cache->lock);
}

static bool __attribute__((noinline)) publish_without_front(struct peerdma_cache *cache, struct region *r,
							   uint64_t pending, uint64_t live)
{
	bool done;

	ord_lock(&cache->lock);
	done = ord_replace(&r->life, pending, live);
	if (done) {
		r->holds++;
		r->gets++;
		ord_wake_all(&cache->settled);
	}
	ord_unlock(&cache->lock);
	return done;
}

static void __attribute__((noinline)) spill(struct peerdma_cache *cache, struct front *f, uint32_t number)
{
	ord_lock(&cache->lock);
	front_spill(f, number);
	ord_unlock(&cache->lock);
}

/*
 * Registered: from here on it is everybody's, and the caller's first hold is in it.  False: killed.
 * Not in region->holds or gets, if that can be: the lock is not held.
 */
static inline bool publish(struct peerdma_cache *cache, struct front *f, struct region *r, uint64_t pending,
			   const struct peerdma_registration *registration)
{
	uint64_t live = pending + (STATE_LIVE - STATE_PENDING);
	uint32_t number = region_number(cache, r), before, word;
	struct record *record;

	r->word = registration->word;
	r->expected = registration->expected;
	ord_store(&r->pub.registration, registration->handle);
	if (!f)
		return publish_without_front(cache, r, pending, live);
	record = record_of(f, r);
	/* Written before it is read, as in begin(); what is not LIVE has no ender who looks at it. */
	record_fill(record, life_gen(live));
	before = ord_load(&record->word);
	word = before + WORD_TAKE;
	ord_store(&record->word, word);
	if (!ord_replace(&r->life, pending, live)) {
		ord_store(&record->gen, 0);
		ord_store_release(&record->word, before);
		return false;
	}
	if (WORD_FULL(word))
		spill(cache, f, number);
	wake(cache);
	return true;
}

/* Under the lock the index does not err: what is wanted is there, or coming, or we begin it. */
static inline enum step find_or_begin(struct peerdma_cache *cache, struct front *f, struct wish *w, struct region **out,
				      int *error)
{
	struct index_place *place = f ? &f->place : &cache->index.finger;
	struct ending list = ENDING_NONE;
	enum step step = MADE;
	struct overlap o;
	uint32_t number;
	bool none;

	ord_lock(&cache->lock);
	none = regions_none(cache, place, w->from, w->to);
	if (!none)
		step = overlap_look(cache, place, w, &o, out, error);
	if (step != MADE) {
		ord_unlock(&cache->lock);
		return step;
	}
	number = number_get(cache, f);
	if (number == NO_REGION) {
		ord_unlock(&cache->lock);
		if (room_evict(cache, 1 + cache->capacity / EVICT_SHARE))
			return AGAIN;
		*error = fail(-ENOBUFS, "peerdma_cache_get: all %u regions that this cache can have are held; "
			      "put some, or give it a greater capacity", cache->capacity);
		return FAILED;
	}
	if (!none)
		overlap_merge(cache, w, &o, &list);
	if (cache->limited)
		room_make(cache, w, &list);
	w->ahead = room_is_new(cache, number);
	cache->misses += !w->counted;
	w->counted = true;
	*out = begin(cache, w, number);
	if (index_insert_at(&cache->index, place, w->from, entry_of(number, w->to - w->from)))
		__builtin_trap();	/* index_size() has room for every number */
	if (list.count)
		end_commit(cache, f, &list);
	ord_unlock(&cache->lock);
	if (list.count)
		end_finish(cache, &list);
	if (w->ahead)
		room_ahead(cache, f, number, w->ahead);
	return MADE;
}

/* After a failure: is there something that may help? */
static bool __attribute__((noinline)) worth_another(struct peerdma_cache *cache, struct wish *w, int error)
{
	bool full = error == -ENOSPC || error == -ENOMEM || error == -EMFILE || error == -ENFILE;
	bool room = full && room_evict(cache, EVICT_MANY);

	/* Less, then: the neighbours' memory, or the rest of the allocation, may be what cannot be had. */
	if (!room) {
		if (w->how == PLAIN)
			return false;
		w->how = PLAIN;
		plain_extent(cache, w);
	}
	ord_lock(&cache->lock);
	cache->retries++;
	ord_unlock(&cache->lock);
	return true;
}

int region_make(struct peerdma_cache *cache, struct front *f, uint64_t addr, uint64_t length, struct region **out)
{
	struct peerdma_registration registration;
	struct wish w = { .addr = addr, .last = addr + length - 1 };
	struct region *r = NULL;
	int ret = extent(cache, &w);

	for (int tries = 0; !ret && tries < TRIES;) {
		switch (find_or_begin(cache, f, &w, &r, &ret)) {
		case FOUND:
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
		memset(&registration, 0, sizeof(registration));
		ret = cache->ops.add(cache->arg, r->pub.addr, r->pub.length, &registration);
		if (ret) {
			abandon(cache, r);
			if (ret == -ESTALE) {	/* freed meanwhile; what is there now is another allocation */
				w.how = WHOLE;
				ret = extent(cache, &w);
			} else if (worth_another(cache, &w, ret)) {
				ret = 0;
			}
			continue;
		}
		if (publish(cache, f, r, w.life, &registration)) {
			*out = r;
			return 0;
		}
		cache->ops.remove(cache->arg, r->pub.addr, r->pub.length, registration.handle);
		abandon(cache, r);
		w.how = WHOLE;
		ret = extent(cache, &w);
	}
	if (!ret)
		ret = fail(-ESTALE, "peerdma_cache_get: [0x%llx, +%llu): freed during the call, again and again",
			   (unsigned long long)addr, (unsigned long long)length);
	ord_lock(&cache->lock);
	cache->misses += !w.counted;
	cache->failures++;
	ord_unlock(&cache->lock);
	return ret;
}
