// SPDX-License-Identifier: MIT
/*
 * behind.c - frees GPU memory without notifying the registration cache, and allocates other
 * memory at the same address. The cache must not return the old registration.
 *
 *	cc -o behind behind.c $(pkg-config --cflags --libs libpeerdma) -lcuda
 *	./behind					the next get finds it stale, or
 *	LD_PRELOAD=libpeerdma-hooks.so.0 ./behind	the free itself ends it
 *
 * -lcuda needs the -I and -L options of your CUDA toolkit. To run on the software GPU, compile with
 * $(pkg-config --cflags --libs libpeerdma softgpu) instead, and set PEERDMA_PROVIDER=soft and
 * LD_LIBRARY_PATH=$(pkg-config --variable=libdir softgpu)/softgpu when it runs.
 *
 * With peerdma.ko the registrations are pins, and each get compares the kernel's page of
 * generations. Without it, this program acts as a communication library with registrations of
 * its own, and compares CUDA's buffer ids at each get.
 */
#include <cuda.h>
#include <peerdma_cache.h>
#include <stdio.h>

#define LENGTH (2UL << 20)

static struct peerdma_cache *cache;

/* ---- a middleware's own registrations: a buffer id stands for what a device would be given ---- */

static unsigned long long buffer_id(uint64_t addr)
{
	struct peerdma_memory m = { .size = sizeof(m) };

	return peerdma_query(NULL, (void *)(uintptr_t)addr, &m) ? 0 : m.buffer_id;
}

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	(void)arg;
	(void)length;
	out->handle = (void *)(uintptr_t)buffer_id(addr);
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
	return (uintptr_t)region->registration == buffer_id(addr);
}

/* ---- the application ---- */

static int send(CUdeviceptr buffer)
{
	struct peerdma_cached *hold;
	int ret = peerdma_cache_get(cache, (void *)(uintptr_t)buffer, LENGTH, &hold);

	/* ... a device reads it ... */
	if (!ret)
		peerdma_cache_put(cache, hold);
	return ret;
}

/* Pins, where the kernel module and a provider for this memory are; true if so. */
static int open_pins(struct peerdma **ctx, CUdeviceptr buffer)
{
	if (peerdma_open(ctx, 0))
		return 0;
	if (!peerdma_cache_open(*ctx, NULL, &cache)) {
		if (!send(buffer))
			return 1;
		peerdma_cache_close(cache);
	}
	peerdma_close(*ctx);
	*ctx = NULL;
	return 0;
}

int main(void)
{
	static const struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = end, .check = check };
	struct peerdma_cache_counters before = { .size = sizeof(before) }, after = before;
	struct peerdma *ctx = NULL;
	CUdeviceptr buffer, other = 0;
	CUcontext context;
	CUdevice device;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) {
		fputs("behind: CUDA finds no GPU; with the software GPU, SOFTGPU_LOG=1 prints why\n", stderr);
		return 77;
	}
	if (cuMemAlloc(&buffer, LENGTH))
		goto failed;
	if (!open_pins(&ctx, buffer) && peerdma_cache_create(&ops, NULL, NULL, &cache))
		goto failed;
	if (send(buffer) || send(buffer) || peerdma_cache_counters(cache, &before))
		goto failed;
	printf("%s: sent, registered %llu time\n", ctx ? "pins" : "registrations of this program",
	       (unsigned long long)before.misses);

	/* Somewhere else in the program, which does not know of caches. */
	if (cuMemFree(buffer) || cuMemAlloc(&other, LENGTH))
		goto failed;
	printf("freed, and allocated: %s\n", other == buffer ? "the same address, other memory" : "another address this time");

	if (send(other) || peerdma_cache_counters(cache, &after))
		goto failed;
	printf("sent again: registered %s; the old registration was ended %s\n", after.misses > before.misses ? "anew" : "NOT ANEW",
	       after.invalidations > before.invalidations ? "by interception of the free" :
	       after.stale > before.stale ? "when the next get found it stale" : "not yet");
	cuMemFree(other);
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	return after.misses > before.misses ? 0 : 1;
failed:
	fprintf(stderr, "behind: %s\n", *peerdma_last_error() ? peerdma_last_error() : "CUDA failed");
	return 1;
}
