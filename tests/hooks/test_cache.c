// SPDX-License-Identifier: MIT
/*
 * test_cache.c - a registration cache in a program with libpeerdma-hooks: frees of
 * GPU memory behind its back are noticed, and addresses that come back are
 * registered anew.
 */
#include <cuda.h>
#include "../lib/checks.h"
#include "../lib/counted.h"

#define MIB (1UL << 20)

static void use(struct peerdma_cache *cache, CUdeviceptr p)
{
	struct peerdma_cached *hold;

	if (peerdma_cache_get(cache, (void *)(uintptr_t)p, MIB, &hold))
		exit(2);
	peerdma_cache_put(cache, hold);
}

int main(void)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = counted_add, .remove = counted_remove };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cache *cache;
	CUcontext context;
	CUdeviceptr p, q;
	int status = -1;
	pid_t pid;

	if (cuInit(0) || cuCtxCreate(&context, 0, 0) || peerdma_cache_create(&ops, NULL, NULL, &cache))
		return 2;
	peerdma_cache_counters(cache, &c);
	CHECK(c.monitors == (PEERDMA_MONITOR_CALLS | PEERDMA_MONITOR_HOOKS), "the hooks are a monitor");
	cuMemAlloc(&p, MIB);
	cuMemAlloc(&q, MIB);
	use(cache, p);
	use(cache, p);
	use(cache, q);
	CHECK(added == 2, "two registrations, one used twice");
	cuMemFree(p);
	CHECK(removed == 0, "a free calls no function of the program's");
	use(cache, q);
	CHECK(removed == 1, "the next use ends the registration of that memory");
	CHECK(added == 2, "and not the other");
	cuMemAlloc(&p, MIB);
	use(cache, p);
	CHECK(added == 3, "what is there now is registered anew");
	pid = fork();
	if (!pid) {
		peerdma_cache_close(cache);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK(!status, "a child closes its copy");
	cuCtxDestroy(context);
	CHECK(peerdma_cache_drain(cache) == 2 && removed == 3, "a context goes, with all registrations");
	peerdma_cache_close(cache);
	return check_end(NULL);
}
