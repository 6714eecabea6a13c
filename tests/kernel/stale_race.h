/* SPDX-License-Identifier: MIT */
/* stale_race.h - one round of the race between a card's write and the end of its mapping. */
#pragma once

#include "peerdma_test_card.h"

/* How the card loses its address. */
enum end { FREED, UNPINNED, UNMAPPED, CLOSED, CONTEXT, UNPINNED_PERSISTENT, CLIENT_LEAVES,
	CLIENT_PUT, CLIENT_UNMAPPED, IMPORTER_TOLD, IMPORTER_LATE, ENDS };
/* How long importers have. */
#define LATE_MS 10
extern const char *const end_names[ENDS];

struct result {
	unsigned long rounds;
	unsigned long under_way;	/* writes that were, when the call had returned */
	unsigned long landed;		/* after that: bytes where none may be */
	unsigned long cut_short;	/* copies of a driver's */
	unsigned long by_end[ENDS];	/* of the landed ones */
};

struct racer {
	const struct dma_card *card;
	enum {
		FOR_ALL,	/* there is no other card */
		FOR_ANY,	/* all ends that any card can have */
		FOR_ONE,	/* those that only one card can have at a time */
	} which;
	bool amd;		/* it is AMD's memory, by HIP */
};

/* Per cent of a transfer, round by round: all of it, and most often the end. */
unsigned int phase_of(unsigned int round);
/*
 * User space drives the card, one that is translated.  The GPU is open, and all of VRAM is taken but
 * for a piece of GPU_PAGE bytes for each that does this.
 */
void race_round(const struct racer *racer, unsigned int round, struct result *r);
/* A driver of the bridge's drives it, /dev/fpgaN: it stops its card when it is told. */
void driver_round(int fpga, unsigned int round, struct result *r);
