// SPDX-License-Identifier: MIT
/*
 * query_check.c - peerdma_query() of the host's memory, beside cuPointerGetAttribute of the same address, on whichever
 * libcuda.so.1 is there: the budget is 1/20.
 *
 * usage: bench-query-check [--json] [--repeats N]
 *
 * With LD_PRELOAD=libpeerdma-hooks.so.0 mapped memory is remembered: man peerdma_query.
 */
#include <sys/mman.h>

#include "comparison.h"
#include "gpu_need.h"
#include "peerdma.h"

#define CALLS	(1 << 14)
#define ROWS	6

static char own[64];
static const char *memory[ROWS];
static const size_t addresses[ROWS] = { 1, 1, 1, 1, 64, 4096 };

static bool is_host(const char *p, bool ours)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	unsigned int type;

	if (ours)
		return !peerdma_query(NULL, p, &m) && m.kind == PEERDMA_KIND_HOST;
	/* CUDA does not know such addresses, and says so. */
	return gpu.attribute(&type, ATTRIBUTE_MEMORY_TYPE, (uintptr_t)p);
}

static double measure(int row, int subject)
{
	double start = now_ns();

	for (size_t i = 0; i < CALLS; i++) {
		if (!is_host(memory[row] + i % addresses[row], subject)) {
			fprintf(stderr, "bench-query-check: a wrong answer\n");
			exit(1);
		}
	}
	return (now_ns() - start) / CALLS;
}

int main(int argc, char **argv)
{
	static const char *const rows[ROWS] = {
		"stack", "heap", "program's data", "mapped, one", "mapped, 64", "mapped, 4096",
	};
	struct comparison c = {
		.program = "bench-query-check", .what = "ns per query; target: 0.05 of CUDA's", .rounds = 51, .measure = measure,
		.rows = rows, .row_count = ROWS, .subject_count = 2,
		.subjects = (const char *const[]){ "cuPointerGetAttribute", "peerdma_query" },
	};
	char stack[64], *heap = malloc(64);
	char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	comparison_options(&c, argc, argv);
	gpu_need(false, 77);
	if (!heap || mapped == MAP_FAILED) {
		fprintf(stderr, "bench-query-check: out of memory\n");
		return 1;
	}
	memory[0] = stack;
	memory[1] = heap;
	memory[2] = own;
	memory[3] = memory[4] = memory[5] = mapped;
	comparison_run(&c);
	comparison_print(&c);
	return 0;
}
