// SPDX-License-Identifier: MIT
/* stream.c - streams, events, order, and when calls return. */
#include "softgpu.h"
#include "test.h"

CASE(streams)
{
	unsigned int flags = 9;
	CUcontext ctx;
	CUstream s;
	int priority = 9;

	BAD(cuStreamCreate(&s, 2));
	BAD(cuStreamCreate(NULL, 0));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamGetFlags(s, &flags));
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	OK(cuStreamGetCtx(s, &ctx));
	assert_ptr_equal(ctx, test_context());
	OK(cuStreamQuery(s));
	OK(cuStreamSynchronize(s));
	OK(cuStreamDestroy(s));
	if (on_softgpu()) {
		FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(s));
		FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(s));
	}
	OK(cuStreamGetFlags(NULL, &flags));
	assert_int_equal(flags, CU_STREAM_DEFAULT);
	OK(cuStreamGetCtx(NULL, &ctx));
	assert_ptr_equal(ctx, test_context());
	OK(cuStreamQuery(CU_STREAM_LEGACY));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(NULL));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(CU_STREAM_LEGACY));
	OK(cuStreamCreateWithPriority(&s, 0, 99));
	OK(cuStreamGetPriority(s, &priority));
	assert_int_equal(priority, 0);
	OK(cuStreamDestroy(s));
}

CASE(events)
{
	CUevent e, untimed;
	CUstream s;
	float ms = -1;

	OK(cuStreamCreate(&s, 0));
	BAD(cuEventCreate(&e, 16));
	BAD(cuEventCreate(&e, CU_EVENT_INTERPROCESS));
	BAD(cuEventCreate(NULL, 0));
	OK(cuEventCreate(&e, CU_EVENT_DEFAULT));
	OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	OK(cuEventQuery(e));		/* never recorded is done */
	OK(cuEventSynchronize(e));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, e, e));
	OK(cuEventRecord(e, NULL));
	OK(cuEventRecord(untimed, s));
	OK(cuEventSynchronize(e));
	OK(cuEventElapsedTime(&ms, e, e));
	assert_true(ms == 0);
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, e, untimed));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(NULL, NULL));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(NULL));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(NULL));
	OK(cuStreamWaitEvent(s, e, 0));
	BAD(cuStreamWaitEvent(s, e, 4));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(s, NULL, 0));
	OK(cuEventDestroy(e));
	OK(cuEventDestroy(untimed));
	OK(cuStreamDestroy(s));
}

/* Time passes between two events, as much as the copies between them take. */
CASE(elapsed)
{
	CUdeviceptr a, b;
	CUevent start, end;
	float ms;

	OK(cuMemAlloc(&a, 8 * MIB));
	OK(cuMemAlloc(&b, 8 * MIB));
	OK(cuEventCreate(&start, 0));
	OK(cuEventCreate(&end, 0));
	OK(cuEventRecord(start, NULL));
	for (int i = 0; i < 4; i++)
		OK(cuMemcpyDtoDAsync(a, b, 8 * MIB, NULL));
	OK(cuEventRecord(end, NULL));
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime(&ms, start, end));
	assert_true(ms > 0 && ms < 60000);
	OK(cuEventDestroy(start));
	OK(cuEventDestroy(end));
	OK(cuMemFree(a));
	OK(cuMemFree(b));
}

/* A chain through streams that only events order. */
CASE(order)
{
	enum { STREAMS = 4, ROUNDS = 50, SIZE = 64 * 1024 };
	CUdeviceptr buf[STREAMS];
	CUstream s[STREAMS];
	CUevent e[STREAMS];
	unsigned int value;

	for (int i = 0; i < STREAMS; i++) {
		OK(cuMemAlloc(&buf[i], SIZE));
		OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
		OK(cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
	}
	for (int r = 0; r < ROUNDS; r++) {
		OK(cuMemsetD32Async(buf[0], r, SIZE / 4, s[0]));
		OK(cuEventRecord(e[0], s[0]));
		for (int i = 1; i < STREAMS; i++) {
			OK(cuStreamWaitEvent(s[i], e[i - 1], 0));
			OK(cuMemcpyDtoDAsync(buf[i], buf[i - 1], SIZE, s[i]));
			OK(cuEventRecord(e[i], s[i]));
		}
		/* before the next round writes over it */
		OK(cuStreamWaitEvent(s[0], e[STREAMS - 1], 0));
	}
	OK(cuStreamSynchronize(s[STREAMS - 1]));
	OK(cuMemcpyDtoH(&value, buf[STREAMS - 1] + SIZE - 4, 4));
	assert_int_equal(value, ROUNDS - 1);
	for (int i = 0; i < STREAMS; i++) {
		OK(cuEventDestroy(e[i]));
		OK(cuStreamDestroy(s[i]));
		OK(cuMemFree(buf[i]));
	}
}

/* The default stream waits for blocking streams, and they for it. */
CASE(default_stream)
{
	enum { SIZE = 4 << 20 };
	CUdeviceptr a, b;
	unsigned int value;
	CUstream s;

	OK(cuMemAlloc(&a, SIZE));
	OK(cuMemAlloc(&b, SIZE));
	OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	for (unsigned int r = 0; r < 20; r++) {
		OK(cuMemsetD32Async(a, r, SIZE / 4, s));
		OK(cuMemcpyDtoDAsync(b, a, SIZE, NULL));
		OK(cuMemsetD32Async(a, ~r, SIZE / 4, s));
		OK(cuMemcpyDtoH(&value, b + SIZE - 4, 4));
		assert_int_equal(value, r);
	}
	OK(cuStreamDestroy(s));
	OK(cuMemFree(a));
	OK(cuMemFree(b));
}

/* Streams go at once; what is queued on them is done all the same. */
CASE(destroy_busy)
{
	enum { SIZE = 8 << 20 };
	unsigned int value;
	CUdeviceptr a;
	CUstream s;

	OK(cuMemAlloc(&a, SIZE));
	for (unsigned int i = 0; i < 20; i++) {
		OK(cuStreamCreate(&s, 0));
		OK(cuMemsetD32Async(a, i, SIZE / 4, s));
		OK(cuStreamDestroy(s));
		OK(cuCtxSynchronize());
		OK(cuMemcpyDtoH(&value, a + SIZE - 4, 4));
		assert_int_equal(value, i);
	}
	OK(cuMemFree(a));
}

/*
 * Keeps a stream busy until end_work(): on a software GPU something that runs for
 * as long as we say, whatever else the machine does meanwhile.  A real one is
 * kept busy by what the caller queues next, if that is large.
 */
static CUdeviceptr begin_work(CUstream s)
{
	CUdeviceptr flag = 0;

	if (on_softgpu()) {
		OK(cuMemAlloc(&flag, 8));
		OK(cuMemsetD32(flag, 0, 2));
		OK(cuStreamSynchronize(NULL));	/* or what ends it may come first */
		OK(softgpu_watch(flag, 1, 60000, flag + 4, s));
	}
	return flag;
}

/* Asserts that the stream is busy still; a real GPU may be done by now, which is counted. */
static int end_work(CUdeviceptr flag, CUstream s)
{
	int busy = cuStreamQuery(s) == CUDA_ERROR_NOT_READY;
	CUstream other;

	if (flag) {
		assert_true(busy);
		OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
		OK(cuMemsetD32Async(flag, 1, 1, other));
		OK(cuStreamDestroy(other));
	}
	OK(cuStreamSynchronize(s));
	if (flag)
		OK(cuMemFree(flag));
	return busy;
}

/*
 * When a call returns, its stream is idle: always with SYNC_MEMOPS on either
 * side, and with memory that GPUs do not know.  Without, it is not waited for.
 */
CASE(synchronous)
{
	enum { SIZE = 16 << 20 };
	unsigned int one = 1, zero = 0;
	char *plain = malloc(SIZE);
	CUdeviceptr a, b, work;
	CUstream s;
	int busy = 0;

	OK(cuMemAlloc(&a, SIZE));
	OK(cuMemAlloc(&b, SIZE));
	OK(cuStreamCreate(&s, 0));
	OK(cuPointerSetAttribute(&zero, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
	OK(cuPointerSetAttribute(&zero, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, b));
	for (int i = 0; i < 5; i++) {
		work = begin_work(s);
		OK(cuMemcpyDtoDAsync(a, b, SIZE, s));
		busy += end_work(work, s);
		work = begin_work(NULL);
		OK(cuMemcpyDtoD(a, b, SIZE));
		busy += end_work(work, NULL);
	}
	/* or this test could not fail */
	assert_true(busy > 0);

	OK(cuMemcpyDtoHAsync(plain, a, SIZE, s));
	OK(cuStreamQuery(s));
	if (on_softgpu()) {
		OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
		OK(cuMemcpyDtoDAsync(a, b, SIZE, s));
		OK(cuStreamQuery(s));
		OK(cuMemcpyDtoDAsync(b, a, SIZE, s));
		OK(cuStreamQuery(s));
		OK(cuMemsetD8Async(a, 1, SIZE, s));
		OK(cuStreamQuery(s));
		OK(cuPointerSetAttribute(&zero, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
		OK(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
		OK(cuMemcpyDtoDAsync(a, b, SIZE, s));
		OK(cuStreamQuery(s));
		OK(cuCtxSetFlags(0));
	}
	OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
	OK(cuMemcpyDtoD(a, b, SIZE));
	OK(cuStreamQuery(NULL));
	OK(cuMemcpyDtoD(b, a, SIZE));
	OK(cuStreamQuery(NULL));
	OK(cuMemsetD8(a, 1, SIZE));
	OK(cuStreamQuery(NULL));

	/* setting it waits for what was queued before */
	OK(cuPointerSetAttribute(&zero, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
	OK(cuMemcpyDtoDAsync(a, b, SIZE, s));
	OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
	if (on_softgpu())	/* NVIDIA documents it, and the driver that we asked does not do it */
		OK(cuStreamQuery(s));

	OK(cuStreamDestroy(s));
	OK(cuMemFree(a));
	OK(cuMemFree(b));
	free(plain);
}

/* Each call that registers a buffer synchronizes, whether or not the buffer is registered already. */
CASE(registered_again)
{
	/* So many that the copies outlast this thread's wait for a processor. */
#ifdef __SANITIZE_THREAD__
	enum { SIZE = 16 << 20, COPIES = 1 };	/* it looks at every word of them */
#else
	enum { SIZE = 16 << 20, COPIES = 6 };
#endif
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	unsigned int one = 1, zero = 0;
	CUdeviceptr a, b, c;
	int i, busy = 0;
	CUstream s;

	ONLY_SOFTGPU("NVIDIA documents it, and driver 580 does not do it");
	OK(cuMemAlloc(&a, 1));
	OK(cuMemAlloc(&b, SIZE));
	OK(cuMemAlloc(&c, SIZE));
	OK(cuStreamCreate(&s, 0));
	OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
	for (i = 0; i < 15; i++) {
		for (int k = 0; k < COPIES; k++)
			OK(cuMemcpyDtoDAsync(b, c, SIZE, s));
		busy += cuStreamQuery(s) == CUDA_ERROR_NOT_READY;
		if (i % 3 == 0)
			OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
		else if (i % 3 == 1)
			OK(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, a));
		else
			OK(cuPointerSetAttribute(&zero, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
		OK(cuStreamQuery(s));
		if (i % 3 == 2)
			OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
	}
	/* or this test could not fail */
	assert_true(busy > 0);
	OK(cuStreamDestroy(s));
	OK(cuMemFree(a));
	OK(cuMemFree(b));
	OK(cuMemFree(c));
}

/* Freeing memory with copies in flight waits for them, and breaks nothing. */
CASE(free_busy)
{
	enum { SIZE = 4 << 20 };
	CUdeviceptr a, b;
	void *h;

	for (int i = 0; i < 10; i++) {
		OK(cuMemAlloc(&a, SIZE));
		OK(cuMemAlloc(&b, SIZE));
		OK(cuMemHostAlloc(&h, SIZE, 0));
		OK(cuMemcpyDtoDAsync(a, b, SIZE, NULL));
		OK(cuMemcpyDtoHAsync(h, a, SIZE, NULL));
		switch (i % 3) {
		case 0:
			OK(cuMemFree(a));
			OK(cuMemFreeHost(h));
			break;
		case 1:
			OK(cuMemFreeHost(h));
			OK(cuMemFree(a));
			break;
		case 2:
			OK(cuMemFree(a));
			OK(cuMemFreeHost(h));
			break;
		}
		OK(cuMemFree(b));
		OK(cuCtxSynchronize());
	}
}

MAIN(gpu_setup, gpu_teardown)
