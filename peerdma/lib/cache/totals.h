/* SPDX-License-Identifier: MIT */
/*
 * totals.h - a cache's counters from where they are kept: by the library under
 * the cache's lock, and by `peerdma cache` from what it has read of another process.
 */
#ifndef CACHE_TOTALS_H
#define CACHE_TOTALS_H

#include <string.h>

#include "thread_cache.h"

static inline uint32_t cache_monitors(const struct peerdma_cache *cache)
{
	bool checks = cache->ops.check &&
		      (!cache->word_will_do || __atomic_load_n(&cache->checked, __ATOMIC_RELAXED));

	return PEERDMA_MONITOR_CALLS | (checks ? PEERDMA_MONITOR_CHECK : 0) |
	       (cache->hooked ? PEERDMA_MONITOR_HOOKS : 0) |
	       (cache->host_monitored ? PEERDMA_MONITOR_HOST : 0) | cache->ops.monitors;
}

/* All but what is in the thread caches; then each of them, in any order; then the sums. */
static inline void totals_begin(const struct peerdma_cache *cache, struct peerdma_cache_counters *c)
{
	memset(c, 0, sizeof(*c));
	c->size = sizeof(*c);
	c->monitors = cache_monitors(cache);
	c->hits_front = cache->gone_slot_hits;
	c->hits = cache->gone_hits + cache->late_hits;
	c->misses = cache->misses;
	c->failures = cache->failures;
	c->merges = cache->merges;
	c->evictions = cache->evictions;
	c->retries = cache->retries;
	c->invalidations = cache->invalidations;
	c->stale = cache->stale;
	c->regions = cache->count;
	c->dead = cache->dead;
	c->bytes = cache->bytes;
	c->host = cache->host;
	c->device = cache->device;
	c->aperture = cache->bar1_use;
	c->fences = cache->fences;
	c->deferred = cache->deferred_count;
	c->bad_puts = cache->bad_puts;
	c->stuck = cache->unsettled_count;
	c->checked = __atomic_load_n(&cache->checked, __ATOMIC_RELAXED);
}

static inline void totals_add(const struct thread_cache *tc, struct peerdma_cache_counters *c)
{
	c->hits_front += ord_load(&tc->hits);
	c->hits += ord_load(&tc->index_hits);
	c->threads++;
}

static inline void totals_end(struct peerdma_cache_counters *c)
{
	c->hits += c->hits_front;
	c->gets = c->hits + c->misses;
}

/* In this process.  Lock. */
static inline void cache_count(const struct peerdma_cache *cache, struct peerdma_cache_counters *out)
{
	totals_begin(cache, out);
	for (const struct thread_cache *tc = cache->threads; tc; tc = tc->next)
		totals_add(tc, out);
	totals_end(out);
}

#endif
