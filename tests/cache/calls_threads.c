// SPDX-License-Identifier: MIT
/* calls_threads.c - one cache and many threads, many caches, and forked children. */
#include <pthread.h>

#include "toy.h"

static void *put_it(void *hold)
{
	peerdma_cache_put(cache, hold);
	return NULL;
}

static void *get_it(void *p)
{
	touch(p, PAGE);
	touch(p, PAGE);
	return get(p, PAGE);
}

void threads(void)
{
	struct peerdma_cached *hold;
	struct peerdma_cache_entry e = { .size = sizeof(e) };

	begin();
	/* A hold outlives its thread, and is anybody's to give back; so do the counts. */
	hold = check_in_thread(get_it, AT(0));
	MUST(peerdma_cache_list(cache, 0, &e, 1) == 1 && e.holds == 1 && e.gets == 3);
	MUST(counters().hits == 2 && counters().threads == 0);
	MUST(invalidate(AT(0), PAGE) == 1 && toy.removes == 0);
	check_in_thread(put_it, hold);
	MUST(toy.removes == 1);

	hold = get(AT(0), PAGE);
	check_in_thread(put_it, hold);
	MUST(peerdma_cache_list(cache, 0, &e, 1) == 1 && e.holds == 0);
	MUST(invalidate(AT(0), PAGE) == 1 && toy.removes == 2);
}

static void *get_many(void *p)
{
	for (int i = 0; i < 100000; i++)
		get(p, PAGE);
	return NULL;
}

static void *put_many(void *p)
{
	struct peerdma_cached *hold = get(p, PAGE);

	for (int i = 0; i < 100001; i++)
		peerdma_cache_put(cache, hold);
	return NULL;
}

/* More than a record counts, up and down. */
void many_holds(void)
{
	struct peerdma_cache_entry e = { .size = sizeof(e) };

	begin();
	check_in_thread(get_many, AT(0));
	get_many(AT(0));
	MUST(peerdma_cache_list(cache, 0, &e, 1) == 1 && e.holds == 200000 && e.gets == 200000);
	check_in_thread(put_many, AT(0));
	put_many(AT(0));
	MUST(peerdma_cache_list(cache, 0, &e, 1) == 1 && e.holds == 0 && e.gets == 200002);
	MUST(invalidate(AT(0), 1) == 1 && toy.removes == 1);
}

void forks(void)
{
	struct peerdma_cached *hold, *other;
	int status;
	pid_t pid;

	begin();
	hold = get(AT(0), PAGE);
	touch(AT(0), PAGE);
	pid = fork();
	if (!pid) {
		struct peerdma_cache *parents = cache;

		if (peerdma_cache_get(cache, AT(0), PAGE, &other) != -EPERM ||
		    invalidate(AT(0), PAGE) != -EPERM || peerdma_cache_trim(cache, 1) != -EPERM)
			_exit(1);
		peerdma_cache_put(cache, hold);
		if (!strstr(peerdma_last_error(), "parent"))
			_exit(2);
		/* One of its own; and of the parent's it gives back its copy only. */
		begin();
		touch(AT(0), PAGE);
		peerdma_cache_close(cache);
		peerdma_cache_close(parents);
		_exit(toy.removes == 1 ? 0 : 3);
	}
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
	MUST(WIFEXITED(status) && !WEXITSTATUS(status));
	MUST(get(AT(0), PAGE) == hold);
	peerdma_cache_put(cache, hold);
	peerdma_cache_put(cache, hold);
	MUST(invalidate(AT(0), PAGE) == 1 && toy.removes == 1);
}

static void *close_it(void *unused)
{
	finish();
	return NULL;
}

/* More caches than a thread has words for, closed here and by others, and new ones after them. */
void many_caches(void)
{
	struct peerdma_cache *caches[10];

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 10; i++) {
			begin();
			caches[i] = cache;
			touch(AT(i), PAGE);
		}
		for (int n = 0; n < 100; n++) {
			cache = caches[n % 10];
			touch(AT(n % 10), PAGE);
			MUST(counters().misses == 1);
		}
		for (int i = 0; i < 10; i++) {
			cache = caches[i];
			toy.adds = toy.removes + 1;
			if (i & 1)
				check_in_thread(close_it, NULL);
			else
				finish();
		}
	}
}
