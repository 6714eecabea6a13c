/* SPDX-License-Identifier: MIT */
/*
 * ranges.h - address ranges, sorted: finds those that overlap a given range. The cost depends on
 * the number of ranges found, and hardly on the total number. Ranges may overlap each other.
 *
 * A skip list. There is one writer at a time, under the caller's lock. Readers take no lock, never
 * wait for a writer, and find each range that is present during the whole call. So a reader may run
 * inside munmap(), or in a signal handler that interrupted the writer.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RANGES_LEVELS	8		/* enough for 4^8 ranges */
#define RANGES_NONE	UINT32_MAX

/* Ranges are numbered from 0 to `count` - 1 (ranges_init()). */
struct ranges_node {
	uint64_t first, last;
	uint64_t reach;			/* the highest `last` of this range and all before it */
	uint32_t next[RANGES_LEVELS];	/* number + 1; 0: none */
	uint32_t height;
} __attribute__((aligned(64)));

struct ranges {
	struct ranges_node *nodes;	/* the last node is the head */
	uint32_t head;
	/* incremented before each insertion; a reader that sees a change starts again */
	uint64_t inserted;
};

/* The position of a search: after the range found last. All zeros: the beginning. */
struct ranges_place {
	uint64_t first;
	uint32_t after;			/* number + 1 */
};

static inline size_t ranges_size(uint32_t count)
{
	return ((size_t)count + 1) * sizeof(struct ranges_node);
}

/* memory: ranges_size(count) bytes of zeros, owned by the caller. */
void ranges_init(struct ranges *r, void *memory, uint32_t count);
/* Caller holds its lock. Inserts [first, last] under an unused number. */
void ranges_insert(struct ranges *r, uint32_t number, uint64_t first, uint64_t last);
/* Caller holds its lock. Removes a range. */
void ranges_remove(struct ranges *r, uint32_t number);
/*
 * Returns the next range that overlaps [first, last], sorted by beginning. RANGES_NONE: no more, or
 * ranges_init() was not called. Takes no lock.
 */
uint32_t ranges_next(const struct ranges *r, uint64_t first, uint64_t last,
		     struct ranges_place *place);
