/* SPDX-License-Identifier: MIT */
/* thread_cache.h - a thread's own side of a cache: how a hit finds it, and its place there. */
#ifndef CACHE_THREAD_CACHE_H
#define CACHE_THREAD_CACHE_H

#include "cache.h"

/*
 * A thread's side of a cache.  The table has the place of a region's refs, in
 * bytes, by the hash of a block of addresses: a guess, which the refs answers for.  Both
 * are small, since a hit's time is that of getting them to the processor.  They are wiped
 * in forked children, where therefore nothing is a hit.
 *
 * How great a block is depends on the area of memory that it is in: an eighth to a 16th
 * of the smallest region that was found there, 4 KiB at least, 64 MiB at most.  So a great
 * region is in a few slots, a hit is one look wherever it falls, and no block touches more
 * than two regions, for which there are two places.  Areas are small, since a small region
 * cuts all that is in its own into small blocks; a block may be greater than an area.
 */
#define AREA_SHIFT	20		/* 1 MiB */
#ifndef AREAS			/* a test has fewer */
#define AREAS		(1U << 17)	/* what is so many areas apart shares one */
#endif

struct thread_cache {
	/*
	 * Its cache's, never used twice; or 0 where more is to be done than in the common case.
	 * What is put may be another thread's ref of any region: put_serial is 0 as long as there
	 * are fewer refs than regions.
	 */
	uint64_t get_serial;
	uint64_t put_serial;
	uint64_t slot_mask;
	uint32_t *slots;		/* behind them half as many for seconds */
	struct thread_refs *refs;		/* one per region, up to the greatest that the thread has met at least */
	struct region *regions;
	uint64_t hits;			/* in slots */
	uint64_t *touched;		/* a bit for each page of refs that may have something in it */

	uint64_t serial __attribute__((aligned(64)));
	bool fence;			/* lock, and the thread's own: its hits make one */
	bool monitored;
	uint64_t index_hits;
	struct index_place place;	/* the thread's last miss */
	uint32_t capacity;		/* lock: of refs */
	uint32_t crowded;		/* regions found in the index since the table grew */
	struct peerdma_cache *cache;
	uint64_t process;
	struct thread_cache *next, *prev;	/* lock: in cache->threads */
	struct thread_cache *mine;		/* the thread's own list */
	uint32_t marked;		/* the thread is to take the careful path once: deferred_drain() */
	uint32_t careful_puts;		/* for want of refs */
	bool draining;			/* the thread is in deferred_drain(), and in remove() perhaps */
	uint32_t owner;			/* FRONT_*: of thread's end and cache's end, whichever is first takes care */
	uint8_t *areas;			/* AREAS: a block's size as a power of two of pages, and the turn in which it was found */
	uint8_t turn;			/* others are forgotten; never 0 */
};

#define OWNER_BOTH	0
#define OWNER_LEAVING	1		/* the thread ends */
#define OWNER_ORPHAN	2		/* the cache is gone */

#define THREAD_LAST 4	/* all that a library that dlopen() brings should take of the room for such */
#define SLOTS_SHIFT 43
#define SECONDS_SHIFT 30
#define SLOTS_LAST (1U << (64 - SLOTS_SHIFT))

/*
 * The calling thread's last thread caches, by their cache's serial number; and of the area of each
 * one's last hit the block: here, since it is wanted before anything of the thread cache is known.
 */
struct thread_state {
	struct thread_cache *last[THREAD_LAST];
	int32_t block[THREAD_LAST];
	uint32_t locks;		/* of caches: lock.h */
	bool ending_left;	/* this thread is in the function below */
	void (*left)(void);	/* lock.h: to be called when the thread has no lock; NULL: a signal handler left nothing */
};

/* Of no cache: its serials are 0. */
extern struct thread_cache thread_cache_none;

#ifndef this_thread	/* a test with threads of its own has its own */
extern _Thread_local struct thread_state this_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));
#endif

/*
 * Blocks that are a power of two apart, or a small multiple of one, mostly go to places of
 * their own, in tables of every size: the factor was chosen of some hundreds by trying that.
 */
#define SLOTS_FACTOR 0x7ef83847f39e9aabULL

static inline uint32_t *first_slot(const struct thread_cache *tc, uint64_t addr, int32_t block)
{
	return &tc->slots[(addr & (uint64_t)(int64_t)block) * SLOTS_FACTOR >> SLOTS_SHIFT & tc->slot_mask];
}

/* For what finds that one taken: by other bits, so that what meets in one does not meet in the other. */
static inline uint32_t *second_slot(const struct thread_cache *tc, uint64_t addr, int32_t block)
{
	return &tc->slots[tc->slot_mask + 1 + ((addr & (uint64_t)(int64_t)block) * SLOTS_FACTOR >> SECONDS_SHIFT & tc->slot_mask >> 1)];
}

#define AREA_TURN	16U	/* a turn is a multiple */
#define BLOCK_MAX	14U	/* 64 MiB in pages */

static inline uint8_t *area_of(const struct thread_cache *tc, uint64_t addr)
{
	return &tc->areas[addr >> AREA_SHIFT & (AREAS - 1)];
}

/* The bits of an address that say which block it is in; where that is not known, as at the last hit. */
static inline int32_t block_at(const struct thread_cache *tc, uint64_t addr)
{
	uint32_t size = *area_of(tc, addr) ^ tc->turn;

	return size <= BLOCK_MAX ? -(1 << (RANGE_SHIFT + size)) : this_thread.block[tc->serial % THREAD_LAST];
}

/* The refs lie as the regions do. */
#define REFS_STEP	(sizeof(struct region) / sizeof(struct thread_refs))

static inline struct thread_refs *refs_of(const struct thread_cache *tc, const struct region *region)
{
	return (struct thread_refs *)((char *)tc->refs + ((uintptr_t)region - (uintptr_t)tc->regions) / REFS_STEP);
}

static inline struct thread_refs *refs_at(const struct thread_cache *tc, uint32_t at)
{
	return (struct thread_refs *)((char *)tc->refs + at);
}

static inline struct region *region_at(const struct thread_cache *tc, uint32_t at)
{
	return (struct region *)((char *)tc->regions + (uint64_t)at * REFS_STEP);
}

static inline bool covered_at(const struct thread_cache *tc, uint32_t at, uint64_t addr, uint64_t length)
{
	return range_covers(ord_load(&refs_at(tc, at)->range), addr, length);
}

/* Where a get does not look first; false: the table does not know. */
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

#endif
