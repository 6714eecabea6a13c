/* SPDX-License-Identifier: MIT */
/* state.h - what all processes together hold of the machine. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../kernel/patience.h"

#define MAX_GPUS	4
#define MAX_CARDS	8
#define MODULES		8

/* In the order in which they are loaded; the last is of no provider. */
extern const char *module_names[MODULES];
/* Instead of the desktop's. */
void state_of_tegra(void);

struct state {
	int gpus, cards;
	struct {
		uint64_t pins, vram_free, clients, bar1_used;
	} gpu[MAX_GPUS];
	uint64_t live, pins, unpins, maps, unmaps;	/* peerdma's */
	uint64_t card_pins, card_mappings;
	int64_t gup_pins;	/* pages that pin_user_pages holds */
	int refs[MODULES];
};

/* The counts that change at once, and with `slow' those that lag behind, too. */
void state_read(struct state *s, bool slow);

/*
 * Waits until the state is back at `idle'.  False if it is not in time: *why
 * then says what is missing.
 */
bool state_settled(const struct state *idle, bool slow, char *why, int size);
