/* SPDX-License-Identifier: MIT */
/*
 * inspect.h - how another process finds this one's caches (`peerdma cache`).
 *
 * The library maps one page, whose name shows in /proc/PID/maps and which points to the
 * caches.  Everything else is read in place, as a debugger would.  Nothing is counted,
 * copied or published for readers, so they cost a hit nothing.  A user who may debug
 * the process may read it.
 *
 * The reader includes the library's own headers.  It continues only if the page's version
 * and layout are those that it was built with, and trusts no value that it finds.
 */
#ifndef CACHE_INSPECT_H
#define CACHE_INSPECT_H

#include "thread_cache.h"

#define INSPECT_NAME	"peerdma-cache"
#define INSPECT_VERSION	2

struct inspect_page {
	char magic[16];			/* INSPECT_NAME */
	uint32_t version;
	uint32_t size;			/* of this struct */
	uint64_t layout;		/* inspect_layout() */
	uint64_t changes;		/* of the list; odd: one is under way */
	uint64_t first;			/* struct peerdma_cache *, and on through inspect_next; 0: none */
};

/* A number that is another when anything that a reader looks at lies elsewhere. */
static inline uint64_t inspect_layout(void)
{
	static const size_t at[] = {
		sizeof(struct inspect_page), sizeof(struct peerdma_cache), sizeof(struct thread_cache), sizeof(struct region),
		sizeof(struct thread_refs), sizeof(struct ended), ENDED_MAX,
		offsetof(struct peerdma_cache, gate), offsetof(struct peerdma_cache, regions),
		offsetof(struct peerdma_cache, capacity), offsetof(struct peerdma_cache, ops),
		offsetof(struct peerdma_cache, word_will_do), offsetof(struct peerdma_cache, checked),
		offsetof(struct peerdma_cache, hooked), offsetof(struct peerdma_cache, by_hooks),
		offsetof(struct peerdma_cache, by_calls), offsetof(struct peerdma_cache, threads),
		offsetof(struct peerdma_cache, used), offsetof(struct peerdma_cache, count),
		offsetof(struct peerdma_cache, late_hits), offsetof(struct peerdma_cache, fences),
		offsetof(struct peerdma_cache, gone_slot_hits), offsetof(struct peerdma_cache, thread_changes),
		offsetof(struct peerdma_cache, ended), offsetof(struct peerdma_cache, inspect_next),
		offsetof(struct thread_cache, refs), offsetof(struct thread_cache, capacity), offsetof(struct thread_cache, hits), offsetof(struct thread_cache, index_hits),
		offsetof(struct thread_cache, next), offsetof(struct region, state_word), offsetof(struct region, word),
		offsetof(struct region, refs), offsetof(struct region, gets), offsetof(struct thread_refs, count),
	};
	uint64_t sum = INSPECT_VERSION;

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		sum = (sum ^ at[i]) * 0x100000001b3ULL;
	return sum;
}

/* inspect.c: other processes find the cache from here on. */
void inspect_begin(struct peerdma_cache *cache);
/* They do not any more; its counters are printed if that was asked for. */
void inspect_end(struct peerdma_cache *cache);

#endif
