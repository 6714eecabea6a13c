/* SPDX-License-Identifier: MIT */
/*
 * inspect.h - what a process publishes of its caches, for `peerdma cache` and others that may debug the process.
 *
 * The library maps one page, whose name shows in /proc/PID/maps.  It points to the first cache.  That, its regions,
 * threads and refs are the library's own structs: nothing is counted, copied or written for readers, so they cost a
 * hit nothing.
 *
 * A reader is compiled with the same headers.  The page has the layout of its library's structs, and the reader refuses
 * another one than its own: library and reader may be of different releases as long as the layout is the same.  A
 * reader takes no lock and trusts no value: it reads a struct again to know that it did not change meanwhile.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "peerdma_cache.h"

#define INSPECT_NAME	"peerdma-cache"
/* Increase it if a field that a reader uses changes its meaning, or a counter its place. */
#define INSPECT_VERSION	4

/* Where a reader finds what it uses; of thread_cache.h. */
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
	uint64_t changes;		/* of the list of caches; odd: one is under way */
	uint64_t first;			/* struct peerdma_cache; its field next leads on */
};

/* A region that has ended. */
enum inspect_reason { ENDED_MERGED, ENDED_EVICTED, ENDED_INVALIDATED, ENDED_STALE };

struct inspect_ended {
	uint64_t addr, length, gets;
	uint64_t why;			/* enum inspect_reason */
};

#define INSPECT_ENDED	32

/* What each miss changes comes first: it shares cache lines with what else a miss uses. */
struct cache_stats {
	uint32_t used;			/* regions ever used: the first so many */
	uint64_t count, dead, bytes, host, device, bar1_use;
	uint64_t late_hits, misses, failures, merges, evictions, retries, invalidations, stale,
		fences;
	uint64_t gone_hits, gone_slot_hits;	/* of threads that ended */
	uint64_t bad_puts;
	uint64_t deferred, unsettled;
	uint64_t checked;
	uint64_t thread_changes;	/* threads that came or went, or whose refs moved */
	uint32_t monitors;		/* PEERDMA_MONITOR_* */
	/* Addresses of words that say that hooks, or calls, end the region */
	uint64_t by_hooks, by_calls;
	uint64_t ended_count;
	/* A ring: the nth that ended is at n % INSPECT_ENDED */
	struct inspect_ended ended[INSPECT_ENDED];
};

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
