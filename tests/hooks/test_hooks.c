// SPDX-License-Identifier: MIT
/*
 * test_hooks.c - run with libpeerdma-hooks preloaded: allocations and frees by
 * each way to CUDA are told, with the memory's address and length, and do what
 * they would do without it.  Where CUDA has stream-ordered pools (NVIDIA's; not
 * softgpu's) they are tried too.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "../check.h"
#include "peerdma_hooks.h"
#include "../lib/cuda_calls.h"

#define MIB (1UL << 20)

/* ---- what was told ---- */

static struct peerdma_hook_event told[16];
static unsigned int ntold;

static void tell(void *arg, const struct peerdma_hook_event *event)
{
	if (arg == told && ntold < 16)
		told[ntold++] = *event;
}

static int was_alloc(gpu_ptr p, size_t size)
{
	int right = ntold == 1 && told[0].kind == PEERDMA_HOOK_ALLOC && told[0].addr == p && told[0].length >= size;

	ntold = 0;
	return right;
}

static int was_free(gpu_ptr p, size_t size)
{
	int right = ntold == 2;

	for (unsigned int i = 0; i < 2; i++)
		right = right && told[i].kind == PEERDMA_HOOK_FREE && told[i].after == i &&
			told[i].addr <= p && told[i].addr + told[i].length >= p + size && told[i].length < 64 * size;
	ntold = 0;
	return right;
}

static int was_all(void)
{
	int right = ntold >= 2 && told[0].kind == PEERDMA_HOOK_FREE && told[0].length == UINT64_MAX;

	ntold = 0;
	return right;
}

/* ---- ways ---- */

static struct cuda_calls cu;
static void *library;

static void by_dlsym(void)
{
	gpu_ptr p = 0;
	void *host;

	CHECK(!cu.cuMemAlloc_v2(&p, MIB) && was_alloc(p, MIB), "dlsym: cuMemAlloc");
	CHECK(!cu.cuMemFree_v2(p) && was_free(p, MIB), "dlsym: cuMemFree");
	CHECK(cu.cuMemFree_v2(p) && ntold == 2, "a free that fails is told, too, and fails");
	ntold = 0;
	cu.cuMemFree_v2(0);
	CHECK(!ntold, "a free of nothing is not");
	CHECK(!cu.cuMemAllocManaged(&p, MIB, 1) && was_alloc(p, MIB), "cuMemAllocManaged");
	CHECK(!cu.cuMemFree_v2(p) && was_free(p, MIB), "and its cuMemFree");
	CHECK(!cu.cuMemHostAlloc(&host, MIB, 0), "cuMemHostAlloc");
	ntold = 0;
	CHECK(!cu.cuMemFreeHost(host) && was_free((gpu_ptr)(uintptr_t)host, MIB), "cuMemFreeHost");
	if (cu.cuMemAllocAsync && !cu.cuMemAllocAsync(&p, MIB, NULL)) {
		CHECK(was_alloc(p, MIB), "cuMemAllocAsync");
		CHECK(!cu.cuMemFreeAsync(p, NULL) && was_free(p, MIB), "cuMemFreeAsync");
	} else {
		printf("no stream-ordered pools here\n");
	}
	ntold = 0;
}

static void vmm(void)
{
	struct cuda_prop prop = { .type = 1, .location_type = 1 };
	struct cuda_access access = { .location_type = 1, .flags = 3 };
	unsigned long long handle;
	size_t grain = 0;
	gpu_ptr p;

	if (!CHECK(!cu.cuMemGetAllocationGranularity(&grain, &prop, 0) && !cu.cuMemAddressReserve(&p, grain, 0, 0, 0) &&
		   !cu.cuMemCreate(&handle, grain, &prop, 0), "VMM memory"))
		return;
	ntold = 0;
	CHECK(!cu.cuMemMap(p, grain, 0, handle, 0) && was_alloc(p, grain), "cuMemMap");
	CHECK(!cu.cuMemSetAccess(p, grain, &access, 1), "its access");
	CHECK(!cu.cuMemUnmap(p, grain) && was_free(p, grain), "cuMemUnmap");
	cu.cuMemRelease(handle);
	cu.cuMemAddressFree(p, grain);
	ntold = 0;
}

static void by_proc_address(void)
{
	int (*get)(const char *, void **, int, unsigned long long, int *) = dlsym(library, "cuGetProcAddress_v2");
	int (*again)(const char *, void **, int, unsigned long long, int *) = NULL;
	int (*alloc)(gpu_ptr *, size_t) = NULL, (*release)(gpu_ptr) = NULL;
	gpu_ptr p = 0;
	int status;

	CHECK(get && !get("cuMemAlloc", (void **)&alloc, 12000, 0, &status) && alloc && !alloc(&p, MIB) && was_alloc(p, MIB),
	      "cuGetProcAddress: cuMemAlloc");
	CHECK(!get("cuGetProcAddress", (void **)&again, 12000, 0, &status) && again &&
	      !again("cuMemFree", (void **)&release, 12000, 0, &status) && release && !release(p) && was_free(p, MIB),
	      "cuMemFree, by the cuGetProcAddress that cuGetProcAddress gives");
	CHECK(get("cuNoSuchThing", (void **)&alloc, 12000, 0, &status) || !alloc, "what does not exist still does not");
	ntold = 0;
}

static void by_runtime(void)
{
	void *rt = dlopen("libcudart.so.12", RTLD_NOW), *p = NULL;	/* softgpu's */
	int (*alloc)(void **, size_t), (*release)(void *);

	if (!rt)
		rt = dlopen("libcudart.so.13", RTLD_NOW);
	if (!rt) {
		printf("no CUDA runtime here\n");
		return;
	}
	alloc = (int (*)(void **, size_t))(uintptr_t)dlsym(rt, "cudaMalloc");
	release = (int (*)(void *))(uintptr_t)dlsym(rt, "cudaFree");
	ntold = 0;
	CHECK(alloc && !alloc(&p, MIB) && was_alloc((gpu_ptr)(uintptr_t)p, MIB), "runtime: cudaMalloc");
	CHECK(release && !release(p) && was_free((gpu_ptr)(uintptr_t)p, MIB), "runtime: cudaFree");
}

static void *forget(void *arg)
{
	peerdma_hooks_unsubscribe(tell, told);
	return arg;
}

const char *whose(void);

static void report(void)
{
	struct peerdma_hook_report r[PEERDMA_HOOKS_MAX];
	unsigned int n = peerdma_hooks_report(r, PEERDMA_HOOKS_MAX), present = 0;

	CHECK(n > 20 && n <= PEERDMA_HOOKS_MAX, "%u functions are watched", n);
	for (unsigned int i = 0; i < n; i++) {
		if (r[i].missed & PEERDMA_HOOK_ABSENT)
			continue;
		present++;
		CHECK(!r[i].missed && r[i].ways & PEERDMA_HOOK_BY_NAME && r[i].ways & PEERDMA_HOOK_BY_DLSYM,
		      "%s: seen by name and by dlsym%s", r[i].call,
		      r[i].ways & PEERDMA_HOOK_BY_PROC ? ", and by cuGetProcAddress" : "");
		if (!strcmp(r[i].call, "cuMemFree_v2"))
			CHECK(r[i].events >= 4 && r[i].ways & PEERDMA_HOOK_BY_PROC, "cuMemFree_v2 was called %llu times",
			      (unsigned long long)r[i].events);
	}
	CHECK(present >= 15, "of which this libcuda has %u", present);
}

int main(void)
{
	pthread_t thread;
	void *context;
	int device;

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(peerdma_hooks_active(), "in front");
	CHECK(!strcmp(whose(), "no library's"), "RTLD_NEXT is the caller's next, not ours");
	CHECK(!peerdma_hooks_report(NULL, 0), "no libcuda yet");
	if (!CHECK(cuda_calls_load(&cu) && !cu.cuInit(0) && !cu.cuDeviceGet(&device, 0), "CUDA"))
		return 1;
	library = dlopen("libcuda.so.1", RTLD_NOW);
	CHECK(!peerdma_hooks_subscribe(tell, told), "subscribed");
	cu.cuDevicePrimaryCtxRetain(&context, device);
	cu.cuCtxSetCurrent(context);
	by_dlsym();
	vmm();
	by_proc_address();
	by_runtime();
	report();
	{
		int (*release)(int) = (int (*)(int))(uintptr_t)dlsym(library, "cuDevicePrimaryCtxRelease_v2");

		CHECK(release && !release(device) && was_all(), "a context goes: all that may have been in it");
	}
	pthread_create(&thread, NULL, forget, NULL);
	pthread_join(thread, NULL);
	ntold = 0;
	cu.cuMemFree_v2(4096);
	CHECK(!ntold, "nothing is told once unsubscribed");
	return check_end(NULL);
}
