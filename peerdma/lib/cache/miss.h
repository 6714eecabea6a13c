/* SPDX-License-Identifier: MIT */
/* miss.h - what the files share that make regions: miss.c, overlap.c, room.c. */
#ifndef CACHE_MISS_H
#define CACHE_MISS_H

#include "state.h"

/* What is wanted; narrowed when registering more than was asked for fails. */
struct wish {
	uint64_t addr, last;	/* inclusive */
	uint64_t own_from, own_to;	/* in whole granules, or as ops have it */
	uint64_t bound_from, bound_to;	/* what it overlaps is taken in as long as it lies within */
	uint64_t from, to;	/* what to register: with regions that it overlaps, or without */
	uint64_t fixed;		/* of STATE_PROPERTIES, but for the access: pages and kind */
	uint32_t access;	/* as asked for */
	uint32_t with_access;	/* and what the regions that it replaces have */
	const struct peerdma_cache_request *request;
	uint64_t state_word;		/* of the region that was begun, PENDING */
	uint64_t replaced_bytes;
	uint32_t replaced;	/* regions that end when it is there */
	bool alone;		/* the cache is off: it is in no list, and no other get finds it */
	bool apart;		/* it overlaps others: it is not in the index until it is registered */
	const char *why;	/* FAILED: what to say of it, without the lock */
	bool counted;		/* as a miss */
	uint32_t ahead;		/* regions for which there is memory to be taken */
	enum { WHOLE, PLAIN } how;
};

/* A thread that waits for a PENDING region; on its stack. */
struct waiter {
	const void *thread;
	struct region *region;
	uint64_t state_word;
	struct waiter *next;
};

enum step { FOUND, MADE, AGAIN, FAILED };

/*
 * overlap.c.  Lock.  What is wanted touches regions: it is in one (FOUND), one is PENDING and was waited for
 * (AGAIN), or none is (MADE), and the wish says what to register.
 */
enum step overlap_look(struct peerdma_cache *cache, struct index_place *place, struct wish *w, struct region **out, int *error);
/* Lock.  A region that is apart, PENDING, goes into the index, and those that are all in it go to the list. */
void overlap_replace(struct peerdma_cache *cache, struct region *region, struct teardown *list);
/* Lock.  Out of the list of those that are apart. */
void apart_remove(struct peerdma_cache *cache, const struct region *region);

/* room.c.  Lock.  Chooses what must go for a region of this length to fit, if enough is idle. */
void room_make(struct peerdma_cache *cache, const struct wish *w, struct teardown *list);
/* No lock.  Ends up to n idle regions, and says how many. */
uint32_t room_evict(struct peerdma_cache *cache, uint32_t n);
/* For the first regions, with memory for the index. */
bool room_begin(struct peerdma_cache *cache, void *nodes);
/* No lock.  Whether there is memory for more regions than before; false: there are as many as there can be. */
bool room_more(struct peerdma_cache *cache);
/* No lock.  Takes memory for as many regions from this one on. */
void room_ahead(struct peerdma_cache *cache, struct thread_cache *tc, uint32_t number, uint32_t many);

/*
 * Memory is populated ahead, as much again as is used, because the first touch of a page costs as much as
 * some misses.  Small caches begin later, and a step has a limit, so that little memory stays unused.
 */
#define AHEAD_FIRST	16U
#define AHEAD_LEAST	256U
#define AHEAD_MOST	1024U

/* Lock: how many regions from this number on have memory that was never touched.  0: none. */
static inline uint32_t room_is_new(struct peerdma_cache *cache, uint32_t number)
{
	if (number < cache->ahead || number < AHEAD_FIRST)
		return 0;
	/* Powers of two, then multiples of the greatest: not a page, nor a huge one, that is not needed. */
	cache->ahead = number < AHEAD_LEAST ? AHEAD_LEAST : number + (number > AHEAD_MOST ? AHEAD_MOST : number);
	return cache->ahead - number;
}

/* Over a limit, or out of numbers: one in so many at once, since an end of many costs little more than of one. */
#define EVICT_SHARE	64

#endif
