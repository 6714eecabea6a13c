// SPDX-License-Identifier: MIT
/*
 * overlap.c - which regions a range touches, and what a miss does about them.
 */
#include "../internal.h"
#include "cache.h"
#include "front.h"
#include "miss.h"

void regions_touched(struct peerdma_cache *cache, struct index_place *place, uint64_t from, uint64_t to,
		     bool (*fn)(void *arg, uint32_t entry), void *arg)
{
	uint32_t before = index_floor(&cache->index, place, from);

	if (place->key < from && region_reaches(cache, before, place->key, from))
		fn(arg, before);
	index_visit(&cache->index, from, to, fn, arg);
}

static bool see_overlap(void *arg, uint32_t entry)
{
	struct overlap *o = arg;
	uint32_t number = entry_number(entry);
	struct region *r = &o->cache->regions[number];
	uint64_t life = ord_load_acquire(&r->life);	/* its maker held no lock when it made it LIVE */

	if (life_state(life) == STATE_PENDING) {
		o->pending = r;
		o->pending_life = life;
	}
	r->next = o->first;
	o->first = number;
	o->count++;
	if (r->pub.addr < o->from)
		o->from = r->pub.addr;
	if (r->pub.addr + r->pub.length > o->to)
		o->to = r->pub.addr + r->pub.length;
	return true;
}

/* Lock.  Until the region is not any more what it was when it was found to be PENDING. */
static void wait_for(struct peerdma_cache *cache, struct region *pending, uint64_t life)
{
	ord_store(&cache->waiting, cache->waiting + 1);
	ord_fence();
	while (ord_load(&pending->life) == life)
		ord_wait(&cache->settled, &cache->lock);
	ord_store(&cache->waiting, cache->waiting - 1);
}

enum step overlap_look(struct peerdma_cache *cache, struct index_place *place, struct wish *w, struct overlap *o,
		       struct region **out, int *error)
{
	uint32_t entry;

	*o = (struct overlap){ .cache = cache, .from = w->from, .to = w->to, .first = NO_REGION };
	regions_touched(cache, place, w->from, w->to, see_overlap, o);
	if (o->pending) {
		if (ord_load(&o->pending->pub.registration) == front_words) {
			*error = fail(-EDEADLK, "peerdma_cache_get: called by add() for the memory that it is registering");
			return FAILED;
		}
		wait_for(cache, o->pending, o->pending_life);
		return AGAIN;
	}
	entry = index_seek(&cache->index, w->addr);
	if (entry != INDEX_NONE && region_covers(&cache->regions[entry_number(entry)], w->addr, w->last)) {
		*out = &cache->regions[entry_number(entry)];
		(*out)->holds++;
		(*out)->gets++;
		cache->late_hits++;
		return FOUND;
	}
	return MADE;
}

void overlap_merge(struct peerdma_cache *cache, struct wish *w, struct overlap *o, struct ending *list)
{
	if (w->how == WHOLE) {
		w->from = o->from;
		w->to = o->to;
	}
	cache->merges += o->count;
	while (o->first != NO_REGION) {
		uint32_t next = cache->regions[o->first].next;

		end_begin(cache, o->first, list, END_MERGED);
		o->first = next;
	}
}
