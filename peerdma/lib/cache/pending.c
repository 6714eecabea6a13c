// SPDX-License-Identifier: MIT
/*
 * pending.c - see pending.h.
 */
#include "lock.h"
#include "pending.h"

/* A thread that waits for a PENDING region.  The struct is on the thread's stack. */
struct waiter {
	const void *thread;
	struct region *region;
	uint64_t state_word;
	struct waiter *next;
};

/* ---- regions that overlap others ---- */

static bool touches(const struct region *r, uint64_t from, uint64_t to)
{
	return r->pub.addr < to && r->pub.addr + r->pub.length > from;
}

void overlapping_add(struct peerdma_cache *cache, struct region *region)
{
	region->next = cache->overlapping;
	cache->overlapping = region_number(cache, region);
}

void overlapping_remove(struct peerdma_cache *cache, const struct region *region)
{
	uint32_t *link = &cache->overlapping, number = region_number(cache, region);

	while (*link != number)
		link = &cache->regions[*link].next;
	*link = region->next;
}

struct region *overlapping_find(const struct peerdma_cache *cache, uint64_t from, uint64_t to)
{
	for (uint32_t n = cache->overlapping; n != NO_REGION; n = cache->regions[n].next) {
		struct region *r = &cache->regions[n];

		if (state_of(ord_load(&r->state_word)) == STATE_PENDING && touches(r, from, to))
			return r;
	}
	return NULL;
}

uint32_t overlapping_kill(struct peerdma_cache *cache, uint64_t from, uint64_t to)
{
	struct region *r;
	uint32_t count = 0;

	while ((r = overlapping_find(cache, from, to))) {
		ord_store_release(&r->state_word,
				  ord_load(&r->state_word) + (STATE_KILLED - STATE_PENDING));
		count++;
	}
	return count;
}

/* ---- waiting ---- */

/*
 * Lock.  Returns whether the region's maker is this thread, or waits for a region whose maker is
 * this thread, directly or through other makers.
 */
static bool waits_for_this_thread(const struct peerdma_cache *cache, const struct region *pending)
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

const char *pending_wait(struct peerdma_cache *cache, struct region *pending, uint64_t state_word)
{
	struct waiter self = { &this_thread, pending, state_word, cache->waiters };
	struct waiter **link = &cache->waiters;

	if (ord_load(&pending->pub.registration) == &this_thread)
		return "called by add() for the memory that it is registering";
	if (waits_for_this_thread(cache, pending))
		return "called by add() for memory that another thread is registering, which waits for the memory that this "
		       "add() is registering";
	cache->waiters = &self;
	ord_store(&cache->waiting, cache->waiting + 1);
	ord_fence();
	while (ord_load(&pending->state_word) == state_word)
		ord_wait(&cache->settled, &cache->lock);
	ord_store(&cache->waiting, cache->waiting - 1);
	while (*link != &self)
		link = &(*link)->next;
	*link = self.next;
	return NULL;
}

void __attribute__((noinline)) pending_wake(struct peerdma_cache *cache)
{
	cache_lock(cache);
	ord_wake_all(&cache->settled);
	cache_unlock(cache);
}
