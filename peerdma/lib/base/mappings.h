/* SPDX-License-Identifier: MIT */
/*
 * mappings.h - what this process has mapped, from /proc/thread-self/maps, in the order of
 * addresses.  It changes while it is read: what is found is a guess for other threads'
 * mappings.
 */
#ifndef MAPPINGS_H
#define MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct mappings {
	FILE *file;
	uint64_t from, to;	/* of the mapping that was read last; to is 0 before the first */
	bool plain;		/* private, and readable: memory of the program's own */
	bool writable;
};

/* False: there is no /proc. */
bool mappings_open(struct mappings *m);
void mappings_close(struct mappings *m);
/* The first mapping that ends above x, which is above those of earlier calls.  False: there is none. */
bool mappings_find(struct mappings *m, uint64_t x);

#endif
