// SPDX-License-Identifier: MIT
/* faults.c - softgpu_inprocess.h's: a pin revoked by its address, and knobs set while it runs. */
#include <sys/mman.h>

#include "softgpu_inprocess.h"
#include "test.h"

#define SIZE	(256 * KIB)

static sigjmp_buf after;
static int notices[2];

static void on_sigbus(int signal)
{
	siglongjmp(after, signal);
}

/* cmocka has handlers of its own while a test runs. */
static bool dead(volatile char *p)
{
	struct sigaction sa = { .sa_handler = on_sigbus }, before;
	volatile bool is_dead = true;

	sigaction(SIGBUS, &sa, &before);
	if (!sigsetjmp(after, 1)) {
		*p = 1;
		is_dead = false;
	}
	sigaction(SIGBUS, &before, NULL);
	return is_dead;
}

static void on_revoke(void *arg)
{
	++*(int *)arg;
}

/* Exactly the pins over the address, their views too; the memory stays and can be pinned again. */
CASE(by_address)
{
	struct softgpu_pin *front, *back, *kept;
	char text[16];
	unsigned char resident;
	void *view, *other;
	CUdeviceptr p;

	OK(cuMemAlloc(&p, SIZE));
	OK(cuMemcpyHtoD(p, "still here", 11));
	assert_int_equal(softgpu_inprocess_revoke(p), 0);
	assert_int_equal(softgpu_inprocess_pin(p, SIZE / 2, 0, on_revoke, &notices[0], &front), 0);
	assert_int_equal(softgpu_inprocess_pin(p + SIZE / 2, SIZE / 2, 0, on_revoke, &notices[1], &back), 0);
	assert_int_equal(softgpu_inprocess_pin(p, SIZE, SOFTGPU_PIN_PERSISTENT, on_revoke, &notices[1], &kept), 0);
	assert_int_equal(softgpu_inprocess_view(front, 1, &view), 0);
	assert_memory_equal(view, "still here", 11);
	/* Of several views one that ends. */
	assert_int_equal(softgpu_inprocess_view(front, 0, &other), 0);
	softgpu_inprocess_view_end(front, other);
	assert_true(mincore(other, 4096, &resident) && errno == ENOMEM);
	assert_memory_equal(view, "still here", 11);

	assert_int_equal(softgpu_inprocess_revoke(p + SIZE), 0);
	assert_int_equal(softgpu_inprocess_revoke(p + SIZE / 2 - 1), 1);
	assert_int_equal(notices[0], 1);
	assert_int_equal(notices[1], 0);
	assert_true(dead(view));
	assert_int_equal(softgpu_inprocess_revoke(p), 0);
	softgpu_inprocess_unpin(front);

	assert_int_equal(softgpu_inprocess_pin(p, SIZE, 0, on_revoke, &notices[0], &front), 0);
	assert_int_equal(softgpu_inprocess_revoke(p + SIZE - 1), 2);
	assert_int_equal(notices[0], 2);
	assert_int_equal(notices[1], 1);
	softgpu_inprocess_unpin(front);
	softgpu_inprocess_unpin(back);
	softgpu_inprocess_unpin(kept);
	OK(cuMemcpyDtoH(text, p, 11));
	assert_memory_equal(text, "still here", 11);
	OK(cuMemFree(p));
}

CASE(knobs)
{
	struct softgpu_pin *pin;
	CUdeviceptr p;

	OK(cuMemAlloc(&p, SIZE));
	assert_int_equal(softgpu_inprocess_chaos("fail_pin=2"), 0);
	assert_int_equal(softgpu_inprocess_chaos("fail_alloc=100000,no_such=1"), -EINVAL);
	assert_int_equal(softgpu_inprocess_chaos("fail_pin"), -EINVAL);
	assert_int_equal(softgpu_inprocess_chaos("strict=2"), -EINVAL);
	assert_int_equal(softgpu_inprocess_pin(p, SIZE, 0, on_revoke, &notices[0], &pin), 0);
	softgpu_inprocess_unpin(pin);
	assert_int_not_equal(softgpu_inprocess_pin(p, SIZE, 0, on_revoke, &notices[0], &pin), 0);
	assert_int_equal(softgpu_inprocess_chaos("fail_pin=0 bar1_limit=65536"), 0);
	assert_int_equal(softgpu_inprocess_pin(p, SIZE, 0, on_revoke, &notices[0], &pin), -ENOSPC);
	/* The others stay as they were. */
	assert_int_equal(softgpu_inprocess_chaos("seed=7"), 0);
	assert_int_equal(softgpu_inprocess_pin(p, SIZE, 0, on_revoke, &notices[0], &pin), -ENOSPC);
	assert_int_equal(softgpu_inprocess_chaos("bar1_limit=0"), 0);
	assert_int_equal(softgpu_inprocess_pin(p, SIZE, 0, on_revoke, &notices[0], &pin), 0);
	softgpu_inprocess_unpin(pin);
	OK(cuMemFree(p));
}

static CUdeviceptr other;
static CUstream stream;

static void CUDA_CB nothing(void *unused)
{
}

/* With no lock held: it may call CUDA, also on what is being freed. */
static void calls_cuda(void *seen)
{
	CUmemoryPool pool;
	unsigned char byte;
	CUdeviceptr p;

	OK(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, other));
	OK(cuMemcpyDtoH(&byte, other, 1));
	OK(cuLaunchHostFunc(stream, nothing, NULL));
	OK(cuMemAllocAsync(&p, SIZE, stream));
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamSynchronize(stream));
	++*(int *)seen;
}

/* A pin of a pool's memory ends in the thread that frees it, or that waits for the stream that does. */
CASE(freed_on_a_stream)
{
	struct softgpu_pin *pin;
	unsigned int *value;
	CUdeviceptr p, word;
	int seen;

	OK(cuMemAllocHost((void **)&value, 4096));
	OK(cuMemHostGetDevicePointer(&word, value, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocAsync(&other, SIZE, stream));
	for (int waits = 0; waits < 2; waits++) {
		seen = 0;
		*value = 0;
		OK(cuMemAllocAsync(&p, SIZE, stream));
		assert_int_equal(softgpu_inprocess_pin(p, SIZE, 0, calls_cuda, &seen, &pin), 0);
		if (waits)
			OK(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
		OK(cuMemFreeAsync(p, stream));
		assert_int_equal(seen, !waits);
		__atomic_store_n(value, 1, __ATOMIC_SEQ_CST);
		OK(cuStreamSynchronize(stream));
		assert_int_equal(seen, 1);
		softgpu_inprocess_unpin(pin);
	}
	OK(cuMemFreeAsync(other, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy(stream));
	OK(cuMemFreeHost(value));
}

int main(void)
{
	/* Before there is a GPU. */
	if (softgpu_inprocess_revoke(0) != -ENODEV || softgpu_inprocess_chaos("") != -ENODEV)
		return 1;
	return cases_run(gpu_setup, gpu_teardown);
}
