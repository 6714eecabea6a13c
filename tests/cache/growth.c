// SPDX-License-Identifier: MIT
/*
 * growth.c - regions are registered, used and released without end, at addresses all
 * over: what the process has in memory after the first tenth is all that it ever has.
 *
 * Most rounds free the memory themselves; every 64th region stays, until the limit
 * of the cache ends it.
 *
 * usage: cache_growth [ROUNDS [SEED]]
 */
#include "../check.h"
#include "peerdma_cache.h"

#define PAGE	4096ULL
#define BASE	(1ULL << 40)
#define PAGES	(1ULL << 32)		/* 16 TiB of addresses */
#define SLACK	(12ULL << 20)		/* a thread's table at its greatest is 8 MiB */

static int64_t registered;

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	registered++;
	out->handle = (void *)(uintptr_t)addr;
	return 0;
}

static void drop(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	MUST(handle == (void *)(uintptr_t)addr);
	registered--;
}

static uint64_t resident(void)
{
	unsigned long long size, pages;
	FILE *f = fopen("/proc/self/statm", "r");

	MUST(f && fscanf(f, "%llu %llu", &size, &pages) == 2);
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

#define MANY	16384ULL
#define LENGTH	(16 * PAGE)

/* Many gets anywhere in regions that stay: a thread's table grows with the regions, not with the gets. */
static void table(uint64_t seed)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = drop };
	struct peerdma_cache *cache;
	struct peerdma_cached *hold;
	uint64_t before, after;

	MUST(!peerdma_cache_create(&ops, NULL, NULL, &cache));
	for (uint64_t i = 0; i < MANY; i++) {
		MUST(!peerdma_cache_get(cache, (void *)(uintptr_t)(BASE + i * LENGTH), LENGTH, &hold));
		peerdma_cache_put(cache, hold);
	}
	before = resident();
	for (uint64_t i = 0; i < 256 * MANY; i++) {
		MUST(!peerdma_cache_get(cache, (void *)(uintptr_t)(BASE + below(&seed, MANY * LENGTH / 64) * 64), 64, &hold));
		peerdma_cache_put(cache, hold);
	}
	after = resident();
	printf("%llu regions: %llu bytes of a thread's table for each\n", (unsigned long long)MANY,
	       (unsigned long long)((after - before) / MANY));
	MUST(after - before <= 64 * MANY);
	peerdma_cache_close(cache);
	registered = 0;
}

int main(int argc, char **argv)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = drop };
	struct peerdma_cache_options options = { .size = sizeof(options), .max_regions = 1000 };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000, seed = check_seed(argc, argv, 2);
	uint64_t early = 0, late;
	struct peerdma_cache *cache;

	table(seed);
	MUST(!peerdma_cache_create(&ops, NULL, &options, &cache));
	for (uint64_t n = 0; n < rounds; n++) {
		void *p = (void *)(uintptr_t)(BASE + below(&seed, PAGES) * PAGE);
		size_t length = 1 + below(&seed, 3 * PAGE);

		for (int use = 0; use < 3; use++) {	/* made, found in the index, found in the thread's table */
			struct peerdma_cached *hold;

			MUST(!peerdma_cache_get(cache, p, length, &hold));
			peerdma_cache_put(cache, hold);
		}
		if (n % 64)
			MUST(peerdma_cache_invalidate(cache, p, 1) == 1);
		if (n == rounds / 10)
			early = resident();
	}
	late = resident();
	MUST(!peerdma_cache_counters(cache, &c));
	printf("%llu rounds: %llu registered, %llu ended by limits, %llu left; resident %llu KiB after a tenth, %llu KiB at the end\n",
	       (unsigned long long)rounds, (unsigned long long)c.misses, (unsigned long long)c.evictions,
	       (unsigned long long)c.regions, (unsigned long long)early / 1024, (unsigned long long)late / 1024);
	MUST(c.regions <= 1000 && c.deferred <= 1 && c.regions + c.deferred == (uint64_t)registered);
	MUST(late <= early + SLACK);
	peerdma_cache_close(cache);
	MUST(!registered);
	return 0;
}
