// SPDX-License-Identifier: MIT
/*
 * cache_check.c - what a hit costs when each asks CUDA for the buffer id, beside the
 * asking alone: the budget is 1.3 times. In turns, on whichever libcuda.so.1 is there.
 *
 *	alone	cuPointerGetAttribute(BUFFER_ID) and a comparison
 *	hit	peerdma_cache_get() and put() of a region whose monitor does that
 *
 * usage: bench-cache-check [--json]
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cu.h"
#include "peerdma_cache.h"
#include "stats.h"

#define ROUNDS	51
#define HITS	(1 << 15)
#define BUFFERS	16
#define LENGTH	(64 * 1024UL)

static CUdeviceptr buffers[BUFFERS];
static unsigned long long ids[BUFFERS];

static unsigned long long id_of(CUdeviceptr p)
{
	unsigned long long id = 0;

	return cu.pointer_get_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p) ? 0 : id;
}

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	(void)arg;
	(void)length;
	out->handle = (void *)(uintptr_t)id_of(addr);
	return 0;
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	(void)arg;
	(void)addr;
	(void)length;
	(void)handle;
}

static int check(void *arg, const struct peerdma_cached *region, uint64_t addr, uint64_t length)
{
	(void)arg;
	(void)length;
	return id_of(addr) == (uintptr_t)region->registration;
}

static double alone(void)
{
	double start = now_ns();
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < HITS; i++)
		wrong += id_of(buffers[i % BUFFERS] + 64) != ids[i % BUFFERS];
	return wrong ? -1 : (now_ns() - start) / HITS;
}

static double hit(struct peerdma_cache *cache)
{
	double start = now_ns();

	for (unsigned int i = 0; i < HITS; i++) {
		struct peerdma_cached *hold;

		if (peerdma_cache_get(cache, (void *)(uintptr_t)(buffers[i % BUFFERS] + 64), 4096, &hold))
			return -1;
		peerdma_cache_put(cache, hold);
	}
	return (now_ns() - start) / HITS;
}

int main(int argc, char **argv)
{
	static const struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = end, .check = check };
	double alones[ROUNDS], hits[ROUNDS], ratios[ROUNDS];
	struct peerdma_cache *cache;
	struct stats a, h, r;

	cu_start(77);
	for (int i = 0; i < BUFFERS; i++) {
		buffers[i] = cu_alloc(LENGTH);
		ids[i] = id_of(buffers[i]);
	}
	if (peerdma_cache_create(&ops, NULL, NULL, &cache)) {
		fprintf(stderr, "%s\n", peerdma_last_error());
		return 1;
	}
	for (int i = -1; i < ROUNDS; i++) {	/* the first warms up */
		int at = i < 0 ? 0 : i;

		alones[at] = alone();
		hits[at] = hit(cache);
		ratios[at] = hits[at] / alones[at];
	}
	a = stats_of(alones, ROUNDS);
	h = stats_of(hits, ROUNDS);
	r = stats_of(ratios, ROUNDS);
	peerdma_cache_close(cache);
	if (a.min < 0 || h.min < 0) {
		fprintf(stderr, "bench-cache-check: wrong answers\n");
		return 1;
	}
	if (argc > 1 && !strcmp(argv[1], "--json"))
		printf("{\"alone\": {\"median\": %.1f, \"min\": %.1f, \"max\": %.1f}, "
		       "\"hit\": {\"median\": %.1f, \"min\": %.1f, \"max\": %.1f}, \"ratio\": %.3f, \"low\": %.3f, \"high\": %.3f}\n",
		       a.median, a.min, a.max, h.median, h.min, h.max, r.median, r.low, r.high);
	else
		printf("ns per            median       min       max\n"
		       "tag check      %9.1f %9.1f %9.1f\nhit with it    %9.1f %9.1f %9.1f   %.2f times (%.2f to %.2f in half of the rounds; budget: 1.3)\n",
		       a.median, a.min, a.max, h.median, h.min, h.max, r.median, r.low, r.high);
	return 0;
}
