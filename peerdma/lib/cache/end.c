// SPDX-License-Identifier: MIT
/*
 * end.c - how regions end: invalidation, eviction, merging, staleness.
 *
 *	end_begin()	out of the index, and its life is another
 *	end_commit()	every thread's record is emptied; hits under way are waited for;
 *			then the holds are summed.  Held: DEAD, and the put that gives
 *			back the last hold finishes.  Not held: ENDING, and we do
 *	end_finish()	deregisters, with no lock, and the number is free
 */
#include "cache.h"

int64_t region_holds(const struct peerdma_cache *cache, uint32_t number)
{
	int64_t sum = cache->regions[number].holds;

	for (const struct front *f = cache->fronts; f; f = f->next)
		sum += word_holds(ord_load_acquire(&f->records[number].word));
	return sum;
}

uint64_t region_gets(const struct peerdma_cache *cache, uint32_t number)
{
	uint64_t sum = cache->regions[number].gets;

	for (const struct front *f = cache->fronts; f; f = f->next)
		sum += word_takes(ord_load(&f->records[number].word));
	return sum;
}

static void set_state(struct region *region, enum state state)
{
	uint64_t life = ord_load(&region->life);

	ord_store_release(&region->life, LIFE(life_gen(life), state) | (life & LIFE_APERTURE));
}

static void remember(struct peerdma_cache *cache, uint32_t number, enum end_why why)
{
	const struct region *region = &cache->regions[number];

	cache->ended[cache->ended_count++ % ENDED_MAX] = (struct ended){
		.addr = region->pub.addr, .length = region->pub.length,
		.gets = region_gets(cache, number), .why = why,
	};
}

void end_begin(struct peerdma_cache *cache, uint32_t number, struct ending *list, enum end_why why)
{
	struct region *region = &cache->regions[number];
	uint64_t life = ord_load_acquire(&region->life);

	remember(cache, number, why);
	index_remove(&cache->index, region->pub.addr);
	/* Its maker may be about to make it LIVE: one of us comes first. */
	if (life_state(life) == STATE_PENDING) {
		if (ord_replace(&region->life, life, LIFE(life_gen(life), STATE_KILLED) | (life & LIFE_APERTURE)))
			return;
	}
	set_state(region, STATE_DYING);
	region->next = list->first;
	list->first = number;
	list->count++;
}

/* Nobody holds it, and nobody can: from here on it is the caller's. */
static void take_out(struct peerdma_cache *cache, struct region *region)
{
	cache->count--;
	cache->bytes -= region->pub.length;
	if (ord_load(&region->life) & LIFE_APERTURE)
		cache->aperture -= region->pub.length;
	set_state(region, STATE_ENDING);
}

void end_commit(struct peerdma_cache *cache, struct front *self, struct ending *list)
{
	uint32_t *link = &list->first, n;
	bool others = false;

	if (list->first == NO_REGION)
		return;
	ord_fence();
	for (n = list->first; n != NO_REGION; n = cache->regions[n].next) {
		uint32_t gen = life_gen(ord_load(&cache->regions[n].life));

		for (struct front *f = cache->fronts; f; f = f->next)
			others |= hold_empty(&f->records[n], gen) && f != self;
	}
	if (others && !cache->fence) {
		cache->fences++;
		ord_unlock(&cache->lock);
		ord_fence_others();
		ord_lock(&cache->lock);
	} else {
		ord_fence();
	}
	while ((n = *link) != NO_REGION) {
		struct region *region = &cache->regions[n];

		if (!region_holds(cache, n)) {
			take_out(cache, region);
			link = &region->next;
		} else {
			set_state(region, STATE_DEAD);
			cache->dead++;
			*link = region->next;
			list->count--;
		}
	}
}

void end_finish(struct peerdma_cache *cache, struct ending *list)
{
	uint32_t n = list->first, next, top;

	for (; n != NO_REGION; n = next) {
		struct region *region = &cache->regions[n];

		next = region->next;
		cache->ops.remove(cache->arg, region->pub.addr, region->pub.length, region->pub.registration);
		set_state(region, STATE_FREE);
		do {
			top = ord_load(&cache->returned);
			region->next = top;
		} while (!ord_replace(&cache->returned, top, n));
	}
	*list = ENDING_NONE;
}

void end_last_hold(struct peerdma_cache *cache, uint32_t number)
{
	struct region *region = &cache->regions[number];
	struct ending list = ENDING_NONE;

	ord_lock(&cache->lock);
	if (life_state(ord_load(&region->life)) == STATE_DEAD && !region_holds(cache, number)) {
		cache->dead--;
		take_out(cache, region);
		region->next = NO_REGION;
		list = (struct ending){ number, 1 };
	}
	ord_unlock(&cache->lock);
	end_finish(cache, &list);
}

void end_stale(struct peerdma_cache *cache, struct region *region, uint64_t life)
{
	struct ending list = ENDING_NONE;

	ord_lock(&cache->lock);
	if (ord_load(&region->life) == life) {
		end_begin(cache, region_number(cache, region), &list, END_STALE);
		cache->stale++;
		end_commit(cache, front_if_any(cache), &list);
	}
	ord_unlock(&cache->lock);
	end_finish(cache, &list);
}

/*
 * The clock: a hand goes round; what was used since it passed last is spared this
 * time.  The threads' own counts say so, hence a hit need not mark anything.
 */
void end_choose(struct peerdma_cache *cache, uint32_t n, struct ending *list)
{
	for (uint64_t steps = 0; n && steps < 2ULL * cache->used; steps++) {
		uint32_t number = cache->hand < cache->used ? cache->hand : 0;
		struct region *region = &cache->regions[number];
		uint32_t gets;

		cache->hand = number + 1;
		if (life_state(ord_load(&region->life)) != STATE_LIVE)
			continue;
		gets = (uint32_t)region_gets(cache, number);
		if (gets != region->clock) {
			region->clock = gets;
			continue;
		}
		if (region_holds(cache, number))
			continue;
		end_begin(cache, number, list, END_EVICTED);
		n--;
	}
}
