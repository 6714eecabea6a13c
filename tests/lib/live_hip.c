// SPDX-License-Identifier: MIT
/*
 * live_hip.c - libpeerdma on AMD's memory: what a pointer is, a pin through the
 * provider "amd", its end when the memory is freed, and a cache over it.  Needs
 * peerdma.ko, peerdma_amd.ko and HIP; exits with 77 without HIP.
 */
#include <dlfcn.h>

#include "../check.h"
#include "peerdma_cache.h"

#define LENGTH	300000UL

static int (*hip_malloc)(void **p, size_t size);
static int (*hip_free)(void *p);

static int hip_open(void)
{
	void *lib = dlopen("libamdhip64.so.6", RTLD_NOW);

	if (!lib)
		return 0;
	hip_malloc = (int (*)(void **, size_t))(uintptr_t)dlsym(lib, "hipMalloc");
	hip_free = (int (*)(void *))(uintptr_t)dlsym(lib, "hipFree");
	return hip_malloc && hip_free;
}

static void query(char *p)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	int status;
	pid_t pid;

	CHECK(!peerdma_query(NULL, p + LENGTH - 1, &m));
	CHECK(m.kind == PEERDMA_KIND_DEVICE && m.flags == (PEERDMA_MEMORY_HSA | PEERDMA_MEMORY_PINNABLE));
	CHECK(m.base == (uintptr_t)p && m.length >= LENGTH && m.device == -1 && strlen(m.pci) == 12);
	CHECK(!peerdma_query(NULL, &status, &m) && m.kind == PEERDMA_KIND_HOST && !(m.flags & PEERDMA_MEMORY_HSA));
	pid = fork();
	if (!pid) {
		/* Not the child's memory, and HSA is not asked there. */
		_exit(peerdma_query(NULL, p, &m) || m.kind != PEERDMA_KIND_UNKNOWN);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
}

static void pin(struct peerdma *ctx)
{
	struct peerdma_status status = { .size = sizeof(status) };
	struct peerdma_region *region;
	void *p = NULL, *view;

	CHECK(!hip_malloc(&p, LENGTH));
	query(p);
	if (!CHECK(!peerdma_pin(ctx, p, LENGTH, 0, NULL, &region)))
		return;
	CHECK(!peerdma_status(region, &status) && !strcmp(status.provider, "amd") && status.page_size == (uint32_t)getpagesize());
	CHECK(!peerdma_cpu_view(region, &view));
	strcpy(view, "by peerdma's view");
	CHECK(!strcmp(p, "by peerdma's view"));
	CHECK(peerdma_valid(region));
	CHECK(!hip_free(p));
	CHECK(!peerdma_valid(region));
	CHECK(!peerdma_status(region, &status) && status.state == PEERDMA_STATE_REVOKED);
	CHECK(!peerdma_unpin(region));
	/* There are no such pins of AMD's memory. */
	CHECK(!hip_malloc(&p, LENGTH) && peerdma_pin(ctx, p, LENGTH, PEERDMA_DEVICE | PEERDMA_PERSISTENT, NULL, &region));
	CHECK(!hip_free(p));
}

static void cached(struct peerdma *ctx)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cache *cache;
	struct peerdma_cached *hold;
	void *p = NULL, *first = NULL;

	if (!CHECK(!peerdma_cache_open(ctx, NULL, &cache)))
		return;
	for (int i = 0; i < 20; i++) {
		CHECK(!hip_malloc(&p, LENGTH));
		first = first ? first : p;
		CHECK(p == first);	/* the same address each time: what is found there must be new */
		for (int k = 0; k < 3; k++) {
			if (!CHECK(!peerdma_cache_get(cache, p, LENGTH, &hold)))
				continue;
			CHECK(peerdma_valid(hold->registration));
			peerdma_cache_put(cache, hold);
		}
		CHECK(!hip_free(p));
	}
	CHECK(!peerdma_cache_counters(cache, &c) && c.gets == 60 && c.misses == 20);
	peerdma_cache_close(cache);
}

int main(void)
{
	struct peerdma *ctx;

	if (!hip_open())
		check_skip("there is no libamdhip64.so.6");
	if (!CHECK(!peerdma_open(&ctx, 0)))
		return 1;
	pin(ctx);
	cached(ctx);
	peerdma_close(ctx);
	return check_end(NULL);
}
