// SPDX-License-Identifier: MIT
/*
 * torch_uses.c - what pytorch.py does with a tensor's memory: a get of a cache of pins, and a put.
 *
 * When a get registers, the buffer ids of all allocations under the pin are noted. CUDA never uses
 * an id twice. So if a later get finds the registration although an id under its range has changed,
 * it has found memory that was freed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../lib/cuda_calls.h"
#include "peerdma_cache.h"
#include "torch_uses.h"

#define STEP	(2UL << 20)	/* allocations of CUDA begin at its multiples, or are smaller and have an end of their own */
#define PINS	(1 << 16)

enum { BUFFER_ID = 7 };

struct noted {
	const void *region;
	uint64_t begin, count;
	unsigned long long *ids;
};

static struct cuda_calls cu;
static struct peerdma *ctx;
static struct peerdma_cache *cache;
static struct noted noted[PINS];
static uint64_t misses;
static struct torch_uses told;

static unsigned long long id_of(uint64_t addr)
{
	unsigned long long id = 0;

	return cu.cuPointerGetAttribute(&id, BUFFER_ID, addr) ? 0 : id;
}

static struct noted *entry(const void *region)
{
	uint64_t i = ((uintptr_t)region >> 4) * 0x9e3779b97f4a7c15ULL >> 48;

	while (noted[i % PINS].region && noted[i % PINS].region != region)
		i++;
	return &noted[i % PINS];
}

/* The id of the memory at each multiple of STEP in [addr, addr + length), and at its first byte. */
static void note(struct noted *n, const struct peerdma_cached *hold)
{
	n->region = hold->registration;
	n->begin = hold->addr / STEP;
	n->count = (hold->addr + hold->length - 1) / STEP - n->begin + 1;
	free(n->ids);
	n->ids = calloc(n->count, sizeof(*n->ids));
	for (uint64_t i = 0; n->ids && i < n->count; i++) {
		uint64_t at = (n->begin + i) * STEP;

		n->ids[i] = id_of(at < hold->addr ? hold->addr : at);
	}
}

static int same(const struct noted *n, const struct peerdma_cached *hold, uint64_t addr, uint64_t length)
{
	for (uint64_t at = addr; at < addr + length; at = (at / STEP + 1) * STEP) {
		uint64_t first = at / STEP * STEP < hold->addr ? hold->addr : at / STEP * STEP;

		/* Two allocations in one STEP: only what was noted can be compared. */
		if (id_of(first) != n->ids[at / STEP - n->begin])
			return 0;
	}
	return 1;
}

int torch_uses_open(void)
{
	if (!cuda_calls_load(&cu) || cu.cuInit(0))
		return -1;
	if (peerdma_open(&ctx, PEERDMA_OPEN_DIRECT) || peerdma_cache_open(ctx, NULL, &cache)) {
		fprintf(stderr, "%s\n", peerdma_last_error());
		return -1;
	}
	return 0;
}

int torch_uses(uint64_t addr, uint64_t length)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_cached *hold;
	struct noted *n;
	int ret = peerdma_cache_get(cache, (void *)(uintptr_t)addr, length, &hold);

	if (ret) {
		if (!told.failed++)
			fprintf(stderr, "get of %llu bytes: %d %s\n", (unsigned long long)length, ret, peerdma_last_error());
		return ret;
	}
	peerdma_cache_counters(cache, &c);
	n = entry(hold->registration);
	if (c.misses != misses) {
		misses = c.misses;
		note(n, hold);
	} else if (!n->ids || !same(n, hold, addr, length)) {
		told.wrong++;
	}
	ret = peerdma_status(hold->registration, &s);
	if (ret || s.state != PEERDMA_STATE_LIVE)
		told.dead++;
	told.spanning += n->ids && n->ids[0] != n->ids[n->count - 1];
	peerdma_cache_put(cache, hold);
	return 0;
}

void torch_uses_tell(struct torch_uses *out)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };

	peerdma_cache_counters(cache, &c);
	told.gets = c.gets;
	told.hits = c.hits;
	told.stale = c.stale;
	told.invalidations = c.invalidations;
	told.monitors = c.monitors;
	told.bytes = c.bytes;
	*out = told;
}
