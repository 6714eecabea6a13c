/* SPDX-License-Identifier: MIT */
/*
 * inspect.h - what a process publishes about its caches, for `peerdma cache` and other programs
 * that may debug the process.
 *
 * The library maps one page, whose name is visible in /proc/PID/maps.  The page points to the first
 * cache.  The cache and its regions, threads and refs are the library's own structs.  The library
 * counts, copies and writes nothing for readers, so they cost a hit nothing.
 *
 * A reader is compiled with the same headers.  The page contains the layout of the library's
 * structs, and a reader refuses a layout that differs from its own.  So library and reader may be
 * of different releases if the layout is the same.  A reader takes no lock and trusts no value.  It
 * reads a struct twice to see whether the struct changed meanwhile.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "peerdma_cache.h"

#define INSPECT_NAME	"peerdma-cache"
/*
 * Increase this when a field that readers use changes its meaning, or a counter changes its place.
 */
#define INSPECT_VERSION	4

/* The sizes and offsets that a reader uses.  Needs thread_cache.h. */
#define INSPECT_LAYOUT {	\
	sizeof(struct peerdma_cache), offsetof(struct peerdma_cache, gate), \
	offsetof(struct peerdma_cache, regions), offsetof(struct peerdma_cache, ops.check), \
	offsetof(struct peerdma_cache, threads), offsetof(struct peerdma_cache, stats), \
	offsetof(struct peerdma_cache, next), sizeof(struct cache_stats), \
	sizeof(struct thread_cache), offsetof(struct thread_cache, refs), \
	offsetof(struct thread_cache, hits), offsetof(struct thread_cache, index_hits), \
	offsetof(struct thread_cache, next), offsetof(struct thread_cache, capacity), \
	sizeof(struct thread_refs), offsetof(struct thread_refs, count), \
	sizeof(struct region), offsetof(struct region, pub), \
	offsetof(struct region, state_word), offsetof(struct region, word), \
	offsetof(struct region, refs), offsetof(struct region, gets), \
}
#define INSPECT_FIELDS	22

struct inspect_page {
	char magic[16];			/* INSPECT_NAME */
	uint32_t version;
	uint16_t layout[INSPECT_FIELDS];
	/* changes of the list of caches; odd: a change is under way */
	uint64_t changes;
	/* address of the first struct peerdma_cache; its `next` points to the second */
	uint64_t first;
};

/* Why a region ended. */
enum inspect_reason { ENDED_MERGED, ENDED_EVICTED, ENDED_INVALIDATED, ENDED_STALE };

struct inspect_ended {
	uint64_t addr, length, gets;
	uint64_t why;			/* enum inspect_reason */
};

#define INSPECT_ENDED	32

/*
 * The fields that each miss changes come first: they share cache lines with other data of a miss.
 */
struct cache_stats {
	uint32_t used;			/* regions 0 to used - 1 have been used */
	uint64_t count, dead, bytes, host, device, bar1_use;
	uint64_t late_hits, misses, failures, merges, evictions, retries, invalidations, stale,
		fences;
	uint64_t gone_hits, gone_slot_hits;	/* of threads that ended */
	uint64_t bad_puts;
	uint64_t deferred, unsettled;
	uint64_t checked;
	uint64_t thread_changes;	/* threads that came or went, or whose refs moved */
	uint32_t monitors;		/* PEERDMA_MONITOR_* */
	/*
	 * Addresses of two words (pins.c).  A region with the first one is ended by hooks, a region
	 * with the second one by calls.
	 */
	uint64_t by_hooks, by_calls;
	uint64_t ended_count;
	/* A ring: the nth region that ended is at n % INSPECT_ENDED */
	struct inspect_ended ended[INSPECT_ENDED];
};

/* inspect_gets() decodes a thread's gets of a region, inspect_held() its gets minus its puts. */
static inline uint32_t inspect_gets(uint32_t count)
{
	return (count + 0x8000) >> 16;
}

static inline int32_t inspect_held(uint32_t count)
{
	return (int16_t)count;
}

/*
 * Computes a cache's counters.  Call this first, then inspect_count_thread() for each thread, then
 * inspect_sum().
 */
static inline void inspect_count(const struct cache_stats *from, struct peerdma_cache_counters *to)
{
	memset(to, 0, sizeof(*to));
	to->size = sizeof(*to);
	/* These two change without the cache's lock. */
	to->monitors = __atomic_load_n(&from->monitors, __ATOMIC_RELAXED);
	to->checked = __atomic_load_n(&from->checked, __ATOMIC_RELAXED);
	to->hits_front = from->gone_slot_hits;
	to->hits = from->gone_hits + from->late_hits;
	to->misses = from->misses;
	to->failures = from->failures;
	to->merges = from->merges;
	to->evictions = from->evictions;
	to->retries = from->retries;
	to->invalidations = from->invalidations;
	to->stale = from->stale;
	to->regions = from->count;
	to->dead = from->dead;
	to->bytes = from->bytes;
	to->host = from->host;
	to->device = from->device;
	to->aperture = from->bar1_use;
	to->fences = from->fences;
	to->deferred = from->deferred;
	to->bad_puts = from->bad_puts;
	to->stuck = from->unsettled;
}

static inline void inspect_count_thread(uint64_t slot_hits, uint64_t index_hits,
					struct peerdma_cache_counters *to)
{
	to->hits_front += slot_hits;
	to->hits += index_hits;
	to->threads++;
}

static inline void inspect_sum(struct peerdma_cache_counters *to)
{
	to->hits += to->hits_front;
	to->gets = to->hits + to->misses;
}
