// SPDX-License-Identifier: MIT
/*
 * entry.c - what the index says of a region's reach is never less than the region,
 * nor an eighth more, and nothing else of the entry changes with it.
 */
#include "cache/entry.h"
#include "../check.h"

#define BASE (1ULL << 40)
#define PAGE (1ULL << REACH_SHIFT)

static void look(uint64_t length)
{
	uint64_t pages = (length + PAGE - 1) / PAGE, most = (pages + pages / 8) * PAGE;

	for (uint32_t number = 0; number < ENTRY_NUMBERS; number += ENTRY_NUMBERS - 1) {
		uint32_t entry = entry_of(number, length);

		MUST(entry != INDEX_NONE);
		MUST(entry_number(entry) == number);
		MUST(entry_may_reach(entry, BASE, BASE));
		MUST(entry_may_reach(entry, BASE, BASE + length - 1));
		MUST(entry >> ENTRY_NUMBER_BITS == REACH_ANY || !entry_may_reach(entry, BASE, BASE + most));
	}
}

int main(void)
{
	MUST(!entry_may_reach(INDEX_NONE, BASE, BASE));
	for (uint64_t pages = 1; pages < 5000; pages++) {
		look(pages * PAGE);
		look(pages * PAGE - 1);
		look((pages - 1) * PAGE + 1);
	}
	for (uint32_t shift = 12; shift < 64; shift++) {
		for (uint64_t more = 0; more < 8; more++) {
			uint64_t length = (1ULL << shift) / 8 * (8 + more);

			look(length - 1);
			look(length);
			look(length + 1);
		}
		/* A power of two of pages is told exactly. */
		MUST(shift > 44 || !entry_may_reach(entry_of(1, 1ULL << shift), BASE, BASE + (1ULL << shift)));
	}
	MUST(entry_of(0, UINT64_MAX) >> ENTRY_NUMBER_BITS == REACH_ANY);
	MUST(entry_may_reach(entry_of(0, UINT64_MAX), 0, UINT64_MAX - 1));
	return 0;
}
