// SPDX-License-Identifier: MIT
/*
 * bench_cache.c - the registration cache: hits, also those that look at a word, and
 * misses; registration does nothing.  And hits of pins, where something pins.
 */
#include <errno.h>
#include <stdlib.h>

#include "bench.h"
#include "peerdma_cache.h"

#define BASE	(1ULL << 44)	/* nothing is there: registration does nothing */
#define STRIDE	8192ULL
#define LENGTH	4096ULL
#define BATCH	64
#define REGIONS_MAX (1U << 20)

struct subject {
	struct bench *b;
	struct peerdma_cache *cache;
	uint64_t base, regions;
	uint32_t word;		/* of all regions: it never changes */
};

struct user {
	struct subject *s;
	uint64_t random;
	uint64_t spare;		/* the first of the regions that this thread makes and ends */
};

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	struct subject *s = arg;

	(void)addr;
	(void)length;
	out->word = &s->word;
	return 0;
}

static int add_plain(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	(void)arg;
	(void)addr;
	(void)length;
	(void)out;
	return 0;
}

static void drop(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	(void)arg;
	(void)addr;
	(void)length;
	(void)handle;
}

static int touch(struct peerdma_cache *cache, uint64_t at, uint64_t length)
{
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, (void *)(uintptr_t)at, length, &hold);

	if (!ret)
		peerdma_cache_put(cache, hold);
	return ret;
}

/* Every region is in the thread's own table before it is measured. */
static int begin(void *arg, unsigned int thread, void **state)
{
	struct subject *s = arg;
	struct user *u = malloc(sizeof(*u));
	int ret = 0;

	if (!u)
		return -ENOMEM;
	*u = (struct user){ s, thread + 1, BASE * 2 + thread * STRIDE * 1024 };
	for (int round = 0; round < 4; round++) {
		for (uint64_t i = 0; !ret && i < s->regions; i++)
			ret = touch(s->cache, s->base + i * STRIDE, LENGTH);
	}
	if (ret)
		free(u);
	*state = u;
	return ret;
}

static int hits(void *state, unsigned int n)
{
	struct user *u = state;
	struct subject *s = u->s;
	int ret = 0;

	while (n-- && !ret) {
		u->random = u->random * 6364136223846793005ULL + 1442695040888963407ULL;
		ret = touch(s->cache, s->base + ((u->random >> 33) * s->regions >> 31) * STRIDE, LENGTH);
	}
	return ret;
}

/* Each makes a region and ends it: among so many others. */
static int misses(void *state, unsigned int n)
{
	struct user *u = state;
	int ret = 0;

	while (n-- && !ret) {
		uint64_t at = u->spare + n * STRIDE;

		ret = touch(u->s->cache, at, LENGTH);
		if (!ret && peerdma_cache_invalidate(u->s->cache, (void *)(uintptr_t)at, 1) < 0)
			ret = -EPERM;
	}
	return ret;
}

static void end(void *state)
{
	free(state);
}

static void measure(struct bench *b, const char *name, struct peerdma_cache *cache, uint64_t base, uint64_t regions,
		    struct subject *s, int (*calls)(void *state, unsigned int n))
{
	s->b = b;
	s->cache = cache;
	s->base = base;
	s->regions = regions;
	bench_measure(b, &(struct bench_case){
		.what = "cache", .name = name, .of = "regions", .size = regions, .batch = BATCH, .arg = s,
		.begin = begin, .calls = calls, .end = end });
}

static void plain(struct bench *b, uint64_t regions)
{
	static const struct {
		const char *name;
		int (*add)(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out);
		int (*calls)(void *state, unsigned int n);
	} kinds[] = { { "hit", add_plain, hits }, { "hit, word", add, hits }, { "miss and end", add_plain, misses } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct peerdma_cache_ops ops = {
			.size = sizeof(ops), .monitors = kinds[i].add == add ? PEERDMA_MONITOR_WORD : 0,
			.add = kinds[i].add, .remove = drop,
		};
		struct peerdma_cache_options o = { .size = sizeof(o), .capacity = 2 * REGIONS_MAX };
		struct peerdma_cache *cache;
		struct subject s = { .word = 0 };

		if (peerdma_cache_create(&ops, &s, &o, &cache)) {
			bench_leave_out(b, "cache", peerdma_last_error());
			return;
		}
		measure(b, kinds[i].name, cache, BASE, regions, &s, kinds[i].calls);
		peerdma_cache_close(cache);
	}
}

static void pins(struct bench *b, uint64_t regions)
{
	size_t length = regions * STRIDE;
	struct peerdma_cached *hold;
	struct peerdma_cache *cache;
	struct subject s = { .word = 0 };
	void *memory = subject_alloc(false, length);
	int ret;

	if (!memory || peerdma_cache_open(b->ctx, NULL, &cache)) {
		bench_leave_out(b, "cache", memory ? peerdma_last_error() : "out of memory");
		if (memory)
			subject_free(false, memory, length);
		return;
	}
	ret = peerdma_cache_get(cache, memory, 1, &hold);
	if (!ret) {
		subject_provider(b, false, hold->registration);
		peerdma_cache_put(cache, hold);
	}
	/* Back-end host, and no monitor of host memory here. */
	if (ret == -EOPNOTSUPP)
		bench_leave_out(b, "cache", peerdma_last_error());
	else
		measure(b, "hit, pins", cache, (uintptr_t)memory, regions, &s, hits);
	peerdma_cache_close(cache);
	subject_free(false, memory, length);
}

void bench_cache(struct bench *b)
{
	static const uint64_t usual[] = { 16, 1024, 65536, 0 };
	const uint64_t *sizes;
	size_t n = bench_sizes(b, usual, &sizes);

	for (size_t i = 0; i < n; i++) {
		if (sizes[i] > REGIONS_MAX)
			bench_leave_out(b, "cache", "more than 2^20 regions");
		else
			plain(b, sizes[i]);
	}
	if (b->ctx)
		pins(b, 16);
}
