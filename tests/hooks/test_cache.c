// SPDX-License-Identifier: MIT
/*
 * test_cache.c - a registration cache in a program with libpeerdma-hooks: frees of
 * GPU memory behind its back are noticed, and addresses that come back are
 * registered anew.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include "peerdma_cache.h"

#define MIB (1UL << 20)

static int failures, added, removed;

static void check(int ok, const char *what)
{
	printf("%s - %s\n", ok ? "ok" : "not ok", what);
	failures += !ok;
}

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	(void)arg;
	(void)length;
	out->handle = (void *)(uintptr_t)addr;
	added++;
	return 0;
}

static void drop(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	(void)arg;
	(void)addr;
	(void)length;
	(void)handle;
	removed++;
}

static void use(struct peerdma_cache *cache, CUdeviceptr p)
{
	struct peerdma_cached *hold;

	if (peerdma_cache_get(cache, (void *)(uintptr_t)p, MIB, &hold))
		exit(2);
	peerdma_cache_put(cache, hold);
}

int main(void)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = drop };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cache *cache;
	CUcontext context;
	CUdeviceptr p, q;
	int status = -1;
	pid_t pid;

	if (cuInit(0) || cuCtxCreate(&context, 0, 0) || peerdma_cache_create(&ops, NULL, NULL, &cache))
		return 2;
	peerdma_cache_counters(cache, &c);
	check(c.monitors == (PEERDMA_MONITOR_CALLS | PEERDMA_MONITOR_HOOKS), "the hooks are a monitor");
	cuMemAlloc(&p, MIB);
	cuMemAlloc(&q, MIB);
	use(cache, p);
	use(cache, p);
	use(cache, q);
	check(added == 2, "two registrations, one used twice");
	cuMemFree(p);
	check(removed == 1, "the free ends the one of that memory");
	use(cache, q);
	check(added == 2, "and not the other");
	cuMemAlloc(&p, MIB);
	use(cache, p);
	check(added == 3, "what is there now is registered anew");
	pid = fork();
	if (!pid) {
		peerdma_cache_close(cache);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	check(!status, "a child closes its copy");
	cuCtxDestroy(context);
	check(removed == 3, "a context goes, with all registrations");
	peerdma_cache_close(cache);
	return failures != 0;
}
