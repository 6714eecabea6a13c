/* SPDX-License-Identifier: MIT */
/*
 * cache.h - what the cache's files share.
 *
 *   hold.h	who holds a region	index.h	regions by address (entry.h: what it says)
 *   front.c	a thread's own table	thread.c	whose it is
 *   cache.c	caches, counters	get.c	hits (calls.h: whose)
 *   miss.c	making regions		end.c	ending them
 *   overlap.c	what a range touches	invalidate.c	ending what is there
 *   room.c	limits, memory
 *   pins.c	a cache of pins		seen.c	what others see of it
 *
 * One lock, cache->lock.  It guards what is marked so below and every change of the
 * index, and of a region's life but one: PENDING to LIVE is its maker's.
 * It is never held across a function of the user's, a system call or anything
 * that may allocate: the code that frees memory may call into the cache.
 */
#ifndef CACHE_H
#define CACHE_H

#include <pthread.h>

#include "entry.h"
#include "index.h"
#include "hold.h"
#include "peerdma_cache.h"

#define NO_REGION UINT32_MAX

struct region {
	struct peerdma_cached pub;	/* while PENDING, registration is its maker's mark */
	uint64_t life;
	const uint32_t *word;
	uint32_t expected;
	int32_t holds;			/* lock: those not in a thread's record */
	uint64_t gets;			/* lock: likewise */
	uint32_t next;			/* lock: in a list of those that end, or are free */
	uint32_t clock;			/* lock: gets, when the hand last passed */
};

_Static_assert(sizeof(struct region) == 64, "one cache line");

/*
 * A thread's side of a cache.  The table has the place of a region's record, in
 * bytes, by the hash of a page: a guess, which the record answers for.  Both are
 * small, since a hit's time is that of getting them to the processor.  They are wiped
 * in forked children, where therefore nothing is a hit.
 */
struct front {
	/* Its cache's, never used twice; or 0 where more is to be done than in the common case. */
	uint64_t get_serial;
	uint64_t put_serial;
	uint64_t slot_mask;
	uint32_t *slots;
	struct record *records;		/* one per region */
	struct region *regions;
	uint64_t hits;			/* in slots */

	uint64_t serial __attribute__((aligned(64)));
	bool fence, monitored;
	uint64_t index_hits;
	struct index_place place;	/* the thread's last miss */
	uint32_t capacity;
	uint32_t crowded;		/* regions found in the index since the table grew */
	struct peerdma_cache *cache;
	uint64_t process;
	struct front *next, *prev;	/* lock: in cache->fronts */
	struct front *mine;		/* the thread's own list */
	uint32_t owner;			/* FRONT_*: of thread's end and cache's end, whichever is first takes care */
};

#define FRONT_BOTH	0
#define FRONT_LEAVING	1		/* the thread ends */
#define FRONT_ORPHAN	2		/* the cache is gone */

/* Why a region ended, and which: the last ones are kept for who looks (seen.h). */
enum end_why { END_MERGED, END_EVICTED, END_INVALIDATED, END_STALE };

struct ended {
	uint64_t addr, length, gets;
	uint64_t why;			/* enum end_why */
};

#define ENDED_MAX	32

struct peerdma_cache {
	/* Read by every get, and written by none. */
	uint64_t serial;
	struct region *regions;
	uint64_t process;
	uint32_t capacity;
	uint8_t granule_shift;
	bool fence, monitored;
	bool limited;			/* options say how much there may be */
	struct peerdma_cache_ops ops;
	void *arg;
	void (*closed)(void *arg);
	bool word_will_do;		/* check() is for regions without a word */
	uint64_t checked;		/* atomic: how many of these there were */
	bool hooked;			/* libpeerdma-hooks tells of frees */
	/* Words of a cache of pins that never change: of regions of which the hooks tell, or nobody needs to. */
	const uint32_t *by_hooks, *by_nobody;
	struct peerdma_cache_options options;

	struct index index;

	pthread_mutex_t lock __attribute__((aligned(64)));
	pthread_cond_t settled;		/* a PENDING region is so no more */
	uint32_t waiting;
	struct front *fronts;		/* lock, and all that follows */
	uint32_t used;			/* regions ever used: the first so many */
	uint32_t ahead;			/* so many have memory, or will have soon */
	uint32_t free;
	uint32_t returned;		/* no lock: ended, to be moved to free */
	uint32_t hand;			/* the clock's */
	uint64_t count, dead, bytes, aperture;
	uint64_t late_hits, misses, failures, merges, evictions, retries, invalidations, stale, fences;
	uint64_t gone_hits, gone_front_hits;	/* of threads that ended */
	uint64_t front_changes;			/* fronts that came or went */
	struct ended ended[ENDED_MAX];		/* a ring: the nth that ended is at n % ENDED_MAX */
	uint64_t ended_count;
	struct peerdma_cache *seen_next, *seen_prev;	/* seen.c's lock */
};

static inline uint32_t region_number(const struct peerdma_cache *cache, const struct region *region)
{
	return (uint32_t)(region - cache->regions);
}

/* The records lie as the regions do. */
#define RECORDS_STEP	(sizeof(struct region) / sizeof(struct record))

static inline struct record *record_of(const struct front *f, const struct region *region)
{
	return (struct record *)((char *)f->records + ((uintptr_t)region - (uintptr_t)f->regions) / RECORDS_STEP);
}

static inline bool region_covers(const struct region *region, uint64_t addr, uint64_t last)
{
	uint64_t first = ord_load(&region->pub.addr);

	return addr >= first && last - first < ord_load(&region->pub.length);
}

/* thread.c: the calling thread's, made if need be; NULL: no memory for one, and the cache does without. */
struct front *front_of(struct peerdma_cache *cache);
struct front *front_if_any(const struct peerdma_cache *cache);
/* The cache ends. */
void fronts_orphan(struct peerdma_cache *cache);

/* front.c */
struct front *front_make(struct peerdma_cache *cache);
/* What the thread holds is found by the page of addr from here on, if that page is all the region's. */
void front_remember(struct front *f, const struct region *region, uint64_t addr);
/* Lock: into cache->fronts, and out again.  What a thread that leaves has counted goes to the regions. */
void front_join(struct front *f);
void front_leave(struct peerdma_cache *cache, struct front *f);
/* Lock: the same for one record. */
void front_spill(struct front *f, uint32_t number);
/* When it has left: its records, and the rest; these two may be freed by different threads. */
void records_free(struct record *records, uint32_t capacity);
void front_free(struct front *f);

/* miss.c: takes a hold, and makes the region if there is none.  f: the thread's, or NULL. */
int region_make(struct peerdma_cache *cache, struct front *f, uint64_t addr, uint64_t length, struct region **out);

/* Lock.  Whether what the index says of a region that begins at key ends after x. */
static inline bool region_reaches(const struct peerdma_cache *cache, uint32_t entry, uint64_t key, uint64_t x)
{
	return entry_may_reach(entry, key, x) && key + cache->regions[entry_number(entry)].pub.length > x;
}

/* Lock.  True: no region touches [from, to), and one leaf of the index says so, as it mostly does. */
static inline bool regions_none(const struct peerdma_cache *cache, struct index_place *place, uint64_t from, uint64_t to)
{
	uint32_t before;

	return index_gap(&cache->index, place, from, to, &before) && !region_reaches(cache, before, place->key, from);
}

/* overlap.c.  Lock: fn for each region that begins in [from, to) or reaches into it, in order. */
void regions_touched(struct peerdma_cache *cache, struct index_place *place, uint64_t from, uint64_t to,
		     bool (*fn)(void *arg, uint32_t entry), void *arg);

/* end.c */
struct ending {
	uint32_t first;			/* through region->next */
	uint32_t count;
};

/* Lock: takes a LIVE or PENDING region out of the index and makes it no one's hit; in the list if it was LIVE. */
void end_begin(struct peerdma_cache *cache, uint32_t number, struct ending *list, enum end_why why);
/*
 * Lock, which is let go and taken again if other threads must be waited for: from
 * here on the list's regions cannot be held anew; those that are held leave it.
 */
void end_commit(struct peerdma_cache *cache, struct front *self, struct ending *list);
/* No lock: deregisters what is in the list. */
void end_finish(struct peerdma_cache *cache, struct ending *list);
/* Lock: chooses up to n idle regions that were not used lately. */
void end_choose(struct peerdma_cache *cache, uint32_t n, struct ending *list);
/* No lock: whoever gave back a hold of a region that is ending. */
void end_last_hold(struct peerdma_cache *cache, uint32_t number);
/* No lock: ends a region unless it has changed. */
void end_stale(struct peerdma_cache *cache, struct region *region, uint64_t life);
/* Lock. */
int64_t region_holds(const struct peerdma_cache *cache, uint32_t number);
uint64_t region_gets(const struct peerdma_cache *cache, uint32_t number);
#define ENDING_NONE ((struct ending){ NO_REGION, 0 })

/* memory.c: zeros, taken as they are touched; NULL if there are none.  wiped: a forked child gets zeros, too. */
void *memory_get(size_t size, bool wiped);
void memory_put(void *memory, size_t size);
/* Where a second part may begin that is given back for itself. */
static inline size_t memory_rounded(size_t size)
{
	return (size + 4095) / 4096 * 4096;
}
/* Takes the pages of [offset, offset + length), as far as they are there, in one go. */
void memory_ahead(void *memory, size_t size, size_t offset, size_t length);

/* hooks.c: whether libpeerdma-hooks is in front and calls fn(arg) from now on; and no more. */
struct peerdma_hook_event;
bool hooks_subscribe(void (*fn)(void *arg, const struct peerdma_hook_event *event), void *arg);
void hooks_unsubscribe(void (*fn)(void *arg, const struct peerdma_hook_event *event), void *arg);
/* Whether none of what it watches can be called without its seeing it; that is tried, which takes a while. */
bool hooks_see_all(void);
/* The word of peerdma_hooks_making(), where no call that makes addresses CUDA's is missed; NULL: one may be. */
const uint64_t *hooks_making(void);
/* The same for a cache. */
bool cache_hooks_begin(struct peerdma_cache *cache);
void cache_hooks_end(struct peerdma_cache *cache);
/*
 * Whether it is told of all frees: by each way by which this process could call for
 * one, it is seen.  loads: loader_loads(), for an answer that is not looked for again.
 */
bool cache_hooks_complete(const struct peerdma_cache *cache, uint64_t loads);

/* seen.c: from here on other processes find it; and no more, its counters are printed if that was asked for. */
void cache_seen_begin(struct peerdma_cache *cache);
void cache_seen_end(struct peerdma_cache *cache);

/* cache.c.  Lock. */
void cache_count(const struct peerdma_cache *cache, struct peerdma_cache_counters *out);

#endif
