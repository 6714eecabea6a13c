/* SPDX-License-Identifier: MIT */
/*
 * mappings.h - the mappings of this process, from /proc/thread-self/maps, sorted by address. Other
 * threads may change mappings during the reading, so the result is only a snapshot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct mappings {
	FILE *file;
	uint64_t from, to;	/* the current mapping; `to` is 0 before the first */
	bool plain;		/* private and readable: the program's own memory */
	bool writable;
};

/* False: /proc is not mounted. */
bool mappings_open(struct mappings *m);
void mappings_close(struct mappings *m);
/*
 * Finds the first mapping that ends above x. x must not be lower than in earlier calls. False:
 * none.
 */
bool mappings_find(struct mappings *m, uint64_t x);
