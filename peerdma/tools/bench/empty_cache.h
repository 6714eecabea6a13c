/* SPDX-License-Identifier: MIT */
/*
 * empty_cache.h - a registration cache whose registration does nothing, of regions where no memory is.  For `peerdma bench`
 * and for bench-cache.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "peerdma_cache.h"

#define EMPTY_BASE	(1ULL << 44)
#define EMPTY_STRIDE	8192UL
#define EMPTY_LENGTH	4096UL

/* capacity 0: the library's own.  words: a hit looks at the region's word, as hits of pins do.  0 or -errno. */
int empty_cache_open(bool words, uint32_t capacity, struct peerdma_cache **cache);

/* A get and its put. */
static inline int empty_cache_touch(struct peerdma_cache *cache, uint64_t addr, uint64_t length)
{
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, (void *)(uintptr_t)addr, length, &hold);

	if (!ret)
		peerdma_cache_put(cache, hold);
	return ret;
}
