/* SPDX-License-Identifier: MIT */
/*
 * refs.h - references to regions, counted per thread.
 *
 * Each thread has a struct thread_refs for each region, and only that thread counts in it.  The sum
 * over all threads is the number of references: one thread may take a ref, and another give it
 * back.
 *
 * A hit stores to its own count, then reads whether the region has ended.  The thread that ends the
 * region (the ender) first stores that the region has ended, then reads all counts.  Each must make
 * its store visible before its read.  The ender makes the fence for both (ord_fence_others(), which
 * is membarrier).  This fence is asymmetric: a hit needs none.
 *
 * A region's number is used again, with the next generation.  A thread's refs contain the
 * generation for which they are valid.  The ender of that generation empties them:
 *
 *   fill	the thread stores the generation, makes a fence, and reads the region's state word.
 *		If the region is not LIVE with that generation, the thread empties the refs
 *   end	the ender changes the state word, makes a fence, and empties all refs with the
 *		generation.  A thread that finds its refs empty reads the state word
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../base/order.h"

/*
 * count: the thread's gets of the region, times 2^16, plus its gets minus its puts, which may be
 * negative.  Before either part overflows, both are moved to the region.
 */
struct thread_refs {
	uint32_t gen;		/* generation of the region; 0: the refs are empty */
	uint32_t count;		/* only this thread writes it */
	/*
	 * Pages of the region, encoded by range_of(): all of them, unless the region has too many.
	 * The thread writes it, and the ender sets it to 0.  One of the two stores may overwrite
	 * the other; then gen decides.
	 */
	uint64_t range;
};

_Static_assert(sizeof(struct thread_refs) == 16, "a power of two");

/* Pages of 4096 bytes, on each system: a shift by a constant is cheaper. */
#define RANGE_SHIFT	12
#define RANGE_COUNT_BITS 28		/* up to 1 TiB, which must end below 2^48 */
#define RANGE_COUNT_MAX	((1U << RANGE_COUNT_BITS) - 1)
#define RANGE_PAGE_MAX	((1ULL << (64 - RANGE_COUNT_BITS)) - 1)

static inline uint64_t range_of(uint64_t first_page, uint64_t pages)
{
	return (first_page + pages) << RANGE_COUNT_BITS | pages;
}

/* Returns whether [addr, addr + length) is not empty, does not wrap, and lies in the range. */
static inline bool range_covers(uint64_t range, uint64_t addr, uint64_t length)
{
	uint64_t left = (range >> RANGE_COUNT_BITS << RANGE_SHIFT) - addr;

	uint64_t size = range << (64 - RANGE_COUNT_BITS) >> (64 - RANGE_COUNT_BITS - RANGE_SHIFT);

	return left <= size && length - 1 < left;
}

#define COUNT_GET	0x10001U
#define COUNT_FULL(c)	((c) & 0x40000000U)		/* tested after a get */
#define COUNT_LOW(c)	((int16_t)(c) < -0x4000)	/* tested after a put */

/* A region's state word: generation << 32 | properties | state. */
enum state {
	STATE_FREE,
	STATE_PENDING,		/* one thread registers it, and others wait */
	STATE_LIVE,
	STATE_KILLED,		/* the memory was freed while the region was PENDING */
	STATE_DYING,		/* the ender has not summed the refs yet */
	STATE_DEAD,		/* held: the put of the last ref deregisters it */
	STATE_ENDING,		/* not held: being deregistered */
};

/*
 * The properties stay the same until the region ends.  BAR1: 0, or 1 + log2 of the size of the BAR1
 * pages that the region takes.
 */
#define STATE_BAR1_AT	8
#define STATE_BAR1	(0x3fU << STATE_BAR1_AT)
/* The kind of memory, and the access for which it is registered. */
#define STATE_IS_HOST	(1U << 14)
#define STATE_IS_DEVICE	(1U << 15)
#define STATE_ACCESS_AT	16
#define STATE_PROPERTIES	0xffffff00U
#define STATE_WORD(gen, state) ((uint64_t)(gen) << 32 | (state))

static inline uint32_t state_gen(uint64_t state_word)
{
	return (uint32_t)(state_word >> 32);
}

static inline uint32_t state_access(uint64_t state_word)
{
	return (uint32_t)state_word >> STATE_ACCESS_AT;
}

static inline enum state state_of(uint64_t state_word)
{
	return (enum state)(state_word & 0xff);
}

/* The state word with another state. */
static inline uint64_t state_changed(uint64_t state_word, enum state state)
{
	return STATE_WORD(state_gen(state_word), state) | (state_word & STATE_PROPERTIES);
}

enum ref {
	REF_CHECK,
	REF_OK,
	/* The region has ended, and this may have been the last ref: call teardown_last_ref() */
	REF_UNDONE,
};

/*
 * The fast path of a get.  It reads the refs' generation only once, at the end.  Only this thread
 * stores a generation other than 0, so the value was there at the beginning too.  fence:
 * ord_fence_others() does not work on this system.
 */
static inline enum ref ref_get(struct thread_refs *refs, bool fence, uint32_t *count)
{
	*count = ord_load(&refs->count) + COUNT_GET;
	ord_store(&refs->count, *count);
	if (__builtin_expect(fence, 0))
		ord_fence();
	else
		ord_fence_light();
	return __builtin_expect(ord_load_acquire(&refs->gen) != 0, 1) ? REF_OK : REF_UNDONE;
}

/* Call this after REF_UNDONE.  count is the value that ref_get() stored. */
static inline void ref_undo(struct thread_refs *refs, uint32_t count)
{
	ord_store(&refs->range, 0);
	ord_store_release(&refs->count, count - COUNT_GET);
}

/* Counts a put.  REF_OK: the region is LIVE.  REF_CHECK: call ref_put_first(). */
static inline enum ref ref_put(struct thread_refs *refs, bool fence, uint32_t *count)
{
	*count = ord_load(&refs->count) - 1;
	ord_store_release(&refs->count, *count);
	if (__builtin_expect(fence, 0))
		ord_fence();
	else
		ord_fence_light();
	return __builtin_expect(ord_load(&refs->gen) != 0, 1) ? REF_OK : REF_CHECK;
}

/*
 * For refs that are empty or have another generation.  ref_get_first() returns REF_OK, or
 * REF_UNDONE if it rolled the count back.  Call ref_put_first() after REF_CHECK.  It returns REF_OK
 * or REF_UNDONE; after REF_UNDONE, call teardown_last_ref().
 */
enum ref ref_get_first(struct thread_refs *refs, const uint64_t *state_word, uint64_t expected);
enum ref ref_put_first(struct thread_refs *refs, const uint64_t *state_word);

/*
 * Called by the refs' thread.  Sets their generation, so that its ender empties them from now on.
 * Sets an empty range.
 */
void refs_fill(struct thread_refs *refs, uint32_t gen);

/*
 * Called by the ender.  Empties the refs if they have this generation.  True: they had it, so their
 * thread may be in the middle of a hit.
 */
bool refs_empty(struct thread_refs *refs, uint32_t gen);
