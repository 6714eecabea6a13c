// SPDX-License-Identifier: MIT
/*
 * cancel.c - a thread that is cancelled (pthread_cancel) in a call of CUDA's or NVML's ends after it: the call is finished,
 * and others can use CUDA.
 *
 * Where a call has to wait, it does so for a function of the stream that takes some time.  For HIP's and HSA's calls see
 * hip_work.c and hsa_region.c.
 */
#include <stdatomic.h>

#include "nvml.h"
#include "softgpu_inprocess.h"
#include "test.h"

#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUdeviceptr p;
static CUstream s;

static void CUDA_CB takes_time(void *unused)
{
	nanosleep(&(struct timespec) { .tv_nsec = 20000000 }, NULL);
}

static void busy(void)
{
	OK(cuLaunchHostFunc(s, takes_time, NULL));
}

static void start(void)
{
	/* It complains on standard error, and then there is nothing to complain of. */
	setenv("SOFTGPU_LOG", "1", 1);
	setenv("SOFTGPU_MPS", "none", 1);
	HOLDS(cuInit(0) == CUDA_ERROR_INVALID_VALUE);
	unsetenv("SOFTGPU_MPS");
	HOLDS(!cuInit(0));
}

static void in_start(void *unused)
{
	HOLDS(survives(start));
	HOLDS(!cuInit(0));
}

static void starts(void **state)
{
	assert_int_equal(in_child(in_start, NULL), 0);
}

static void wait_for_stream(void)
{
	OK(cuStreamSynchronize(s));
}

static void wait_for_context(void)
{
	OK(cuCtxSetCurrent(test_context()));
	OK(cuCtxSynchronize());
}

static void wait_for_event(void)
{
	CUevent e;

	OK(cuCtxSetCurrent(test_context()));
	OK(cuEventCreate(&e, 0));
	OK(cuEventRecord(e, s));
	OK(cuEventSynchronize(e));
	OK(cuEventDestroy(e));
}

static void wait_to_free(void)
{
	OK(cuMemFree(p));
}

static void wait_for_functions(void)
{
	CUcontext ctx;
	CUstream other;

	OK(cuCtxCreate(&ctx, 0, 0));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(other, takes_time, NULL));
	OK(cuCtxDestroy(ctx));
}

CASE(waits)
{
	static void (*const all[])(void) = { wait_for_stream, wait_for_context, wait_for_event, wait_to_free };
	size_t memory, total;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&p, 100));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		busy();
		assert_true(survives(all[i]));
		OK(cuMemGetInfo(&memory, &total));
	}
	assert_true(survives(wait_for_functions));
	OK(cuCtxSetCurrent(test_context()));
	OK(cuStreamDestroy(s));
}

static void revoked(void *count)
{
	atomic_fetch_add((atomic_int *)count, 1);
}

static void files_and_random_numbers(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = FD,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = prop.location };
	static char memory[4096];
	CUmemGenericAllocationHandle handle, same;
	CUmemoryPool pool;
	CUcontext ctx;
	size_t g;
	int fd;

	OK(cuCtxCreate(&ctx, 0, 0));
	OK(cuMemHostRegister(memory, sizeof(memory), 0));
	OK(cuMemHostUnregister(memory));
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolDestroy(pool));
	OK(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemCreate(&handle, g, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, handle, FD, 0));
	OK(cuMemImportFromShareableHandle(&same, (void *)(intptr_t)fd, FD));
	OK(cuMemRelease(same));
	OK(cuMemRelease(handle));
	OK(cuCtxDestroy(ctx));
}

static void pci_device(void)
{
	nvmlDevice_t device;
	nvmlPciInfo_t pci;

	assert_int_equal(nvmlInit(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetPciInfo(device, &pci), NVML_SUCCESS);
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
}

CASE(others)
{
	assert_true(survives(files_and_random_numbers));
	assert_true(survives(pci_device));
	OK(cuCtxSetCurrent(test_context()));
}

/* A free that revokes a pin, whose callback is made to be late. */
CASE(revocations)
{
	struct softgpu_pin *pin;
	atomic_int count = 0;
	int err;

	OK(cuMemAlloc(&p, MIB));
	err = softgpu_inprocess_pin(p, MIB, 0, revoked, &count, &pin);
	if (err == -ENODEV)
		skip();		/* a driver's, not one inside the process */
	assert_int_equal(err, 0);
	assert_int_equal(softgpu_inprocess_chaos("callback_delay_ms=1"), 0);
	assert_true(survives(wait_to_free));
	assert_int_equal(softgpu_inprocess_chaos("callback_delay_ms=0"), 0);
	assert_int_equal(count, 1);
	softgpu_inprocess_unpin(pin);
}

int main(void)
{
	const struct CMUnitTest first[] = { cmocka_unit_test(starts) };

	int failed;

	/* What waits for a lock of a thread that is gone does so for ever. */
	alarm(30);
	failed = cmocka_run_group_tests(first, NULL, NULL);
	return cases_run(gpu_setup, gpu_teardown) || failed;
}
