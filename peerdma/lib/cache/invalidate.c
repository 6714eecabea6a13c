// SPDX-License-Identifier: MIT
/* invalidate.c - ends regions whose memory is freed. */
#include "../internal.h"
#include "../monitor/monitor.h"
#include "calls.h"
#include "invalidate.h"
#include "lock.h"
#include "pending.h"
#include "regions.h"
#include "teardown.h"

struct gathering {
	struct peerdma_cache *cache;
	uint32_t first, count;		/* linked by region->next, by descending address */
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

/* Lock.  Begins the teardown of all regions that touch the range, and returns how many. */
static uint32_t end_range(struct peerdma_cache *cache, uint64_t from, uint64_t to,
			  struct teardown *list)
{
	struct gathering g = { cache, NO_REGION, 0 };
	uint32_t number;

	regions_touched(cache, &cache->index.cursor, from, to, gather, &g);
	/* By descending address, so that the index moves the fewest entries. */
	while ((number = g.first) != NO_REGION) {
		g.first = cache->regions[number].next;
		teardown_begin(cache, number, list, ENDED_INVALIDATED);
	}
	g.count += overlapping_kill(cache, from, to);
	cache->stats.invalidations += g.count;
	return g.count;
}

/* ---- in a signal handler, while its thread has a cache's lock ---- */

/*
 * Sends an event as a monitor would.  Each cache then ends the regions of its left ranges
 * (monitored.c), and subscribers_call() prevents the cache from being closed meanwhile.  Ranges
 * that handlers leave during this are processed in the next round.
 */
static void end_all_left(void)
{
	static const struct peerdma_hook_event nothing = { .kind = PEERDMA_HOOK_FREE, .after = 1,
							   .call = "a signal handler" };

	while (this_thread.left && !this_thread.ending_left) {
		this_thread.ending_left = true;
		this_thread.left = NULL;
		monitor_call(MONITOR_OUTSIDE, &nothing);
		this_thread.ending_left = false;
		ord_fence_light();
	}
}

/*
 * No lock.  Another handler may run in between.  The gate counts the left ranges.  leave()
 * increments it before it stores the range.  take_left() decrements it by the number of taken
 * ranges, once no hit finds their regions.  A range that is stored already is not counted again: it
 * keeps the gate closed until it is taken.
 */
static void leave(struct peerdma_cache *cache, uint64_t from, uint64_t to)
{
	uint64_t first = from >> RANGE_SHIFT, last = (to - 1) >> RANGE_SHIFT, range;

	this_thread.left = end_all_left;
	__atomic_fetch_add(&cache->gate, GATE_LEFT, __ATOMIC_SEQ_CST);
	range = last < RANGE_PAGE_MAX && last - first < RANGE_COUNT_MAX ?
		range_of(first, last - first + 1) : 0;
	for (int i = 0; range && i < LEFT_MAX; i++) {
		uint64_t none = 0;

		if (__atomic_compare_exchange_n(&cache->left[i], &none, range, false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			return;
		if (none == range) {
			__atomic_fetch_sub(&cache->gate, GATE_LEFT, __ATOMIC_SEQ_CST);
			return;
		}
	}
	if (__atomic_exchange_n(&cache->left_all, 1, __ATOMIC_SEQ_CST))
		__atomic_fetch_sub(&cache->gate, GATE_LEFT, __ATOMIC_SEQ_CST);
}

/* Lock.  Begins the teardown of the regions in left ranges, and returns the number of ranges. */
static uint64_t take_left(struct peerdma_cache *cache, struct teardown *list)
{
	uint64_t taken = __atomic_exchange_n(&cache->left_all, 0, __ATOMIC_SEQ_CST);

	if (taken)
		end_range(cache, 0, UINT64_MAX, list);
	for (int i = 0; i < LEFT_MAX; i++) {
		uint64_t range = __atomic_exchange_n(&cache->left[i], 0, __ATOMIC_SEQ_CST);
		uint64_t to, length;

		if (!range)
			continue;
		to = range >> RANGE_COUNT_BITS << RANGE_SHIFT;
		length = (range & RANGE_COUNT_MAX) << RANGE_SHIFT;
		end_range(cache, to - length, to, list);
		taken++;
	}
	return taken;
}

/*
 * Another thread may have taken the ranges.  Then no hit finds their regions once that thread
 * releases the lock.
 */
void invalidate_left(struct peerdma_cache *cache)
{
	struct teardown list = TEARDOWN_NONE;
	uint64_t taken;

	if (ord_load(&cache->closing))
		return;
	cache_lock(cache);
	taken = take_left(cache, &list);
	list.freed = cache->options.ended;
	teardown_commit(cache, thread_cache_find(cache), &list);
	teardown_later(cache, &list);
	__atomic_fetch_sub(&cache->gate, taken * GATE_LEFT, __ATOMIC_SEQ_CST);
	cache_unlock(cache);
	teardown_notify(cache, &list);
}

/* ---- calls ---- */

EXPORT int peerdma_cache_invalidate(struct peerdma_cache *cache, const void *ptr, size_t length)
{
	struct teardown list = TEARDOWN_NONE;
	uint64_t addr = (uintptr_t)ptr, end = addr + length;
	uint32_t count;

	/* Sets no error text: that would allocate memory. */
	if (!cache)
		return -EINVAL;
	if (cache_foreign(cache))
		return -EPERM;
	/* The cache is freeing its own memory, and a monitor reports that free too. */
	if (ord_load(&cache->closing))
		return 0;
	if (end < addr)
		end = UINT64_MAX;
	if (end == addr)
		return 0;
	if (this_thread.locks) {
		leave(cache, addr, end);
		return 0;
	}
	cache_lock(cache);
	count = end_range(cache, addr, end, &list);
	list.freed = cache->options.ended;
	teardown_commit(cache, thread_cache_find(cache), &list);
	teardown_later(cache, &list);
	cache_unlock(cache);
	teardown_notify(cache, &list);
	return count > INT32_MAX ? INT32_MAX : (int)count;
}
