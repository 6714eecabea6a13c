// SPDX-License-Identifier: MIT
/*
 * cache.c - sends the same buffers many times: the cache pins each only once. Then it frees one
 * without notifying the cache, and maps other memory there: the cache pins the new memory.
 *
 *	cc cache.c $(pkg-config --cflags --libs libpeerdma)
 */
#define _GNU_SOURCE
#include <peerdma_cache.h>
#include <stdio.h>
#include <sys/mman.h>

#define LENGTH (1UL << 20)

static struct peerdma *ctx;
static struct peerdma_cache *cache;

/* What a middleware does before each transfer, and after it. */
static int send(void *buffer)
{
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, buffer, LENGTH, &hold);

	if (ret)
		return ret;
	/* hold->registration is a struct peerdma_region *: map it for a device, view it, export it. */
	ret = peerdma_valid(hold->registration) ? 0 : -1;
	peerdma_cache_put(cache, hold);
	return ret;
}

static void *buffer_at(void *where)
{
	return mmap(where, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE |
		    (where ? MAP_FIXED : 0), -1, 0);
}

int main(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	void *buffers[4];

	for (int i = 0; i < 4; i++) {
		buffers[i] = buffer_at(NULL);
		if (buffers[i] == MAP_FAILED)
			return 1;
	}
	if (peerdma_open(&ctx, 0) || peerdma_cache_open(ctx, NULL, &cache))
		goto failed;
	for (int i = 0; i < 1000; i++) {
		if (send(buffers[i % 4]))
			goto failed;
	}

	/*
	 * Other memory at the same address. The cache finds out by itself: from peerdma.ko, or without it from the library's
	 * monitor of host memory.
	 */
	if (buffer_at(buffers[0]) == MAP_FAILED || send(buffers[0]) || peerdma_cache_counters(cache, &c))
		goto failed;
	printf("%llu gets, %llu pins made, %llu of freed memory ended\n", (unsigned long long)c.gets,
	       (unsigned long long)c.misses, (unsigned long long)(c.stale + c.invalidations));
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	if (c.misses == 5 && c.stale + c.invalidations == 1)
		return 0;
	fprintf(stderr, "not one pin for each buffer, and one for the memory that replaced the first\n");
	return 1;
failed:
	fprintf(stderr, "%s\n", peerdma_last_error());
	return 1;
}
