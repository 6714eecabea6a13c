/* SPDX-License-Identifier: MIT */
/* calls.h - each call first checks that the cache belongs to this process. */
#pragma once

#include "../internal.h"
#include "cache.h"

static inline bool cache_foreign(const struct peerdma_cache *cache)
{
	return __builtin_expect(cache->process != process_id(), 0);
}

static inline int cache_refuse(const char *call)
{
	return fail(-EPERM,
		    "%s: this cache was made by a parent process and holds that process's memory; "
		    "make one in this process", call);
}
