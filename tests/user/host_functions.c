// SPDX-License-Identifier: MIT
/* host_functions.c - functions that a stream calls on the CPU. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

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

static void CUDA_CB note_call(void *unused)
{
	atomic_fetch_add(&calls, 1);
}

static void CUDA_CB wait_for_go(void *data)
{
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
CASE(in_order)
{
	CUdeviceptr p;
	CUstream s;

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

/* softgpu's threads leave the program's signals to the program's threads. A thread of NVIDIA's driver may take them. */
CASE(signals)
{
	CUstream s;

	ONLY_SOFTGPU("CUDA does not document which signals the threads of its library block");
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(s, note_call, NULL));
	OK(cuStreamSynchronize(s));
	assert_true(other_threads_leave_signals());
	OK(cuStreamDestroy(s));
}

CASE(holds_up)
{
	unsigned char seen = 0;
	CUstream s, other;
	CUdeviceptr p;

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
CASE(context_ends)
{
	CUcontext ctx;
	CUstream s;

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
CASE(many_contexts)
{
	CUcontext ctx[70];
	pthread_t thread;
	CUdeviceptr at;
	atomic_uint *value;
	CUstream s;
	void *p;

	ONLY_SOFTGPU("a context takes hundreds of MiB");
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
CASE(nothing_stays)
{
	struct left before, after;
	CUstream s;

	ONLY_SOFTGPU("no limit of streams is known");
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

/* A function needs neither a stream of its own nor memory. */
CASE(no_room)
{
	static CUdeviceptr taken[4096];
	static CUstream streams[4096];
	CUcontext ctx;
	int n = 0, m = 0;

	ONLY_SOFTGPU("no limit of streams is known");
	atomic_store(&calls, 0);
	OK(cuCtxCreate(&ctx, 0, 0));
	while (!cuStreamCreate(&streams[n], 0))
		n++;
	for (size_t size = 64 * MIB; size >= 64 * KIB; size /= 2) {
		while (m < 4096 && !cuMemAlloc(&taken[m], size))
			m++;
	}
	OK(cuLaunchHostFunc(streams[0], note, NULL));
	OK(cuStreamSynchronize(streams[0]));
	assert_int_equal(calls, 1);
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(test_context()));
}

static void until_called(int n)
{
	for (int ms = 0; ms < 20000 && atomic_load(&calls) < n; ms++)
		sleep_ms(1);
	assert_int_equal(calls, n);
}

static void CUDA_CB set_value(void *value)
{
	atomic_store((atomic_uint *)value, 1);
	note((void *)3);
}

/* A function whose stream has not come to it holds up no other stream's, of its context or of another. */
CASE(streams_apart)
{
	CUcontext ctx;
	atomic_uint *value;
	CUstream s, t, u;
	CUdeviceptr at;

	atomic_store(&calls, 0);
	OK(cuMemAllocHost((void **)&value, 4096));
	atomic_init(value, 0);
	OK(cuMemHostGetDevicePointer(&at, value, 0));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	OK(cuCtxCreate(&ctx, 0, 0));
	OK(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	OK(cuStreamWaitValue32(s, at, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuLaunchHostFunc(s, note, (void *)1));
	OK(cuLaunchHostFunc(t, note, (void *)2));
	until_called(1);
	assert_int_equal(order[0], 2);
	OK(cuLaunchHostFunc(u, set_value, value));
	OK(cuStreamSynchronize(s));
	OK(cuStreamSynchronize(u));
	assert_int_equal(calls, 3);
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(test_context()));
	OK(cuStreamDestroy(s));
	OK(cuStreamDestroy(t));
	OK(cuMemFreeHost(value));
}

static atomic_int inside, most_inside;
static pthread_t callers[4];

static void CUDA_CB look_around(void *data)
{
	int n = atomic_fetch_add(&inside, 1) + 1;

	if (n > atomic_load(&most_inside))
		atomic_store(&most_inside, n);
	callers[(intptr_t)data] = pthread_self();
	sleep_ms(50);
	atomic_fetch_sub(&inside, 1);
}

/* One thread calls the functions of all a context's streams. */
CASE(one_at_a_time)
{
	CUstream s[4];

	atomic_store(&most_inside, 0);
	for (int i = 0; i < 4; i++) {
		OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
		OK(cuLaunchHostFunc(s[i], look_around, (void *)(intptr_t)i));
	}
	OK(cuCtxSynchronize());
	assert_int_equal(most_inside, 1);
	for (int i = 0; i < 4; i++) {
		assert_true(pthread_equal(callers[i], callers[0]));
		OK(cuStreamDestroy(s[i]));
	}
}

struct things {
	CUcontext ctx;
	CUstream stream;
	CUevent event;
	CUdeviceptr memory;
	CUdeviceptr word;
	int wrong;
};

/* In a function that a stream calls, where a failed assertion would not end the test. */
#define GIVES(t, want, call)						\
	do {								\
		CUresult got = call;					\
									\
		if (got != (want)) {					\
			print_error("%s: %d\n", #call, got);		\
			(t)->wrong++;					\
		}							\
	} while (0)

#define NOT_NOW(t, call)	GIVES(t, CUDA_ERROR_NOT_PERMITTED, call)

static void CUDA_CB calls_cuda(void *data)
{
	static char host[4096];
	struct things *t = data;
	unsigned long long id;
	unsigned int flags;
	CUdeviceptr p;
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream s;
	CUevent e;
	size_t a, b;
	float ms;
	void *h;
	int i;

	/* what needs a context or a device */
	NOT_NOW(t, cuDeviceGetCount(&i));
	NOT_NOW(t, cuDeviceGet(&i, 0));
	NOT_NOW(t, cuDeviceGetAttribute(&i, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	NOT_NOW(t, cuDevicePrimaryCtxRetain(&ctx, 0));
	NOT_NOW(t, cuCtxGetCurrent(&ctx));
	NOT_NOW(t, cuCtxSetCurrent(t->ctx));
	NOT_NOW(t, cuCtxSynchronize());
	NOT_NOW(t, cuCtxGetId(t->ctx, &id));
	NOT_NOW(t, cuMemGetInfo(&a, &b));
	NOT_NOW(t, cuMemAlloc(&p, 4096));
	NOT_NOW(t, cuMemFree(0));
	NOT_NOW(t, cuMemFree(t->memory));
	NOT_NOW(t, cuMemAllocHost(&h, 4096));
	NOT_NOW(t, cuMemGetAddressRange(&p, &a, t->memory));
	NOT_NOW(t, cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, t->memory));
	NOT_NOW(t, cuMemcpyDtoDAsync(t->memory, t->memory + 4096, 4096, t->stream));
	NOT_NOW(t, cuMemcpyDtoH(host, t->memory, 4096));
	NOT_NOW(t, cuMemsetD8(t->memory, 1, 4096));
	NOT_NOW(t, cuMemAllocAsync(&p, 4096, t->stream));
	NOT_NOW(t, cuDeviceGetDefaultMemPool(&pool, 0));
	NOT_NOW(t, cuMemAddressReserve(&p, 2 * MIB, 0, 0, 0));
	NOT_NOW(t, cuStreamCreate(&s, 0));
	NOT_NOW(t, cuEventCreate(&e, 0));
	/* what names its stream or event */
	GIVES(t, CUDA_SUCCESS, cuMemsetD8Async(t->memory, 1, 4096, t->stream));
	GIVES(t, CUDA_SUCCESS, cuStreamGetFlags(t->stream, &flags));
	GIVES(t, CUDA_SUCCESS, cuStreamGetCtx(t->stream, &ctx));
	GIVES(t, CUDA_SUCCESS, cuStreamWriteValue32(t->stream, t->word, 5, 0));
	GIVES(t, CUDA_SUCCESS, cuStreamWaitEvent(t->stream, t->event, 0));
	GIVES(t, CUDA_SUCCESS, cuEventRecord(t->event, t->stream));
	GIVES(t, CUDA_SUCCESS, cuEventSynchronize(t->event));
	GIVES(t, CUDA_SUCCESS, cuEventQuery(t->event));
	GIVES(t, CUDA_SUCCESS, cuEventElapsedTime(&ms, t->event, t->event));
	GIVES(t, CUDA_SUCCESS, cuLaunchHostFunc(t->stream, note, NULL));
	atomic_fetch_add(&calls, 1);
}

/* As an H200 with driver 580 answers. */
CASE(what_it_may_call)
{
	struct things t = { .ctx = test_context() };
	CUstream s;

	atomic_store(&calls, 0);
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t.stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&t.event, 0));
	OK(cuEventRecord(t.event, t.stream));
	OK(cuMemAlloc(&t.memory, MIB));
	OK(cuMemAlloc(&t.word, 4));
	OK(cuLaunchHostFunc(s, calls_cuda, &t));
	OK(cuStreamSynchronize(s));
	OK(cuStreamSynchronize(t.stream));
	assert_int_equal(calls, 2);
	assert_int_equal(t.wrong, 0);
	OK(cuMemFree(t.memory));
	OK(cuMemFree(t.word));
	OK(cuEventDestroy(t.event));
	OK(cuStreamDestroy(t.stream));
	OK(cuStreamDestroy(s));
}

static atomic_int *shared_calls;

static void CUDA_CB count(void *unused)
{
	atomic_fetch_add(shared_calls, 1);
}

static void CUDA_CB forks(void *status)
{
	pid_t pid = fork();

	if (!pid)
		return;		/* the child's only thread */
	waitpid(pid, status, 0);
	atomic_fetch_add(shared_calls, 1);
}

/* A function forks, and its child returns: the other functions are the parent's. */
CASE(child_returns)
{
	int status = -1;
	CUstream s;

	ONLY_SOFTGPU("CUDA promises nothing to a child of fork()");
	shared_calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared_calls != MAP_FAILED);
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(s, forks, &status));
	for (int i = 0; i < 5; i++)
		OK(cuLaunchHostFunc(s, count, NULL));
	OK(cuStreamSynchronize(s));
	assert_int_equal(status, 0);
	assert_int_equal(*shared_calls, 6);
	OK(cuStreamDestroy(s));
	munmap(shared_calls, 4096);
}

static _Atomic(CUstream) target;
static atomic_int launched;
static atomic_bool no_more;

static void *launches(void *unused)
{
	while (!atomic_load(&no_more)) {
		if (!cuLaunchHostFunc(atomic_load(&target), note_call, NULL))
			atomic_fetch_add(&launched, 1);
	}
	return NULL;
}

/* Contexts end while others launch functions in them: what was accepted is called. */
CASE(context_ends_meanwhile)
{
	pthread_t threads[2];
	CUcontext ctx;
	CUstream s;

	ONLY_SOFTGPU("the handle of a stream that is gone crashes NVIDIA's library");
	atomic_store(&calls, 0);
	atomic_store(&launched, 0);
	atomic_store(&no_more, false);
	atomic_store(&target, NULL);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, launches, NULL), 0);
	for (int i = 0; i < 200; i++) {
		OK(cuCtxCreate(&ctx, 0, 0));
		OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		atomic_store(&target, s);
		while (i % 2 && atomic_load(&launched) <= i)
			sched_yield();
		OK(cuCtxDestroy(ctx));
	}
	atomic_store(&no_more, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(calls, launched);
	OK(cuCtxSetCurrent(test_context()));
}

CASE(wrong)
{
	CUstream s;

	OK(cuStreamCreate(&s, 0));
	BAD(cuStreamAddCallback(s, NULL, NULL, 0));
	BAD(cuStreamAddCallback(s, on_status, &s, 1));
	BAD(cuLaunchHostFunc(s, NULL, NULL));
	OK(cuStreamDestroy(s));
	if (on_softgpu())	/* a real driver does not look */
		FAILS(CUDA_ERROR_INVALID_HANDLE, cuLaunchHostFunc(s, note, NULL));
}

MAIN(gpu_setup, gpu_teardown)
