// SPDX-License-Identifier: MIT
/* calls_inside.c - calls from inside the functions that register. */
#include <pthread.h>

#include "toy.h"

static int in_add_result;

static void get_in_add(void)
{
	struct peerdma_cached *hold;

	toy.in_add = NULL;
	in_add_result = peerdma_cache_get(cache, AT(0), PAGE, &hold);
	touch(AT(50), PAGE);
}

static void free_in_add(void)
{
	peerdma_cache_invalidate(cache, AT(0), PAGE);
}

static void free_once_in_add(void)
{
	toy.in_add = NULL;
	peerdma_cache_invalidate(cache, AT(0), PAGE);
}

static void free_in_remove(void)
{
	toy.in_remove = NULL;
	peerdma_cache_invalidate(cache, AT(0), 1000 * PAGE);
	touch(AT(2000), PAGE);
}

static struct peerdma_cached *inner;

/* It frees what it kept, which reports that; and it gives back what its registration stood on. */
static void at_close(void)
{
	peerdma_cache_invalidate(cache, AT(0), 1000 * PAGE);
	peerdma_cache_put(cache, inner);
}

/* Nothing is removed twice, and nothing is left. */
static void while_it_closes(bool deferred)
{
	fresh();
	begin();
	for (int i = 0; i < 20; i++)
		inner = get(AT(3), PAGE);
	for (int i = 0; i < 10; i++)
		touch(AT(2 * i), PAGE);
	if (deferred)
		MUST(peerdma_cache_invalidate(cache, AT(4), PAGE) == 1);
	toy.in_remove = at_close;
	peerdma_cache_close(cache);
	cache = NULL;
	MUST(toy.adds == 11 && toy.removes == 11);
}

/* Hits do not read it: better no registration than one that is never found stale. */
static void a_word_that_was_not_announced(void)
{
	static const uint32_t word = 1;
	struct peerdma_cached *hold;

	fresh();
	begin();
	toy.word = &word;
	MUST(peerdma_cache_get(cache, AT(0), PAGE, &hold) == -EINVAL);
	MUST(toy.adds == 1 && toy.removes == 1 && counters().regions == 0 && counters().failures == 1);
	finish();
}

static int positive_extent(void *arg, uint64_t addr, uint64_t length, struct peerdma_extent *e)
{
	(void)arg, (void)addr, (void)length, (void)e;
	return 1;
}

static void results_that_are_none(void)
{
	struct peerdma_cached *hold;

	fresh();
	begin();
	toy.refuse = 5;
	MUST(peerdma_cache_get(cache, AT(0), PAGE, &hold) == -EINVAL && strstr(peerdma_last_error(), "add() returned 5"));
	finish();
	fresh();
	ops.extent = positive_extent;
	begin();
	MUST(peerdma_cache_get(cache, AT(0), PAGE, &hold) == -EINVAL && strstr(peerdma_last_error(), "extent() returned 1"));
	MUST(!toy.adds && !counters().regions);
	finish();
}

/* Freed while a region is registered for which the thread's table must grow: the put that follows removes what was freed. */
static void freed_while_a_table_grows(void)
{
	struct peerdma_cached *hold;

	fresh();
	begin();
	/* With 1024 regions a table begins. */
	for (uint64_t n = 0; n < 1024; n++)
		touch(AT(2 * n), PAGE);
	toy.in_add = free_once_in_add;
	hold = get(AT(2 * 1024), PAGE);
	MUST(!toy.removes && counters().deferred == 1);
	peerdma_cache_put(cache, hold);
	MUST(toy.removes == 1 && !counters().deferred);
	finish();
}

static void *hold_one(void *unused)
{
	inner = get(AT(0), PAGE);
	return NULL;
}

static void many_in_remove(void)
{
	toy.in_remove = NULL;
	for (uint64_t n = 1; n <= 1024; n++)
		touch(AT(2 * n), PAGE);
}

/* The put of a region that this thread has never met ends it; its remove() makes so many regions that the thread's refs move. */
static void refs_that_move_in_a_put(void)
{
	pthread_t other;

	fresh();
	begin();
	touch(AT(4096), PAGE);
	MUST(!pthread_create(&other, NULL, hold_one, NULL) && !pthread_join(other, NULL));
	invalidate(AT(0), PAGE);
	toy.in_remove = many_in_remove;
	peerdma_cache_put(cache, inner);
	MUST(toy.removes == 1 && toy.adds == 1026);
	finish();
}

void from_inside(void)
{
	struct peerdma_cached *hold;

	begin();
	toy.in_add = get_in_add;
	touch(AT(0), PAGE);
	MUST(in_add_result == -EDEADLK && toy.adds == 2);
	invalidate(AT(0), PAGE);
	/* Freed while it is being registered: not kept; again and again: given up. */
	toy.in_add = free_once_in_add;
	touch(AT(0), PAGE);
	MUST(toy.adds == 4 && toy.removes == 2);
	invalidate(AT(0), PAGE);
	toy.in_add = free_in_add;
	MUST(peerdma_cache_get(cache, AT(0), PAGE, &hold) == -ESTALE);
	toy.in_add = NULL;
	for (int i = 0; i < 20; i++)
		touch(AT(2 * i), PAGE);
	toy.in_remove = free_in_remove;
	invalidate(AT(4), PAGE);
	MUST(counters().regions == 1);
	finish();
	while_it_closes(false);
	while_it_closes(true);
	a_word_that_was_not_announced();
	results_that_are_none();
	freed_while_a_table_grows();
	refs_that_move_in_a_put();
}
