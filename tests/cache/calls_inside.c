// SPDX-License-Identifier: MIT
/* calls_inside.c - calls from inside the functions that register. */
#include <errno.h>

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

void from_inside(void)
{
	struct peerdma_cached *hold;

	fresh();
	begin();
	toy.in_add = get_in_add;
	touch(AT(0), PAGE);
	MUST(in_add_result == -EDEADLK && toy.adds == 2);
	peerdma_cache_invalidate(cache, AT(0), PAGE);
	/* Freed while it is being registered: not kept; again and again: given up. */
	toy.in_add = free_once_in_add;
	touch(AT(0), PAGE);
	MUST(toy.adds == 4 && toy.removes == 2);
	peerdma_cache_invalidate(cache, AT(0), PAGE);
	toy.in_add = free_in_add;
	MUST(peerdma_cache_get(cache, AT(0), PAGE, &hold) == -ESTALE);
	toy.in_add = NULL;
	for (int i = 0; i < 20; i++)
		touch(AT(2 * i), PAGE);
	toy.in_remove = free_in_remove;
	peerdma_cache_invalidate(cache, AT(4), PAGE);
	MUST(counters().regions == 1);
	finish();
}
