/* SPDX-License-Identifier: MIT */
/*
 * peerdma_cache.h - libpeerdma's registration cache: register memory once, use
 * it again in nanoseconds, and never after it was freed.
 *
 *	struct peerdma_cached *hold;
 *
 *	peerdma_cache_open(ctx, NULL, &cache);
 *	peerdma_cache_get(cache, ptr, length, &hold);
 *	... hold->registration is a struct peerdma_region * for ptr ...
 *	peerdma_cache_put(cache, hold);		... it stays pinned for the next get ...
 *
 * A get finds the region that covers the range, or makes one.  What is made is
 * kept when the last hold is given back, until room is needed, its memory goes
 * away, or the cache is closed.  A get that begins after a free has returned
 * never finds what was registered before it, if the free is known to a monitor:
 *
 *   PEERDMA_MONITOR_WORD	a word in memory that changes when the registration ends, looked at by every
 *				hit: peerdma.ko's page of generations (caches of pins have it by themselves)
 *   PEERDMA_MONITOR_CHECK	a function that is asked at every hit: the caller's, or, in caches of pins that
 *				nobody else tells of, CUDA's buffer id, which no two allocations share
 *   PEERDMA_MONITOR_CALLS	peerdma_cache_invalidate(), called before memory is freed
 *   PEERDMA_MONITOR_HOOKS	libpeerdma-hooks, which sees frees of GPU memory by itself where it is
 *				preloaded or linked before libcuda (peerdma_hooks.h); used when it is there
 *
 * A hit takes no lock, and writes nothing that other threads read.
 *
 * Results, units, structs and threads are as peerdma.h has them.  In a forked
 * child every call on a parent's cache is -EPERM, but peerdma_cache_put(), which
 * there does nothing, and peerdma_cache_close(), which gives back the child's
 * memory and calls nobody.
 *
 * No lock is held while a function of the caller's runs, nor while memory is
 * allocated or freed: peerdma_cache_invalidate() may be called from wherever
 * memory is freed, inside malloc's or CUDA's own calls and from the functions below.
 */
#ifndef PEERDMA_CACHE_H
#define PEERDMA_CACHE_H

#include "peerdma.h"

#ifdef __cplusplus
extern "C" {
#endif

struct peerdma_cache;

/* A region, as whoever holds it sees it.  Nothing in it changes while it is held. */
struct peerdma_cached {
	uint64_t addr;		/* what is registered: at least what was asked for */
	uint64_t length;
	void *registration;	/* add()'s; of a cache of pins: struct peerdma_region * */
};

/* ---- What registers ---- */

#define PEERDMA_MONITOR_WORD	(1U << 0)
#define PEERDMA_MONITOR_CHECK	(1U << 1)
#define PEERDMA_MONITOR_CALLS	(1U << 2)
#define PEERDMA_MONITOR_HOOKS	(1U << 3)

struct peerdma_registration {
	void *handle;		/* for peerdma_cached and remove() */
	const uint32_t *word;	/* NULL, or: the registration is good for as long as *word is `expected` */
	uint32_t expected;
};

struct peerdma_extent {
	uint64_t addr;		/* any byte: regions need not be whole pages */
	uint64_t length;
	uint32_t aperture;	/* non-zero: counts against max_aperture */
};

/* Functions may be called by any thread, several at a time. */
struct peerdma_cache_ops {
	uint32_t size;		/* sizeof(struct peerdma_cache_ops) */
	uint32_t monitors;	/* PEERDMA_MONITOR_WORD: add() gives words; else 0 */
	/*
	 * Registers a range.  0, or -errno, which peerdma_cache_get() returns.  On
	 * -ENOSPC, -ENOMEM, -EMFILE and -ENFILE idle regions are ended and it is called
	 * again; when the range is wider than what was asked for it is called with less.
	 */
	int (*add)(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out);
	/* Ends a registration.  Nobody holds it. */
	void (*remove)(void *arg, uint64_t addr, uint64_t length, void *handle);
	/*
	 * NULL, or: what to register for a range, which must be in it.  At first *extent
	 * is the range in whole granules.  To be asked for one's own memory only is one
	 * reason to have it: what lies beside in the same page is registered otherwise.
	 */
	int (*extent)(void *arg, uint64_t addr, uint64_t length, struct peerdma_extent *extent);
	/* NULL, or PEERDMA_MONITOR_CHECK: non-zero if the region still is what is at addr.  Called by every hit. */
	int (*check)(void *arg, const struct peerdma_cached *region, uint64_t addr, uint64_t length);
};

/* ---- Caches ---- */

#define PEERDMA_CACHE_WHOLE	(1U << 0) /* caches of pins: register the whole allocation, where it is known */
#define PEERDMA_CACHE_READONLY	(1U << 1) /* caches of pins: PEERDMA_READONLY */
#define PEERDMA_CACHE_CALLS	(1U << 2) /* the program calls peerdma_cache_invalidate() before host memory goes, too: peerdma_cache_mr() */
#define PEERDMA_CACHE_STAGING	(1U << 3) /* caches of pins: PEERDMA_STAGING */

struct peerdma_cache_options {
	uint32_t size;		/* in: sizeof(struct peerdma_cache_options) */
	uint32_t flags;		/* PEERDMA_CACHE_* */
	/*
	 * What is kept at most; 0: no limit.  Over a limit, regions that nobody holds
	 * are ended, those first that were not used lately.  Held ones are never, so
	 * a limit gives way when everything is held.
	 */
	uint64_t max_bytes;
	uint64_t max_aperture;	/* of BAR1: bytes of GPU memory */
	uint32_t max_regions;
	uint32_t capacity;	/* regions there can be at all; 0: 2^20.  Memory is taken as it is used. */
	uint32_t granularity;	/* ranges are widened to its multiples: a power of two, 4096 and up; 0: 4096 */
	uint32_t reserved[5];	/* 0 */
};

/*
 * A cache of whatever ops register.  options: NULL for the defaults.  arg is
 * handed to ops.
 *
 *   -EINVAL  a size, unknown flags, add or remove missing, granularity
 *   -ENOMEM  memory or address space
 */
int peerdma_cache_create(const struct peerdma_cache_ops *ops, void *arg,
			 const struct peerdma_cache_options *options, struct peerdma_cache **cache);

/*
 * A cache of pins, made with peerdma_pin() in ctx, which must stay open for as
 * long.  As peerdma_cache_create(); -EPERM.
 *
 * What monitors a region is chosen when it is made: the pin's word, where its back-end
 * tells (status.by_id is 0); else libpeerdma-hooks, if it sees every way by which this
 * process could free GPU memory; else the buffer id is asked for at every hit.
 */
int peerdma_cache_open(struct peerdma *ctx, const struct peerdma_cache_options *options,
		       struct peerdma_cache **cache);

/* Ends all registrations, held ones too; no other thread may be in a call.  NULL is fine. */
void peerdma_cache_close(struct peerdma_cache *cache);

/* ---- Using ---- */

/*
 * Holds the region that covers [ptr, ptr + length), which is made if there is
 * none.  Regions that it would overlap become part of it (their holders keep the
 * old ones until they put them).
 *
 *   -EINVAL   length zero or wrapping
 *   -ESTALE   the memory was freed during the call
 *   -ENOBUFS  `capacity` regions are held
 *   -EDEADLK  called by add() for memory that it registers
 *   -EPERM    the cache belongs to a parent process
 *   what add() returned: for pins, as peerdma_pin()
 */
int peerdma_cache_get(struct peerdma_cache *cache, const void *ptr, size_t length,
		      struct peerdma_cached **hold) PEERDMA_NOT_READ(2);

/* Gives a hold back, from any thread, once for each get. */
void peerdma_cache_put(struct peerdma_cache *cache, struct peerdma_cached *hold);

/* Gets n ranges, all or none.  holds: n of them. */
int peerdma_cache_get_many(struct peerdma_cache *cache, const struct peerdma_range *ranges, size_t n,
			   struct peerdma_cached **holds);

/* Registers ahead of use.  As peerdma_cache_get(). */
int peerdma_cache_prefetch(struct peerdma_cache *cache, const void *ptr, size_t length)
	PEERDMA_NOT_READ(2);

/*
 * The memory in [ptr, ptr + length) is about to go away: no get that begins after
 * the return finds what was registered there.  What nobody holds is deregistered
 * by then; the rest is by the put that gives back its last hold.  The number of
 * regions that were ended, or -EPERM.
 */
int peerdma_cache_invalidate(struct peerdma_cache *cache, const void *ptr, size_t length)
	PEERDMA_NOT_READ(2);

/* Ends up to n regions that nobody holds, those first that were not used lately.  How many; or -EPERM. */
int peerdma_cache_trim(struct peerdma_cache *cache, uint32_t n);

/*
 * For a cache of pins: the held pin, mapped for a device as peerdma_map() does, once
 * for each device and direction.  The mapping lives as long as the region, and is not
 * to be unmapped.  As peerdma_map(); -EINVAL also: not a cache of pins.
 */
int peerdma_cache_map(struct peerdma_cache *cache, struct peerdma_cached *hold, const char *pci,
		      unsigned int flags, struct peerdma_mapping **mapping);

/* ---- Seeing inside ---- */

struct peerdma_cache_counters {
	uint32_t size;		/* in: sizeof(struct peerdma_cache_counters) */
	uint32_t monitors;	/* PEERDMA_MONITOR_* at work */
	uint64_t gets;		/* all calls; hits and misses */
	uint64_t hits;
	uint64_t hits_front;	/* of these: in the thread's own table */
	uint64_t misses;
	uint64_t failures;	/* misses that ended with an error */
	uint64_t merges;	/* regions that became part of a new one */
	uint64_t evictions;
	uint64_t retries;	/* add() called again: after room was made, or with less */
	uint64_t invalidations;	/* regions ended by peerdma_cache_invalidate() */
	uint64_t stale;		/* regions whose end the word or check() told */
	uint64_t regions;	/* there now */
	uint64_t dead;		/* of these: ended, but held */
	uint64_t bytes;
	uint64_t aperture;	/* bytes of these that count against max_aperture */
	uint64_t threads;	/* with a table of their own */
	uint64_t fences;	/* all threads were made to make one */
	uint64_t checked;	/* caches of pins: regions made of which nobody tells but CUDA's buffer id */
	uint64_t reserved[5];	/* 0 */
};

/* -EINVAL out->size; -EPERM. */
int peerdma_cache_counters(struct peerdma_cache *cache, struct peerdma_cache_counters *out);

struct peerdma_cache_entry {
	uint64_t addr;
	uint64_t length;
	uint64_t gets;		/* that found or made it */
	int64_t holds;		/* now */
};

/* The regions from addr on, in order, up to n: how many were written.  -EPERM. */
int peerdma_cache_list(struct peerdma_cache *cache, uint64_t addr, struct peerdma_cache_entry *entries,
		       size_t n);

#ifdef __cplusplus
}
#endif

#endif
