// SPDX-License-Identifier: MIT
/* host_functions.c - functions that a stream calls on the CPU. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "inprocess.h"
#include "sg.h"
#include "test.h"

static atomic_int calls, order[64];
static atomic_bool may_go;

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec) { .tv_nsec = ms * 1000000L }, NULL);
}

static void CUDA_CB note(void *data)
{
	order[atomic_fetch_add(&calls, 1)] = (int)(intptr_t)data;
}

static void CUDA_CB wait_for_go(void *data)
{
	(void)data;
	while (!atomic_load(&may_go))
		sleep_ms(1);
	atomic_fetch_add(&calls, 1);
}

static void CUDA_CB on_status(CUstream stream, CUresult status, void *data)
{
	if (status == CUDA_SUCCESS && stream == *(CUstream *)data)
		atomic_fetch_add(&calls, 1);
}

/* In order, each after the work before it and before the work behind it. */
static void in_order(void **state)
{
	CUdeviceptr p;
	CUstream s;

	(void)state;
	atomic_store(&calls, 0);
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&p, MIB));
	for (int i = 0; i < 20; i++) {
		OK(cuMemsetD8Async(p, i, MIB, s));
		OK(cuLaunchHostFunc(s, note, (void *)(intptr_t)i));
	}
	OK(cuStreamSynchronize(s));
	assert_int_equal(calls, 20);
	for (int i = 0; i < 20; i++)
		assert_int_equal(order[i], i);
	OK(cuStreamAddCallback(s, on_status, &s, 0));
	OK(cuStreamSynchronize(s));
	assert_int_equal(calls, 21);
	OK(cuLaunchHostFunc(NULL, note, NULL));		/* the default stream, too */
	OK(cuStreamSynchronize(NULL));
	assert_int_equal(calls, 22);
	OK(cuMemFree(p));
	OK(cuStreamDestroy(s));
}

static void holds_up(void **state)
{
	unsigned char seen = 0;
	CUstream s, other;
	CUdeviceptr p;

	(void)state;
	atomic_store(&calls, 0);
	atomic_store(&may_go, false);
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&p, 4));
	OK(cuMemsetD8(p, 1, 4));
	OK(cuCtxSynchronize());
	OK(cuLaunchHostFunc(s, wait_for_go, NULL));
	OK(cuMemsetD8Async(p, 2, 4, s));
	sleep_ms(20);
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
	OK(cuMemcpyDtoHAsync(&seen, p, 1, other));	/* others go on */
	OK(cuStreamSynchronize(other));
	assert_int_equal(seen, 1);
	atomic_store(&may_go, true);
	OK(cuStreamSynchronize(s));
	assert_int_equal(calls, 1);
	OK(cuMemcpyDtoH(&seen, p, 1));
	assert_int_equal(seen, 2);
	OK(cuMemFree(p));
	OK(cuStreamDestroy(s));
	OK(cuStreamDestroy(other));
}

/* What is still to be called is called before the context ends. */
static void context_ends(void **state)
{
	CUcontext ctx;
	CUstream s;

	(void)state;
	atomic_store(&calls, 0);
	OK(cuCtxCreate(&ctx, 0, 0));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 5; i++)
		OK(cuLaunchHostFunc(s, note, NULL));
	OK(cuCtxDestroy(ctx));
	assert_int_equal(calls, 5);
	OK(cuCtxSetCurrent(test_context()));
}

static void *free_host(void *p)
{
	OK(cuMemFreeHost(p));
	atomic_fetch_add(&calls, 1);
	return NULL;
}

/* cuMemFreeHost() waits for the work of all contexts, also if there are many and one of them is destroyed meanwhile. */
static void many_contexts(void **state)
{
	CUcontext ctx[70];
	pthread_t thread;
	CUdeviceptr at;
	atomic_uint *value;
	CUstream s;
	void *p;

	(void)state;
	if (!on_softgpu())
		skip();		/* a context takes hundreds of MiB there */
	atomic_store(&calls, 0);
	atomic_store(&may_go, false);
	OK(cuMemAllocHost(&p, 4096));
	OK(cuMemAllocHost((void **)&value, 4096));
	atomic_init(value, 0);
	OK(cuMemHostGetDevicePointer(&at, value, 0));
	for (int i = 0; i < 70; i++) {
		OK(cuCtxCreate(&ctx[i], 0, 0));
		if (i != 5 && i != 69)
			continue;
		OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		if (i == 5)
			OK(cuLaunchHostFunc(s, wait_for_go, NULL));
		else
			OK(cuStreamWaitValue32(s, at, 1, CU_STREAM_WAIT_VALUE_EQ));
	}
	assert_int_equal(pthread_create(&thread, NULL, free_host, p), 0);
	/* It waits for one end of the list, and the other end has work, too, when one in the middle goes. */
	sleep_ms(100);
	OK(cuCtxDestroy(ctx[40]));
	atomic_store(value, 1);
	sleep_ms(100);
	assert_int_equal(calls, 0);
	atomic_store(&may_go, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(calls, 2);
	for (int i = 0; i < 70; i++) {
		if (i != 40)
			OK(cuCtxDestroy(ctx[i]));
	}
	OK(cuCtxSetCurrent(test_context()));
	OK(cuMemFreeHost(value));
}

struct left {
	int streams;		/* how many more can be made */
	size_t memory;
	unsigned int objects;	/* that the driver has made; 0: not known */
};

static struct left what_is_left(void)
{
	struct sg *core = softgpu_inprocess_core();
	struct sg_gpu_stats stats = { 0 };
	static CUstream s[4096];
	CUresult result = CUDA_SUCCESS;
	size_t memory, total;
	int n = 0;

	if (core)
		assert_int_equal(sg_gpu_stats(core, 0, &stats), 0);

	while (n < 4096 && !(result = cuStreamCreate(&s[n], 0)))
		n++;
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, result);
	for (int i = 0; i < n; i++)
		OK(cuStreamDestroy(s[i]));
	OK(cuMemGetInfo(&memory, &total));
	return (struct left) { n, memory, stats.objects };
}

/* Of functions that waited together nothing stays when they have run. */
static void nothing_stays(void **state)
{
	struct left before, after;
	CUstream s;

	(void)state;
	if (!on_softgpu())
		skip();		/* no limit is known there */
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(s, note, NULL));
	OK(cuStreamSynchronize(s));
	before = what_is_left();
	atomic_store(&calls, 0);
	atomic_store(&may_go, false);
	OK(cuLaunchHostFunc(s, wait_for_go, NULL));
	for (int i = 1; i < 40; i++)
		OK(cuLaunchHostFunc(s, note, NULL));
	atomic_store(&may_go, true);
	OK(cuStreamSynchronize(s));
	assert_int_equal(calls, 40);
	after = what_is_left();
	assert_int_equal(after.streams, before.streams);
	assert_int_equal(after.memory, before.memory);
	assert_int_equal(after.objects, before.objects);
	OK(cuStreamDestroy(s));
}

/* A context's first function that finds no stream or no memory fails, and takes nothing. */
static void no_room(void **state)
{
	static CUdeviceptr taken[4096];
	static CUstream streams[4096];
	CUcontext ctx;
	int n = 0, m = 0;

	(void)state;
	if (!on_softgpu())
		skip();
	atomic_store(&calls, 0);
	OK(cuCtxCreate(&ctx, 0, 0));
	while (!cuStreamCreate(&streams[n], 0))
		n++;
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuLaunchHostFunc(streams[0], note, NULL));
	OK(cuStreamDestroy(streams[--n]));
	for (size_t size = 64 * MIB; size >= 64 * KIB; size /= 2) {
		while (m < 4096 && !cuMemAlloc(&taken[m], size))
			m++;
	}
	for (int i = 0; i < 3; i++)
		FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuLaunchHostFunc(streams[0], note, NULL));
	OK(cuMemFree(taken[--m]));
	OK(cuLaunchHostFunc(streams[0], note, NULL));
	OK(cuStreamSynchronize(streams[0]));
	assert_int_equal(calls, 1);
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(test_context()));
}

static void wrong(void **state)
{
	CUstream s;

	(void)state;
	OK(cuStreamCreate(&s, 0));
	BAD(cuStreamAddCallback(s, NULL, NULL, 0));
	BAD(cuStreamAddCallback(s, on_status, &s, 1));
	BAD(cuLaunchHostFunc(s, NULL, NULL));
	OK(cuStreamDestroy(s));
	if (on_softgpu())	/* a real driver does not look */
		FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchHostFunc(s, note, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),
		cmocka_unit_test(holds_up),
		cmocka_unit_test(context_ends),
		cmocka_unit_test(many_contexts),
		cmocka_unit_test(nothing_stays),
		cmocka_unit_test(no_room),
		cmocka_unit_test(wrong),
	};

	return RUN(tests);
}
