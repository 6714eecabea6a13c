// SPDX-License-Identifier: MIT
/*
 * hold.c - see hold.h.
 */
#include "hold.h"

void record_fill(struct record *record, uint32_t gen)
{
	ord_store(&record->range, 0);
	ord_store(&record->gen, gen);
}

enum hold hold_take_first(struct record *record, const uint64_t *life, uint64_t expected)
{
	uint32_t word = ord_load(&record->word);

	ord_store(&record->word, word + WORD_TAKE);
	record_fill(record, life_gen(expected));
	ord_fence();
	if (ord_load_acquire(life) == expected)
		return HOLD_YES;
	ord_store(&record->gen, 0);
	ord_store_release(&record->word, word);
	return HOLD_UNDONE;
}

/*
 * The thread that ends the region either has seen that the hold was given back, or is
 * notified by the result.  Without the hold, the number may belong to another region by
 * now: then the record names that region, and the one that was held has already ended.
 */
enum hold hold_given(struct record *record, const uint64_t *life)
{
	uint64_t now = ord_load_acquire(life);

	if (life_state(now) == STATE_LIVE) {
		record_fill(record, life_gen(now));
		ord_fence();
		if (ord_load(life) == now)
			return HOLD_YES;
		ord_store(&record->gen, 0);
	}
	return HOLD_UNDONE;
}

bool hold_empty(struct record *record, uint32_t gen)
{
	if (ord_load(&record->gen) != gen)
		return false;
	ord_store(&record->gen, 0);
	ord_store(&record->range, 0);
	return true;
}
