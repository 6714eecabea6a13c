// SPDX-License-Identifier: MIT
/*
 * threads.c - everything at once, from many threads; for the sanitizers, and
 * for what must be back where it started at the end.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

enum { THREADS = 8 };

static int rounds = 60;
static atomic_ullong published;	/* freed by the thread that replaces it */

static unsigned int rnd(unsigned int *seed, unsigned int n)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 8) % n;
}

/* cmocka's checks belong to the main thread; here a wrong answer ends the program. */
static void must(CUresult got, CUresult want, CUresult or_this, int line)
{
	if (got == want || got == or_this)
		return;
	fprintf(stderr, "threads.c:%d: %d, not %d\n", line, got, want);
	abort();
}

#define MUST(call)	must(call, CUDA_SUCCESS, CUDA_SUCCESS, __LINE__)
#define MAY(call, e)	must(call, CUDA_SUCCESS, e, __LINE__)

static void allocate_and_copy(unsigned int *seed)
{
	unsigned int value = rnd(seed, 1u << 30), back = 0, n = 4 + 4 * rnd(seed, 50000);
	CUdeviceptr p, q;
	uint64_t id;
	void *h;

	MUST(cuMemAlloc(&p, n));
	MUST(cuMemAlloc(&q, n));
	MUST(cuMemHostAlloc(&h, n, 0));
	MUST(cuMemsetD32(p, value, n / 4));
	MUST(cuMemcpyDtoD(q, p, n));
	MUST(cuMemcpyDtoHAsync(h, q, n, NULL));
	MUST(cuMemcpyDtoH(&back, q + n - 4, 4));
	if (back != value)
		abort();
	MUST(cuStreamSynchronize(NULL));
	if (((unsigned int *)h)[n / 4 - 1] != value)
		abort();
	MUST(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
	MUST(cuMemFree(p));
	MUST(cuMemFreeHost(h));
	MUST(cuMemFree(q));
}

static void own_context(unsigned int *seed)
{
	CUdeviceptr p, m;
	CUcontext ctx;
	CUstream s;
	CUevent e;
	void *h;

	MUST(cuCtxCreate(&ctx, 0, 0));
	MUST(cuStreamCreate(&s, rnd(seed, 2)));
	MUST(cuEventCreate(&e, 0));
	MUST(cuMemAlloc(&p, 100000));
	MUST(cuMemAllocManaged(&m, 5000, CU_MEM_ATTACH_GLOBAL));
	MUST(cuMemHostAlloc(&h, 100000, 0));
	MUST(cuMemcpyHtoDAsync(p, h, 100000, s));
	MUST(cuEventRecord(e, s));
	MUST(cuStreamWaitEvent(NULL, e, 0));
	if (rnd(seed, 2)) {
		MUST(cuStreamDestroy(s));
		MUST(cuEventDestroy(e));
		MUST(cuMemFree(m));
	}
	MUST(cuCtxDestroy(ctx));	/* takes the rest along */
}

static void map_and_unmap(unsigned int *seed)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemAccessDesc rw = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h;
	CUdeviceptr w;
	size_t g;

	MUST(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	g *= 1 + rnd(seed, 3);
	MUST(cuMemCreate(&h, g, &prop, 0));
	MUST(cuMemAddressReserve(&w, 2 * g, 0, 0, 0));
	MUST(cuMemMap(w + g, g, 0, h, 0));
	MUST(cuMemSetAccess(w + g, g, &rw, 1));
	MUST(cuMemsetD8(w + g, 1, g));
	MUST(cuCtxSynchronize());	/* a real GPU's fill would meet the hole */
	MUST(cuMemRelease(h));
	MUST(cuMemUnmap(w, 2 * g));
	MUST(cuMemAddressFree(w, 2 * g));
}

/* One allocation that any thread may free, while others ask about it and copy to it. */
static void share(unsigned int *seed)
{
	CUdeviceptr p, mine;
	unsigned int type;
	char buf[64] = { 0 };

	if (!on_softgpu())
		return;		/* a real driver promises nothing */
	if (rnd(seed, 3) == 0) {
		MUST(cuMemAlloc(&p, 64));
		p = atomic_exchange(&published, p);
		if (p)
			MUST(cuMemFree(p));
		return;
	}
	mine = atomic_load(&published);
	if (!mine)
		return;
	MAY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mine), CUDA_ERROR_INVALID_VALUE);
	MAY(cuMemcpyHtoD(mine, buf, 64), CUDA_ERROR_INVALID_VALUE);
}

static void registrations(unsigned int *seed)
{
	size_t n = 4096 * (1 + rnd(seed, 4));
	void *r = aligned_alloc(4096, n);
	unsigned int type;

	MUST(cuMemHostRegister(r, n, 0));
	MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, P(r) + n - 1));
	MUST(cuMemHostUnregister(r));
	free(r);
}

static void primary(unsigned int *seed)
{
	CUcontext ctx;

	MUST(cuDevicePrimaryCtxRetain(&ctx, 0));
	MUST(cuCtxPushCurrent(ctx));
	MUST(cuCtxSynchronize());
	MUST(cuCtxPopCurrent(NULL));
	MUST(cuDevicePrimaryCtxRelease(0));
}

static void *worker(void *arg)
{
	static void (*const acts[])(unsigned int *) = {
		allocate_and_copy, own_context, map_and_unmap, share, share, registrations, primary,
	};
	unsigned int seed = (uintptr_t)arg;

	MUST(cuCtxSetCurrent(test_context()));
	for (int i = 0; i < rounds; i++)
		acts[rnd(&seed, sizeof(acts) / sizeof(acts[0]))](&seed);
	return NULL;
}

CASE(all_at_once)
{
	size_t before, after, total;
	pthread_t t[THREADS];

	OK(cuMemGetInfo(&before, &total));
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, worker, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	OK(cuMemFree(atomic_exchange(&published, 0)));
	OK(cuCtxSynchronize());
	OK(cuMemGetInfo(&after, &total));
	if (on_softgpu())
		assert_int_equal(after, before);
}

/* Retain and Release race: a context that a thread retained is never found ended. */
static void *retain_release(void *arg)
{
	CUcontext ctx;
	CUdeviceptr p;

	for (int i = 0; i < rounds * 2; i++) {
		MUST(cuDevicePrimaryCtxRetain(&ctx, 0));
		MUST(cuCtxSetCurrent(ctx));
		MUST(cuMemAlloc(&p, 1000));
		MUST(cuMemFree(p));
		MUST(cuDevicePrimaryCtxRelease(0));
	}
	return NULL;
}

CASE(primary_races)
{
	pthread_t t[THREADS];
	CUcontext ctx;

	OK(cuCtxSetCurrent(NULL));
	OK(cuDevicePrimaryCtxRelease(0));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, retain_release, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rounds = atoi(argv[1]);
	return cases_run(gpu_setup, gpu_teardown);
}
