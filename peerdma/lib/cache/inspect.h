/* SPDX-License-Identifier: MIT */
/*
 * inspect.h - what a process publishes of its caches, for `peerdma cache` and others that may debug the process.
 *
 * The library maps one page, whose name shows in /proc/PID/maps.  It points to the first cache, each cache to the next one,
 * to its regions and to its threads, each of which points to its refs.  All structs are here, and are those that the
 * library itself uses: nothing is counted, copied or written for readers, so they cost a hit nothing.
 *
 * INSPECT_VERSION is the version of all of them.  Library and reader may be of different releases as long as it is the same.
 * Pointers are addresses in the process; 0: none.  A reader takes no lock and trusts no value: it reads a struct again
 * to know that it did not change meanwhile.
 */
#ifndef CACHE_INSPECT_H
#define CACHE_INSPECT_H

#include <stdint.h>
#include <string.h>

#include "peerdma_cache.h"

#define INSPECT_NAME	"peerdma-cache"
#define INSPECT_VERSION	3

struct inspect_page {
	char magic[16];			/* INSPECT_NAME */
	uint32_t version;
	uint32_t size;			/* of this struct */
	uint64_t changes;		/* of the list of caches; odd: one is under way */
	uint64_t first;			/* struct inspect_cache */
};

/* A region that has ended. */
enum inspect_reason { ENDED_MERGED, ENDED_EVICTED, ENDED_INVALIDATED, ENDED_STALE };

struct inspect_ended {
	uint64_t addr, length, gets;
	uint64_t why;			/* enum inspect_reason */
};

#define INSPECT_ENDED	32

/* What each miss changes comes first: it shares cache lines with what else a miss uses. */
struct inspect_cache {
	uint32_t capacity;
	uint32_t used;			/* regions ever used: the first so many */
	uint64_t count, dead, bytes, host, device, bar1_use;
	uint64_t late_hits, misses, failures, merges, evictions, retries, invalidations, stale, fences;
	uint64_t gone_hits, gone_slot_hits;	/* of threads that ended */
	uint64_t bad_puts;
	uint64_t deferred, unsettled;
	uint64_t checked;
	uint64_t next;
	uint64_t number;		/* from 1 on, never used twice in a process */
	uint64_t regions;		/* struct inspect_region[capacity] */
	uint64_t threads;		/* struct inspect_thread */
	uint64_t thread_changes;	/* threads that came or went, or whose refs moved */
	uint32_t monitors;		/* PEERDMA_MONITOR_* */
	uint32_t has_check;		/* regions without a word are asked for by check() */
	uint64_t by_hooks, by_calls;	/* addresses of words that say that hooks, or calls, end the region */
	uint64_t ended_count;
	struct inspect_ended ended[INSPECT_ENDED];	/* a ring: the nth that ended is at n % INSPECT_ENDED */
};

/* Fields without a meaning here are the library's. */
struct inspect_thread {
	uint64_t unused[4];
	uint64_t refs;			/* struct inspect_refs[capacity] */
	uint64_t unused_too;
	uint64_t slot_hits;
	uint64_t unused_also[2];
	uint64_t index_hits;
	uint64_t next;
	uint32_t capacity;
};

struct inspect_refs {
	uint32_t unused;
	uint32_t count;			/* inspect_gets(), inspect_held() */
	uint64_t unused_too;
};

struct inspect_region {
	uint64_t addr, length;
	uint64_t unused;
	uint64_t state_word;
	uint64_t word;			/* address of the validity word; 0: none */
	uint32_t unused_too;
	int32_t refs;			/* those that are in no thread's refs */
	uint64_t gets;			/* likewise */
	uint64_t unused_also;
};

/* In a region's state word. */
#define INSPECT_STATE	0xffU
#define INSPECT_LIVE	2U
#define INSPECT_DEAD	5U		/* ended, but held */
#define INSPECT_BAR1	(0x3fU << 8)	/* not 0: it takes pages of BAR1 */

/* A thread's gets of the region, and its gets minus its puts. */
static inline uint32_t inspect_gets(uint32_t count)
{
	return (count + 0x8000) >> 16;
}

static inline int32_t inspect_held(uint32_t count)
{
	return (int16_t)count;
}

/* A cache's counters: this; then inspect_count_thread() for each of its threads; then inspect_sum(). */
static inline void inspect_count(const struct inspect_cache *from, struct peerdma_cache_counters *to)
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

static inline void inspect_count_thread(uint64_t slot_hits, uint64_t index_hits, struct peerdma_cache_counters *to)
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

#endif
