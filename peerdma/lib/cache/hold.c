// SPDX-License-Identifier: MIT
/*
 * hold.c - see hold.h.
 */
#include "hold.h"

static uint32_t word_of(const struct record *record)
{
	uint32_t word = ord_load(&record->word);

	return word ? word : WORD_START;
}

void record_fill(struct record *record, uint32_t gen)
{
	record->range = 0;
	ord_store(&record->gen, gen);
}

enum hold hold_take_first(struct record *record, const uint64_t *life, uint64_t expected)
{
	uint32_t word = word_of(record);

	ord_store(&record->word, word + WORD_TAKE);
	record_fill(record, life_gen(expected));
	ord_fence();
	if (ord_load_acquire(life) == expected)
		return HOLD_YES;
	ord_store(&record->gen, 0);
	ord_store_release(&record->word, word);
	return HOLD_UNDONE;
}

/* The caller's hold keeps the region from being another's, so its generation is the right one. */
enum hold hold_give_first(struct record *record, const uint64_t *life)
{
	uint64_t now = ord_load(life);
	bool live = life_state(now) == STATE_LIVE;

	ord_store_release(&record->word, word_of(record) - 1);
	if (live)
		record_fill(record, life_gen(now));
	ord_fence();
	if (live && ord_load(life) == now)
		return HOLD_YES;
	ord_store(&record->gen, 0);
	return HOLD_UNDONE;
}

bool hold_empty(struct record *record, uint32_t gen)
{
	if (ord_load(&record->gen) != gen)
		return false;
	ord_store(&record->gen, 0);
	return true;
}
