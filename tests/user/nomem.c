// SPDX-License-Identifier: MIT
/*
 * nomem.c - the first, second, third ... host allocation of each sequence of calls fails, until the sequence needs no more.
 *
 * The call that needed it says that there is no memory, no other call fails, and all is as before: device memory, and what the
 * library has allocated.  Then the sequence works.
 */
#include "../lib/failing_malloc.h"
#include "test.h"

#define SIZE	(256 * KIB)
#define MOST	1000	/* allocations of a sequence */

static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};
static const CUmemPoolProps pool_props = {
	.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};
static char bytes[SIZE] __attribute__((aligned(4096)));
static CUdeviceptr memory;	/* of all sequences */

/* What fills the table of handles, if a test does. */
#define FILL	20000
static CUevent fill[FILL];
static unsigned int filled;

/* The first error, which the later calls of a sequence do not hide. */
static CUresult first_of(CUresult a, CUresult b)
{
	return a ? a : b;
}

static CUresult contexts(void)
{
	CUcontext context;
	CUresult r = cuCtxCreate(&context, 0, 0);

	return r ? r : cuCtxDestroy(context);
}

static CUresult device_memory(void)
{
	CUdeviceptr p, pitched;
	size_t pitch;
	CUresult r = cuMemAlloc(&p, SIZE);

	if (r)
		return r;
	r = cuMemAllocPitch(&pitched, &pitch, 100, 10, 4);
	if (!r)
		r = cuMemFree(pitched);
	return first_of(r, cuMemFree(p));
}

static CUresult host_memory(void)
{
	CUdeviceptr seen;
	CUresult r;
	void *p;

	r = cuMemHostAlloc(&p, SIZE, CU_MEMHOSTALLOC_DEVICEMAP);
	if (r)
		return r;
	r = cuMemHostGetDevicePointer(&seen, p, 0);
	return first_of(r, cuMemFreeHost(p));
}

static CUresult registered_memory(void)
{
	CUresult r = cuMemHostRegister(bytes, sizeof(bytes), CU_MEMHOSTREGISTER_DEVICEMAP);

	return r ? r : cuMemHostUnregister(bytes);
}

static CUresult managed_memory(void)
{
	CUdeviceptr p;
	CUresult r = cuMemAllocManaged(&p, SIZE, CU_MEM_ATTACH_GLOBAL);

	if (r)
		return r;
	r = cuMemAdvise(p, SIZE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
	if (!r)
		r = cuMemAdvise(p, SIZE / 2, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
	return first_of(r, cuMemFree(p));
}

static CUresult events(void)
{
	CUstream a, b = NULL;
	CUevent e = NULL;
	CUresult r = cuStreamCreate(&a, CU_STREAM_NON_BLOCKING);

	if (r)
		return r;
	r = cuStreamCreateWithPriority(&b, CU_STREAM_NON_BLOCKING, 0);
	if (!r)
		r = cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
	if (!r)
		r = cuEventRecord(e, a);
	if (!r)
		r = cuStreamWaitEvent(b, e, 0);
	if (!r)
		r = cuStreamSynchronize(b);
	if (e)
		r = first_of(r, cuEventDestroy(e));
	if (b)
		r = first_of(r, cuStreamDestroy(b));
	return first_of(r, cuStreamDestroy(a));
}

static CUresult copies(void)
{
	CUstream s;
	CUresult r = cuStreamCreate(&s, 0);

	if (r)
		return r;
	r = cuMemcpyHtoDAsync(memory, bytes, SIZE / 2, s);
	if (!r)
		r = cuMemcpyDtoDAsync(memory + SIZE / 2, memory, SIZE / 4, s);
	if (!r)
		r = cuMemsetD8Async(memory, 3, 100, s);
	if (!r)
		r = cuStreamWriteValue32(s, memory, 7, 0);
	if (!r)
		r = cuMemcpyDtoHAsync(bytes, memory, SIZE / 2, s);
	r = first_of(r, cuStreamSynchronize(s));
	return first_of(r, cuStreamDestroy(s));
}

static unsigned int calls;

static void on_turn(void *arg)
{
	calls++;
}

static void CUDA_CB on_stream(CUstream s, CUresult status, void *arg)
{
	calls++;
}

/* What is refused is not called. What a context keeps for the next one goes with it. */
static CUresult functions(void)
{
	unsigned int added = 0;
	CUcontext context;
	CUstream s;
	CUresult r = cuCtxCreate(&context, 0, 0);

	if (r)
		return r;
	r = cuStreamCreate(&s, 0);
	if (r)
		return first_of(r, cuCtxDestroy(context));
	calls = 0;
	r = cuLaunchHostFunc(s, on_turn, NULL);
	added += !r;
	if (!r) {
		r = cuStreamAddCallback(s, on_stream, NULL, 0);
		added += !r;
	}
	r = first_of(r, cuStreamSynchronize(s));
	r = first_of(r, cuStreamDestroy(s));
	assert_int_equal(calls, added);
	return first_of(r, cuCtxDestroy(context));
}

static CUresult virtual_memory(void)
{
	const CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p = 0;
	bool mapped = false;
	size_t size;
	CUresult r;

	OK(cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	r = cuMemCreate(&handle, size, &prop, 0);
	if (r)
		return r;
	r = cuMemAddressReserve(&p, 2 * size, 0, 0, 0);
	if (!r) {
		r = cuMemMap(p + size, size, 0, handle, 0);
		mapped = !r;
	}
	if (!r)
		r = cuMemSetAccess(p + size, size, &access, 1);
	if (mapped)
		r = first_of(r, cuMemUnmap(p + size, size));
	if (p)
		r = first_of(r, cuMemAddressFree(p, 2 * size));
	return first_of(r, cuMemRelease(handle));
}

static CUresult pools(void)
{
	CUmemoryPool pool;
	CUdeviceptr p;
	CUresult r = cuMemPoolCreate(&pool, &pool_props);

	if (r)
		return r;
	r = cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL);
	if (!r) {
		r = cuMemFreeAsync(p, NULL);
		r = first_of(r, cuStreamSynchronize(NULL));
	}
	return first_of(r, cuMemPoolDestroy(pool));
}

static CUresult attributes(void)
{
	unsigned int on = 1;
	CUdeviceptr p;
	CUresult r = cuMemAlloc(&p, SIZE);

	if (r)
		return r;
	r = cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p);
	return first_of(r, cuMemFree(p));
}

static size_t free_memory(void)
{
	size_t available, total;

	OK(cuMemGetInfo(&available, &total));
	return available;
}

static void each_fails(void **state)
{
	CUresult (*const sequence)(void) = (CUresult (*)(void))*state;
	size_t device, host;
	unsigned int n;
	CUresult r;

	/* What it allocates once, for later. */
	if (!filled)
		OK(sequence());
	device = free_memory();
	host = allocated();
	for (n = 1; n < MOST; n++) {
		failed = false;
		fail_in = n;
		r = sequence();
		fail_in = 0;
		if (!failed)
			break;
		/* No free fails for want of memory. */
		if (r || sequence != pools)
			FAILS(CUDA_ERROR_OUT_OF_MEMORY, r);
		OK(cuCtxSynchronize());
		assert_int_equal(free_memory(), device);
		assert_int_equal(allocated(), host);
	}
	OK(r);
	OK(cuCtxSynchronize());
	print_message("%u allocations\n", n - 1);
	assert_int_equal(free_memory(), device);
	assert_int_equal(allocated(), host);
}

/* ---- the table of what has a handle ---- */

static CUresult another(uint32_t allocations)
{
	CUresult r;

	assert_in_range(filled, 0, FILL - 1);
	failed = false;
	fail_in = allocations;
	r = cuEventCreate(&fill[filled], CU_EVENT_DISABLE_TIMING);
	if (!r)
		filled++;
	return r;
}

static void one_less(void)
{
	OK(cuEventDestroy(fill[--filled]));
}

/* Events, until the next object needs a larger table: an allocation more. */
static void fill_table(unsigned int spare)
{
	uint32_t usual;

	do {
		OK(another(MOST));
		usual = MOST - fail_in;
	} while (!another(usual + 1));
	fail_in = 0;
	assert_true(failed);
	while (spare--)
		one_less();
}

/* It is full when the sequence makes its first object, its second one and so on. */
static void table_is_full(void **state)
{
	for (unsigned int spare = 0; spare < 4; spare++) {
		OK(((CUresult (*)(void))*state)());
		fill_table(spare);
		each_fails(state);
		while (filled)
			one_less();
	}
}

static int setup(void **state)
{
	gpu_setup(state);
	OK(cuMemAlloc(&memory, SIZE));
	return 0;
}

static int teardown(void **state)
{
	OK(cuMemFree(memory));
	return gpu_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "contexts", each_fails, NULL, NULL, (void *)contexts },
		{ "device memory", each_fails, NULL, NULL, (void *)device_memory },
		{ "host memory", each_fails, NULL, NULL, (void *)host_memory },
		{ "registered memory", each_fails, NULL, NULL, (void *)registered_memory },
		{ "managed memory", each_fails, NULL, NULL, (void *)managed_memory },
		{ "streams and events", each_fails, NULL, NULL, (void *)events },
		{ "copies", each_fails, NULL, NULL, (void *)copies },
		{ "host functions", each_fails, NULL, NULL, (void *)functions },
		{ "virtual memory", each_fails, NULL, NULL, (void *)virtual_memory },
		{ "pools", each_fails, NULL, NULL, (void *)pools },
		{ "attributes", each_fails, NULL, NULL, (void *)attributes },
		{ "contexts in a full table", table_is_full, NULL, NULL, (void *)contexts },
		{ "streams and events in a full table", table_is_full, NULL, NULL, (void *)events },
		{ "virtual memory in a full table", table_is_full, NULL, NULL, (void *)virtual_memory },
		{ "pools in a full table", table_is_full, NULL, NULL, (void *)pools },
	};

	return cmocka_run_group_tests_name("nomem", tests, setup, teardown);
}
