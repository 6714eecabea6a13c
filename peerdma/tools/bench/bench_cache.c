// SPDX-License-Identifier: MIT
/*
 * bench_cache.c - the registration cache: hits, also those that look at a word, and
 * misses; registration does nothing.  And hits of pins, where something pins.
 */
#include <errno.h>
#include <stdlib.h>

#include "bench.h"
#include "empty_cache.h"

#define BATCH	64
#define REGIONS_MAX (1U << 20)

struct subject {
	struct peerdma_cache *cache;
	uint64_t base, regions;
};

struct user {
	struct subject *s;
	uint64_t random;
	uint64_t spare;		/* the first of the regions that this thread makes and ends */
};

/* Every region is in the thread's own table before it is measured. */
static int begin(void *arg, unsigned int thread, void **state)
{
	struct subject *s = arg;
	struct user *u = malloc(sizeof(*u));
	int ret = 0;

	if (!u)
		return -ENOMEM;
	*u = (struct user){ s, thread + 1, EMPTY_BASE * 2 + thread * EMPTY_STRIDE * 1024 };
	for (int round = 0; round < 4; round++) {
		for (uint64_t i = 0; !ret && i < s->regions; i++)
			ret = empty_cache_touch(s->cache, s->base + i * EMPTY_STRIDE, EMPTY_LENGTH);
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
	uint64_t region;
	int ret = 0;

	while (n-- && !ret) {
		u->random = u->random * 6364136223846793005ULL + 1442695040888963407ULL;
		region = (u->random >> 33) * s->regions >> 31;
		ret = empty_cache_touch(s->cache, s->base + region * EMPTY_STRIDE, EMPTY_LENGTH);
	}
	return ret;
}

/* Each makes a region and ends it: among so many others. */
static int misses(void *state, unsigned int n)
{
	struct user *u = state;
	int ret = 0;

	while (n-- && !ret) {
		uint64_t at = u->spare + n * EMPTY_STRIDE;

		ret = empty_cache_touch(u->s->cache, at, EMPTY_LENGTH);
		if (!ret && peerdma_cache_invalidate(u->s->cache, (void *)(uintptr_t)at, 1) < 0)
			ret = -EPERM;
	}
	return ret;
}

static void end(void *state)
{
	free(state);
}

static void measure(struct bench *b, const char *name, struct peerdma_cache *cache, uint64_t base,
		    uint64_t regions, int (*calls)(void *state, unsigned int n))
{
	struct subject s = { cache, base, regions };

	bench_measure(b, &(struct bench_case){
		.what = "cache", .name = name, .of = "regions", .size = regions, .batch = BATCH,
		.arg = &s,
		.begin = begin, .calls = calls, .end = end });
}

static void plain(struct bench *b, uint64_t regions)
{
	static const struct {
		const char *name;
		bool words;
		int (*calls)(void *state, unsigned int n);
	} kinds[] = { { "hit", false, hits }, { "hit, word", true, hits },
		      { "miss and end", false, misses } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct peerdma_cache *cache;

		if (empty_cache_open(kinds[i].words, 2 * REGIONS_MAX, &cache)) {
			bench_leave_out(b, "cache", peerdma_last_error());
			return;
		}
		measure(b, kinds[i].name, cache, EMPTY_BASE, regions, kinds[i].calls);
		peerdma_cache_close(cache);
	}
}

static void pins(struct bench *b, uint64_t regions)
{
	size_t length = regions * EMPTY_STRIDE;
	struct peerdma_cached *hold;
	struct peerdma_cache *cache;
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
		measure(b, "hit, pins", cache, (uintptr_t)memory, regions, hits);
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
