// SPDX-License-Identifier: MIT
/*
 * values.c - words that streams write and wait for (cuStreamWriteValue64, cuStreamWaitValue64):
 * where, how they compare, what they hold up, and that nothing hangs when the waiting ends otherwise.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "test.h"

#define FLUSH	CU_STREAM_WAIT_VALUE_FLUSH

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* New words of host memory, zeroed, and of the GPU's. */
static volatile uint64_t *host_new(CUdeviceptr *at)
{
	void *p;

	OK(cuMemHostAlloc(&p, 4096, 0));
	memset(p, 0, 4096);
	*at = P(p);
	return p;
}

static CUstream stream_new(void)
{
	CUstream s;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

static void not_ready(CUstream s)
{
	for (int i = 0; i < 20; i++) {
		FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
		nap();
	}
}

CASE(attributes)
{
	static const struct {
		CUdevice_attribute attribute;
		int value;
	} known[] = {
		{ CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1 },
		{ CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1 },
		/* the first version of these functions, which drivers no longer have */
		{ CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 0 },
		{ CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 0 },
		{ CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 0 },
		{ CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0 },
	};
	CUdevice dev;
	int value;

	OK(cuCtxGetDevice(&dev));
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		OK(cuDeviceGetAttribute(&value, known[i].attribute, dev));
		assert_int_equal(value, known[i].value);
	}
}

static void bad_place(CUstream s, CUdeviceptr at)
{
	BAD(cuStreamWriteValue64(s, at, 1, 0));
	BAD(cuStreamWriteValue32(s, at, 1, 0));
	BAD(cuStreamWaitValue64(s, at, 0, CU_STREAM_WAIT_VALUE_GEQ));
	BAD(cuStreamWaitValue32(s, at, 0, CU_STREAM_WAIT_VALUE_EQ));
}

CASE(places)
{
	CUdeviceptr host, device, managed;
	volatile uint64_t *words = host_new(&host);
	CUstream s = stream_new();
	uint64_t stack = 0, *heap = calloc(1, 4096), got = 0;
	char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(own, MAP_FAILED);
	OK(cuMemAlloc(&device, 4096));
	OK(cuMemsetD8(device, 0, 4096));
	/* a fill may be done after it returns, and the streams here do not wait for it */
	OK(cuCtxSynchronize());
	OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostRegister(own, 4096, 0));

	bad_place(s, 0);
	bad_place(s, P(&stack));
	bad_place(s, P(heap));
	bad_place(s, managed);
	bad_place(s, P(own) + 4096);
	bad_place(s, device + 4096);
	bad_place(s, device + 2);
	bad_place(s, host + 2);
	BAD(cuStreamWriteValue64(s, device + 4, 1, 0));
	BAD(cuStreamWaitValue64(s, host + 4, 0, 0));

	OK(cuStreamWriteValue64(s, device + 4088, 0x1122334455667788, 0));
	OK(cuStreamWriteValue32(s, device + 4, 77, 0));
	OK(cuStreamWriteValue64(s, host, ~0ull, 0));
	OK(cuStreamWriteValue32(s, host + 12, 5, 0));
	OK(cuStreamWriteValue64(s, P(own), 9, 0));
	OK(cuStreamWaitValue64(s, P(own), 9, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWaitValue32(s, device + 4, 77, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoH(&got, device + 4088, 8));
	assert_true(got == 0x1122334455667788);
	OK(cuMemcpyDtoH(&got, device, 8));
	assert_true(got == 77ull << 32);
	assert_true(words[0] == ~0ull && words[1] == 5ull << 32 && *(uint64_t *)own == 9);
	/* on the default stream, too */
	OK(cuStreamWriteValue64(NULL, host, 1, 0));
	OK(cuStreamWriteValue64(CU_STREAM_LEGACY, host + 8, 2, 0));
	OK(cuStreamSynchronize(NULL));
	assert_true(words[0] == 1 && words[1] == 2);

	OK(cuMemHostUnregister(own));
	bad_place(s, P(own));
	munmap(own, 8192);
	free(heap);
	OK(cuMemFree(managed));
	OK(cuMemFree(device));
	bad_place(s, device);
	OK(cuMemFreeHost((void *)words));
	OK(cuStreamDestroy(s));
}

CASE(flags)
{
	CUdeviceptr host;
	volatile uint64_t *words = host_new(&host);
	CUstream s = stream_new();

	BAD(cuStreamWriteValue64(s, host, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	BAD(cuStreamWriteValue32(s, host, 1, 2));
	/* where a right one has just been, what is left of which could be taken for this one */
	OK(cuStreamWriteValue64(s, host + 16, 1, 0));
	BAD(cuStreamWriteValue64(s, host, 1, 8));
	OK(cuStreamWriteValue32(s, host + 24, 1, 0));
	BAD(cuStreamWriteValue32(s, host, 1, 8));
	BAD(cuStreamWaitValue64(s, host, 0, 4));
	BAD(cuStreamWaitValue32(s, host, 0, 1 << 29));
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuStreamWaitValue64(s, host, 0, FLUSH));
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuStreamWaitValue32(s, host, 0, CU_STREAM_WAIT_VALUE_EQ | FLUSH));
	/* a stream of its own needs no context, the default one needs one first of all */
	OK(cuCtxSetCurrent(NULL));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuStreamWaitValue64(NULL, 0, 0, 4));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuStreamBatchMemOp(NULL, 0, NULL, 7));
	OK(cuStreamWriteValue64(s, host + 8, 1, 0));
	OK(cuCtxSetCurrent(test_context()));
	OK(cuStreamSynchronize(s));
	assert_true(!words[0]);
	OK(cuMemFreeHost((void *)words));
	OK(cuStreamDestroy(s));
}

/* One wait on one word: not over at `before', over at `after'. */
static void compare_at(CUstream s, CUstream other, CUdeviceptr at, bool wide, unsigned int how, uint64_t value, uint64_t before,
		       uint64_t after)
{
	OK(wide ? cuStreamWriteValue64(s, at, before, 0) : cuStreamWriteValue32(s, at, (uint32_t)before, 0));
	OK(wide ? cuStreamWaitValue64(s, at, value, how) : cuStreamWaitValue32(s, at, (uint32_t)value, how));
	not_ready(s);
	OK(wide ? cuStreamWriteValue64(other, at, after, 0) : cuStreamWriteValue32(other, at, (uint32_t)after, 0));
	OK(cuStreamSynchronize(s));
}

CASE(conditions)
{
	static const struct {
		unsigned int how;
		uint64_t value, before, after;	/* of 64 bits; of 32 what is left of them */
	} cases[] = {
		{ CU_STREAM_WAIT_VALUE_GEQ, 6, 5, 6 },
		{ CU_STREAM_WAIT_VALUE_GEQ, 6, 0, 1000 },
		/* counters wrap: what is behind value is far ahead of it otherwise */
		{ CU_STREAM_WAIT_VALUE_GEQ, 5, (uint64_t)-3, 5 },
		{ CU_STREAM_WAIT_VALUE_GEQ, (uint64_t)-3, (uint64_t)-4, 5 },
		{ CU_STREAM_WAIT_VALUE_EQ, 7, 8, 7 },
		{ CU_STREAM_WAIT_VALUE_AND, 6, 9, 2 },
		{ CU_STREAM_WAIT_VALUE_NOR, 0xf, ~0xfull, 0 },
		{ CU_STREAM_WAIT_VALUE_NOR, ~1ull, 1, 2 },
	};
	CUdeviceptr at[2];
	volatile uint64_t *words = host_new(&at[0]);
	CUstream s = stream_new(), other = stream_new();

	OK(cuMemAlloc(&at[1], 4096));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int place = 0; place < 2; place++) {
			for (int wide = 0; wide < 2; wide++)
				compare_at(s, other, at[place] + 8, wide, cases[i].how, cases[i].value, cases[i].before, cases[i].after);
		}
	}
	/* 64 bits are 64, and 32 leave the word beside them alone */
	compare_at(s, other, at[0] + 8, true, CU_STREAM_WAIT_VALUE_EQ, 1ull << 32, 0, 1ull << 32);
	compare_at(s, other, at[1] + 8, true, CU_STREAM_WAIT_VALUE_GEQ, 1ull << 40, 1ull << 39, 1ull << 40);
	words[2] = ~0ull;
	OK(cuStreamWriteValue32(s, at[0] + 16, 0, 0));
	OK(cuStreamSynchronize(s));
	assert_true(words[2] == ~0ull << 32);
	OK(cuMemFree(at[1]));
	OK(cuMemFreeHost((void *)words));
	OK(cuStreamDestroy(s));
	OK(cuStreamDestroy(other));
}

/* What comes before a write is there when the write is; what comes after a wait comes after. */
CASE(order)
{
	static unsigned char from[64 << 10], to[64 << 10];
	CUdeviceptr host, device, second;
	volatile uint64_t *words = host_new(&host);
	CUstream s = stream_new(), other = stream_new();

	OK(cuMemAlloc(&device, sizeof(from)));
	OK(cuMemAlloc(&second, sizeof(from)));
	OK(cuMemsetD8(second, 0, sizeof(from)));
	OK(cuCtxSynchronize());
	for (unsigned int round = 1; round <= 50; round++) {
		memset(from, (int)round, sizeof(from));
		/* the other stream's copy waits for this one's, and the host for that */
		OK(cuStreamWaitValue64(other, host, round, CU_STREAM_WAIT_VALUE_GEQ));
		OK(cuMemcpyDtoDAsync(second, device, sizeof(from), other));
		OK(cuStreamWriteValue64(other, host + 64, round, 0));
		OK(cuMemcpyHtoDAsync(device, from, sizeof(from), s));
		OK(cuStreamWriteValue64(s, host, round, 0));
		while (__atomic_load_n(&words[8], __ATOMIC_ACQUIRE) != round)
			nap();
		OK(cuMemcpyDtoH(to, second, sizeof(to)));
		assert_memory_equal(from, to, sizeof(from));
	}
	OK(cuStreamSynchronize(s));
	OK(cuStreamSynchronize(other));
	OK(cuMemFree(device));
	OK(cuMemFree(second));
	OK(cuMemFreeHost((void *)words));
	OK(cuStreamDestroy(s));
	OK(cuStreamDestroy(other));
}

/*
 * A stream that waits holds up itself, and what is ordered behind it; nothing else.  So it is on
 * softgpu however many wait.  On an H100 the default stream stood still behind eight of them.
 */
CASE(others_go_on)
{
	CUdeviceptr host, device;
	volatile uint64_t *words = host_new(&host);
	const int n = on_softgpu() ? 8 : 3;
	CUstream waiting[8], blocking;
	CUevent event;
	char byte = 0;

	OK(cuMemAlloc(&device, 4096));
	OK(cuEventCreate(&event, 0));
	for (int i = 0; i < n; i++) {
		waiting[i] = stream_new();
		OK(cuStreamWaitValue64(waiting[i], host, 1, CU_STREAM_WAIT_VALUE_GEQ));
	}
	OK(cuEventRecord(event, waiting[0]));
	OK(cuMemsetD8(device, 3, 4096));
	OK(cuMemcpyDtoH(&byte, device + 9, 1));
	assert_int_equal(byte, 3);
	FAILS(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	for (int i = 0; i < n; i++)
		FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(waiting[i]));
	words[0] = 1;
	for (int i = 0; i < n; i++) {
		OK(cuStreamSynchronize(waiting[i]));
		OK(cuStreamDestroy(waiting[i]));
	}
	OK(cuEventSynchronize(event));

	/* the default stream is behind a blocking one */
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuStreamWaitValue32(blocking, host, 2, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(device, 4, 4096, NULL));
	not_ready(NULL);
	words[0] = 2;
	OK(cuStreamSynchronize(NULL));
	OK(cuStreamDestroy(blocking));
	OK(cuEventDestroy(event));
	OK(cuMemFree(device));
	OK(cuMemFreeHost((void *)words));
}

static CUstreamBatchMemOpParams wait_op(CUdeviceptr at, uint64_t value)
{
	CUstreamBatchMemOpParams p = { .operation = CU_STREAM_MEM_OP_WAIT_VALUE_64 };

	p.waitValue.address = at;
	p.waitValue.value64 = value;
	return p;
}

static CUstreamBatchMemOpParams write_op(CUdeviceptr at, uint32_t value)
{
	CUstreamBatchMemOpParams p = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32 };

	p.writeValue.address = at;
	p.writeValue.value = value;
	return p;
}

CASE(batches)
{
	CUstreamBatchMemOpParams ops[3], many[256], flush = { .operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES };
	CUdeviceptr host;
	volatile uint64_t *words = host_new(&host);
	CUstream s = stream_new();

	ops[0] = write_op(host, 1);
	ops[1] = wait_op(host + 8, 1);
	ops[2] = write_op(host + 16, 3);
	OK(cuStreamBatchMemOp(s, 3, ops, 0));
	not_ready(s);
	assert_true(words[0] == 1 && !words[2]);
	words[1] = 1;
	OK(cuStreamSynchronize(s));
	assert_true(words[2] == 3);

	OK(cuStreamBatchMemOp(s, 0, ops, 0));
	BAD(cuStreamBatchMemOp(s, 3, ops, 1));
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuStreamBatchMemOp(s, 1, &flush, 0));
	for (int i = 0; i < 256; i++)
		many[i] = write_op(host + 24, (uint32_t)i);
	BAD(cuStreamBatchMemOp(s, 256, many, 0));
	OK(cuStreamBatchMemOp(s, 255, many, 0));
	OK(cuStreamSynchronize(s));
	assert_true(words[3] == 254);
	ops[0] = (CUstreamBatchMemOpParams) { .operation = CU_STREAM_MEM_OP_BARRIER };
	OK(cuStreamBatchMemOp(s, 1, ops, 0));
	ops[0].memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
	OK(cuStreamBatchMemOp(s, 1, ops, 0));
	ops[0].memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_GPU + 1;
	BAD(cuStreamBatchMemOp(s, 1, ops, 0));
	ops[0].operation = 77;
	BAD(cuStreamBatchMemOp(s, 1, ops, 0));
	/* none of them if one is wrong: its place, its operation, its flags */
	ops[0] = write_op(host, 9);
	ops[1] = write_op(host + 1, 9);
	BAD(cuStreamBatchMemOp(s, 2, ops, 0));
	ops[1].operation = 77;
	BAD(cuStreamBatchMemOp(s, 2, ops, 0));
	ops[1] = write_op(host + 8, 9);
	ops[1].writeValue.flags = 8;
	BAD(cuStreamBatchMemOp(s, 2, ops, 0));
	ops[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	BAD(cuStreamBatchMemOp(s, 2, ops, 0));
	OK(cuStreamSynchronize(s));
	assert_true(words[0] == 1 && words[1] == 1);
	OK(cuMemFreeHost((void *)words));
	OK(cuStreamDestroy(s));
}

CASE(names)
{
	static const char *const all[] = { "cuStreamWaitValue32", "cuStreamWaitValue64", "cuStreamWriteValue32",
					   "cuStreamWriteValue64", "cuStreamBatchMemOp" };
	CUresult (*first)(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags);
	CUdriverProcAddressQueryResult status;
	char versioned[64];
	CUdeviceptr host;
	volatile uint64_t *words = host_new(&host);
	void *fn;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		snprintf(versioned, sizeof(versioned), "%s_v2", all[i]);
		fn = NULL;
		OK(cuGetProcAddress(all[i], &fn, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
		assert_non_null(fn);
		assert_ptr_equal(fn, dlsym(RTLD_DEFAULT, versioned));
		OK(cuGetProcAddress(all[i], &fn, 11060, CU_GET_PROC_ADDRESS_DEFAULT, &status));
		assert_non_null(fn);
		assert_ptr_equal(fn, dlsym(RTLD_DEFAULT, all[i]));
	}
	/* the plain name is the first version's, which is there and refuses: link or look up _v2 */
	*(void **)&first = dlsym(RTLD_DEFAULT, "cuStreamWriteValue64");
	FAILS(CUDA_ERROR_NOT_SUPPORTED, first(NULL, host, 1, 0));
	*(void **)&first = dlsym(RTLD_DEFAULT, "cuStreamWaitValue64");
	FAILS(CUDA_ERROR_NOT_SUPPORTED, first(NULL, host, 0, 0));
	OK(cuMemFreeHost((void *)words));
}

/* ---- the ends of streams that wait, each in a process of its own ---- */

static CUstream blocked;
static CUdeviceptr blocker, elsewhere;
static CUcontext blocked_ctx;
static int ready;

static void block(bool on_device)
{
	CUdevice device;
	void *p;

	if (cuInit(0) == CUDA_ERROR_NO_DEVICE)
		_exit(77);
	OK(cuDeviceGet(&device, 0));
	OK(cuCtxCreate(&blocked_ctx, 0, device));
	OK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&elsewhere, 4 * MIB));
	if (on_device) {
		OK(cuMemAlloc(&blocker, 4096));
		OK(cuMemsetD8(blocker, 0, 4096));
		OK(cuCtxSynchronize());
	} else {
		OK(cuMemHostAlloc(&p, 4096, 0));
		memset(p, 0, 4096);
		blocker = P(p);
	}
	OK(cuStreamWaitValue64(blocked, blocker, 1, CU_STREAM_WAIT_VALUE_GEQ));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(blocked));
	if (write(ready, "x", 1) != 1)
		_exit(1);
}

static void end_exit(void)
{
	block(false);
	exit(0);
}

static void end_exit_device(void)
{
	block(true);
	exit(0);
}

static void end_stream(void)
{
	block(false);
	OK(cuStreamDestroy(blocked));
	_exit(0);
}

/* NVIDIA's call waits for the work first. */
static void end_context(void)
{
	block(false);
	if (!on_softgpu())
		*(volatile uint64_t *)blocker = 1;
	OK(cuCtxDestroy(blocked_ctx));
	_exit(0);
}

static void end_killed(void)
{
	block(false);
	for (;;)
		pause();
}

static void end_killed_in_sync(void)
{
	block(true);
	cuStreamSynchronize(blocked);
}

static void end_killed_in_free(void)
{
	block(false);
	cuMemFree(elsewhere);
}

static void end_killed_in_its_free(void)
{
	block(true);
	cuMemFree(blocker);
}

/* Whether the child ends in ten seconds; killed, after it has begun to wait. */
static bool ends(const char *name, void (*fn)(void), bool kill_it)
{
	int pair[2], status = -1, ms;
	bool good;
	pid_t pid;
	char c;

	if (pipe(pair))
		return false;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(pair[0]);
		ready = pair[1];
		fn();
		_exit(1);
	}
	close(pair[1]);
	good = read(pair[0], &c, 1) == 1;
	close(pair[0]);
	if (kill_it) {
		/* so that it is in the call, as a rule */
		for (ms = 0; ms < 50; ms++)
			nap();
		good = good && !waitpid(pid, &status, WNOHANG);
		kill(pid, SIGKILL);
	}
	for (ms = 0; ms < 10000 && waitpid(pid, &status, WNOHANG) != pid; ms++)
		nap();
	if (ms == 10000)
		kill(pid, SIGKILL);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return true;	/* no GPU: the rest skips, and says so */
	good = good && ms < 10000 && (kill_it ? WIFSIGNALED(status) : !status);
	printf("%s  a process whose stream waits: %s (status %#x, after %d ms)\n", good ? "ok    " : "not ok", name, (unsigned int)status, ms);
	return good;
}

static bool all_ends(void)
{
	bool good = true;

	good &= ends("it exits", end_exit, false);
	good &= ends("the same, for device memory", end_exit_device, false);
	good &= ends("it destroys the stream", end_stream, false);
	good &= ends("it destroys the context", end_context, false);
	good &= ends("it is killed", end_killed, true);
	good &= ends("it is killed while it synchronizes", end_killed_in_sync, true);
	good &= ends("it is killed while it frees other memory", end_killed_in_free, true);
	good &= ends("it is killed while it frees what it waits for", end_killed_in_its_free, true);
	return good;
}

int main(void)
{
	/* First: what has called cuInit forks no process that can. */
	bool good = all_ends();

	return cases_run(gpu_setup, gpu_teardown) || !good;
}
