/* SPDX-License-Identifier: MIT */
/*
 * cache.h - a cache: what its files share.  docs/cache.md describes the protocol and the files.
 *
 * One lock, cache->lock.  It guards the fields marked so and every change of the index and of a
 * region's state word, with one exception: the thread that registers a region makes it LIVE.
 *
 * What no call may do:
 *
 *   under the lock		allocate, free, map or unmap memory, call a function of the
 *				user's or make a system call (fail() allocates: call it afterwards).
 *				A thread that holds the allocator's lock may be in invalidate() and
 *				wait for this lock.
 *   in invalidate() and	the same, lock or no lock: the thread may be inside malloc() or
 *   in hooks			free().  They take regions out of the index and defer the rest.  The
 *				one wait is for other threads' fences (membarrier).
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
	/* Read by every get, and written by none. */
	/* The serial; above it, how many ranges signal handlers left (lock.h) */
	uint64_t gate;
	struct region *regions;
	uint64_t process;
	uint32_t capacity;
	/* Regions for which there is memory, and nodes of the index */
	uint32_t ready;
	uint8_t granule_shift;
	/* Lock, once it is made: all hits make a fence, because membarrier does not work */
	bool fence;
	bool monitored;			/* hits look at a word or call check() */
	bool limited;			/* the options have limits */
	bool off;			/* nothing is cached */
	uint32_t access_all;		/* bits that there are */
	char *payload;			/* payload_step bytes of each region */
	uint32_t payload_step;
	struct peerdma_cache_ops ops;
	void *arg;
	void *own[3];			/* a cache of pins: the memory of its arg */
	/* check() is for regions without a word; stats.checked: how many there were */
	bool word_will_do;
	bool hooked;			/* libpeerdma-hooks reports frees */
	bool host_monitored;		/* atomic: a monitor of host memory reports frees */
	/* atomic: invalidations and puts, which remove() may make, do nothing */
	uint32_t closing;
	struct peerdma_cache_options options;

	struct index index;

	pthread_mutex_t lock __attribute__((aligned(64)));
	pthread_cond_t settled;		/* a region is PENDING no more */
	uint32_t waiting;
	struct waiter *waiters;		/* lock */
	struct thread_cache *threads;	/* lock, and all that follows */
	/* Regions whose memory is populated, or is being populated */
	uint32_t ahead;
	uint32_t free;
	uint32_t overlapping;		/* PENDING regions that are not in the index (pending.h) */
	uint32_t returned;		/* no lock: ended, to be moved to free */
	/* ENDING, for a later call to deregister; also read without the lock */
	uint32_t deferred;
	uint32_t unsettled;		/* DYING: their refs cannot be summed yet (teardown.c) */
	uint32_t hand;			/* of the clock */
	/* Counters, and more that `peerdma cache` reads; `checked` and `monitors` are atomic */
	struct cache_stats stats;
	/* atomic: ranges that signal handlers left, as in refs; 0: none */
	uint64_t left[LEFT_MAX];
	/* atomic: 1: there was no place for one, and all regions end */
	uint64_t left_all;
	struct peerdma_cache *next, *prev;		/* inspect.c's lock */
};

/*
 * A serial is a cache's number, from 1 on, times SERIAL_WORDS, plus a number below SERIAL_WORDS that no other open cache
 * has, as long as there are no more: by that threads find their thread caches.
 */
#define SERIAL_WORDS	64U
#define SERIAL_BITS	48
#define GATE_LEFT	(1ULL << SERIAL_BITS)

/* A thread cache whose fast path is open has this value, the serial.  None has it while something is left. */
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

/* inspect.c: other processes find the cache from here on. */
void inspect_begin(struct peerdma_cache *cache);
/* They do not any more.  Its counters are printed if that was asked for. */
void inspect_end(struct peerdma_cache *cache);
/* Lock. */
void cache_count(const struct peerdma_cache *cache, struct peerdma_cache_counters *out);

/*
 * cache.c: peerdma_cache_create(), for other calls that make a cache, too.  call: the call's name, for texts.
 * flags and access: those that this kind of cache has.
 */
int cache_make(const char *call, const struct peerdma_cache_ops *ops, void *arg,
	       const struct peerdma_cache_options *options, uint32_t flags, uint32_t access,
	       struct peerdma_cache **out);
