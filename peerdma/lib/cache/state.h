/* SPDX-License-Identifier: MIT */
/*
 * state.h - what the cache's files share.
 *
 *   refs.h	who holds a region	entry.h	what the index has of it
 *   thread_cache.c	a thread's own table	current.c	whose it is
 *   cache.c	caches, counters	get.c	hits (calls.h: whose)
 *   miss.c	making regions		teardown.c	ending them
 *   overlap.c	what a range touches	invalidate.c	ending what is there
 *   room.c	limits, memory	bar1.c	pages of a GPU's aperture
 *   pins.c	a cache of pins		inspect.c	what others see of it
 *   monitored.c	events of monitors
 *
 *   deferred.c	deferred ends	lock.h		signal handlers
 *
 * One lock, cache->lock.  It guards what is marked so below and every change of the
 * index, and of a region's state word but one: PENDING to LIVE is its maker's.
 *
 * What no call may do:
 *
 *   under the lock		allocate, free, map or unmap memory, call a function of the
 *				user's or make a system call (fail() allocates: call it afterwards).
 *				The allocator's own lock may be held by a thread that is in
 *				invalidate() and waits for ours.
 *   in invalidate() and	the same, lock or no lock: the thread may be inside malloc() or
 *   in hooks			free().  They make regions unfindable and defer the rest.  The
 *				one wait is for other threads' fences (membarrier).
 *   in a hit			lock, allocate, write what other threads read
 *   in get and put		wait for anything but another thread's add() for the same memory
 *   half-way through		be cancelled: cancel_off() around add(), remove(), check(),
 *				extent() and each wait.  Those are the only cancellation points.
 *   when add() fails, or	change anything that a caller can see.  The cache's own memory is
 *   memory runs out		mapped when it is made; a thread does without a thread cache
 */
#ifndef CACHE_STATE_H
#define CACHE_STATE_H

#include <pthread.h>

#include "../base/index.h"
#include "../base/memory.h"
#include "entry.h"
#include "refs.h"
#include "peerdma_cache.h"

#define NO_REGION UINT32_MAX

struct region {
	struct peerdma_cached pub;	/* while PENDING, registration is its maker's mark */
	uint64_t state_word;
	const uint32_t *word;
	uint32_t expected;
	int32_t refs;			/* lock: those not in a thread's refs */
	uint64_t gets;			/* lock: likewise */
	uint32_t next;			/* lock: in a list of those that end, are free or apart */
	uint32_t clock;			/* lock: gets, when the hand last passed; once it ends: its refs are in doubt */
};

_Static_assert(sizeof(struct region) == 64, "one cache line");

/*
 * A thread's side of a cache.  The table has the place of a region's refs, in
 * bytes, by the hash of a block of addresses: a guess, which the refs answers for.  Both
 * are small, since a hit's time is that of getting them to the processor.  They are wiped
 * in forked children, where therefore nothing is a hit.
 *
 * How great a block is depends on the area of memory that it is in: an eighth to a 16th
 * of the smallest region that was found there, 4 KiB at least, 64 MiB at most.  So a great
 * region is in a few slots, a hit is one look wherever it falls, and no block touches more
 * than two regions, for which there are two places.  Areas are small, since a small region
 * cuts all that is in its own into small blocks; a block may be greater than an area.
 */
#define AREA_SHIFT	20		/* 1 MiB */
#ifndef AREAS			/* a test has fewer */
#define AREAS		(1U << 17)	/* what is so many areas apart shares one */
#endif

struct thread_cache {
	/*
	 * Its cache's, never used twice; or 0 where more is to be done than in the common case.
	 * What is put may be another thread's ref of any region: put_serial is 0 as long as there
	 * are fewer refs than regions.
	 */
	uint64_t get_serial;
	uint64_t put_serial;
	uint64_t slot_mask;
	uint32_t *slots;		/* behind them half as many for seconds */
	struct thread_refs *refs;		/* one per region, up to the greatest that the thread has met at least */
	struct region *regions;
	uint64_t hits;			/* in slots */
	uint64_t *touched;		/* a bit for each page of refs that may have something in it */

	uint64_t serial __attribute__((aligned(64)));
	bool fence;			/* lock, and the thread's own: its hits make one */
	bool monitored;
	uint64_t index_hits;
	struct index_place place;	/* the thread's last miss */
	uint32_t capacity;		/* lock: of refs */
	uint32_t crowded;		/* regions found in the index since the table grew */
	struct peerdma_cache *cache;
	uint64_t process;
	struct thread_cache *next, *prev;	/* lock: in cache->threads */
	struct thread_cache *mine;		/* the thread's own list */
	uint32_t marked;		/* the thread is to take the careful path once: deferred_drain() */
	uint32_t careful_puts;		/* for want of refs */
	bool draining;			/* the thread is in deferred_drain(), and in remove() perhaps */
	uint32_t owner;			/* FRONT_*: of thread's end and cache's end, whichever is first takes care */
	uint8_t *areas;			/* AREAS: a block's size as a power of two of pages, and the turn in which it was found */
	uint8_t turn;			/* others are forgotten; never 0 */
};

#define OWNER_BOTH	0
#define OWNER_LEAVING	1		/* the thread ends */
#define OWNER_ORPHAN	2		/* the cache is gone */

/* Why a region ended, and which: the last ones are kept for who looks (inspect.h). */
enum end_reason { END_MERGED, END_EVICTED, END_INVALIDATED, END_STALE };

struct ended {
	uint64_t addr, length, gets;
	uint64_t why;			/* enum end_reason */
};

#define ENDED_MAX	32
#define LEFT_MAX	16

struct peerdma_cache {
	/* Read by every get, and written by none. */
	uint64_t gate;			/* the serial; above it, how many ranges were left (lock.h) */
	struct region *regions;
	uint64_t process;
	uint32_t capacity;
	uint32_t ready;			/* regions for which there is memory, and nodes of the index */
	uint8_t granule_shift;
	bool fence;			/* lock, once it is made: all hits are to make one */
	bool monitored;
	bool limited;			/* options say how much there may be */
	bool off;			/* nothing is kept */
	uint32_t access_all;		/* bits that there are */
	char *payload;			/* payload_step bytes of each region */
	uint32_t payload_step;
	struct peerdma_cache_ops ops;
	void *arg;
	void *own[3];			/* room for what a cache of pins has as arg */
	bool word_will_do;		/* check() is for regions without a word */
	uint64_t checked;		/* atomic: how many of these there were */
	bool hooked;			/* libpeerdma-hooks reports frees */
	bool host_monitored;		/* atomic: a monitor of host memory does */
	uint32_t closing;		/* atomic: invalidations and puts do nothing: remove() makes them, and so do frees of its own memory */
	/* Words that never change, in caches of pins: of regions that the hooks end, and of those that calls end. */
	const uint32_t *by_hooks, *by_calls;
	struct peerdma_cache_options options;

	struct index index;

	pthread_mutex_t lock __attribute__((aligned(64)));
	pthread_cond_t settled;		/* a PENDING region is so no more */
	uint32_t waiting;
	struct waiter *waiters;		/* lock */
	struct thread_cache *threads;		/* lock, and all that follows */
	uint32_t used;			/* regions ever used: the first so many */
	uint32_t ahead;			/* so many have memory, or will have soon */
	uint32_t free;
	uint32_t apart;			/* PENDING regions that are not in the index, for they overlap others: through next */
	uint32_t returned;		/* no lock: ended, to be moved to free */
	uint32_t deferred;		/* ENDING, for a later call to deregister; read without the lock, too */
	uint64_t deferred_count;
	uint32_t unsettled;		/* DYING: their refs cannot be summed yet (teardown.c) */
	uint64_t unsettled_count;
	uint32_t hand;			/* the clock's */
	uint64_t count, dead, bytes, host, device, bar1_use;
	uint64_t late_hits, misses, failures, merges, evictions, retries, invalidations, stale, fences;
	uint64_t gone_hits, gone_slot_hits;	/* of threads that ended */
	uint64_t bad_puts;
	uint64_t thread_changes;			/* thread caches that came or went */
	uint64_t left[LEFT_MAX];		/* atomic: ranges that signal handlers left, as in refs; 0: none */
	uint64_t left_all;			/* atomic: 1: there was no place for one, and all regions end */
	struct ended ended[ENDED_MAX];		/* a ring: the nth that ended is at n % ENDED_MAX */
	uint64_t ended_count;
	struct peerdma_cache *inspect_next, *inspect_prev;	/* inspect.c's lock */
};

/*
 * A serial is a cache's number, from 1 on, times so many, plus what no other cache has that is
 * open, as long as there are no more: threads find their caches by that.
 */
#define SERIAL_WORDS	64U
#define SERIAL_BITS	48
#define GATE_LEFT	(1ULL << SERIAL_BITS)

/* What thread caches have in the common case; no thread cache has it while something is left. */
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

/* The refs lie as the regions do. */
#define REFS_STEP	(sizeof(struct region) / sizeof(struct thread_refs))

static inline struct thread_refs *refs_of(const struct thread_cache *tc, const struct region *region)
{
	return (struct thread_refs *)((char *)tc->refs + ((uintptr_t)region - (uintptr_t)tc->regions) / REFS_STEP);
}

static inline bool region_covers(const struct region *region, uint64_t addr, uint64_t last)
{
	uint64_t first = ord_load(&region->pub.addr);

	return addr >= first && last - first < ord_load(&region->pub.length);
}

/* current.c: the calling thread's, made if need be; NULL: no memory for one, and the cache does without. */
struct thread_cache *thread_cache_get(struct peerdma_cache *cache);
struct thread_cache *thread_cache_find(const struct peerdma_cache *cache);
/* The cache ends. */
void thread_caches_orphan(struct peerdma_cache *cache);

/* Lock: each thread's next call takes the careful path; and its own way back to the common one. */
void thread_caches_mark(struct peerdma_cache *cache);
void thread_cache_unmark(struct peerdma_cache *cache, struct thread_cache *tc);

/* thread_cache.c */
struct thread_cache *thread_cache_make(struct peerdma_cache *cache);
/* What the thread holds is found by the block of addr from here on, in pages that are all the region's. */
void thread_cache_remember(struct thread_cache *tc, const struct region *region, uint64_t addr);
/* Lock: into cache->threads, and out again.  What a thread that leaves has counted goes to the regions. */
void thread_cache_join(struct thread_cache *tc);
void thread_cache_leave(struct peerdma_cache *cache, struct thread_cache *tc);
/* Lock: the same for one record. */
void thread_cache_spill(struct thread_cache *tc, uint32_t number);
/* A thread puts with fewer refs than there are regions: is that often? */
void thread_cache_hurry(struct thread_cache *tc);
/* Records for all regions that there are now, if these are not too many for a thread that may need few. */
void thread_cache_keep_up(struct thread_cache *tc);
/* The refs of a region that the thread may not have met yet; NULL: out of memory. */
struct thread_refs *refs_meet(struct thread_cache *tc, const struct region *region);
/* When it has left: its refs, and the rest; these two may be freed by different threads. */
void refs_free(struct thread_refs *refs, uint32_t capacity);
void thread_cache_free(struct thread_cache *tc);

/* What a get asks for. */
struct request {
	uint64_t addr, length;
	uint32_t access;
	bool counted;			/* as a miss */
	const struct peerdma_cache_request *request;
};

/* miss.c: takes a ref, and makes the region if there is none.  tc: the thread's, or NULL. */
int region_make(struct peerdma_cache *cache, struct thread_cache *tc, struct request *request, struct region **out);
/* Lock.  +1, -1: a region comes, or goes. */
void region_count(struct peerdma_cache *cache, const struct region *region, int n);
/* No lock.  A line for options.log. */
void cache_log(const struct peerdma_cache *cache, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* No lock.  A get fails. */
void miss_failed(struct peerdma_cache *cache, bool counted);
/* No lock.  What region_make() found, and counted as a hit, is stale. */
void miss_after_all(struct peerdma_cache *cache);
#define GET_TRIES	16	/* memory that is freed during each call is not worth another */

/* Lock.  Whether what the index says of a region that begins at key ends after x. */
static inline bool region_reaches(const struct peerdma_cache *cache, uint32_t entry, uint64_t key, uint64_t x)
{
	return entry_may_reach(entry, key, x) && key + cache->regions[entry_number(entry)].pub.length > x;
}

/* Lock.  True: no region touches [from, to), and one leaf of the index was enough to see it, as usual. */
static inline bool regions_none(const struct peerdma_cache *cache, struct index_place *place, uint64_t from, uint64_t to)
{
	uint32_t before;

	return index_gap(&cache->index, place, from, to, &before) && !region_reaches(cache, before, place->key, from);
}

/*
 * Regions may overlap, but none is all in another.  So their ends are in the order of their beginnings,
 * and the one that begins last at or before an address reaches farthest of all that do.
 */

/* overlap.c.  Lock: fn for each region in the index that begins in [from, to) or reaches into it. */
void regions_touched(struct peerdma_cache *cache, struct index_place *place, uint64_t from, uint64_t to,
		     bool (*fn)(void *arg, uint32_t entry), void *arg);

/*
 * bar1.c.  Lock.  A region in the index has the whole pages that it touches, and those that
 * it shares with others in the index count once; a region that is not in the index counts for itself.
 */
uint64_t bar1_alone(const struct region *region);
/* What a region at [from, to) would add, or does. */
uint64_t bar1_added(struct peerdma_cache *cache, uint64_t from, uint64_t to, uint64_t state_word);
/* Into the index and out of it. */
void region_insert(struct peerdma_cache *cache, struct index_place *place, uint32_t number);
void region_remove(struct peerdma_cache *cache, struct region *region);

/* Lock.  The memory of PENDING regions that are not in the index goes away: how many. */
uint32_t apart_kill(struct peerdma_cache *cache, uint64_t from, uint64_t to);

/* invalidate.c.  No lock: ends what signal handlers left; when it returns, no region is found that they freed before the call. */
void invalidate_left(struct peerdma_cache *cache);

/* teardown.c */
struct teardown {
	uint32_t first;			/* through region->next */
	uint32_t count;
	bool freed;			/* their memory goes away: holders are notified */
	uint32_t notify;		/* through region->next: held, and held by us until teardown_notify() */
};

/* Lock: takes a LIVE or PENDING region out of the index and makes it no one's hit; in the list if it was LIVE. */
void teardown_begin(struct peerdma_cache *cache, uint32_t number, struct teardown *list, enum end_reason why);
/*
 * Lock, which is let go and taken again if other threads must be waited for: from
 * here on the list's regions cannot be held anew; those that are held leave it.
 */
void teardown_commit(struct peerdma_cache *cache, struct thread_cache *self, struct teardown *list);
/* Lock: what is in the list is deregistered by a later call. */
void teardown_later(struct peerdma_cache *cache, struct teardown *list);
/* Lock: a thread cache came to make fences, or left: were some regions waiting for that? */
void teardown_unsettled(struct peerdma_cache *cache);
/* No lock, and no thread caches any more: all regions, held or not.  How many. */
uint32_t teardown_all(struct peerdma_cache *cache);
/* No lock: deregisters what is in the list. */
void teardown_finish(struct peerdma_cache *cache, struct teardown *list);
/* deferred.c.  No lock.  tc: the thread's, or NULL; it is marked no more.  Deregisters what was deferred by now; how many. */
uint32_t deferred_drain(struct peerdma_cache *cache, struct thread_cache *tc);
/* Lock: chooses up to n idle regions that were not used lately, with one of these bits in their state word. */
void evict_choose(struct peerdma_cache *cache, uint32_t n, uint64_t who, struct teardown *list);
/* No lock: called after a ref of a region that is ending was given back. */
void teardown_last_ref(struct peerdma_cache *cache, uint32_t number);
/* No lock: ends a region unless it has changed. */
void teardown_stale(struct peerdma_cache *cache, struct thread_cache *self, struct region *region, uint64_t state_word);
/* Lock. */
int64_t region_refs(const struct peerdma_cache *cache, uint32_t number);
uint64_t region_gets(const struct peerdma_cache *cache, uint32_t number);
#define TEARDOWN_NONE ((struct teardown){ .first = NO_REGION, .notify = NO_REGION })
/* No lock: calls ended() for held regions; what is held no more by then is deferred. */
void teardown_notify(struct peerdma_cache *cache, struct teardown *list);

/* monitored.c: events of monitors end regions from now on.  0, or -ENOMEM with text; and no more. */
int cache_monitors_begin(struct peerdma_cache *cache);
void cache_monitors_end(struct peerdma_cache *cache);
/* From now on host memory that goes away ends regions, too.  0, or -errno with text. */
int cache_monitor_host(struct peerdma_cache *cache);

/* inspect.c: from here on other processes find it; and no more, its counters are printed if that was asked for. */
void inspect_begin(struct peerdma_cache *cache);
void inspect_end(struct peerdma_cache *cache);

/*
 * cache.c: peerdma_cache_create(), and what other calls that make a cache have in common with it.  call: theirs, for texts.
 * flags and access: those that this kind of cache has.
 */
int cache_make(const char *call, const struct peerdma_cache_ops *ops, void *arg, const struct peerdma_cache_options *options,
	       uint32_t flags, uint32_t access, struct peerdma_cache **out);

#endif
