// SPDX-License-Identifier: MIT
/* after_fault.c - what a process can still call when its work has reached an address that is not there. */
#include <stdatomic.h>
#include <sys/mman.h>

#include "test.h"

#define DEAD(call)	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, call)

static CUcontext ctx;
static CUstream stream;
static CUevent event;
static CUdeviceptr memory, others;
static void *host;
static atomic_int called;

static void CUDA_CB note(void *unused)
{
	called++;
}

static void CUDA_CB note_status(CUstream s, CUresult status, void *seen)
{
	atomic_store((atomic_int *)seen, status);
}

/* In one context, with work before it and behind it. */
CASE(fault)
{
	static atomic_int seen;
	unsigned int *value;
	CUdeviceptr word;
	void *nothing;

	ONLY_SOFTGPU("NVIDIA's library reads the memory itself, and crashes");
	nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(nothing != MAP_FAILED);
	OK(cuMemAlloc(&others, 4096));
	OK(cuCtxCreate(&ctx, 0, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, 0));
	OK(cuEventRecord(event, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemAlloc(&memory, 4096));
	OK(cuMemAllocHost(&host, 4096));
	OK(cuMemAllocHost((void **)&value, 4096));
	*value = 0;
	OK(cuMemHostGetDevicePointer(&word, value, 0));
	OK(cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuLaunchHostFunc(stream, note, NULL));
	OK(cuStreamAddCallback(stream, note_status, &seen, 0));
	DEAD(cuMemcpyHtoD(memory, nothing, 16));
	/* A function is not called, a callback learns why. */
	for (int ms = 0; ms < 20000 && !atomic_load(&seen); ms++)
		usleep(1000);
	assert_int_equal(seen, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(called, 0);
	DEAD(cuLaunchHostFunc(stream, note, NULL));
	DEAD(cuStreamAddCallback(stream, note_status, &seen, 0));
}

/* As an H200 with driver 580 answers; a real GPU's kernel has faulted there. */
CASE(calls)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle handle;
	unsigned int flags, one = 1;
	unsigned long long id;
	static char bytes[4096];
	CUmemoryPool pool;
	CUdeviceptr p;
	CUstream s;
	CUevent e;
	CUcontext c;
	size_t a, b;
	uint64_t v;
	float ms;
	void *h;
	int i;

	ONLY_SOFTGPU("after a fault of a GPU's kernel, and softgpu's fault is made without one");
	/* what asks no GPU */
	OK(cuDeviceGetCount(&i));
	OK(cuDeviceGetAttribute(&i, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	OK(cuDeviceTotalMem(&a, 0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &i));
	OK(cuCtxGetCurrent(&c));
	assert_ptr_equal(c, ctx);
	OK(cuCtxPushCurrent(test_context()));
	OK(cuCtxPopCurrent(&c));
	OK(cuCtxGetDevice(&i));
	OK(cuCtxGetFlags(&flags));
	OK(cuCtxSetFlags(0));
	OK(cuCtxGetId(ctx, &id));
	OK(cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory));
	OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolTrimTo(pool, 0));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
	OK(cuMemGetAllocationGranularity(&a, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemAddressReserve(&p, a, 0, 0, 0));
	OK(cuMemAddressFree(p, a));
	OK(cuMemCreate(&handle, a, &prop, 0));
	OK(cuMemRelease(handle));
	/* everything else */
	DEAD(cuDevicePrimaryCtxRetain(&c, 0));
	DEAD(cuCtxCreate(&c, 0, 0));
	DEAD(cuCtxSynchronize());
	DEAD(cuCtxGetStreamPriorityRange(&i, &i));
	DEAD(cuMemGetInfo(&a, &b));
	DEAD(cuMemAlloc(&p, 100));
	DEAD(cuMemAllocAsync(&p, 100, stream));
	DEAD(cuMemFree(0));
	DEAD(cuMemFree(memory));
	DEAD(cuMemFreeAsync(memory, stream));
	DEAD(cuMemAllocHost(&h, 100));
	DEAD(cuMemFreeHost(host));
	DEAD(cuMemHostRegister(bytes, sizeof(bytes), 0));
	DEAD(cuMemHostGetDevicePointer(&p, host, 0));
	DEAD(cuMemGetAddressRange(&p, &a, memory));
	DEAD(cuMemcpyDtoDAsync(memory, memory + 64, 64, stream));
	DEAD(cuMemcpyDtoH(bytes, memory, 64));
	DEAD(cuMemsetD8Async(memory, 1, 64, stream));
	DEAD(cuMemsetD8(memory, 1, 64));
	DEAD(cuStreamCreate(&s, 0));
	DEAD(cuStreamQuery(stream));
	DEAD(cuStreamSynchronize(stream));
	DEAD(cuStreamGetFlags(stream, &flags));
	DEAD(cuStreamGetCtx(stream, &c));
	DEAD(cuStreamWaitEvent(stream, event, 0));
	DEAD(cuStreamDestroy(stream));
	DEAD(cuEventCreate(&e, 0));
	DEAD(cuEventQuery(event));
	DEAD(cuEventRecord(event, stream));
	DEAD(cuEventSynchronize(event));
	DEAD(cuEventElapsedTime(&ms, event, event));
	DEAD(cuEventDestroy(event));
	DEAD(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
	/* and in each context */
	OK(cuCtxSetCurrent(test_context()));
	DEAD(cuCtxSynchronize());
	DEAD(cuMemcpyDtoH(bytes, others, 64));
	DEAD(cuMemFree(others));
	OK(cuCtxDestroy(ctx));
	DEAD(cuMemAlloc(&p, 100));
}

MAIN(gpu_setup, gpu_teardown)
