// SPDX-License-Identifier: MIT
/*
 * inspect.c - the process's list of caches.  Other processes read it (inspect.h).  With
 * PEERDMA_CACHE_REPORT set, the library prints each cache's counters when the cache is closed or
 * the process exits.
 *
 * A list belongs to one process.  A forked child makes its own list: the lock of its parent's list
 * may stay locked in the child, and the child does not inherit the page.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../base/memory.h"
#include "../base/variables.h"
#include "../internal.h"
#include "lock.h"
#include "thread_cache.h"

struct cache_list {
	uint64_t process;
	/* NULL: the page could not be made, so other processes do not find the caches */
	struct inspect_page *page;
	struct peerdma_cache *first;
	pthread_mutex_t lock;
	struct cache_list *parent;
};

static struct cache_list *ours;

/*
 * A mapping shows the name of its file.  So the page is in a file that no other process has, and
 * the file is closed at once.
 */
static struct inspect_page *page_make(void)
{
	struct inspect_page *page;
	int fd = memfd_create(INSPECT_NAME, MFD_CLOEXEC);

	if (fd < 0)
		return NULL;
	page = file_may_have(sizeof(*page)) || ftruncate(fd, sizeof(*page)) ? MAP_FAILED :
	       mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return NULL;
	/* Otherwise a forked child would look like a process with these caches. */
	if (madvise(page, sizeof(*page), MADV_DONTFORK)) {
		munmap(page, sizeof(*page));
		return NULL;
	}
	*page = (struct inspect_page){
		.magic = INSPECT_NAME, .version = INSPECT_VERSION, .layout = INSPECT_LAYOUT,
	};
	return page;
}

static struct cache_list *list_find(void)
{
	struct cache_list *s = __atomic_load_n(&ours, __ATOMIC_ACQUIRE);

	return s && s->process == process_id() ? s : NULL;
}

static struct cache_list *list_of_process(void)
{
	struct cache_list *s = list_find(), *before = __atomic_load_n(&ours, __ATOMIC_ACQUIRE);

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->process = process_id();
	s->parent = before;
	s->page = page_make();
	pthread_mutex_init(&s->lock, NULL);
	if (!__atomic_compare_exchange_n(&ours, &before, s, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		if (s->page)
			munmap(s->page, sizeof(*s->page));
		free(s);
	}
	return list_find();
}

/* changes is odd while the list changes, and even otherwise. */
static void page_begin(struct cache_list *s)
{
	if (s->page)
		__atomic_add_fetch(&s->page->changes, 1, __ATOMIC_SEQ_CST);
}

static void page_end(struct cache_list *s)
{
	if (!s->page)
		return;
	__atomic_store_n(&s->page->first, (uintptr_t)s->first, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->page->changes, 1, __ATOMIC_SEQ_CST);
}

void inspect_begin(struct peerdma_cache *cache)
{
	struct cache_list *s = list_of_process();

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	page_begin(s);
	cache->next = s->first;
	if (s->first)
		s->first->prev = cache;
	s->first = cache;
	page_end(s);
	pthread_mutex_unlock(&s->lock);
}

/* ---- counters ---- */

void cache_count(const struct peerdma_cache *cache, struct peerdma_cache_counters *out)
{
	inspect_count(&cache->stats, out);
	for (const struct thread_cache *tc = cache->threads; tc; tc = tc->next)
		inspect_count_thread(ord_load(&tc->hits), ord_load(&tc->index_hits), out);
	inspect_sum(out);
}

/* ---- the report ---- */

static bool report_wanted(void)
{
	const char *word = variable(VARIABLE_CACHE_REPORT);

	return word && *word && strcmp(word, "0");
}

static void report(struct peerdma_cache *cache)
{
	struct timespec limit;
	struct peerdma_cache_counters c;

	/* The process may be exiting, and a thread that no longer runs may hold the lock. */
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec++;
	this_thread.locks++;
	if (pthread_mutex_timedlock(&cache->lock, &limit)) {
		this_thread.locks--;
		fprintf(stderr, "peerdma: process %d, cache %" PRIu64 ": in use, "
			"and its counters cannot be read\n", getpid(), cache_number(cache));
		return;
	}
	cache_count(cache, &c);
	cache_unlock(cache);
	fprintf(stderr, "peerdma: process %d, cache %" PRIu64 ": %" PRIu64 " gets, "
		"%" PRIu64 " hits, %" PRIu64 " misses (%" PRIu64 " failed), "
		"%" PRIu64 " merged, %" PRIu64 " evicted, %" PRIu64 " invalidated, "
		"%" PRIu64 " found stale; %" PRIu64 " regions, %" PRIu64 " bytes; "
		"notified by%s%s%s%s calls\n",
		getpid(), cache_number(cache), c.gets, c.hits, c.misses, c.failures, c.merges,
		c.evictions, c.invalidations, c.stale, c.regions, c.bytes,
		c.monitors & PEERDMA_MONITOR_WORD ? " word," : "",
		c.monitors & PEERDMA_MONITOR_CHECK ? " check," : "",
		c.monitors & PEERDMA_MONITOR_HOOKS ? " hooks," : "",
		c.monitors & PEERDMA_MONITOR_HOST ? " host," : "");
}

void inspect_end(struct peerdma_cache *cache)
{
	struct cache_list *s = list_find();

	if (report_wanted())
		report(cache);
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	/* Otherwise there was no memory for a list when the cache was made. */
	if (cache->prev || s->first == cache) {
		page_begin(s);
		if (cache->next)
			cache->next->prev = cache->prev;
		if (cache->prev)
			cache->prev->next = cache->next;
		else
			s->first = cache->next;
		page_end(s);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Prints the counters of the caches that are still open. */
static void __attribute__((destructor)) report_at_exit(void)
{
	struct cache_list *s = list_find();

	if (!s || !report_wanted() || pthread_mutex_trylock(&s->lock))
		return;
	for (struct peerdma_cache *cache = s->first; cache; cache = cache->next)
		report(cache);
	pthread_mutex_unlock(&s->lock);
}
