// SPDX-License-Identifier: MIT
/* hip_work.c - HIP's streams and events: what waits for what, and what does not. */
#include <pthread.h>
#include <stdatomic.h>

#include "hip/hip_runtime.h"
#include "test.h"

#define HIP(call)		assert_int_equal(call, hipSuccess)
#define NOT(error, call)	assert_int_equal(call, hipError##error)

/* Work that a stream stands still at, until it is let go. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool open, reached;
};

static struct gate gate(void)
{
	return (struct gate){ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
}

static void pass(void *arg)
{
	struct gate *g = arg;

	pthread_mutex_lock(&g->lock);
	g->reached = true;
	pthread_cond_broadcast(&g->changed);
	while (!g->open)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void until_reached(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	while (!g->reached)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void open_gate(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static atomic_int counter;

static void count(void *arg)
{
	*(int *)arg = atomic_fetch_add(&counter, 1);
}

static void callback(hipStream_t stream, hipError_t status, void *arg)
{
	count(arg);
}

CASE(stream_order)
{
	struct gate g = gate();
	hipStream_t stream = NULL;
	int first = -1, second = -1;
	char *p, *host, byte = 0;

	atomic_store(&counter, 0);
	HIP(hipMalloc((void **)&p, 4096));
	HIP(hipHostMalloc((void **)&host, 4096, 0));
	HIP(hipStreamCreate(&stream));
	HIP(hipStreamQuery(stream));
	HIP(hipLaunchHostFunc(stream, pass, &g));
	HIP(hipMemsetAsync(p, 0x31, 100, stream));
	HIP(hipMemcpyAsync(host, p, 100, hipMemcpyDeviceToHost, stream));
	HIP(hipLaunchHostFunc(stream, count, &first));
	HIP(hipStreamAddCallback(stream, callback, &second, 0));
	/* Neither done nor begun: it returned at once. That is an answer, and no error to remember. */
	until_reached(&g);
	hipGetLastError();
	NOT(NotReady, hipStreamQuery(stream));
	HIP(hipGetLastError());
	assert_true(p[0] == 0 && host[0] == 0 && first < 0);
	open_gate(&g);
	HIP(hipStreamSynchronize(stream));
	assert_true(p[99] == 0x31 && host[99] == 0x31 && host[100] == 0);
	assert_int_equal(first, 0);
	assert_int_equal(second, 1);
	HIP(hipStreamQuery(stream));
	/* Memory that HIP does not know is the program's again as soon as the call returns. */
	HIP(hipMemcpyAsync(&byte, p, 1, hipMemcpyDefault, stream));
	assert_int_equal(byte, 0x31);
	HIP(hipStreamDestroy(stream));
	NOT(InvalidHandle, hipStreamDestroy(stream));
	NOT(InvalidHandle, hipStreamSynchronize((hipStream_t)(uintptr_t)host));
	HIP(hipHostFree(host));
	HIP(hipFree(p));
}

/* The default stream's work comes after that of blocking streams before it, and before later such work. */
CASE(default_stream)
{
	struct gate blocking = gate(), free_running = gate();
	hipStream_t a, b;
	int order[3] = { -1, -1, -1 };

	atomic_store(&counter, 0);
	HIP(hipStreamCreate(&a));
	HIP(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
	HIP(hipLaunchHostFunc(b, pass, &free_running));
	HIP(hipLaunchHostFunc(a, pass, &blocking));
	HIP(hipLaunchHostFunc(a, count, &order[0]));
	HIP(hipLaunchHostFunc(NULL, count, &order[1]));
	HIP(hipLaunchHostFunc(a, count, &order[2]));
	until_reached(&blocking);
	until_reached(&free_running);
	NOT(NotReady, hipStreamQuery(NULL));
	assert_int_equal(order[1], -1);
	open_gate(&blocking);
	/* It does not wait for the other stream, whose gate is still closed. */
	HIP(hipStreamSynchronize(NULL));
	assert_true(order[0] == 0 && order[1] == 1);
	HIP(hipStreamSynchronize(a));
	assert_int_equal(order[2], 2);
	NOT(NotReady, hipStreamQuery(b));
	open_gate(&free_running);
	HIP(hipDeviceSynchronize());
	HIP(hipStreamQuery(b));
	HIP(hipStreamDestroy(a));
	HIP(hipStreamDestroy(b));
}

static void *let_go(void *arg)
{
	until_reached(arg);
	open_gate(arg);
	return NULL;
}

/* A free waits for queued work, and so do a synchronous copy and the end of a stream's work. */
CASE(waits)
{
	hipStream_t stream;
	pthread_t thread;
	struct gate g;
	int done = -1;
	char *p;

	HIP(hipStreamCreate(&stream));
	for (int i = 0; i < 3; i++) {
		g = gate();
		done = -1;
		HIP(hipMalloc((void **)&p, 4096));
		HIP(hipLaunchHostFunc(stream, pass, &g));
		HIP(hipMemsetAsync(p, 0x44, 10, stream));
		HIP(hipLaunchHostFunc(stream, count, &done));
		assert_int_equal(pthread_create(&thread, NULL, let_go, &g), 0);
		if (i == 0)
			HIP(hipMemcpy(p + 1, p, 1, hipMemcpyDefault));
		else if (i == 1)
			HIP(hipMemset(p + 100, 1, 1));
		if (i < 2)
			assert_true(done >= 0 && p[9] == 0x44);
		HIP(hipFree(p));
		assert_true(done >= 0);
		pthread_join(thread, NULL);
	}
	/* What is queued runs, though the stream is destroyed. */
	g = gate();
	done = -1;
	HIP(hipLaunchHostFunc(stream, pass, &g));
	HIP(hipLaunchHostFunc(stream, count, &done));
	HIP(hipStreamDestroy(stream));
	open_gate(&g);
	HIP(hipDeviceSynchronize());
	assert_true(done >= 0);
}

CASE(async_memory)
{
	hipStream_t stream;
	struct gate g = gate();
	char *p = NULL;

	HIP(hipStreamCreate(&stream));
	HIP(hipMallocAsync((void **)&p, 4096, stream));
	p[0] = 5;
	HIP(hipLaunchHostFunc(stream, pass, &g));
	HIP(hipFreeAsync(p, stream));
	until_reached(&g);
	assert_int_equal(p[0], 5);
	open_gate(&g);
	HIP(hipStreamSynchronize(stream));
	NOT(InvalidValue, hipFree(p));
	NOT(InvalidValue, hipFreeAsync(p, stream));
	HIP(hipFreeAsync(NULL, stream));
	HIP(hipStreamDestroy(stream));
}

CASE(stream_facts)
{
	hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
	hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
	unsigned int flags = 7;
	int value, least, greatest;
	hipStream_t stream;

	HIP(hipDeviceGetStreamPriorityRange(&least, &greatest));
	assert_true(greatest < least);
	HIP(hipStreamCreateWithPriority(&stream, hipStreamNonBlocking, -100));
	HIP(hipStreamGetPriority(stream, &value));
	assert_int_equal(value, greatest);
	HIP(hipStreamGetFlags(stream, &flags));
	assert_int_equal(flags, hipStreamNonBlocking);
	HIP(hipStreamGetDevice(stream, &value));
	assert_int_equal(value, 0);
	HIP(hipStreamIsCapturing(stream, &status));
	assert_int_equal(status, hipStreamCaptureStatusNone);
	HIP(hipThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, hipStreamCaptureModeGlobal);
	HIP(hipThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, hipStreamCaptureModeRelaxed);
	HIP(hipStreamDestroy(stream));
	NOT(InvalidValue, hipStreamCreateWithFlags(&stream, 2));
	NOT(InvalidValue, hipStreamCreate(NULL));
	NOT(InvalidHandle, hipStreamGetFlags(stream, &flags));
}

CASE(events)
{
	struct gate g = gate(), h = gate();
	hipEvent_t event, later;
	hipStream_t a, b;
	int done = -1;
	float ms = -1;

	HIP(hipStreamCreateWithFlags(&a, hipStreamNonBlocking));
	HIP(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
	HIP(hipEventCreate(&event));
	HIP(hipEventCreate(&later));
	/* Done, as long as it was not recorded. */
	HIP(hipEventQuery(event));
	HIP(hipEventSynchronize(event));
	NOT(InvalidHandle, hipEventElapsedTime(&ms, event, later));

	HIP(hipLaunchHostFunc(a, pass, &g));
	HIP(hipEventRecord(event, a));
	HIP(hipStreamWaitEvent(b, event, 0));
	/* Recorded again, behind what may take long: the wait is for the record before. */
	HIP(hipLaunchHostFunc(a, pass, &h));
	HIP(hipEventRecord(event, a));
	HIP(hipLaunchHostFunc(b, count, &done));
	NOT(NotReady, hipEventQuery(event));
	NOT(NotReady, hipStreamQuery(b));
	assert_int_equal(done, -1);
	open_gate(&g);
	HIP(hipStreamSynchronize(b));
	assert_true(done >= 0);
	NOT(NotReady, hipEventQuery(event));
	HIP(hipEventRecord(later, b));
	HIP(hipEventSynchronize(later));
	NOT(NotReady, hipEventElapsedTime(&ms, event, later));
	open_gate(&h);
	HIP(hipEventSynchronize(event));
	HIP(hipEventQuery(event));
	HIP(hipEventElapsedTime(&ms, later, event));
	assert_true(ms >= 0);
	/* Destroyed while a stream waits for it. */
	g = gate();
	HIP(hipLaunchHostFunc(a, pass, &g));
	HIP(hipEventRecord(event, a));
	HIP(hipStreamWaitEvent(b, event, 0));
	HIP(hipEventDestroy(event));
	NOT(InvalidHandle, hipEventDestroy(event));
	NOT(InvalidHandle, hipEventQuery(event));
	NOT(InvalidHandle, hipStreamWaitEvent(b, event, 0));
	open_gate(&g);
	HIP(hipStreamSynchronize(b));
	HIP(hipEventDestroy(later));
	NOT(InvalidValue, hipEventCreateWithFlags(&event, hipEventInterprocess));
	NOT(InvalidValue, hipEventCreateWithFlags(&event, 0x100));
	HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
	HIP(hipEventRecord(event, NULL));
	HIP(hipEventSynchronize(event));
	NOT(InvalidHandle, hipEventElapsedTime(&ms, event, event));
	HIP(hipEventDestroy(event));
	HIP(hipStreamDestroy(a));
	HIP(hipStreamDestroy(b));
}

/* Rows with a pitch, and elements of two and four bytes. */
CASE(rows)
{
	unsigned char *p, *q;

	HIP(hipHostMalloc((void **)&p, 4096, 0));
	HIP(hipMalloc((void **)&q, 4096));
	HIP(hipMemset(p, 0, 4096));
	HIP(hipMemset2D(p, 64, 0x21, 10, 3));
	assert_true(p[9] == 0x21 && p[10] == 0 && p[64] == 0x21 && p[137] == 0x21 && p[138] == 0);
	HIP(hipMemcpy2D(q, 100, p, 64, 10, 3, hipMemcpyDefault));
	assert_true(q[9] == 0x21 && q[10] == 0 && q[100] == 0x21 && q[209] == 0x21);
	NOT(InvalidPitchValue, hipMemcpy2D(q, 9, p, 64, 10, 3, hipMemcpyDefault));
	NOT(InvalidValue, hipMemcpy2D(q, 2048, p, 64, 10, 3, hipMemcpyDefault));
	NOT(InvalidValue, hipMemset2D(p, SIZE_MAX / 2, 0, 10, 4));
	HIP(hipMemsetD16(q + 2, 0x1234, 3));
	assert_true(q[2] == 0x34 && q[3] == 0x12 && q[6] == 0x34 && q[7] == 0x12 && q[8] == 0x21);
	HIP(hipMemsetD32Async(q + 4, 0x11223344, 2, NULL));
	HIP(hipStreamSynchronize(NULL));
	assert_true(q[4] == 0x44 && q[7] == 0x11 && q[11] == 0x11 && q[3] == 0x12);
	NOT(InvalidValue, hipMemsetD32(q + 2, 1, 1));
	NOT(InvalidValue, hipMemsetD16(q, 1, 2049));
	NOT(InvalidValue, hipMemsetD32(q, 1, SIZE_MAX));
	HIP(hipFree(q));
	HIP(hipHostFree(p));
}

static void *queue_much(void *arg)
{
	hipStream_t stream;
	char *p;

	if (hipMalloc((void **)&p, 4096) || hipStreamCreate(&stream))
		return arg;
	for (int i = 0; i < 200; i++) {
		if (hipMemsetAsync(p, i, 64, stream) || hipMemcpyAsync(p + 64, p, 64, hipMemcpyDefault, i % 3 ? stream : NULL))
			return arg;
	}
	if (hipStreamSynchronize(stream) || hipStreamSynchronize(NULL) || p[127] != (char)199)
		return arg;
	return hipStreamDestroy(stream) || hipFree(p) ? arg : NULL;
}

CASE(many_threads)
{
	pthread_t id[3];
	void *failed;

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&id[i], NULL, queue_much, &id), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(id[i], &failed);
		assert_null(failed);
	}
}

static void in_fork(void *arg)
{
	hipStream_t stream;

	/* Nothing waits for threads that do not exist here. */
	HOLDS(hipStreamSynchronize(arg) == hipErrorNotInitialized);
	HOLDS(hipDeviceSynchronize() == hipErrorNotInitialized);
	HOLDS(hipStreamCreate(&stream) == hipErrorNotInitialized);
	_exit(0);
}

/* ---- threads that are cancelled ---- */

static hipStream_t busy;

static void takes_time(void *unused)
{
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
}

static void wait_for_stream(void)
{
	HIP(hipLaunchHostFunc(busy, takes_time, NULL));
	HIP(hipStreamSynchronize(busy));
}

static void wait_for_device(void)
{
	HIP(hipLaunchHostFunc(busy, takes_time, NULL));
	HIP(hipDeviceSynchronize());
}

static void wait_for_event(void)
{
	hipEvent_t event;

	HIP(hipEventCreate(&event));
	HIP(hipLaunchHostFunc(busy, takes_time, NULL));
	HIP(hipEventRecord(event, busy));
	HIP(hipEventSynchronize(event));
	HIP(hipEventDestroy(event));
}

static void wait_to_free(void)
{
	void *p;

	HIP(hipMalloc(&p, 4096));
	HIP(hipLaunchHostFunc(busy, takes_time, NULL));
	HIP(hipFree(p));
}

/* No call is a cancellation point: the thread would keep a lock for ever. */
CASE(cancelled)
{
	static void (*const all[])(void) = { wait_for_stream, wait_for_device, wait_for_event, wait_to_free };

	HIP(hipStreamCreate(&busy));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_true(survives(all[i]));
	HIP(hipStreamDestroy(busy));
}

/* Its threads leave the program's signals to the program's threads. */
CASE(signals)
{
	HIP(hipStreamCreate(&busy));
	HIP(hipLaunchHostFunc(busy, takes_time, NULL));
	assert_true(other_threads_leave_signals());
	HIP(hipStreamDestroy(busy));
}

CASE(fork_with_work)
{
	struct gate g = gate();
	hipStream_t stream;

	HIP(hipStreamCreate(&stream));
	HIP(hipLaunchHostFunc(stream, pass, &g));
	until_reached(&g);
	assert_int_equal(in_child(in_fork, stream), 0);
	open_gate(&g);
	HIP(hipStreamSynchronize(stream));
	HIP(hipStreamDestroy(stream));
}
