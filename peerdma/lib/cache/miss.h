/* SPDX-License-Identifier: MIT */
/* miss.h - what the files share that make regions: miss.c, overlap.c, room.c. */
#ifndef CACHE_MISS_H
#define CACHE_MISS_H

#include "cache.h"

/* What is wanted; narrowed when registering more than was asked for fails. */
struct wish {
	uint64_t addr, last;	/* inclusive */
	uint64_t from, to;	/* what to register */
	uint32_t aperture;
	uint64_t life;		/* of the region that was begun, PENDING */
	bool counted;		/* as a miss */
	uint32_t ahead;		/* regions for which there is memory to be taken */
	enum { WHOLE, PLAIN } how;
};

/* Overlapping regions, found under the lock. */
struct overlap {
	struct peerdma_cache *cache;
	uint64_t from, to;
	struct region *pending;
	uint64_t pending_life;
	uint32_t first, count;
};

enum step { FOUND, MADE, AGAIN, FAILED };

/*
 * overlap.c.  Lock.  What is wanted touches regions: it is in one (FOUND), one is PENDING and was waited for
 * (AGAIN), or they are to be merged (MADE).
 */
enum step overlap_look(struct peerdma_cache *cache, struct index_place *place, struct wish *w, struct overlap *o,
		       struct region **out, int *error);
/* Lock.  They go to the list, and the wish is for all of their memory. */
void overlap_merge(struct peerdma_cache *cache, struct wish *w, struct overlap *o, struct ending *list);

/* room.c.  Lock.  Chooses what must go for a region of this length to fit, if enough is idle. */
void room_make(struct peerdma_cache *cache, const struct wish *w, struct ending *list);
/* No lock.  Ends up to n idle regions, and says how many. */
uint32_t room_evict(struct peerdma_cache *cache, uint32_t n);
/* No lock.  Takes memory for as many regions from this one on. */
void room_ahead(struct peerdma_cache *cache, struct front *f, uint32_t number, uint32_t many);

/*
 * Memory is taken ahead, as much again as is used, since a page that is touched first costs
 * as much as some misses: from the first that a small cache does without, up to a part that nobody misses.
 */
#define AHEAD_FIRST	16U
#define AHEAD_LEAST	256U
#define AHEAD_MOST	1024U

/* Lock: this number is the first of how many whose memory nobody has touched.  0: somebody has. */
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
