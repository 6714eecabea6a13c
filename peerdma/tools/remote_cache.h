/* SPDX-License-Identifier: MIT */
/*
 * remote_cache.h - the caches of another process, read in its memory, as its libpeerdma publishes them
 * (lib/cache/inspect.h).
 *
 * The process keeps running, and may be any user's: values may be inconsistent or forged.  None is used as a size, a
 * count or an address without bounds.  A list that changes while it is read is read again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peerdma_cache.h"

#define REMOTE_CACHES_MAX	1024
#define REMOTE_THREADS_MAX	65536U	/* of a cache */
#define REMOTE_PAGES_MAX	16
#define REMOTE_ENDED_MAX	32

/* Where the bytes come from: all of them, or -errno; and how much there is to read at most. */
struct remote_memory {
	int (*read)(void *arg, uint64_t addr, void *to, size_t length);
	void *arg;
	uint64_t budget;	/* bytes, each read counting as REMOTE_READ_COST more */
};

/* No counter gets so far: once a nanosecond, that takes 36 years.  Sums of a few do not overflow. */
#define REMOTE_COUNT_MAX	(1ULL << 60)
#define REMOTE_READ_COST	512
/* Some seconds; 10^6 regions of 100 threads take 1.7 GB */
#define REMOTE_BUDGET		(8ULL << 30)
#define REMOTE_BUDGET_GLANCE	(16ULL << 20)	/* for totals only */

/* What guards a region. */
enum remote_guard { GUARD_WORD, GUARD_HOOKS, GUARD_CHECK, GUARD_CALLS };

struct remote_region {
	uint64_t addr, length;
	uint64_t gets;		/* that found or made it */
	uint64_t hits;		/* that found it: one of them was the miss that made it */
	int64_t holds;
	bool dead;		/* ended, but held */
	bool aperture;
	enum remote_guard guard;
};

struct remote_ended {
	uint64_t addr, length, gets;
	const char *why;	/* "merged", "evicted", "invalidated", "stale" */
};

struct remote_cache {
	uint64_t serial;
	struct peerdma_cache_counters counters;
	struct remote_region *regions;	/* most used first */
	size_t region_count;
	/* regions: more than were asked for, or changing all the time */
	uint64_t left_out;
	struct remote_ended ended[REMOTE_ENDED_MAX];	/* the last ones first */
	size_t ended_count;
};

struct remote_caches {
	struct remote_cache *caches;
	size_t count;
};

/*
 * Reads all caches that the page at `page` names, and of each up to `most` regions,
 * and adds them to *out.  0, or
 *
 *   -EPROTO   not such a page, or of a libpeerdma with another layout or INSPECT_VERSION
 *   -EBADMSG  what is there makes no sense
 *   -E2BIG    more than REMOTE_CACHES_MAX caches, or REMOTE_THREADS_MAX threads of one
 *   -EAGAIN   it changed each time that it was looked at
 *   -EFBIG    it has more than the budget allows
 *   -ENOMEM, or read()'s error
 */
int remote_caches_read(struct remote_memory *memory, uint64_t page, size_t most,
		       struct remote_caches *out);
void remote_caches_free(struct remote_caches *caches);

/* ---- remote_process.c: the memory of a process ---- */

struct remote_process {
	uint64_t pid;
	char *comm;		/* cleaned */
	struct remote_caches caches;
};

/*
 * `most` 0: a glance.  0, or -ESRCH no such process, -EACCES not permitted, -ENODATA no cache in it,
 * or remote_caches_read()'s.
 */
int remote_process_read(uint64_t pid, size_t most, struct remote_process *out);
void remote_process_free(struct remote_process *process);

/* All processes that have a cache and that the caller may read. */
struct remote_processes {
	struct remote_process *processes;
	size_t count;
	size_t refused;		/* not permitted: they may have caches */
	uint64_t *unread;	/* of these processes, what there is could not be interpreted */
	size_t unread_count;
};

/* 0, -ENOMEM, or -errno: /proc cannot be read. */
int remote_processes_read(size_t most, struct remote_processes *out);
void remote_processes_free(struct remote_processes *all);

/* The addresses of pages in the text of /proc/PID/maps, up to `max`: how many. */
size_t remote_pages_find(const char *maps, uint64_t *pages, size_t max);
