/* SPDX-License-Identifier: MIT */
/* region.h - a region: a range that is registered, or is being registered or deregistered. */
#pragma once

#include "peerdma_cache.h"
#include "refs.h"

#define NO_REGION UINT32_MAX

struct region {
	/* While the region is PENDING, pub.registration identifies the thread that registers it */
	struct peerdma_cached pub;
	uint64_t state_word;
	/* the region is valid while *word == expected; NULL: it has no word */
	const uint32_t *word;
	uint32_t expected;
	int32_t refs;			/* lock: refs that are not counted in threads' refs */
	uint64_t gets;			/* lock: likewise */
	uint32_t next;			/* lock: in a list */
	/*
	 * Lock.  The gets when the clock's hand last passed.  From DYING on: whether a thread may
	 * be in a hit.
	 */
	uint32_t clock;
};

_Static_assert(sizeof(struct region) == 64, "one cache line");

static inline bool region_covers(const struct region *region, uint64_t addr, uint64_t last)
{
	uint64_t first = ord_load(&region->pub.addr);

	return addr >= first && last - first < ord_load(&region->pub.length);
}
