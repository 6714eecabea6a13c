/* SPDX-License-Identifier: MIT */
/*
 * cache.h - struct peerdma_cache.  docs/cache.md explains the terms, the protocol and the files.
 *
 * A cache has one lock, cache->lock.  It guards the fields marked "lock", and each change of the
 * index and of a region's state word.  One change needs no lock: the thread that registers a region
 * makes it LIVE.  In the comments of functions, "Lock." means that the caller holds it, and "No
 * lock." that the caller does not.
 *
 * Calls must not do these things:
 *
 *   under the lock		allocate, free, map or unmap memory, call a function of the
 *				program, or make a system call (fail() allocates: call it later).
 *				A thread that holds the allocator's lock may be in invalidate() and
 *				wait for this lock.
 *   in invalidate() and	the same, lock or no lock: the thread may be inside malloc() or
 *   in hooks			free().  They take regions out of the index and defer the rest.
 *				They wait only for other threads' fences (membarrier).
 *   in a hit			lock, allocate, write memory that other threads read
 *   in get and put		wait for anything but another thread's add() for the same memory
 *   half-way through		be cancelled: cancel_off() around add(), remove(), check(),
 *				extent() and each wait.  Those are the only cancellation points.
 *   when add() fails, or	change anything that a caller can see.  The cache's own memory is
 *   memory runs out		mapped when it is made; a thread does without a thread cache
 */
#pragma once

#include <pthread.h>

#include "../base/index.h"
#include "entry.h"
#include "inspect.h"
#include "region.h"

#define LEFT_MAX	16

struct peerdma_cache {
	/* Gets read the fields from here to `index`, and do not write them. */
	/* The serial, plus GATE_LEFT for each range that signal handlers left (lock.h) */
	uint64_t gate;
	struct region *regions;
	uint64_t process;
	uint32_t capacity;
	/* The number of regions and of index nodes that have memory */
	uint32_t ready;
	uint8_t granule_shift;
	/* Each hit makes a fence, because membarrier fails.  Lock, once the cache is made. */
	bool fence;
	bool monitored;			/* hits look at a word or call check() */
	bool limited;			/* the options have limits */
	bool off;			/* nothing is cached */
	uint32_t access_all;		/* the access bits that this kind of cache supports */
	char *payload;			/* payload_step bytes for each region */
	uint32_t payload_step;
	struct peerdma_cache_ops ops;
	void *arg;
	void *own[3];			/* memory for `arg` in a cache of pins */
	/*
	 * A region with a word needs no check().  stats.checked counts the regions that were added
	 * without one.
	 */
	bool word_will_do;
	bool hooked;			/* libpeerdma-hooks reports frees */
	bool host_monitored;		/* atomic: a monitor of host memory reports frees */
	/*
	 * atomic; 1: the cache is being closed, so invalidations and puts from remove() have no
	 * effect
	 */
	uint32_t closing;
	struct peerdma_cache_options options;

	struct index index;

	pthread_mutex_t lock __attribute__((aligned(64)));
	pthread_cond_t settled;		/* signalled when a region leaves PENDING */
	uint32_t waiting;
	struct waiter *waiters;		/* lock */
	struct thread_cache *threads;	/* the lock guards this field and all below */
	/* The number of regions whose memory is populated or is being populated */
	uint32_t ahead;
	uint32_t free;
	uint32_t overlapping;		/* PENDING regions that are not in the index (pending.h) */
	/* no lock: regions that have ended; they move to `free` later */
	uint32_t returned;
	/* ENDING regions that a later call deregisters; also read without the lock */
	uint32_t deferred;
	/* DYING regions whose refs cannot be summed yet (teardown.c) */
	uint32_t unsettled;
	uint32_t hand;			/* of the clock */
	/*
	 * Counters and other fields that `peerdma cache` reads; `checked` and `monitors` are atomic
	 */
	struct cache_stats stats;
	/*
	 * atomic: ranges that signal handlers left, encoded as thread_refs.range; 0: a free entry
	 */
	uint64_t left[LEFT_MAX];
	/* atomic; 1: left[] was full, so all regions must end */
	uint64_t left_all;
	struct peerdma_cache *next, *prev;		/* inspect.c's lock */
};

/*
 * serial = number * SERIAL_WORDS + place.  The number counts caches from 1.  The place is below
 * SERIAL_WORDS, and no two open caches have the same one while at most SERIAL_WORDS are open.
 * Threads find their thread caches by the place.
 */
#define SERIAL_WORDS	64U
#define SERIAL_BITS	48
#define GATE_LEFT	(1ULL << SERIAL_BITS)

/*
 * Returns the gate.  A thread's fast path is open if its thread cache has this value as its serial.
 * While ranges are left (lock.h), the gate equals no serial, so all fast paths are closed.
 */
static inline uint64_t cache_gate(const struct peerdma_cache *cache)
{
	return __atomic_load_n(&cache->gate, __ATOMIC_RELAXED);
}

static inline bool gate_closed(const struct peerdma_cache *cache)
{
	return cache_gate(cache) >= GATE_LEFT;
}

static inline uint64_t cache_serial(const struct peerdma_cache *cache)
{
	return cache_gate(cache) & (GATE_LEFT - 1);
}

static inline uint64_t cache_number(const struct peerdma_cache *cache)
{
	return cache_serial(cache) / SERIAL_WORDS;
}

static inline uint32_t region_number(const struct peerdma_cache *cache, const struct region *region)
{
	return (uint32_t)(region - cache->regions);
}

/* inspect.c.  Adds the cache to the list that other processes read. */
void inspect_begin(struct peerdma_cache *cache);
/* Removes the cache from that list.  Prints its counters if PEERDMA_CACHE_REPORT is set. */
void inspect_end(struct peerdma_cache *cache);
/* Lock. */
void cache_count(const struct peerdma_cache *cache, struct peerdma_cache_counters *out);

/*
 * cache.c.  Makes a cache, for peerdma_cache_create() and similar calls.  call: the call's name,
 * for error texts.  flags and access: the bits that this kind of cache supports.
 */
int cache_make(const char *call, const struct peerdma_cache_ops *ops, void *arg,
	       const struct peerdma_cache_options *options, uint32_t flags, uint32_t access,
	       struct peerdma_cache **out);

/*
 * get.c: peerdma_cache_get() of a range that a region covers already; false: none does.  The range is not empty and does not wrap.
 */
bool cache_find(struct peerdma_cache *cache, const void *ptr, uint64_t length,
		struct peerdma_cached **hold);
/* pins.c: the context of a cache of pins; NULL: the cache is of another kind. */
struct peerdma *cache_pins_context(const struct peerdma_cache *cache);
