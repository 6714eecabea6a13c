/* SPDX-License-Identifier: MIT */
/* monitored.h - what a cache does when its monitors report an event. */
#pragma once

#include "cache.h"

/* Sets or clears PEERDMA_MONITOR_* bits, which the counters and `peerdma cache` report. */
static inline void cache_monitors_set(struct peerdma_cache *cache, uint32_t bits, bool on)
{
	if (on)
		__atomic_fetch_or(&cache->stats.monitors, bits, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&cache->stats.monitors, ~bits, __ATOMIC_RELAXED);
}

/* Events end regions from now on.  0 or -errno with text. */
int cache_monitors_begin(struct peerdma_cache *cache);
/* From now on no event ends a region. */
void cache_monitors_end(struct peerdma_cache *cache);
/* From now on events of host memory end regions too.  0 or -errno with text. */
int cache_monitor_host(struct peerdma_cache *cache);
