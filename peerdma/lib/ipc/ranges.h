/* SPDX-License-Identifier: MIT */
/*
 * ranges.h - ranges of addresses, in order: finds those that overlap a given one. Its cost depends on how many these are,
 * and hardly on how many there are in all. They may overlap each other.
 *
 * A skip list. One writer at a time (the caller's lock). Readers take no lock, never wait for a writer, and find each range
 * that is there during the whole call. So a reader may be inside munmap(), or in a signal handler that interrupted the writer.
 */
#ifndef IPC_RANGES_H
#define IPC_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANGES_LEVELS	8		/* enough for 4^8 ranges */
#define RANGES_NONE	UINT32_MAX

/* A range has a number, below `count` of ranges_init(). */
struct ranges_node {
	uint64_t first, last;
	uint64_t reach;			/* the greatest `last` of this range and all before it */
	uint32_t next[RANGES_LEVELS];	/* number + 1; 0: none */
	uint32_t height;
} __attribute__((aligned(64)));

struct ranges {
	struct ranges_node *nodes;	/* the last one is the head */
	uint32_t head;
	uint64_t inserted;		/* counted before each insertion: a reader that meets one begins anew */
};

/* Where a search goes on: the range found last. All zeros: at the beginning. */
struct ranges_place {
	uint64_t first;
	uint32_t after;			/* number + 1 */
};

static inline size_t ranges_size(uint32_t count)
{
	return ((size_t)count + 1) * sizeof(struct ranges_node);
}

/* memory: ranges_size(count) bytes of zeros, which the caller gives back. */
void ranges_init(struct ranges *r, void *memory, uint32_t count);
/* Lock. [first, last] under a number that is not there. */
void ranges_insert(struct ranges *r, uint32_t number, uint64_t first, uint64_t last);
/* Lock. One that is there. */
void ranges_remove(struct ranges *r, uint32_t number);
/* The next range that overlaps [first, last], by their beginnings; RANGES_NONE: no more, or before ranges_init(). No lock. */
uint32_t ranges_next(const struct ranges *r, uint64_t first, uint64_t last, struct ranges_place *place);

#endif
