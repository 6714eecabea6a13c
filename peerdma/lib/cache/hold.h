/* SPDX-License-Identifier: MIT */
/*
 * hold.h - who holds a region, counted without sharing.
 *
 * Each thread has a record per region, which it alone counts in.  The sum over
 * all threads is how often the region is held; one thread may take a hold and
 * another give it back.  A hit is: take, by a store to the thread's own record,
 * then look whether the region still is what it was.  Whoever ends a region
 * makes it look different first, and then sums.  Of these two, each store must
 * be seen before each look: the one who ends pays for both (ord_fence_others()),
 * so that a hit is without a fence.
 *
 * A region's number is used again, with the next generation.  A record's
 * generation is its thread's promise to have told the ender where to find it:
 *
 *   fill	the thread stores the generation, makes a fence, and looks at the
 *		region's life: it is live, or the record is emptied again
 *   end	the ender changes the life, makes a fence, and empties each record
 *		that names the generation; those that it finds empty will look
 */
#ifndef CACHE_HOLD_H
#define CACHE_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "order.h"

/*
 * One thread's count for one region.  word: how often it has taken a hold, in the
 * upper half, and how many more it has taken than given back, in the lower half,
 * which begins in the middle.  Both go to the region before they overflow.
 * 0: never used; then gen is 0, too.
 */
struct record {
	uint32_t gen;		/* the generation that a hit is good for; 0: none */
	uint32_t word;		/* written by its thread alone */
	/*
	 * Its thread's own: pages of that generation, all of them if they are not too
	 * many: first page << 20 | how many.
	 */
	uint64_t range;
};

/* A page is 4096 bytes everywhere: a shift by what is known beforehand is cheaper. */
#define RANGE_SHIFT	12
#define RANGE_COUNT_BITS 20
#define RANGE_COUNT_MAX	((1U << RANGE_COUNT_BITS) - 1)

static inline bool range_covers(uint64_t range, uint64_t page, uint64_t last)
{
	uint64_t first = range >> RANGE_COUNT_BITS;

	return page - first <= last - first && last - first < (range & RANGE_COUNT_MAX);
}

#define WORD_START	0x8000U
#define WORD_TAKE	0x10001U
#define WORD_FULL(w)	((w) & 0x40000000U)		/* after a take */
#define WORD_LOW(w)	(!((w) & 0xc000U))		/* after a give */

static inline int32_t word_holds(uint32_t word)
{
	return word ? (int32_t)(word & 0xffff) - (int32_t)WORD_START : 0;
}

static inline uint32_t word_takes(uint32_t word)
{
	return word >> 16;
}

/* A region's life: its generation, what is known of it, and its state. */
enum state {
	STATE_FREE,
	STATE_PENDING,		/* being registered by one thread, which others wait for */
	STATE_LIVE,
	STATE_KILLED,		/* was PENDING when its memory went away */
	STATE_DYING,		/* its ender has not summed yet */
	STATE_DEAD,		/* the one who gives back the last hold ends it */
	STATE_ENDING,		/* nobody holds it; being deregistered */
};

#define LIFE_APERTURE	(1U << 8)
#define LIFE(gen, state) ((uint64_t)(gen) << 32 | (state))

static inline uint32_t life_gen(uint64_t life)
{
	return (uint32_t)(life >> 32);
}

static inline enum state life_state(uint64_t life)
{
	return (enum state)(life & 0xff);
}

enum hold {
	HOLD_NO,		/* the record does not name this generation */
	HOLD_YES,
	HOLD_UNDONE,		/* the region ended meanwhile: whoever waits for the last hold is to be told */
};

/* The hit, of whatever generation the record is for.  `fence`: this machine has no ord_fence_others(). */
static inline enum hold hold_take(struct record *record, bool fence, uint32_t *word)
{
	uint32_t gen = ord_load(&record->gen);

	if (__builtin_expect(!gen, 0))
		return HOLD_NO;
	*word = ord_load(&record->word) + WORD_TAKE;
	ord_store(&record->word, *word);
	if (__builtin_expect(fence, 0))
		ord_fence();
	else
		ord_fence_light();
	if (__builtin_expect(ord_load_acquire(&record->gen) == gen, 1))
		return HOLD_YES;
	ord_store_release(&record->word, *word - WORD_TAKE);
	return HOLD_UNDONE;
}

/* HOLD_YES: given back, and nobody waits for it.  HOLD_NO: hold_give_first() is the call.  HOLD_UNDONE: as above. */
static inline enum hold hold_give(struct record *record, bool fence, uint32_t *word)
{
	if (__builtin_expect(!ord_load(&record->gen), 0))
		return HOLD_NO;
	*word = ord_load(&record->word) - 1;
	ord_store_release(&record->word, *word);
	if (__builtin_expect(fence, 0))
		ord_fence();
	else
		ord_fence_light();
	return __builtin_expect(ord_load(&record->gen) != 0, 1) ? HOLD_YES : HOLD_UNDONE;
}

/* The same two where the record names no generation, or not this one. */
enum hold hold_take_first(struct record *record, const uint64_t *life, uint64_t expected);
enum hold hold_give_first(struct record *record, const uint64_t *life);

/* The thread's: from here on it will be told of the end of this generation, of which no page is known yet. */
void record_fill(struct record *record, uint32_t gen);

/* The ender's: empties a record; true if its thread may be in the middle of a hit. */
bool hold_empty(struct record *record, uint32_t gen);

#endif
