// SPDX-License-Identifier: MIT
/*
 * threads.c - what a thread and a cache cost that are not used much: address space,
 * mappings, memory under mlockall() and strict overcommit, page faults at a thread's
 * end; and many threads one after the other, and many caches in turns.
 */
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "toy.h"

#define MIB (1L << 20)

struct use {
	long size, committed, resident, mappings;	/* bytes; committed: what strict overcommit counts */
};

static struct use in_use(void)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long from, to;
	struct use u = { 0 };
	char line[512], mode[8];
	long kib;

	MUST(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3) {
			u.mappings++;
			u.size += (long)(to - from);
			u.committed += mode[1] == 'w' && mode[3] == 'p' ? (long)(to - from) : 0;
		} else if (sscanf(line, "Rss: %ld kB", &kib) == 1) {
			u.resident += kib << 10;
		}
	}
	fclose(maps);
	return u;
}

static struct use since(struct use before)
{
	struct use u = in_use();

	u.size -= before.size;
	u.committed -= before.committed;
	u.resident -= before.resident;
	u.mappings -= before.mappings;
	return u;
}

static void *touch_it(void *p)
{
	touch(p, PAGE);
	touch(p, PAGE);
	return NULL;
}

/* ---- one thread ---- */

#define CACHES 8

static void *use_caches(void *arg)
{
	struct peerdma_cache **caches = arg;
	struct use before = in_use(), u;

	for (int i = 0; i < CACHES; i++) {
		cache = caches[i];
		touch_it(AT(0));
	}
	u = since(before);
	printf("a thread's side of %d caches: %ld KiB, %ld mappings\n", CACHES, u.size >> 10, u.mappings);
	MUST(u.size <= CACHES * MIB && u.mappings <= CACHES + 2);
	return NULL;
}

static void address_space(void)
{
	struct peerdma_cache *caches[CACHES];
	struct use before = in_use(), u;

	options.capacity = 0;
	for (int i = 0; i < CACHES; i++) {
		begin();
		caches[i] = cache;
	}
	u = since(before);
	printf("%d caches: %ld KiB, of which %ld KiB are committed\n", CACHES, u.size >> 10, u.committed >> 10);
	MUST(u.committed <= CACHES * MIB);
	check_in_thread(use_caches, caches);
	for (int i = 0; i < CACHES; i++)
		peerdma_cache_close(caches[i]);
	cache = NULL;
	u = since(before);
	MUST(u.size <= 128 * MIB);	/* the C library keeps a stack and an arena */
}

/* All that may be written is had at once. */
static void locked_memory(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct use before, u;

		if (mlockall(MCL_FUTURE)) {
			printf("no mlockall() here\n");
			_exit(0);
		}
		before = in_use();
		fresh();
		options.capacity = 0;
		if (peerdma_cache_create(&ops, &toy, &options, &cache)) {
			printf("no memory may be locked here: %s\n", peerdma_last_error());
			_exit(0);
		}
		touch_it(AT(0));
		u = since(before);
		printf("under mlockall() a cache takes %ld KiB\n", u.resident >> 10);
		MUST(u.resident <= 4 * MIB);
		for (int i = 0; i < 3000; i++)
			touch(AT(2 * i), PAGE);
		finish();
		_exit(0);
	}
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
}

/* As strict overcommit counts: only so much may be writable. */
static void little_memory(void)
{
	struct rlimit old, small;
	struct use u = in_use();

	options.capacity = 0;
	MUST(!getrlimit(RLIMIT_DATA, &old));
	small = old;
	small.rlim_cur = (rlim_t)(u.committed + 16 * MIB);
	MUST(!setrlimit(RLIMIT_DATA, &small));
	begin();
	for (int i = 0; i < 20000; i++)
		touch(AT(2 * i), PAGE);
	/* There is no memory for more regions at some time: then the old ones go. */
	for (int i = 0; i < 300000; i++)
		touch(AT(2 * i), PAGE);
	printf("with 16 MiB: %llu regions, %llu evicted\n", (unsigned long long)counters().regions,
	       (unsigned long long)counters().evictions);
	MUST(!counters().failures && counters().evictions);
	finish();
	MUST(!setrlimit(RLIMIT_DATA, &old));
}

/* ---- regions that a thread did not touch ---- */

static long faults_of_threads(int n)
{
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < n; i++)
		check_in_thread(touch_it, AT(0));
	getrusage(RUSAGE_SELF, &after);
	return (after.ru_minflt - before.ru_minflt) / n;
}

static void *last_first(void *last)
{
	struct peerdma_cached *hold = get(last, PAGE);

	touch_it(last);
	touch_it(AT(0));
	return hold;
}

static void untouched_regions(void)
{
	struct peerdma_cache_entry e = { .size = sizeof(e) };
	struct peerdma_cached *hold;
	long few, many;

	options.capacity = 0;
	begin();
	touch(AT(0), PAGE);
	few = faults_of_threads(50);
	for (int i = 1; i < 200000; i++)
		touch(AT(2 * i), PAGE);
	many = faults_of_threads(50);
	printf("page faults of a thread that uses one region: %ld; and of 200000: %ld\n", few, many);
	MUST(many <= few + 10);
	/* Records grow when a thread comes to a region with a greater number, and all counts are right. */
	hold = check_in_thread(last_first, AT(2 * 199999));
	MUST(peerdma_cache_list(cache, (uintptr_t)AT(2 * 199999), &e, 1) == 1 && e.holds == 1 && e.gets == 4);
	peerdma_cache_put(cache, hold);
	hold = check_in_thread(last_first, AT(2 * 3));
	MUST(peerdma_cache_invalidate(cache, AT(0), 400000 * PAGE) == 200000 && counters().dead == 1);
	peerdma_cache_put(cache, hold);
	MUST(toy.removes == toy.adds && !counters().regions);
}

static void *put_in_a_new_thread(void *hold)
{
	peerdma_cache_put(cache, hold);
	return NULL;
}

/* What one thread holds another gives back that knows of few regions. */
static void given_back_elsewhere(void)
{
	struct peerdma_cached *hold;

	options.capacity = 0;
	begin();
	for (int i = 0; i < 5000; i++)
		touch(AT(2 * i), PAGE);
	hold = get(AT(2 * 4999), PAGE);
	check_in_thread(put_in_a_new_thread, hold);
	MUST(peerdma_cache_invalidate(cache, AT(0), 10000 * PAGE) == 5000 && !counters().dead);
}

/* ---- many ---- */

static void many_threads(void)
{
	struct use early = { 0 }, u;
	struct peerdma_cached *hold;

	begin();
	hold = get(AT(0), PAGE);
	/* The least that could be left of each, 32 bytes, would be more than the limit. */
	for (int i = 0; i < 50000; i++) {
		check_in_thread(touch_it, AT(2 * (i % 50)));
		if (i == 1000)
			early = in_use();
	}
	u = since(early);
	printf("49000 threads: %ld KiB, %ld KiB resident, %ld mappings more\n", u.size >> 10, u.resident >> 10, u.mappings);
	MUST(u.size <= MIB && u.resident <= MIB && u.mappings <= 2);
	MUST(!counters().threads || counters().threads == 1);
	peerdma_cache_put(cache, hold);
	MUST(peerdma_cache_invalidate(cache, AT(0), 100 * PAGE) == 50 && !counters().dead);
}

/* In turns, and each finds its own table again. */
static void in_turns(void)
{
	struct peerdma_cache *caches[50];

	for (int n = 5; n <= 50; n *= 10) {
		fresh();
		for (int i = 0; i < n; i++) {
			/* Others that came and went in between. */
			struct peerdma_cache *other;

			begin();
			touch(AT(0), PAGE);
			other = cache;
			begin();
			caches[i] = cache;
			peerdma_cache_close(other);
		}
		for (int round = 0; round < 100; round++) {
			for (int i = 0; i < n; i++) {
				cache = caches[i];
				touch(AT(0), PAGE);
			}
		}
		for (int i = 0; i < n; i++) {
			cache = caches[i];
			MUST(counters().hits_front >= 98);
			peerdma_cache_close(cache);
		}
	}
	cache = NULL;
}

int main(void)
{
	static const struct check_test tests[] = {
		TEST(address_space), TEST(locked_memory), TEST(little_memory), TEST(untouched_regions), TEST(given_back_elsewhere), TEST(in_turns), TEST(many_threads),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	check_before = fresh;
	check_after = finish;
	return check_run(tests, CHECK_COUNT(tests), 0, NULL);
}
