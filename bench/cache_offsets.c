// SPDX-License-Identifier: MIT
/*
 * cache_offsets.c - hits anywhere in great regions, as sub-buffers of a framework's few
 * allocations have them, beside hits of the same address in each of as many regions.
 *
 * A get is of 64 bytes.  Regions are side by side; and, where a row has a +, apart by a
 * number of pages that leaves none where a power of two is.  Mixed: of 4 KiB to 1 GiB, in
 * no order.  In turns: the same, then any, of ours and of UCX's.
 */
#include <stdlib.h>

#include "cache_bench.h"
#include "cache_subjects.h"

#define GIB		(1UL << 30)
#define MIB		(1UL << 20)
#define APART		(17 * 4096UL)
#define MIXED		1024
#define KINDS		2

/* In region i gets are of lines in the first `span` bytes. */
struct pattern {
	const char *names[KINDS];	/* the same address in each, anywhere */
	size_t n;
	uint64_t length, apart, span;	/* length 0: from 4 KiB to 1 GiB, in no order */
};

static const struct pattern patterns[] = {
	{ { "at 16 GiB: same", "at 16 GiB: any" }, 1, 16 * GIB, 0, 16 * GIB },
	{ { "at 1 GiB: same", "at 1 GiB: any" }, 16, GIB, 0, GIB },
	{ { "at 16 MiB: same", "at 16 MiB: any" }, 1024, 16 * MIB, 0, 16 * MIB },
	{ { "at 1 MiB: same", "at 1 MiB: any" }, 65536, MIB, 0, 65536 },
	{ { "at 1 GiB+: same", "at 1 GiB+: any" }, 16, GIB, APART, GIB },
	{ { "at 16 MiB+: same", "at 16 MiB+: any" }, 1024, 16 * MIB, APART, 16 * MIB },
	{ { "at 1 MiB+: same", "at 1 MiB+: any" }, 65536, MIB, APART, 65536 },
	{ { "at mixed+: same", "at mixed+: any" }, MIXED, 0, APART, 0 },
};

static uint64_t length_of(const struct pattern *p, size_t i)
{
	return p->length ? p->length : 4096UL << (i * 7 % 19);
}

static uint32_t *line_numbers(const struct pattern *p, const uint64_t *from, size_t count, bool anywhere, bool in_order)
{
	uint32_t *which = some_numbers(count, p->n), *line = some_numbers(count, 1UL << 32);

	for (size_t i = 0; i < count; i++) {
		size_t region = in_order ? i % p->n : which[i];
		uint64_t length = length_of(p, region), span = p->span ? p->span : length;

		which[i] = (uint32_t)((from[region] + (anywhere ? line[i] * LINE % span : length / 2 % span)) / LINE);
	}
	free(line);
	return which;
}

/* What is measured now. */
static uint32_t *which[KINDS], *all[KINDS];
static void *caches[SUBJECTS_MAX];
static size_t regions;

static double hit_at(int r, int i)
{
	int k = r / THREADS_MAX;

	return time_steps(subjects[i].hit_at, caches[i], which[k], hits, r % THREADS_MAX + 1, all[k], 4 * regions);
}

static void bench_pattern(const struct pattern *p)
{
	uint64_t *from = malloc(p->n * sizeof(*from)), at = 0;

	if (!from)
		die("out of memory");
	for (size_t i = 0; i < p->n; i++) {
		from[i] = at;
		at += length_of(p, i) + p->apart;
	}
	for (int k = 0; k < KINDS; k++) {
		which[k] = line_numbers(p, from, hits, k, false);
		all[k] = line_numbers(p, from, 4 * p->n, k, true);
	}
	for (int i = 0; i < subjects_count; i++) {
		caches[i] = subjects[i].open(p->n);
		for (size_t region = 0; region < p->n; region++)
			subjects[i].touch(caches[i], (uintptr_t)BASE + from[region], length_of(p, region));
		for (int k = KINDS; k--;)
			subjects[i].hit_at(caches[i], which[k], hits);
	}
	regions = p->n;
	compare(p->names, p->n, KINDS * THREADS_MAX, hit_at);
	for (int i = 0; i < subjects_count; i++)
		subjects[i].close(caches[i]);
	for (int k = 0; k < KINDS; k++) {
		free(which[k]);
		free(all[k]);
	}
	free(from);
}

void bench_offsets(void)
{
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		if (wanted(patterns[i].names[0]) || wanted(patterns[i].names[1]))
			bench_pattern(&patterns[i]);
	}
}
