/* SPDX-License-Identifier: MIT */
/* region.h - a region: a range that is registered, or is being registered or deregistered. */
#pragma once

#include "peerdma_cache.h"
#include "refs.h"

#define NO_REGION UINT32_MAX

struct region {
	/* While PENDING, registration identifies the thread that registers it */
	struct peerdma_cached pub;
	uint64_t state_word;
	const uint32_t *word;		/* valid while it is `expected`; NULL: it has none */
	uint32_t expected;
	int32_t refs;			/* lock: those that are not counted in threads' refs */
	uint64_t gets;			/* lock: likewise */
	uint32_t next;			/* lock: in a list */
	/* Lock.  Gets when the clock's hand last passed; once it is DYING: a thread may be hitting it. */
	uint32_t clock;
};

_Static_assert(sizeof(struct region) == 64, "one cache line");

static inline bool region_covers(const struct region *region, uint64_t addr, uint64_t last)
{
	uint64_t first = ord_load(&region->pub.addr);

	return addr >= first && last - first < ord_load(&region->pub.length);
}
