/* SPDX-License-Identifier: MIT */
/*
 * thread_cache.h - a thread's own part of a cache.
 *
 * It contains the thread's refs, one for each region, and the thread's slots: a hash table from
 * blocks of addresses to refs.  A slot is a guess.  The range in the refs shows whether the region
 * covers the get's range, and the generation shows whether the region has ended.  Slots and refs
 * are small, because a hit spends most of its time on fetching them.  Forked children get zeroed
 * memory in their place, so in a child no get is a hit.
 *
 * Address space is divided into areas, and each area has one block size, from 4 KiB to 64 MiB.  The
 * smallest region that a get found in the area sets it.  It is the greatest aligned size of which
 * this region consists, so that no block has two regions.  But it is at least 1/16 of the region,
 * or 1/4 in large tables, where memory costs more than a look at a second slot.  Then a block may
 * touch two regions, and has two slots for them.  So a large region takes few slots, and a hit
 * mostly looks at one slot, wherever in the region its range is.  Areas are small, because one
 * small region makes all blocks of its area small.  A block may be larger than an area.
 */
#pragma once

#include "cache.h"

#define AREA_SHIFT	20		/* 1 MiB */
#ifndef AREAS			/* a test has fewer */
#define AREAS		(1U << 17)	/* addresses at this distance, in areas, share an entry */
#endif

/* `peerdma cache` reads some of the fields (inspect.h). */
struct thread_cache {
	/*
	 * The cache's serial: the fast path of gets or puts is open.  0: it is closed.  put_serial
	 * is also 0 while the thread has fewer refs than there are regions, because the thread may
	 * put a region that another thread got.
	 */
	uint64_t get_serial;
	uint64_t put_serial;
	uint64_t slot_mask;
	/* Offsets in refs, in bytes.  Behind them are the second slots, half as many. */
	uint32_t *slots;
	struct thread_refs *refs;	/* by the region's number */
	struct region *regions;
	uint64_t hits;			/* by slots */
	/* A bit for each page of refs.  0: all refs of the page are 0. */
	uint64_t *touched;

	uint64_t serial __attribute__((aligned(64)));
	uint64_t index_hits;
	struct thread_cache *next;	/* lock: in cache->threads */
	uint32_t capacity;		/* lock: number of refs */
	/* Written by the thread with the lock: its hits make fences */
	bool fence;
	bool monitored;
	struct index_place place;	/* where in the index the thread searched last */
	uint32_t crowded;		/* gets that found no slot, since hits_then was set */
	uint64_t hits_then;
	struct peerdma_cache *cache;
	uint64_t process;
	struct thread_cache *prev;	/* lock */
	struct thread_cache *mine;	/* the same thread's next thread cache, of another cache */
	uint32_t marked;		/* the thread's next call must call deferred_drain() */
	/* puts that were slow because there are fewer refs than regions */
	uint32_t slow_puts;
	bool draining;			/* the thread is in deferred_drain(), perhaps in remove() */
	/*
	 * OWNER_*.  Thread and cache end in any order.  The first one leaves this struct to the
	 * second, which frees it.
	 */
	uint32_t owner;
	/* AREAS entries: turn + log2 of the block's size in pages */
	uint8_t *areas;
	uint8_t turn;			/* entries with another turn are void; never 0 */
};

#define OWNER_BOTH	0
#define OWNER_LEAVING	1		/* the thread ends */
#define OWNER_ORPHAN	2		/* the cache is gone */

/*
 * A larger number would take too much static TLS, which is reserved for libraries loaded by
 * dlopen()
 */
#define THREAD_LAST 4
#define SLOTS_SHIFT 42
#define SECONDS_SHIFT 29
#define SLOTS_LAST (1U << (64 - SLOTS_SHIFT))

/*
 * The thread caches that the thread used last, indexed by the caches' serials; and for each one,
 * the block size of its last hit, as a mask.  The mask is here because a hit needs it before it has
 * fetched the thread cache.
 */
struct thread_state {
	struct thread_cache *last[THREAD_LAST];
	int32_t block[THREAD_LAST];
	uint32_t locks;		/* cache locks that the thread holds or is about to take (lock.h) */
	bool ending_left;	/* the thread is in left() */
	/*
	 * The thread calls this when it has released its lock.  NULL: no signal handler left a
	 * range.
	 */
	void (*left)(void);
};

/* Belongs to no cache: its serials are 0. */
extern struct thread_cache thread_cache_none;

#ifndef this_thread	/* a test that runs threads as coroutines defines it */
extern _Thread_local struct thread_state this_thread __attribute__((tls_model("initial-exec"),
	visibility("hidden")));
#endif

/*
 * This factor spreads blocks well whose distances are a power of two, a small multiple of one, or
 * runs of these: they rarely share a slot, for any number of slots.  Of 300,000 factors, this one
 * left the fewest blocks without a slot of their own.
 */
#define SLOTS_FACTOR 0x935b36c5d2508bfdULL

static inline uint64_t block_product(uint64_t addr, int32_t block)
{
	return (addr & (uint64_t)(int64_t)block) * SLOTS_FACTOR;
}

static inline uint32_t *first_slot(const struct thread_cache *tc, uint64_t addr, int32_t block)
{
	return &tc->slots[block_product(addr, block) >> SLOTS_SHIFT & tc->slot_mask];
}

/*
 * The slot to use if another region has the first slot.  It is chosen by other bits of the product,
 * so blocks that share a first slot rarely share the second.
 */
static inline uint32_t *second_slot(const struct thread_cache *tc, uint64_t addr, int32_t block)
{
	return &tc->slots[tc->slot_mask + 1 +
			  (block_product(addr, block) >> SECONDS_SHIFT & tc->slot_mask >> 1)];
}

#define AREA_TURN	16U	/* turns are multiples of it */
#define BLOCK_MAX	14U	/* 64 MiB in pages */

static inline uint8_t *area_of(const struct thread_cache *tc, uint64_t addr)
{
	return &tc->areas[addr >> AREA_SHIFT & (AREAS - 1)];
}

/*
 * Returns the mask of the address's block.  If the area's block size is unknown, returns that of
 * the last hit.
 */
static inline int32_t block_at(const struct thread_cache *tc, uint64_t addr)
{
	uint32_t size = *area_of(tc, addr) ^ tc->turn;

	return size <= BLOCK_MAX ? -(1 << (RANGE_SHIFT + size)) :
	       this_thread.block[tc->serial % THREAD_LAST];
}

/* Refs and regions have the same order.  This is the ratio of their sizes. */
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

/*
 * Looks at the first slot for the area's block size, then at the second slot.  False: neither leads
 * to a region that covers the range.
 */
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

/*
 * thread_cache_find() returns the calling thread's thread cache, or NULL.  thread_cache_get() makes
 * it if there is none.  NULL: out of memory; the thread works without one.
 */
struct thread_cache *thread_cache_get(struct peerdma_cache *cache);
struct thread_cache *thread_cache_find(const struct peerdma_cache *cache);
/* Call this when the cache is being closed. */
void thread_caches_orphan(struct peerdma_cache *cache);

/* ---- thread_cache.c ---- */

struct thread_cache *thread_cache_make(struct peerdma_cache *cache);
/*
 * Lock.  thread_cache_join() adds tc to cache->threads.  thread_cache_leave() removes it, and moves
 * the thread's counts to the regions.
 */
void thread_cache_join(struct thread_cache *tc);
void thread_cache_leave(struct peerdma_cache *cache, struct thread_cache *tc);
/*
 * Free the refs and the rest of a thread cache that has left.  Different threads may do these two.
 */
void refs_free(struct thread_refs *refs, uint32_t capacity);
void thread_cache_free(struct thread_cache *tc);

/*
 * Lock.  Closes the fast path of every thread.  The thread's next call drains the deferred regions,
 * and opens it again.
 */
void thread_caches_mark(struct peerdma_cache *cache);
void thread_cache_unmark(struct peerdma_cache *cache, struct thread_cache *tc);

/*
 * The thread holds a ref of the region.  Fills a slot for the block of addr, so that gets in whole
 * pages of the region find it.
 */
void thread_cache_remember(struct thread_cache *tc, const struct region *region, uint64_t addr);

/* Returns the refs of a region, for which the thread may have none yet.  NULL: out of memory. */
struct thread_refs *refs_meet(struct thread_cache *tc, const struct region *region);
/* No lock.  Moves the thread's count for a region to the region before it overflows. */
void refs_spill(struct thread_cache *tc, uint32_t number);
/*
 * Makes refs for all regions, unless there are so many that the thread may need only a few of them.
 */
void refs_keep_up(struct thread_cache *tc);
/*
 * The thread puts while it has fewer refs than there are regions.  Makes refs for all of them if
 * that happens often.
 */
void refs_hurry(struct thread_cache *tc);
