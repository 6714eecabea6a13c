// SPDX-License-Identifier: MIT
/*
 * test_many.c - more subscribers to libpeerdma-hooks than a table of fixed size
 * would hold: caches of the caller's own ops, open contexts, and the caller itself.
 * Each cache must be notified of a free, and whatever is closed gives its place back.
 */
#include <cuda.h>
#include "peerdma_hooks.h"
#include "../lib/checks.h"
#include "../lib/counted.h"

#define MIB	(1UL << 20)
#define CACHES	40
#define ROUNDS	3000

static unsigned int events[CACHES];

static void count(void *arg, const struct peerdma_hook_event *event)
{
	++*(unsigned int *)arg;
}

static struct peerdma_cache *make(void)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = counted_add, .remove = counted_remove };
	struct peerdma_cache_options options = { .size = sizeof(options), .capacity = 64 };
	struct peerdma_cache *cache;

	if (peerdma_cache_create(&ops, NULL, &options, &cache))
		exit(2);
	return cache;
}

int main(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cache *caches[CACHES];
	struct peerdma *contexts[CACHES];
	struct peerdma_cached *hold;
	int hooked = 0, subscribed = 0, told = 0;
	CUcontext context;
	CUdeviceptr p;

	if (cuInit(0) || cuCtxCreate(&context, 0, 0) || cuMemAlloc(&p, MIB))
		return 2;
	for (int i = 0; i < CACHES; i++) {
		if (peerdma_open(&contexts[i], 0))
			return 2;
		caches[i] = make();
		peerdma_cache_counters(caches[i], &c);
		hooked += !!(c.monitors & PEERDMA_MONITOR_HOOKS);
		if (peerdma_cache_get(caches[i], (void *)(uintptr_t)p, MIB, &hold))
			return 2;
		peerdma_cache_put(caches[i], hold);
		subscribed += !peerdma_hooks_subscribe(count, &events[i]);
	}
	CHECK(hooked == CACHES, "each cache has the hooks as a monitor");
	CHECK(subscribed == CACHES, "each subscription is accepted");
	cuMemFree(p);
	for (int i = 0; i < CACHES; i++)
		peerdma_cache_drain(caches[i]);
	CHECK(removed == CACHES, "a free ends the registration in each cache");
	for (int i = 0; i < CACHES; i++)
		told += events[i] == 2;
	CHECK(told == CACHES, "each subscriber is called before the free and after it");
	for (int i = 0; i < CACHES; i++) {
		peerdma_hooks_unsubscribe(count, &events[i]);
		peerdma_cache_close(caches[i]);
		peerdma_close(contexts[i]);
	}

	for (hooked = 0, told = 0; told < ROUNDS; told++) {
		struct peerdma_cache *cache = make();

		peerdma_cache_counters(cache, &c);
		hooked += !!(c.monitors & PEERDMA_MONITOR_HOOKS);
		peerdma_cache_close(cache);
	}
	CHECK(hooked == ROUNDS, "a cache that is closed gives its place back");
	cuMemAlloc(&p, MIB);
	cuMemFree(p);
	CHECK(removed == CACHES && events[0] == 2, "and no closed one is called");
	return check_end(NULL);
}
