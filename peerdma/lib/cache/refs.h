/* SPDX-License-Identifier: MIT */
/*
 * refs.h - counts the refs of a region without sharing.
 *
 * Each thread has a refs per region, in which only it counts.  The sum over all
 * threads is the number of refs; one thread may take a ref and another give it back.
 * A hit stores to the thread's own refs, then checks that the region has not
 * changed.  The thread that ends a region (the ender) changes the region first, and
 * then sums.  In both threads the store must be visible before the check: the ender
 * executes the fence for both (ord_fence_others()), so a hit needs none.
 *
 * A region's number is reused, with the next generation.  Refs with a generation
 * can be found by the ender of that generation:
 *
 *   fill	the thread stores the generation, makes a fence, and reads the
 *		region's state word: unless it is live, the refs is emptied again
 *   end	the ender changes the state word, makes a fence, and empties each refs
 *		that has the generation; a thread whose record is empty reads the state word
 */
#ifndef CACHE_HOLD_H
#define CACHE_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/order.h"

/*
 * One thread's count for one region.  word: how often it has taken a ref, times
 * 2^16, plus how many more it has taken than given back, which may be negative.
 * Both go to the region before they overflow.
 */
struct thread_refs {
	uint32_t gen;		/* the generation that a hit is good for; 0: none */
	uint32_t count;		/* written by its thread alone */
	/*
	 * Pages of that generation, all of them if they are not too many: the page past
	 * the last << 28 | how many.  Its thread's own, but that the ender empties it with
	 * gen; they may miss each other, and it is gen that counts.
	 */
	uint64_t range;
};

_Static_assert(sizeof(struct thread_refs) == 16, "a power of two");

/* Pages of 4096 bytes, whatever the system's are: a shift by what is known beforehand is cheaper. */
#define RANGE_SHIFT	12
#define RANGE_COUNT_BITS 28		/* up to 1 TiB, which ends below 2^48 */
#define RANGE_COUNT_MAX	((1U << RANGE_COUNT_BITS) - 1)
#define RANGE_PAGE_MAX	((1ULL << (64 - RANGE_COUNT_BITS)) - 1)

static inline uint64_t range_of(uint64_t first_page, uint64_t pages)
{
	return (first_page + pages) << RANGE_COUNT_BITS | pages;
}

/* [addr, addr + length) is not empty, does not wrap, and is all in it. */
static inline bool range_covers(uint64_t range, uint64_t addr, uint64_t length)
{
	uint64_t left = (range >> RANGE_COUNT_BITS << RANGE_SHIFT) - addr;

	uint64_t size = range << (64 - RANGE_COUNT_BITS) >> (64 - RANGE_COUNT_BITS - RANGE_SHIFT);

	return left <= size && length - 1 < left;
}

#define COUNT_GET	0x10001U
#define COUNT_FULL(w)	((w) & 0x40000000U)		/* after a take */
#define COUNT_LOW(w)	((int16_t)(w) < -0x4000)	/* after a give */

static inline int32_t count_refs(uint32_t count)
{
	return (int16_t)count;
}

static inline uint32_t count_gets(uint32_t count)
{
	return (count + 0x8000) >> 16;
}

/* A region's state word: its generation, what is known of it, and its state. */
enum state {
	STATE_FREE,
	STATE_PENDING,		/* being registered by one thread, which others wait for */
	STATE_LIVE,
	STATE_KILLED,		/* was PENDING when its memory went away */
	STATE_DYING,		/* its ender has not summed yet */
	STATE_DEAD,		/* the thread that gives back the last ref ends it */
	STATE_ENDING,		/* not held; being deregistered */
};

/*
 * Beside them, and the same until the region ends: 0, or one more than the shift of the pages of
 * a GPU's aperture that it takes.
 */
#define STATE_BAR1_AT	8
#define STATE_BAR1	(0x3fU << STATE_BAR1_AT)
/* Its kind of memory, and what it may be accessed for. */
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

enum ref {
	REF_CHECK,
	REF_OK,
	REF_UNDONE,		/* the region has ended; the ender may be waiting for the last ref (teardown_last_ref()) */
};

/*
 * The hit, for whatever generation the refs has: it is read once, at the end.  Only
 * the refs's own thread stores a generation, so the one that is read at the end was
 * there before.  `fence`: this machine has no ord_fence_others().
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

/* After REF_UNDONE. */
static inline void ref_undo(struct thread_refs *refs, uint32_t count)
{
	ord_store(&refs->range, 0);
	ord_store_release(&refs->count, count - COUNT_GET);
}

/* REF_OK: given back, and no ender waits for it.  REF_CHECK: given back; ref_put_first() finds out whether one waits. */
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

/* If the refs has no generation, or another: REF_OK, or REF_UNDONE: the count was rolled back. */
enum ref ref_get_first(struct thread_refs *refs, const uint64_t *state_word, uint64_t expected);
enum ref ref_put_first(struct thread_refs *refs, const uint64_t *state_word);

/* By the refs's thread: from now on the ender of this generation finds the record.  No page of it is known yet. */
void refs_fill(struct thread_refs *refs, uint32_t gen);

/* By the ender: empties a refs; true if its thread may be in the middle of a hit. */
bool refs_empty(struct thread_refs *refs, uint32_t gen);

#endif
