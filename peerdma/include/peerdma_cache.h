/* SPDX-License-Identifier: MIT */
/*
 * peerdma_cache.h - libpeerdma's registration cache: register memory once, find the
 * registration again in nanoseconds, and never find it after the memory was freed.
 *
 *	struct peerdma_cached *hold;
 *
 *	peerdma_cache_open(ctx, NULL, &cache);
 *	peerdma_cache_get(cache, ptr, length, &hold);
 *	... hold->registration is a struct peerdma_region * for ptr ...
 *	peerdma_cache_put(cache, hold);		... it stays pinned for the next get ...
 *
 * The terms:
 *
 *   region	a range of addresses and its registration
 *   get	finds the region that covers a range, or registers one, and holds it
 *   put	gives the hold back.  The region stays registered
 *   idle	held by no one.  Idle regions are removed when room is needed
 *   end	a region ends when its memory is freed, a larger region replaces it or
 *		room is needed.  No get finds it any more.  Its registration is removed when
 *		the last hold is given back
 *
 * A get that begins after a free has returned never returns a registration from
 * before the free, provided that a monitor reports the free:
 *
 *   PEERDMA_MONITOR_WORD	a word in memory that changes when the registration ends.  Every hit
 *				reads it.  Caches of pins have one: peerdma.ko's page of generations
 *   PEERDMA_MONITOR_CHECK	a function that every hit calls: the caller's, or, in caches of pins
 *				without another monitor, a comparison of CUDA's buffer id
 *   PEERDMA_MONITOR_CALLS	peerdma_cache_invalidate(), called before memory is freed
 *   PEERDMA_MONITOR_HOOKS	libpeerdma-hooks (peerdma_hooks.h), which intercepts frees of GPU memory
 *				where it is preloaded or linked before libcuda
 *   PEERDMA_MONITOR_HOST	a monitor of host memory (peerdma_monitor.h), which reports munmap, mremap, the
 *				free of a large block and all else that gives host memory back
 *
 * A hit takes no lock and writes no memory that other threads read.
 *
 * Results, units, structs and threads are as peerdma.h describes them.  In a forked
 * child every call on a parent's cache fails with -EPERM, except peerdma_cache_put(), which
 * does nothing there, and peerdma_cache_close(), which frees the child's memory and
 * calls no function of the caller's.
 *
 * No lock is held while one of the caller's functions runs, nor while memory is
 * allocated or freed.  The caller's functions run with cancellation disabled
 * (pthread_setcancelstate), and so does the wait for another thread's add().  They must
 * return: no longjmp(), no C++ exception.  A thread must not call the cache with
 * PTHREAD_CANCEL_ASYNCHRONOUS.
 */
#ifndef PEERDMA_CACHE_H
#define PEERDMA_CACHE_H

#include "peerdma.h"

#ifdef __cplusplus
extern "C" {
#endif

struct peerdma_cache;

/* A held region.  The library owns it.  Nothing in it changes while it is held. */
struct peerdma_cached {
	uint64_t addr;		/* what is registered: at least the range of the get */
	uint64_t length;
	void *registration;	/* add()'s handle; in a cache of pins: struct peerdma_region * */
};

/* ---- What a get may ask for ---- */

/* Access in caches of pins.  Other caches define their own bits. */
#define PEERDMA_ACCESS_READ	(1U << 0) /* devices read the memory */
#define PEERDMA_ACCESS_WRITE	(1U << 1) /* devices write it */
#define PEERDMA_ACCESS_BITS	16	  /* access is a mask of so many bits */

#define PEERDMA_REQUEST_DMABUF	(1U << 0) /* `dmabuf` and `dmabuf_addr` are set */

struct peerdma_cache_request {
	uint32_t size;		/* sizeof(struct peerdma_cache_request) */
	uint32_t flags;		/* PEERDMA_REQUEST_* */
	/*
	 * Bits that the registration must have.  A region that lacks one is registered
	 * again with its own bits and these.  A bit may also stand for a device: then a
	 * region is registered with the devices that its gets asked for.
	 */
	uint32_t access;
	int32_t dmabuf;		/* a descriptor that exports the memory; the caller's, used during the call only */
	uint64_t dmabuf_addr;	/* the address of its first byte */
	const struct peerdma_memory *memory; /* what peerdma_query() returns for ptr, if the caller has it: saves the query; or NULL */
	void *user;		/* for add() and extent() */
	uint64_t reserved[2];	/* 0 */
};

/* ---- What registers ---- */

#define PEERDMA_MONITOR_WORD	(1U << 0)
#define PEERDMA_MONITOR_CHECK	(1U << 1)
#define PEERDMA_MONITOR_CALLS	(1U << 2)
#define PEERDMA_MONITOR_HOOKS	(1U << 3)
#define PEERDMA_MONITOR_HOST	(1U << 4)

/* The cache makes this struct for add().  Later releases may add fields. */
struct peerdma_registration {
	/* Set by the cache. */
	const struct peerdma_cache_request *request;	/* of the get; NULL: it was peerdma_cache_get() */
	void *payload;		/* ops.payload bytes of the region, all zero; NULL if ops.payload is 0 */
	uint32_t access;	/* what to register with: the get's bits and those of regions that this one replaces */
	/* Set by add(). */
	uint32_t expected;
	const uint32_t *word;	/* NULL, or: the registration is valid as long as *word is `expected` */
	void *handle;		/* for struct peerdma_cached and remove() */
};

/* The cache makes this struct for extent().  Later releases may add fields. */
struct peerdma_extent {
	/* Set by the cache to the get's range in whole granules, to be changed by extent(). */
	uint64_t addr;		/* any byte: regions need not be whole pages */
	uint64_t length;
	/* 0, and to be set by extent(). */
	uint32_t aperture;	/* 0, or the page size in which the region takes up the aperture (a power of two) */
	uint32_t kind;		/* PEERDMA_KIND_HOST or DEVICE: counts against max_host or max_device */
	/* Set by the cache. */
	const struct peerdma_cache_request *request;	/* as in struct peerdma_registration */
	/*
	 * 0, or, to be set by extent(): the get's region does not take in others that reach out of this range.
	 * They lie beside it.  Without a length there is no bound.
	 */
	uint64_t bound_addr;
	uint64_t bound_length;
};

/* Any thread may call these functions, several threads at a time. */
struct peerdma_cache_ops {
	uint32_t size;		/* sizeof(struct peerdma_cache_ops) */
	/*
	 * PEERDMA_MONITOR_WORD: add() sets words.  Without it or check() a get of which add() sets
	 * one fails with -EINVAL.  PEERDMA_MONITOR_HOST: registers host memory too, so
	 * the cache needs a monitor of host memory.  PEERDMA_MONITOR_CALLS: every cache has it, set or not.
	 * CHECK and HOOKS are not set here: check() is the one, and the cache finds the other.
	 */
	uint32_t monitors;
	/*
	 * Registers a range.  0, or -errno, which the get returns.  It must accept overlapping
	 * registrations: the cache removes a replaced region after add() has registered the new one.
	 *
	 * On -ENOSPC, -ENOMEM, -EMFILE, -ENFILE, -EDQUOT and -ENOBUFS the cache removes idle
	 * regions and calls add() again.  If the range is wider than the get's, add() is then
	 * called with the get's own range.
	 */
	int (*add)(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *registration);
	/* Removes a registration that is not held.  Called by any call but peerdma_cache_invalidate(). */
	void (*remove)(void *arg, uint64_t addr, uint64_t length, void *handle);
	/*
	 * NULL, or: chooses what to register for a get's range, which must be in it.  Without
	 * extent() whole granules are registered, and with them neighbours in the same page.
	 */
	int (*extent)(void *arg, uint64_t addr, uint64_t length, struct peerdma_extent *extent);
	/* NULL, or PEERDMA_MONITOR_CHECK: non-zero if the region is of the memory that is at addr now.  Every hit calls it. */
	int (*check)(void *arg, const struct peerdma_cached *region, uint64_t addr, uint64_t length);
	uint32_t payload;	/* bytes for peerdma_cache_payload(), 4096 at most */
	uint32_t reserved[3];	/* 0 */
};

/* ---- Caches ---- */

/* For caches of pins only: */
#define PEERDMA_CACHE_WHOLE	(1U << 0) /* register the whole allocation, where it is known */
#define PEERDMA_CACHE_CALLS	(1U << 1) /* the program calls peerdma_cache_invalidate() for host memory, too */
#define PEERDMA_CACHE_STAGING	(1U << 2) /* PEERDMA_STAGING */
/* For all caches: */
/*
 * Keep nothing: every get registers, every put removes; as PEERDMA_CACHE=off does.  So
 * peerdma_cache_invalidate() finds nothing, and ended() is not called.
 */
#define PEERDMA_CACHE_OFF	(1U << 3)

struct peerdma_cache_options {
	uint32_t size;		/* sizeof(struct peerdma_cache_options) */
	uint32_t flags;		/* PEERDMA_CACHE_* */
	/*
	 * Limits; 0: none.  Over a limit, idle regions are removed, the least recently
	 * used first (approximately).  Held regions stay, so a limit is exceeded if all are held.
	 * Deferred registrations (counters.deferred) do not count: a get that registers removes them first.
	 */
	uint64_t max_bytes;
	uint64_t max_host;	/* bytes of host memory */
	uint64_t max_device;	/* bytes of GPU memory */
	uint64_t max_aperture;	/* bytes of BAR1: whole GPU pages, shared pages counted once */
	uint32_t max_regions;
	uint32_t capacity;	/* regions there can be at all; 0: 2^20.  Memory is taken as it is used. */
	/*
	 * Regions that a get's range overlaps are merged with it if the result has at most so
	 * many bytes, and stays within extent()'s bound (in caches of pins: within the allocations that the
	 * get's range is part of); else the get's own range is registered beside them.  0: four times the
	 * get's range.  So the bytes registered are at most four times the bytes asked for.  A region
	 * that covers the range and lacks access is registered again as long as it is.
	 */
	uint64_t max_region;
	/*
	 * Ranges are widened to its multiples: a power of two, 4096 and up; 0: 4096.  Where a monitor of host
	 * memory is used, above the page size it is refused (PEERDMA_MONITOR_HOST) or not applied to host memory
	 * (caches of pins without PEERDMA_CACHE_CALLS).
	 */
	uint32_t granularity;
	uint32_t access;	/* what peerdma_cache_get() asks for.  0 in caches of pins: READ and WRITE */
	/*
	 * NULL, or: the memory of a held region is going away.  The holder should stop using the
	 * registration and put the hold.  Called once for a region, by peerdma_cache_invalidate() or
	 * a hook before it returns, or by the get that finds the region stale.  So it may run inside
	 * malloc() or free(): it must not allocate, free, or call the cache.  Where membarrier(2) was
	 * forbidden after the cache was made, also for regions that another thread may hold.
	 */
	void (*ended)(void *arg, const struct peerdma_cached *region);
	/* NULL, or: is given a line of text, without a newline, when a registration is retried.  Called by misses. */
	void (*log)(void *arg, const char *text);
	void *arg;		/* for ended() and log() */
	uint64_t reserved[4];	/* 0 */
};

/*
 * Makes a cache that registers with ops.  options: NULL for the defaults.  arg is
 * handed to ops.
 *
 *   -EINVAL  a size, flags or access, add or remove missing, granularity, payload, reserved fields
 *   -E2BIG   a struct of a later release has something set that this one does not know
 *   -ENOMEM  memory or address space
 *   -EOPNOTSUPP, -EACCES  PEERDMA_MONITOR_HOST, and this process has no monitor of host memory: the text says why
 */
int peerdma_cache_create(const struct peerdma_cache_ops *ops, void *arg,
			 const struct peerdma_cache_options *options, struct peerdma_cache **cache);

/*
 * Makes a cache of pins, which registers with peerdma_pin() in ctx.  ctx must stay open
 * until the cache is closed.  As peerdma_cache_create(); -EPERM.
 *
 * Each region gets the first monitor of these that it can have: the pin's word
 * (status.by_id is 0); libpeerdma-hooks, if it sees every way by which this process could
 * free GPU memory; at every hit, a comparison of the buffer id of each allocation in the get's range,
 * and of where CUDA has the region's others.  With that last one a region's dma-buf keeps
 * memory that was freed until a get finds it gone; preload or link the hooks where that matters.
 *
 * Back-end host is not notified of frees.  So the first get that pins host memory through it starts a monitor of host
 * memory (peerdma_monitor.h), unless the program has started one, or calls peerdma_cache_invalidate() itself and sets
 * PEERDMA_CACHE_CALLS.  (Where only MRs with IBV_ACCESS_ON_DEMAND are used, which follow the addresses, that flag needs no
 * calls.)
 */
int peerdma_cache_open(struct peerdma *ctx, const struct peerdma_cache_options *options,
		       struct peerdma_cache **cache);

/*
 * Removes all registrations, held ones too.  No other thread may be in a call.  NULL is
 * ignored.  While it runs, remove() may call peerdma_cache_invalidate() and
 * peerdma_cache_put() on this cache, which do nothing (0), and no other function.
 */
void peerdma_cache_close(struct peerdma_cache *cache);

/* ---- Using ---- */

/*
 * Holds a region that covers [ptr, ptr + length).  If there is none it registers one.
 * Regions that the new one contains end when it is registered.  If the call fails, none
 * has ended, except idle ones that were removed to make room.
 *
 *   -EINVAL   length zero or wrapping; the range, in whole granules, reaches the last address of all
 *   -ESTALE   the memory was freed during the call; or check(), or the word, refuses every new registration
 *   -ENOBUFS  `capacity` regions are held, or are being removed by other threads; for pins also as
 *	       peerdma_pin(): the text says which
 *   -EDEADLK  add() called it, for memory that this add() registers, or that another thread's
 *	       add() registers which waits for this one's.  Threads that wait through two caches are not detected.
 *   -EPERM    the cache belongs to a parent process
 *   -EOPNOTSUPP  for pins: host memory of back-end host, and this process can have no monitor of it; the text says why
 *   what add() returned: for pins, as peerdma_pin()
 */
int peerdma_cache_get(struct peerdma_cache *cache, const void *ptr, size_t length,
		      struct peerdma_cached **hold) PEERDMA_NOT_READ(2);

/*
 * The same for a request.  A hit is as fast as peerdma_cache_get()'s if request->access has
 * no bit that options.access lacks.
 *
 * In a cache of pins, PEERDMA_REQUEST_DMABUF pins with peerdma_pin_dmabuf(): the region's
 * addresses are offsets in the dma-buf there.
 *
 *   -EINVAL  also: the request's size, flags, access or reserved fields
 *   -E2BIG   as peerdma_cache_create()
 */
int peerdma_cache_get_with(struct peerdma_cache *cache, const void *ptr, size_t length,
			   const struct peerdma_cache_request *request, struct peerdma_cached **hold) PEERDMA_NOT_READ(2);

/*
 * The payload of a held region: ops.payload bytes, aligned to 16, which add() has filled in.  No cache line of the hold is read.
 * NULL: cache or hold is NULL.
 */
void *peerdma_cache_payload(const struct peerdma_cache *cache, const struct peerdma_cached *hold);

/*
 * Gives a hold back.  NULL is ignored.  Any thread may call it, once for each get.  More puts than
 * gets may end a region that another thread still uses.  The counter bad_puts counts them,
 * usually when the region ends; a library built without optimization aborts then.
 */
void peerdma_cache_put(struct peerdma_cache *cache, struct peerdma_cached *hold);

/*
 * Ends all regions that touch [ptr, ptr + length), whose memory is about to be freed: no
 * get that begins after the return finds them.  Returns how many; -EPERM, and -EINVAL for a cache that is NULL, without a text.
 *
 * May be called from anywhere, also inside malloc(), free() and the functions of ops.  It does
 * not allocate, free, map or unmap, and waits only for short stretches of other threads'
 * calls.  Of the caller's functions it calls none but options.ended().  Hence
 * registrations are removed later: of a held region by the put that gives back its last
 * hold, of all others by the next get, put, trim or drain of any thread, or by close.
 * Until then a pin keeps the pages that it had, even if the addresses belong to another
 * allocation by now; what a device writes there does not reach that allocation.
 *
 * A signal handler may call it, whatever its thread is doing.  Where the thread is in a call of this
 * cache or another, the result may be 0, and ended() is called later: by the call that was
 * interrupted before it returns (it may be waiting for another thread's add()), or by another thread's.
 * No get finds the regions, as always.  Then whole pages end, and all regions if handlers free more
 * than 16 ranges meanwhile.
 */
int peerdma_cache_invalidate(struct peerdma_cache *cache, const void *ptr, size_t length)
	PEERDMA_NOT_READ(2);

/*
 * Removes the registrations of regions that were invalidated and are not held.  Gets, puts and
 * trims do this as well.  Call it if none of these follows soon, or where the memory itself must
 * be given back: pinned host memory and exported GPU memory stay allocated until their pin
 * ends.  Call it outside the allocator.  Returns how many it removed, without those that
 * another thread removes at the same time.  -EPERM.
 */
int peerdma_cache_drain(struct peerdma_cache *cache);

/* Removes up to n idle regions, the least recently used first (approximately).  How many; or -EPERM. */
int peerdma_cache_trim(struct peerdma_cache *cache, uint32_t n);

/*
 * For a cache of pins: maps the held pin for a device as peerdma_map() does, once
 * for each device and direction.  The mapping lives as long as the region.  Do not unmap
 * it.  As peerdma_map(); -EINVAL also: not a cache of pins.
 */
int peerdma_cache_map(struct peerdma_cache *cache, struct peerdma_cached *hold, const char *pci,
		      unsigned int flags, struct peerdma_mapping **mapping);

/* ---- Seeing inside ---- */

struct peerdma_cache_counters {
	uint32_t size;		/* in: sizeof(struct peerdma_cache_counters) */
	uint32_t monitors;	/* PEERDMA_MONITOR_* at work */
	uint64_t gets;		/* all calls: hits and misses */
	uint64_t hits;
	uint64_t hits_front;	/* of these: found in the thread's own table */
	uint64_t misses;
	uint64_t failures;	/* misses that ended with an error */
	uint64_t merges;	/* regions that a larger one replaced */
	uint64_t evictions;	/* idle regions removed to make room */
	uint64_t retries;	/* add() called again: after room was made, or with less */
	uint64_t invalidations;	/* regions ended by peerdma_cache_invalidate() */
	uint64_t stale;		/* regions that the word or check() found stale */
	uint64_t regions;	/* now */
	uint64_t dead;		/* of these: ended, but held */
	uint64_t bytes;		/* of all regions */
	uint64_t host;		/* of these: host memory */
	uint64_t device;	/* and GPU memory */
	uint64_t aperture;	/* bytes of BAR1: whole pages, shared ones once */
	uint64_t threads;	/* with a table of their own */
	uint64_t fences;	/* how often all threads were made to execute a fence */
	uint64_t checked;	/* caches of pins: regions whose only monitor is CUDA's buffer id */
	uint64_t deferred;	/* ended by peerdma_cache_invalidate() or a hook, registration not removed yet */
	/*
	 * Of `regions': ended, but not removed until the threads that may hold them make a
	 * call or end.  Only where membarrier(2) was forbidden (seccomp) after the cache was made.
	 */
	uint64_t stuck;
	uint64_t bad_puts;	/* more than gets; found when the region ends, or later */
	uint64_t reserved[2];	/* 0 */
};

/* -EINVAL, -E2BIG: out->size; -EPERM. */
int peerdma_cache_counters(struct peerdma_cache *cache, struct peerdma_cache_counters *out);

struct peerdma_cache_entry {
	uint32_t size;		/* in, of the first: sizeof(struct peerdma_cache_entry), for all */
	uint32_t access;
	uint64_t addr;
	uint64_t length;
	uint64_t gets;		/* that found or registered it */
	int64_t holds;		/* now */
};

/*
 * Lists the regions that begin at addr or later, in order, up to n.  Returns how many were
 * written; -EINVAL; -E2BIG: entries[0].size; -EPERM.
 */
int peerdma_cache_list(struct peerdma_cache *cache, uint64_t addr, struct peerdma_cache_entry *entries,
		       size_t n);

#ifdef __cplusplus
}
#endif

#endif
