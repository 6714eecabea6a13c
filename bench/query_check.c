// SPDX-License-Identifier: MIT
/*
 * query_check.c - peerdma_query() of the host's memory, beside cuPointerGetAttribute
 * of the same address, on whichever libcuda.so.1 is there: the budget is 1/20.  In
 * turns; the ratio is taken in each round, so that a machine that goes faster now and
 * slower then does so for both.
 *
 * usage: bench-query-check [--json]
 *
 * With LD_PRELOAD=libpeerdma-hooks.so.0 mapped memory is remembered: man peerdma_query.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cu.h"
#include "peerdma.h"
#include "stats.h"

#define ROUNDS	51
#define CALLS	(1 << 14)

static double query(const char *p, size_t addresses)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	double start = now_ns();
	unsigned int wrong = 0;

	for (size_t i = 0; i < CALLS; i++)
		wrong += peerdma_query(NULL, p + i % addresses, &m) || m.kind != PEERDMA_KIND_HOST;
	return wrong ? -1 : (now_ns() - start) / CALLS;
}

/* CUDA does not know such addresses, and says so. */
static double attribute(const char *p, size_t addresses)
{
	double start = now_ns();
	unsigned int wrong = 0, type;

	for (size_t i = 0; i < CALLS; i++)
		wrong += !cu.pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)p + i % addresses);
	return wrong ? -1 : (now_ns() - start) / CALLS;
}

/* Whether both were right of each address. */
static bool measure(const char *name, const char *p, size_t addresses, bool json, bool first)
{
	double ours[ROUNDS], theirs[ROUNDS], ratios[ROUNDS];
	struct stats q, a, r;

	for (int i = -1; i < ROUNDS; i++) {	/* the first warms up */
		int at = i < 0 ? 0 : i;

		ours[at] = query(p, addresses);
		theirs[at] = attribute(p, addresses);
		ratios[at] = ours[at] / theirs[at];
	}
	q = stats_of(ours, ROUNDS);
	a = stats_of(theirs, ROUNDS);
	r = stats_of(ratios, ROUNDS);
	if (q.min < 0 || a.min < 0)
		return false;
	if (json)
		printf("%s{\"name\": \"%s\", \"query_ns\": %.1f, \"attribute_ns\": %.1f, \"ratio\": %.4f, \"low\": %.4f, \"high\": %.4f}",
		       first ? "" : ",\n ", name, q.median, a.median, r.median, r.low, r.high);
	else
		printf("%-24s %9.1f %9.1f %9.3f (%.3f to %.3f)\n", name, q.median, a.median, r.median, r.low, r.high);
	return true;
}

int main(int argc, char **argv)
{
	static char own[64];
	bool json = argc > 1 && !strcmp(argv[1], "--json"), right = true;
	char stack[64], *heap = malloc(64);
	char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct {
		const char *name, *p;
		size_t addresses;
	} subjects[] = {
		{ "stack", stack, 1 }, { "heap", heap, 1 }, { "the program's data", own, 1 },
		{ "mapped, one address", mapped, 1 }, { "mapped, 64 by turns", mapped, 64 }, { "mapped, 4096 by turns", mapped, 4096 },
	};

	cu_start(77);
	if (!heap || mapped == MAP_FAILED) {
		fprintf(stderr, "bench-query-check: out of memory\n");
		return 1;
	}
	memset(mapped, 1, 4096);
	printf(json ? "[" : "ns, medians of %d rounds      query attribute     ratio (of half of the rounds; budget: 0.05)\n", ROUNDS);
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++)
		right &= measure(subjects[i].name, subjects[i].p, subjects[i].addresses, json, !i);
	if (json)
		printf("]\n");
	if (!right)
		fprintf(stderr, "bench-query-check: wrong answers\n");
	return !right;
}
