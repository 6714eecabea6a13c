// SPDX-License-Identifier: MIT
/*
 * live_pins_test - a pin costs as many instructions among 100,000 as among 100,
 * and freeing memory touches the pins that it covers and no other.
 *
 * In the virtual machine, under vm/run --icount, where the time stamp counter
 * counts instructions; elsewhere it is skipped.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <cuda.h>

#include "live_pins.h"

#define PAGE		0x10000u
#define PAGES		64u	/* that the many go round */
#define VICTIMS		8u
#define FREES		9
#define MORE		1.20	/* what the cost may grow to */

static int device;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "live_pins_test: %s\n", what);
	exit(1);
}

static uint64_t ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* Not more than a few ticks for each of many instructions: then they are counted. */
static int counts_instructions(void)
{
	uint64_t begin = ticks(), i, n = 1000000;

	for (i = 0; i < n; i++)
		__asm__ volatile("");
	begin = ticks() - begin;
	return begin > n && begin < 8 * n;
}

static CUdeviceptr alloc(size_t length)
{
	CUdeviceptr p = 0;

	must(!cuMemAlloc(&p, length), "cuMemAlloc fails");
	return p;
}

/* Instructions of cuMemFree with a few pins on the memory: the least, for what else the kernel does meanwhile comes on top. */
static uint64_t cost_of_free(void)
{
	struct live_pins_victims v;
	uint64_t least = UINT64_MAX, begin, cost;
	int i;

	for (i = 0; i < FREES; i++) {
		memset(&v, 0, sizeof(v));
		v.va = alloc(VICTIMS * PAGE);
		v.pages = VICTIMS;
		must(!ioctl(device, LIVE_PINS_VICTIMS, &v), "no pins for the memory that goes");
		must(!v.callbacks, "a callback ran that none was to");
		begin = ticks();
		must(!cuMemFree(v.va), "cuMemFree fails");
		cost = ticks() - begin;
		least = cost < least ? cost : least;
		v.pages = 0;
		must(!ioctl(device, LIVE_PINS_VICTIMS, &v), "callbacks cannot be counted");
		must(v.callbacks == VICTIMS, "not just the pins of the freed memory were called back");
	}
	return least;
}

struct cost {
	uint64_t get, put, free;
};

static struct cost cost_with(CUdeviceptr va, uint32_t live)
{
	struct live_pins_run r = { .va = va, .pages = PAGES, .live = live };
	struct cost c;

	if (ioctl(device, LIVE_PINS_RUN, &r)) {
		perror("live_pins_test: pins");
		exit(1);
	}
	c = (struct cost){ r.get, r.put, cost_of_free() };
	printf("%7u live: get %llu, put %llu, free with %u pins %llu instructions\n", live,
	       (unsigned long long)c.get, (unsigned long long)c.put, VICTIMS, (unsigned long long)c.free);
	fflush(stdout);
	return c;
}

static int grew(const char *what, uint64_t from, uint64_t to)
{
	if (to <= from * MORE)
		return 0;
	printf("%s: from %llu to %llu instructions is more than %.0f %%\n", what, (unsigned long long)from,
	       (unsigned long long)to, (MORE - 1) * 100);
	return 1;
}

int main(void)
{
	struct cost few, many;
	CUdeviceptr va;
	CUdevice gpu;
	CUcontext ctx;

	if (!counts_instructions()) {
		puts("the time stamp counter does not count instructions: run it under vm/run --icount");
		return 77;
	}
	device = open("/dev/live_pins", O_RDWR);
	must(device >= 0, "no /dev/live_pins: is live_pins.ko loaded?");
	must(!cuInit(0) && !cuDeviceGet(&gpu, 0) && !cuCtxCreate(&ctx, 0, gpu), "no GPU");
	va = alloc(PAGES * PAGE);
	/* The first round is for the kernel's caches. */
	cost_with(va, 100);
	few = cost_with(va, 100);
	cost_with(va, 10000);
	many = cost_with(va, LIVE_PINS_MAX);
	if (grew("get", few.get, many.get) + grew("put", few.put, many.put) +
	    grew("free", few.free, many.free))
		return 1;
	cost_with(va, 0);
	must(!cuMemFree(va), "cuMemFree fails");
	puts("a pin costs the same among many");
	return 0;
}
