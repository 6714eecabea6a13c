// SPDX-License-Identifier: MIT
/*
 * cache_check.c - what a hit costs when each asks CUDA for the buffer id, beside the asking alone: the budget is 1.3 times.
 * On whichever libcuda.so.1 is there.
 *
 * usage: bench-cache-check [--json] [--repeats N]
 */
#include "comparison.h"
#include "empty_cache.h"
#include "gpu_need.h"

#define HITS	(1 << 15)
#define BUFFERS	16
#define LENGTH	(64 * 1024UL)

static struct peerdma_cache *cache;
static uint64_t buffers[BUFFERS];
static unsigned long long ids[BUFFERS];

static unsigned long long id_of(uint64_t p)
{
	unsigned long long id = 0;

	return gpu.attribute(&id, ATTRIBUTE_BUFFER_ID, p) ? 0 : id;
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

static double measure(int row, int subject)
{
	double start = now_ns();
	unsigned int wrong = 0;

	(void)row;
	for (unsigned int i = 0; i < HITS; i++) {
		uint64_t at = buffers[i % BUFFERS] + 64;

		wrong += subject ? !!empty_cache_touch(cache, at, 4096) : id_of(at) != ids[i % BUFFERS];
	}
	if (wrong) {
		fprintf(stderr, "bench-cache-check: wrong answers\n");
		exit(1);
	}
	return (now_ns() - start) / HITS;
}

int main(int argc, char **argv)
{
	static const struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = end, .check = check };
	struct comparison c = {
		.program = "bench-cache-check", .what = "ns; target: at most 1.3 times", .rounds = 51, .measure = measure,
		.rows = (const char *const[]){ "buffer id" }, .row_count = 1, .subject_count = 2,
		.subjects = (const char *const[]){ "alone", "hit with it" },
	};

	comparison_options(&c, argc, argv);
	gpu_need(false, 77);
	for (int i = 0; i < BUFFERS; i++) {
		buffers[i] = gpu_need_memory(LENGTH);
		ids[i] = id_of(buffers[i]);
	}
	if (peerdma_cache_create(&ops, NULL, NULL, &cache)) {
		fprintf(stderr, "%s\n", peerdma_last_error());
		return 1;
	}
	comparison_run(&c);
	comparison_print(&c);
	peerdma_cache_close(cache);
	return 0;
}
