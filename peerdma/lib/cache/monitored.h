/* SPDX-License-Identifier: MIT */
/* monitored.h - what a cache does with events of its monitors. */
#ifndef CACHE_MONITORED_H
#define CACHE_MONITORED_H

#include "cache.h"

/* Events end regions from now on.  0 or -errno with text. */
int cache_monitors_begin(struct peerdma_cache *cache);
/* Events end no region any more. */
void cache_monitors_end(struct peerdma_cache *cache);
/* Events of host memory do, too, from now on.  0 or -errno with text. */
int cache_monitor_host(struct peerdma_cache *cache);

#endif
