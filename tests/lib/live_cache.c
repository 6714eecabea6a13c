// SPDX-License-Identifier: MIT
/*
 * live_cache.c - a cache of pins while GPU memory is freed and allocated all the
 * time, on a back-end that the machine has.
 *
 * There are a few buffers. Some threads use them through the cache, another frees one
 * and allocates it anew (nobody uses it meanwhile; addresses come again), and writes
 * its number into it. What a get finds must be alive, and show that number.
 *
 *	live_cache BACK-END [OPERATIONS [SEED]]
 *
 * With libpeerdma-hooks in front of CUDA no region needs to be asked about.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include "cuda_calls.h"
#include "peerdma_cache.h"
#include "checks.h"

#define BUFFERS	6
#define THREADS	2
#define LENGTH	(192 * 1024UL)

static struct cuda_calls cu;
static struct peerdma *ctx;
static struct peerdma_cache *cache;
static const char *backend;
static unsigned long operations = 4000;
static int bad, viewed, same_address;
static void *context;

static struct buffer {
	pthread_rwlock_t lock;
	gpu_ptr at;
	unsigned char number;
} buffers[BUFFERS];

static uint32_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*seed >> 33);
}

/* Held for reading: it is the buffer's for as long as we look. */
static int wrong(struct buffer *b, uint32_t offset)
{
	struct peerdma_status s = { .size = sizeof(s) };
	struct peerdma_region *region;
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, (void *)(uintptr_t)(b->at + offset), 4096, &hold);
	unsigned char *view;

	if (ret) {
		printf("peerdma_cache_get: %d %s\n", ret, peerdma_last_error());
		return 1;
	}
	region = hold->registration;
	ret = peerdma_status(region, &s) || s.state != PEERDMA_STATE_LIVE || strcmp(s.backend, backend) != 0 ||
	      (!s.by_id && !peerdma_valid(region));
	/* Where the CPU has views; a driver that gives none says so in its log. */
	if (!ret && !s.by_id && !peerdma_cpu_view(region, (void **)&view)) {
		ret = view[b->at + offset - s.addr] != b->number;
		peerdma_cpu_view_end(region, view);
		__atomic_add_fetch(&viewed, 1, __ATOMIC_RELAXED);
	}
	peerdma_cache_put(cache, hold);
	return ret;
}

static void *uses(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	cu.cuCtxSetCurrent(context);
	for (unsigned long i = 0; i < operations; i++) {
		struct buffer *b = &buffers[next(&seed) % BUFFERS];

		pthread_rwlock_rdlock(&b->lock);
		if (wrong(b, next(&seed) % (LENGTH - 4096)))
			__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
		pthread_rwlock_unlock(&b->lock);
	}
	return NULL;
}

static void renew(struct buffer *b)
{
	gpu_ptr before = b->at;

	if (b->at)
		cu.cuMemFree_v2(b->at);
	b->number++;
	if (cu.cuMemAlloc_v2(&b->at, LENGTH) || cu.cuMemsetD8_v2(b->at, b->number, LENGTH) ||
	    cu.cuStreamSynchronize(NULL))	/* SYNC_MEMOPS comes with the pin: too late for this */
		__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
	same_address += b->at == before;
}

int main(int argc, char **argv)
{
	struct peerdma_cache_options options = { .size = sizeof(options), .max_regions = 5 };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	pthread_t threads[THREADS];
	uint64_t seed = 1;
	int device, hooks;

	if (argc < 2) {
		fprintf(stderr, "Usage: live_cache BACK-END [OPERATIONS [SEED]]\n");
		return 2;
	}
	backend = argv[1];
	if (argc > 2)
		operations = strtoul(argv[2], NULL, 0);
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 0);
	printf("%lu operations of each of %d threads, seed %llu\n", operations, THREADS, (unsigned long long)seed);
	if (!cuda_calls_load(&cu) || cu.cuInit(0) || cu.cuDeviceGet(&device, 0) ||
	    cu.cuDevicePrimaryCtxRetain(&context, device) || cu.cuCtxSetCurrent(context)) {
		fprintf(stderr, "CUDA does not start\n");
		return 1;
	}
	CHECK(!peerdma_open(&ctx, PEERDMA_OPEN_DIRECT) && !peerdma_cache_open(ctx, &options, &cache), "a cache of pins");
	for (int i = 0; i < BUFFERS; i++) {
		pthread_rwlock_init(&buffers[i].lock, NULL);
		renew(&buffers[i]);
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, uses, (void *)(uintptr_t)(seed * 1000 + i));
	for (unsigned long i = 0; i < operations / 8; i++) {
		struct buffer *b = &buffers[next(&seed) % BUFFERS];

		pthread_rwlock_wrlock(&b->lock);
		renew(b);
		pthread_rwlock_unlock(&b->lock);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);

	/* At least once, whatever the threads have met. */
	for (int i = 0; i < BUFFERS; i++) {
		bad += wrong(&buffers[i], 0);
		renew(&buffers[i]);
		bad += wrong(&buffers[i], 0);
	}
	CHECK(!peerdma_cache_counters(cache, &c), "counters");
	printf("%llu gets, %llu misses, %llu merged, %llu evicted, %llu found stale, %llu ended when told, %llu made under the tag check; "
	       "%d times the same address, %d looks\n", (unsigned long long)c.gets, (unsigned long long)c.misses,
	       (unsigned long long)c.merges, (unsigned long long)c.evictions, (unsigned long long)c.stale, (unsigned long long)c.invalidations,
	       (unsigned long long)c.checked, same_address, viewed);
	CHECK(!bad, "%d gets found what was not the buffer's", bad);
	CHECK(c.stale + c.invalidations > 0, "some were stale, and found to be");
	hooks = !!(c.monitors & PEERDMA_MONITOR_HOOKS);
	CHECK(!!c.checked == (!strcmp(backend, "dmabuf") && !hooks) && !!(c.monitors & PEERDMA_MONITOR_CHECK) == !!c.checked,
	      "the tag check is at work where nobody tells: back-end %s, hooks %d", backend, hooks);
	peerdma_cache_close(cache);
	for (int i = 0; i < BUFFERS; i++)
		cu.cuMemFree_v2(buffers[i].at);
	peerdma_close(ctx);
	return failures ? 1 : 0;
}
