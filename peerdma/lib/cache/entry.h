/* SPDX-License-Identifier: MIT */
/*
 * entry.h - an entry of the index: a region's number, and an upper limit of its length.  With the
 * limit, a miss can see that a neighbour ends before the range, without fetching the neighbour.
 *
 * The limit is in pages, rounded up to four binary digits.  A code c up to 15 means c pages.  A
 * greater one means (8 + c % 8) << (c / 8 - 1).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../base/index.h"

#define ENTRY_NUMBER_BITS	24
#define ENTRY_NUMBERS		(1U << ENTRY_NUMBER_BITS)
#define REACH_SHIFT		12
#define REACH_ANY		0xfeU	/* any length; INDEX_NONE contains 0xff */

static inline uint32_t reach_of(uint64_t length)
{
	uint64_t pages = (length >> REACH_SHIFT) + !!(length & ((1U << REACH_SHIFT) - 1));
	uint32_t shift, reach;

	if (pages < 16)
		return (uint32_t)pages;
	shift = 60 - (uint32_t)__builtin_clzll(pages);
	reach = (shift << 3) + (uint32_t)((pages >> shift) + !!(pages & ((1ULL << shift) - 1)));
	return reach < REACH_ANY ? reach : REACH_ANY;
}

static inline uint32_t entry_of(uint32_t number, uint64_t length)
{
	return reach_of(length) << ENTRY_NUMBER_BITS | number;
}

static inline uint32_t entry_number(uint32_t entry)
{
	return entry & (ENTRY_NUMBERS - 1);
}

/* False: the entry is INDEX_NONE, or its region, which begins at key, does not reach beyond x. */
static inline bool entry_may_reach(uint32_t entry, uint64_t key, uint64_t x)
{
	uint32_t reach = entry >> ENTRY_NUMBER_BITS;
	uint64_t pages = reach < 16 ? reach : (uint64_t)(8 + reach % 8) << (reach / 8 - 1);

	if (reach >= REACH_ANY)
		return entry != INDEX_NONE;
	return (x - key) >> REACH_SHIFT < pages;
}
