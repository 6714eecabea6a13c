// SPDX-License-Identifier: MIT
/*
 * pins.c - a cache of pins over back-end host: the first pin of host memory starts a monitor, or fails.
 *
 * usage: monitor_pins found|other|meanwhile|refused
 *   found      each way by which memory goes away ends the pin; in each cache, whenever its context was opened, and in a
 *              forked child
 *   other      another library has started a monitor: it is used
 *   meanwhile  memory is replaced after it was pinned, and before the monitor looks
 *   refused    code may not be changed: a get fails, unless the cache needs no monitor
 */
#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "peerdma_cache.h"
#include "peerdma_monitor.h"
#include "../lib/checks.h"
#include "forbid.h"

#define LENGTH (1UL << 20)

static struct peerdma *ctx;

static void *map_at(void *where)
{
	return mmap(where, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | (where ? MAP_FIXED : 0), -1, 0);
}

static struct peerdma_cache *cache_with(uint32_t flags)
{
	struct peerdma_cache_options o = { .size = sizeof(o), .flags = flags };
	struct peerdma_cache *cache;

	if (peerdma_cache_open(ctx, &o, &cache)) {
		printf("not ok - a cache: %s\n", peerdma_last_error());
		exit(1);
	}
	return cache;
}

static struct peerdma_cache_counters counters(struct peerdma_cache *cache)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };

	peerdma_cache_counters(cache, &c);
	return c;
}

/* By number: a sanitizer's mlock() does nothing, and the kernel says whether pages are locked. */
static bool locked(const char *p)
{
	uintptr_t from = (uintptr_t)p & -(uintptr_t)getpagesize();

	return syscall(SYS_msync, from, LENGTH, MS_ASYNC | MS_INVALIDATE) && errno == EBUSY;
}

/* 1: it was pinned anew; 0: found; or -errno.  *resident: whether what a get returned is locked. */
static int use(struct peerdma_cache *cache, char *p, bool *resident)
{
	uint64_t before = counters(cache).misses;
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, p, LENGTH, &hold);

	if (ret)
		return ret;
	*resident = locked(p);
	peerdma_cache_put(cache, hold);
	return counters(cache).misses > before;
}

static bool monitor_is(const char *name)
{
	const char *is = peerdma_monitor_name(PEERDMA_MEMORY_HOST);

	return name && is ? !strcmp(is, name) : is == name;
}

#define ANEW(cache, p) (use(cache, p, &resident) == 1 && resident)
#define FOUND(cache, p) (use(cache, p, &resident) == 0 && resident)

/* ---- found ---- */

static void each_way(struct peerdma_cache *cache, char *p)
{
	bool resident = false;
	char *q;

	CHECK(ANEW(cache, p) && FOUND(cache, p), "memory is pinned once");
	map_at(p);
	CHECK(ANEW(cache, p) && FOUND(cache, p), "mmap over it: pinned anew");
	munmap(p, LENGTH);
	map_at(p);
	CHECK(ANEW(cache, p), "munmap");
	q = map_at(NULL);
	CHECK(mremap(p, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q, "moved");
	map_at(p);
	CHECK(ANEW(cache, p) && ANEW(cache, q), "mremap");
	munmap(q, LENGTH);
	munlock(p, LENGTH);
	madvise(p, LENGTH, MADV_DONTNEED);
	CHECK(use(cache, p, &resident) == 1, "madvise");
	munmap(p, LENGTH);
#ifndef KEEPING_MALLOC
	q = malloc(8 * LENGTH);
	memset(q, 1, 8 * LENGTH);
	use(cache, q + LENGTH, &resident);
	free(q);
	q = malloc(8 * LENGTH);
	CHECK(ANEW(cache, q + LENGTH), "free");
	free(q);
#endif
}

static void in_a_child(char *p)
{
	bool resident = false;
	struct peerdma_cache *cache;
	int status;
	pid_t pid = fork();

	if (!pid) {
		check_counts.failures = 0;
		CHECK(!peerdma_open(&ctx, 0), "a forked child's context");
		cache = cache_with(0);
		CHECK(ANEW(cache, p) && FOUND(cache, p), "its cache pins");
		map_at(p);
		CHECK(ANEW(cache, p), "and its monitor sees");
		peerdma_cache_close(cache);
		peerdma_close(ctx);
		_exit(check_counts.failures != 0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "a forked child has a monitor, too");
}

static void found(void)
{
	struct peerdma_cache *cache = cache_with(0), *second = cache_with(0), *third;
	struct peerdma *first = ctx;
	bool resident = false;
	char *p = map_at(NULL);

	CHECK(!(counters(cache).monitors & PEERDMA_MONITOR_HOST) && monitor_is(NULL),
	      "a cache that has pinned no host memory needs no monitor");
	each_way(cache, p);
	CHECK(counters(cache).monitors & PEERDMA_MONITOR_HOST, "one that has is notified by a monitor");
	CHECK(monitor_is("system calls of the C library"), "the library's own");
	CHECK(!(counters(second).monitors & PEERDMA_MONITOR_HOST), "another cache is not, yet");
	p = map_at(NULL);
	each_way(second, p);
	CHECK(!peerdma_open(&ctx, 0), "a context that is opened later");
	third = cache_with(0);
	p = map_at(NULL);
	CHECK(ANEW(cache, p) && ANEW(second, p) && ANEW(third, p), "three caches of the same memory");
	map_at(p);
	CHECK(ANEW(cache, p) && ANEW(second, p) && ANEW(third, p), "all are notified");
	in_a_child(p);
	CHECK(FOUND(cache, p), "what a child does ends nothing here");
	peerdma_cache_close(third);
	peerdma_close(ctx);
	peerdma_cache_close(second);
	peerdma_cache_close(cache);
	ctx = first;
}

/* ---- other ---- */

static void other(void)
{
	struct peerdma_cache *cache;
	bool resident = false;
	char *p = map_at(NULL);

	CHECK(!peerdma_monitor_start(PEERDMA_MEMORY_HOST, "mine"), "another library's monitor");
	cache = cache_with(0);
	CHECK(ANEW(cache, p) && FOUND(cache, p), "memory is pinned once");
	CHECK(monitor_is("mine"), "no second monitor is started");
	CHECK(counters(cache).monitors & PEERDMA_MONITOR_HOST, "the cache says that host memory is monitored");
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, LENGTH, 0);
	map_at(p);
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, p, LENGTH, 1);
	CHECK(ANEW(cache, p), "that monitor's notification ends the pin");
	peerdma_cache_close(cache);
}

/* ---- meanwhile ---- */

static char *to_replace;

/* The library's monitor looks for the C library in this way when it begins: another thread is faster. */
void *dlopen(const char *name, int flags)
{
	void *(*real)(const char *name, int flags) = (void *(*)(const char *, int))(uintptr_t)dlsym(RTLD_NEXT, "dlopen");

	if (to_replace && name && !strcmp(name, "libc.so.6")) {
		map_at(to_replace);
		to_replace = NULL;
	}
	return real(name, flags);
}

static void meanwhile(void)
{
	struct peerdma_cache *cache = cache_with(0);
	bool resident = false;
	char *p = map_at(NULL);

	to_replace = p;
	CHECK(use(cache, p, &resident) == 1 && !to_replace, "memory that is replaced while the monitor begins");
	CHECK(resident, "is pinned when the get returns");
	CHECK(FOUND(cache, p), "and a hit returns that pin");
	peerdma_cache_close(cache);
}

/* ---- refused ---- */

static void refused(void)
{
	struct peerdma_cache *cache = cache_with(0), *off = cache_with(PEERDMA_CACHE_OFF), *calls = cache_with(PEERDMA_CACHE_CALLS);
	static const char cause[] = "peerdma_cache_get: host memory is not monitored: ";
	bool resident = false;
	char *p = map_at(NULL);

	if (forbid()) {
		printf("skipped: no seccomp here\n");
		exit(77);
	}
	for (int i = 0; i < 2; i++) {
		CHECK(use(cache, p, &resident) == -EOPNOTSUPP, "host memory that is not monitored is not cached");
		puts(peerdma_last_error());
		CHECK(!strncmp(peerdma_last_error(), cause, strlen(cause)) && strstr(peerdma_last_error(), "MemoryDenyWriteExecute"),
		      "the text says why");
		CHECK(strstr(peerdma_last_error(), "PEERDMA_CACHE_CALLS") && strstr(peerdma_last_error(), "peerdma.ko"),
		      "and what helps");
	}
	CHECK(!locked(p) && !counters(cache).regions, "it is not pinned");
	CHECK(ANEW(off, p) && ANEW(off, p) && !locked(p), "a cache that keeps nothing needs no monitor");
	CHECK(ANEW(calls, p) && FOUND(calls, p), "nor does one that the program notifies");
	CHECK(!(counters(calls).monitors & PEERDMA_MONITOR_HOST), "which says so");
	CHECK(peerdma_cache_invalidate(calls, p, LENGTH) == 1, "it is notified");
	map_at(p);
	CHECK(ANEW(calls, p), "and pins anew");
	peerdma_cache_close(calls);
	peerdma_cache_close(off);
	peerdma_cache_close(cache);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "found";

	setvbuf(stdout, NULL, _IOLBF, 0);
	mallopt(M_MMAP_THRESHOLD, LENGTH);	/* what is freed is unmapped, always */
	if (peerdma_open(&ctx, 0))
		return 2;
	if (!strcmp(what, "found"))
		found();
	else if (!strcmp(what, "other"))
		other();
	else if (!strcmp(what, "meanwhile"))
		meanwhile();
	else
		refused();
	peerdma_close(ctx);
	return check_end(NULL);
}
