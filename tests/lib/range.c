// SPDX-License-Identifier: MIT
/*
 * range.c - peerdma_query_range() of much: its work grows with what is there, not with
 * bytes.  1 TiB of host memory that is not touched, of addresses that nothing has, and of
 * both with the GPU's memory in between.
 */
#include <sys/mman.h>

#include "cuda_calls.h"
#include "peerdma.h"
#include "checks.h"

#define MIB	(1ULL << 20)
#define TIB	(1ULL << 40)
#define MOST	0.2	/* seconds; half a million questions take longer on any machine */

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t ask(const char *what, const void *from, size_t length, struct peerdma_memory *out, size_t n)
{
	double begin = seconds();
	size_t count = 0;

	out[0].size = sizeof(*out);
	CHECK(!peerdma_query_range(NULL, from, length, out, n, &count), "%s", what);
	CHECK(seconds() - begin < MOST, "in no time");
	return count;
}

int main(void)
{
	char *host = mmap(NULL, TIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct peerdma_memory m[64];
	struct cuda_calls cu;
	void *context;
	size_t n, gpu = 0;
	gpu_ptr p;

	if (host == MAP_FAILED || !cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuCtxCreate_v2(&context, 0, 0) ||
	    cu.cuMemAlloc_v2(&p, 8 * MIB))
		return 77;
	n = ask("1 TiB of host memory", host, TIB, m, 64);
	CHECK(n == 1 && m[0].kind == PEERDMA_KIND_HOST && m[0].length == TIB, "is one piece");
	munmap(host + TIB / 4, TIB / 2);
	n = ask("the same, with half a TiB unmapped", host, TIB, m, 64);
	CHECK(n == 3 && m[1].kind == PEERDMA_KIND_UNKNOWN && m[1].base == (uintptr_t)host + TIB / 4 && m[1].length == TIB / 2,
	      "has three");
	n = ask("from a low address to the GPU's and on", (void *)(uintptr_t)(p - 64 * MIB), 128 * MIB, m, 64);
	for (size_t i = 0; i < n && i < 64; i++)
		gpu += m[i].kind == PEERDMA_KIND_DEVICE && m[i].base == p && m[i].length == 8 * MIB;
	CHECK(gpu == 1, "the GPU's memory is found in it");
	return check_end(NULL);
}
