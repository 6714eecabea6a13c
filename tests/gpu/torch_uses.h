/* SPDX-License-Identifier: MIT */
/* torch_uses.h - for pytorch.py, which knows the struct by heart. */
#pragma once

#include <stdint.h>

struct torch_uses {
	uint64_t gets, hits;
	uint64_t stale, invalidations;	/* of the cache's counters */
	uint64_t monitors, bytes;
	uint64_t failed;		/* gets */
	uint64_t wrong;			/* found a registration of memory that was freed */
	uint64_t dead;			/* pins that were over when a get returned them */
	uint64_t spanning;		/* gets that found a region of several allocations */
};

int torch_uses_open(void);
/* A get and a put.  0, or what the get returned. */
int torch_uses(uint64_t addr, uint64_t length);
void torch_uses_tell(struct torch_uses *out);
