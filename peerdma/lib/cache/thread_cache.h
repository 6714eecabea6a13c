/* SPDX-License-Identifier: MIT */
/* thread_cache.h - how a hit finds the thread's table and its place there. */
#ifndef CACHE_THREAD_CACHE_H
#define CACHE_THREAD_CACHE_H

#include "state.h"

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

#endif
