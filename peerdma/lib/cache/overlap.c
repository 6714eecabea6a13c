// SPDX-License-Identifier: MIT
/*
 * overlap.c - which regions a range touches, and what a miss does about them.
 *
 * The new region takes in the regions that it overlaps, as long as it stays within its
 * bound and a few times what was asked for; else it lies beside them.  Nothing ends before the
 * new region is registered.  Until then it is apart from the index, where the old ones
 * are found.
 */
#include "../internal.h"
#include "state.h"
#include "thread_cache.h"
#include "miss.h"

#define MERGE_TIMES	4	/* of what was asked for: so much is registered at most, all gets together */

void regions_touched(struct peerdma_cache *cache, struct index_place *place, uint64_t from, uint64_t to,
		     bool (*fn)(void *arg, uint32_t entry), void *arg)
{
	/* The first that does not reach is the last that needs a look. */
	for (uint64_t x = from; x; x = place->key) {
		uint32_t entry = index_floor(&cache->index, place, x - 1);

		if (!region_reaches(cache, entry, place->key, from))
			break;
		fn(arg, entry);
	}
	index_visit(&cache->index, from, to, fn, arg);
}

/* ---- apart ---- */

static bool touches(const struct region *r, uint64_t from, uint64_t to)
{
	return r->pub.addr < to && r->pub.addr + r->pub.length > from;
}

static struct region *apart_find(const struct peerdma_cache *cache, uint64_t from, uint64_t to)
{
	for (uint32_t n = cache->apart; n != NO_REGION; n = cache->regions[n].next) {
		struct region *r = &cache->regions[n];

		if (state_of(ord_load(&r->state_word)) == STATE_PENDING && touches(r, from, to))
			return r;
	}
	return NULL;
}

void apart_remove(struct peerdma_cache *cache, const struct region *region)
{
	uint32_t *link = &cache->apart, number = region_number(cache, region);

	while (*link != number)
		link = &cache->regions[*link].next;
	*link = region->next;
}

uint32_t apart_kill(struct peerdma_cache *cache, uint64_t from, uint64_t to)
{
	struct region *r;
	uint32_t count = 0;

	while ((r = apart_find(cache, from, to))) {
		ord_store_release(&r->state_word, ord_load(&r->state_word) + (STATE_KILLED - STATE_PENDING));
		count++;
	}
	return count;
}

/* ---- waiting ---- */

/* Lock.  Whether what the region's maker waits for, and so on, is ours to make. */
static bool waits_for_us(const struct peerdma_cache *cache, const struct region *pending)
{
	const void *maker = ord_load(&pending->pub.registration);
	const struct waiter *w = cache->waiters;

	while (w && maker != &this_thread) {
		if (w->thread != maker || ord_load(&w->region->state_word) != w->state_word) {
			w = w->next;
			continue;
		}
		maker = ord_load(&w->region->pub.registration);
		w = cache->waiters;
	}
	return maker == &this_thread;
}

/* Lock.  Until the region is not any more what it was when it was found to be PENDING. */
static void wait_for(struct peerdma_cache *cache, struct region *pending, uint64_t state_word)
{
	struct waiter self = { &this_thread, pending, state_word, cache->waiters }, **link = &cache->waiters;

	cache->waiters = &self;
	ord_store(&cache->waiting, cache->waiting + 1);
	ord_fence();
	while (ord_load(&pending->state_word) == state_word)
		ord_wait(&cache->settled, &cache->lock);
	ord_store(&cache->waiting, cache->waiting - 1);
	while (*link != &self)
		link = &(*link)->next;
	*link = self.next;
}

static enum step wait_or_fail(struct peerdma_cache *cache, struct wish *w, struct region *pending, uint64_t state_word, int *error)
{
	if (ord_load(&pending->pub.registration) == &this_thread)
		w->why = "called by add() for the memory that it is registering";
	else if (waits_for_us(cache, pending))
		w->why = "called by add() for memory that another thread is registering, which waits for the memory that this "
			 "add() is registering";
	if (w->why) {
		*error = -EDEADLK;
		return FAILED;
	}
	wait_for(cache, pending, state_word);
	return AGAIN;
}

/* ---- looking ---- */

struct look {
	struct peerdma_cache *cache;
	uint64_t from, to;		/* of the wish and all that it touches */
	struct region *pending;
	uint64_t pending_life;
	bool any;
};

static bool look_at(void *arg, uint32_t entry)
{
	struct look *o = arg;
	struct region *r = &o->cache->regions[entry_number(entry)];
	uint64_t state_word = ord_load_acquire(&r->state_word);	/* its maker held no lock when it made it LIVE */

	if (state_of(state_word) == STATE_PENDING) {
		o->pending = r;
		o->pending_life = state_word;
	}
	if (r->pub.addr < o->from)
		o->from = r->pub.addr;
	if (r->pub.addr + r->pub.length > o->to)
		o->to = r->pub.addr + r->pub.length;
	o->any = true;
	return true;
}

static uint64_t merge_max(const struct peerdma_cache *cache, uint64_t length)
{
	uint64_t max = cache->options.max_region;

	if (!max && __builtin_mul_overflow(length, (uint64_t)MERGE_TIMES, &max))
		max = UINT64_MAX;
	return max;
}

struct replacing {
	struct peerdma_cache *cache;
	uint64_t from, to;
	uint32_t first, count;		/* through region->next */
	uint32_t access;
	uint64_t bytes;
};

static bool replace_one(void *arg, uint32_t entry)
{
	struct replacing *p = arg;
	uint32_t number = entry_number(entry);
	struct region *r = &p->cache->regions[number];

	if ((r->pub.addr < p->from || r->pub.addr + r->pub.length > p->to) && !region_covers(r, p->from, p->to - 1))
		return true;
	r->next = p->first;
	p->first = number;
	p->count++;
	p->bytes += r->pub.length;
	p->access |= state_access(ord_load(&r->state_word));
	return true;
}

static bool in_bounds(const struct wish *w, uint64_t from, uint64_t to)
{
	return from >= w->bound_from && to <= w->bound_to;
}

enum step overlap_look(struct peerdma_cache *cache, struct index_place *place, struct wish *w, struct region **out, int *error)
{
	struct look o = { .cache = cache, .from = w->own_from, .to = w->own_to };
	struct replacing p = { .cache = cache, .first = NO_REGION };
	uint32_t entry = index_seek(&cache->index, w->addr);
	struct region *r;
	uint64_t state_word;

	if (entry != INDEX_NONE && region_covers(&cache->regions[entry_number(entry)], w->addr, w->last)) {
		r = &cache->regions[entry_number(entry)];
		state_word = ord_load_acquire(&r->state_word);
		if (state_of(state_word) == STATE_LIVE && !(w->access & ~state_access(state_word))) {
			*out = r;
			r->refs++;
			r->gets++;
			cache->late_hits += !w->counted;
			return FOUND;
		}
	}
	regions_touched(cache, place, w->own_from, w->own_to, look_at, &o);
	if (o.pending)
		return wait_or_fail(cache, w, o.pending, o.pending_life, error);
	w->apart = o.any;
	w->from = w->own_from;
	w->to = w->own_to;
	/*
	 * All in a region that has less access: no region may lie within another.  So the new one is as long as that,
	 * with more access; or, if that reaches out of the bound, replaces it.
	 */
	entry = index_seek(&cache->index, w->from);
	r = entry == INDEX_NONE ? NULL : &cache->regions[entry_number(entry)];
	if (r && region_covers(r, w->from, w->to - 1) && in_bounds(w, r->pub.addr, r->pub.addr + r->pub.length)) {
		w->from = r->pub.addr;
		w->to = w->from + r->pub.length;
	}
	if (w->how == WHOLE && in_bounds(w, o.from, o.to) && o.to - o.from <= merge_max(cache, w->to - w->from)) {
		w->from = o.from;
		w->to = o.to;
	}
	r = apart_find(cache, w->from, w->to);
	if (r)
		return wait_or_fail(cache, w, r, ord_load(&r->state_word), error);
	p.from = w->from;
	p.to = w->to;
	if (o.any)
		regions_touched(cache, place, w->from, w->to, replace_one, &p);
	w->replaced = p.count;
	w->replaced_bytes = p.bytes;
	w->with_access = w->access | p.access;
	return MADE;
}

void overlap_replace(struct peerdma_cache *cache, struct region *region, struct teardown *list)
{
	struct replacing p = {
		.cache = cache, .from = region->pub.addr, .to = region->pub.addr + region->pub.length, .first = NO_REGION,
	};

	apart_remove(cache, region);
	cache->bar1_use -= bar1_alone(region);
	regions_touched(cache, &cache->index.cursor, p.from, p.to, replace_one, &p);
	cache->merges += p.count;
	while (p.first != NO_REGION) {
		uint32_t next = cache->regions[p.first].next;

		teardown_begin(cache, p.first, list, END_MERGED);
		p.first = next;
	}
	region_insert(cache, &cache->index.cursor, region_number(cache, region));
}
