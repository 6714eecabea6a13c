/* SPDX-License-Identifier: MIT */
/*
 * thread_cache.h - a thread's own part of a cache.
 *
 * It has the thread's refs, one for each region, and slots: a hash table from blocks of addresses to refs.  A slot is a
 * guess.  The refs' range says whether the region covers what is asked for, and their generation whether it has ended.
 * Both are small, since a hit's time is that of fetching them.  They are wiped in forked children, in which
 * therefore nothing is a hit.
 *
 * The size of blocks depends on the area of memory, and is that of the smallest region that was found in the area: the
 * greatest of which the region is made, so that no block has two regions; but at least 1/16 of the region, or 1/4 in
 * large tables, where memory costs more than a look at a second slot.  4 KiB to 64 MiB.  So a great region takes few
 * slots, and a hit looks at one slot wherever it falls.  A block touches two regions at most, for which there are two
 * slots.  Areas are small, because one small region makes all blocks of its area small; a block may be greater than an
 * area.
 */
#pragma once

#include "cache.h"

#define AREA_SHIFT	20		/* 1 MiB */
#ifndef AREAS			/* a test has fewer */
#define AREAS		(1U << 17)	/* addresses this many areas apart share an entry */
#endif

/* `peerdma cache` reads some of the fields (inspect.h). */
struct thread_cache {
	/*
	 * The cache's serial: the fast path is open.  0: it is closed.  put_serial is also 0 as long as the thread has
	 * refs for fewer regions than there are, since it may put any region that another thread got.
	 */
	uint64_t get_serial;
	uint64_t put_serial;
	uint64_t slot_mask;
	/* Offsets in refs, in bytes; behind them half as many second slots */
	uint32_t *slots;
	struct thread_refs *refs;	/* by the region's number */
	struct region *regions;
	uint64_t hits;			/* by slots */
	/* A bit for each page of refs: it may have other values than 0 */
	uint64_t *touched;

	uint64_t serial __attribute__((aligned(64)));
	uint64_t index_hits;
	struct thread_cache *next;	/* lock: in cache->threads */
	uint32_t capacity;		/* lock: number of refs */
	/* Written by the thread with the lock: its hits make a fence */
	bool fence;
	bool monitored;
	struct index_place place;	/* where in the index the thread looked last */
	uint32_t crowded;		/* gets that found no slot, since hits_then */
	uint64_t hits_then;
	struct peerdma_cache *cache;
	uint64_t process;
	struct thread_cache *prev;	/* lock */
	struct thread_cache *mine;	/* the thread's next one, of another cache */
	uint32_t marked;		/* the thread's next call is to call deferred_drain() */
	uint32_t slow_puts;		/* because there are fewer refs than regions */
	bool draining;			/* the thread is in deferred_drain(), perhaps in remove() */
	/* OWNER_*: the thread and the cache end in any order; the first leaves the second to free this. */
	uint32_t owner;
	/* AREAS of them: turn + log2 of the block's size in pages */
	uint8_t *areas;
	uint8_t turn;			/* entries of other turns are void; never 0 */
};

#define OWNER_BOTH	0
#define OWNER_LEAVING	1		/* the thread ends */
#define OWNER_ORPHAN	2		/* the cache is gone */

/* More would take too much of the static TLS that is reserved for libraries loaded by dlopen() */
#define THREAD_LAST 4
#define SLOTS_SHIFT 42
#define SECONDS_SHIFT 29
#define SLOTS_LAST (1U << (64 - SLOTS_SHIFT))

/*
 * The thread caches that the thread used last, by the caches' serials, and for each the block size of its last hit, as a
 * mask.  That is here because a hit needs it before it has fetched the thread cache.
 */
struct thread_state {
	struct thread_cache *last[THREAD_LAST];
	int32_t block[THREAD_LAST];
	uint32_t locks;		/* locks of caches that the thread has: lock.h */
	bool ending_left;	/* the thread is in left() */
	/* To be called when the thread releases its lock; NULL: no signal handler left anything */
	void (*left)(void);
};

/* Of no cache: its serials are 0. */
extern struct thread_cache thread_cache_none;

#ifndef this_thread	/* a test whose threads are coroutines defines it */
extern _Thread_local struct thread_state this_thread __attribute__((tls_model("initial-exec"),
	visibility("hidden")));
#endif

/*
 * With this factor, blocks whose distance is a power of two, a small multiple of one, or is so in runs, rarely share a slot,
 * for any number of slots.  Of 300,000 factors it had the fewest blocks without a slot of their own.
 */
#define SLOTS_FACTOR 0x935b36c5d2508bfdULL

static inline uint32_t *first_slot(const struct thread_cache *tc, uint64_t addr, int32_t block)
{
	return &tc->slots[(addr & (uint64_t)(int64_t)block) *
			  SLOTS_FACTOR >> SLOTS_SHIFT & tc->slot_mask];
}

/* If another region has the first one.  By other bits, so that blocks that share a first slot rarely share the second. */
static inline uint32_t *second_slot(const struct thread_cache *tc, uint64_t addr, int32_t block)
{
	return &tc->slots[tc->slot_mask + 1 + ((addr & (uint64_t)(int64_t)block) *
					       SLOTS_FACTOR >> SECONDS_SHIFT & tc->slot_mask >> 1)];
}

#define AREA_TURN	16U	/* turns are multiples of it */
#define BLOCK_MAX	14U	/* 64 MiB in pages */

static inline uint8_t *area_of(const struct thread_cache *tc, uint64_t addr)
{
	return &tc->areas[addr >> AREA_SHIFT & (AREAS - 1)];
}

/* The mask of an address's block.  If the block size is not known here: that of the last hit. */
static inline int32_t block_at(const struct thread_cache *tc, uint64_t addr)
{
	uint32_t size = *area_of(tc, addr) ^ tc->turn;

	return size <= BLOCK_MAX ? -(1 << (RANGE_SHIFT + size)) :
	       this_thread.block[tc->serial % THREAD_LAST];
}

/* Refs and regions have the same order, with this ratio of sizes. */
#define REFS_STEP	(sizeof(struct region) / sizeof(struct thread_refs))

static inline struct thread_refs *refs_of(const struct thread_cache *tc,
					  const struct region *region)
{
	return (struct thread_refs *)((char *)tc->refs +
				      ((uintptr_t)region - (uintptr_t)tc->regions) / REFS_STEP);
}

static inline struct thread_refs *refs_at(const struct thread_cache *tc, uint32_t at)
{
	return (struct thread_refs *)((char *)tc->refs + at);
}

static inline struct region *region_at(const struct thread_cache *tc, uint32_t at)
{
	return (struct region *)((char *)tc->regions + (uint64_t)at * REFS_STEP);
}

static inline bool covered_at(const struct thread_cache *tc, uint32_t at, uint64_t addr,
			      uint64_t length)
{
	return range_covers(ord_load(&refs_at(tc, at)->range), addr, length);
}

/* The first slot for the area's own block size, then the second slot.  False: no slot names a region that covers the range. */
static inline bool slots_look(struct thread_cache *tc, uint64_t addr, uint64_t length, uint32_t *at)
{
	int32_t block = block_at(tc, addr);
	const uint32_t *slot = first_slot(tc, addr, block);

	*at = *slot;
	if (!covered_at(tc, *at, addr, length))
		*at = *second_slot(tc, addr, block);
	if (!covered_at(tc, *at, addr, length))
		return false;
	this_thread.block[tc->serial % THREAD_LAST] = block;
	return true;
}

/* ---- current.c: which thread cache is the calling thread's ---- */

/* The calling thread's; NULL: it has none.  The first makes one if need be; NULL: no memory, and the thread does without. */
struct thread_cache *thread_cache_get(struct peerdma_cache *cache);
struct thread_cache *thread_cache_find(const struct peerdma_cache *cache);
/* The cache is being closed. */
void thread_caches_orphan(struct peerdma_cache *cache);

/* ---- thread_cache.c ---- */

struct thread_cache *thread_cache_make(struct peerdma_cache *cache);
/* Lock.  Into cache->threads; and out of it: what the thread has counted goes to the regions. */
void thread_cache_join(struct thread_cache *tc);
void thread_cache_leave(struct peerdma_cache *cache, struct thread_cache *tc);
/* When it has left: its refs, and the rest.  Different threads may free these two. */
void refs_free(struct thread_refs *refs, uint32_t capacity);
void thread_cache_free(struct thread_cache *tc);

/* Lock.  The fast path of every thread is closed: its next call does what was deferred, and opens it again. */
void thread_caches_mark(struct peerdma_cache *cache);
void thread_cache_unmark(struct peerdma_cache *cache, struct thread_cache *tc);

/* From here on a slot has the region, of which the thread holds a ref, for the block of addr; in whole pages of the region. */
void thread_cache_remember(struct thread_cache *tc, const struct region *region, uint64_t addr);

/* The refs of a region that the thread may not have met yet; NULL: out of memory. */
struct thread_refs *refs_meet(struct thread_cache *tc, const struct region *region);
/* No lock.  Moves the thread's count for a region to the region: it is about to overflow. */
void refs_spill(struct thread_cache *tc, uint32_t number);
/* Refs for all regions that there are now, unless these are too many for a thread that may need few. */
void refs_keep_up(struct thread_cache *tc);
/* The thread puts while it has refs for fewer regions than there are: the same, if that is often. */
void refs_hurry(struct thread_cache *tc);
