// SPDX-License-Identifier: MIT
/* context.c - devices, contexts, and which is current. */
#include <pthread.h>

#include "test.h"

CASE(devices)
{
	char name[100], bus_id[64];
	CUuuid uuid, uuid2;
	size_t bytes;
	CUdevice dev;
	int n, v;

	OK(cuDeviceGetCount(&n));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, -1));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, n));
	for (int i = 0; i < n; i++) {
		OK(cuDeviceGet(&dev, i));
		assert_int_equal(dev, i);
		OK(cuDeviceGetName(name, sizeof(name), dev));
		assert_true(strlen(name) > 3);
		memset(name, 'x', sizeof(name));
		OK(cuDeviceGetName(name, 4, dev));
		assert_int_equal(strlen(name), 3);
		OK(cuDeviceTotalMem(&bytes, dev));
		assert_true(bytes >= 16 * MIB);
		OK(cuDeviceGetUuid(&uuid, dev));
		OK(cuDeviceGetUuid_v2(&uuid2, dev));
		assert_memory_equal(&uuid, &uuid2, sizeof(uuid));

		OK(cuDeviceGetPCIBusId(bus_id, 13, dev));
		assert_int_equal(strlen(bus_id), 12);
		BAD(cuDeviceGetPCIBusId(bus_id, 12, dev));
		OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, dev));
		assert_int_equal(v, 1);
		OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, dev));
		assert_int_equal(v, 1);
		OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, dev));
		assert_int_equal(v, 1);
		OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, dev));
		assert_int_equal(v, CU_COMPUTEMODE_DEFAULT);
	}
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetName(name, sizeof(name), n));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, n));
	BAD(cuDeviceGetAttribute(&v, 0, 0));
	BAD(cuDeviceGetAttribute(&v, 100000, 0));
	BAD(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	BAD(cuDeviceTotalMem(NULL, 0));
	BAD(cuDeviceGetUuid(NULL, 0));
}

CASE(by_bus_id)
{
	char bus_id[64];
	CUdevice dev;

	OK(cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
	OK(cuDeviceGetByPCIBusId(&dev, bus_id));
	assert_int_equal(dev, 0);
	OK(cuDeviceGetByPCIBusId(&dev, bus_id + strlen("0000:")));
	bus_id[strlen(bus_id) - strlen(".0")] = 0;
	OK(cuDeviceGetByPCIBusId(&dev, bus_id));
	BAD(cuDeviceGetByPCIBusId(&dev, "zz"));
	BAD(cuDeviceGetByPCIBusId(&dev, NULL));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId(&dev, "0000:ff:1f.7"));
}

/* The primary context: one handle, lives while it is retained. */
CASE(primary)
{
	unsigned long long id, id2;
	unsigned int flags;
	CUcontext ctx, again;
	CUdeviceptr p;
	CUdevice dev;
	int active;

	/* the tests' own reference is in the way */
	OK(cuCtxSetCurrent(NULL));
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
	OK(cuDevicePrimaryCtxReset(0));
	OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
	BAD(cuDevicePrimaryCtxSetFlags(0, 0x400));
	BAD(cuDevicePrimaryCtxSetFlags(0, 3));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(flags, CU_CTX_SCHED_YIELD);
	BAD(cuDevicePrimaryCtxGetState(0, NULL, &active));
	BAD(cuDevicePrimaryCtxGetState(0, &flags, NULL));
	BAD(cuDevicePrimaryCtxRetain(NULL, 0));
	for (dev = -1; dev <= 1000; dev += 1001) {
		FAILS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&ctx, dev));
		FAILS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRelease(dev));
		FAILS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxReset(dev));
		FAILS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxGetState(dev, &flags, &active));
		FAILS(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxSetFlags(dev, 0));
	}
	OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_AUTO));

	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 1);
	OK(cuCtxSetCurrent(ctx));
	OK(cuCtxGetId(ctx, &id));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(ctx));
	OK(cuMemAlloc(&p, 4096));

	/* current, but gone: all is refused until it is retained again */
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuCtxGetCurrent(&again));
	assert_ptr_equal(again, ctx);
	OK(cuCtxGetDevice(&dev));
	FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 4096));
	FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(NULL));
	FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxGetApiVersion(NULL, &flags));
	BAD(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	OK(cuCtxSetCurrent(ctx));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	assert_ptr_equal(again, ctx);
	OK(cuCtxGetId(ctx, &id2));
	assert_true(id2 != id);
	OK(cuMemAlloc(&p, 4096));

	/* Reset ends it and leaves the count */
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuDevicePrimaryCtxReset(0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&p, 4096));
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuDevicePrimaryCtxRelease(0));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));

	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuCtxSetCurrent(again));
}

/* A context takes its memory, streams and events with it. */
CASE(destroy)
{
	CUcontext ctx, current;
	unsigned int version;
	CUdeviceptr p;
	CUstream stream;
	CUevent event;
	void *host;

	OK(cuCtxCreate(&ctx, CU_CTX_SCHED_SPIN, 0));
	OK(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, ctx);
	OK(cuCtxGetApiVersion(ctx, &version));
	assert_int_equal(version, 3020);
	OK(cuStreamCreate(&stream, 0));
	OK(cuEventCreate(&event, 0));
	OK(cuMemAlloc(&p, 4096));
	OK(cuMemHostAlloc(&host, 4096, 0));
	OK(cuCtxDestroy(ctx));
	OK(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, test_context());
	BAD(cuMemFree(p));
	BAD(cuMemFreeHost(host));
	if (on_softgpu()) {	/* a real driver crashes on some of these, some of the time */
		FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuEventQuery(event));
		FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuEventDestroy(event));
		FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(stream));
		FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamDestroy(stream));
		FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxDestroy(ctx));
		FAILS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSetCurrent(ctx));
	}

	BAD(cuCtxCreate(&ctx, 3, 0));
	BAD(cuCtxCreate(&ctx, 0x1000, 0));
	BAD(cuCtxCreate(NULL, 0, 0));
	BAD(cuCtxDestroy(NULL));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate(&ctx, 0, 1000));
}

/* What a real driver crashes on. */
CASE(wild_handles)
{
	CUcontext wild[] = { (CUcontext)5, (CUcontext)0x1230, (CUcontext)0x1231, (CUcontext)-1L };
	unsigned long long id;

	ONLY_SOFTGPU("a wild handle crashes NVIDIA's library");
	for (int i = 0; i < 4; i++) {
		FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(wild[i]));
		FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(wild[i]));
		FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(wild[i]));
		FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetId(wild[i], &id));
		FAILS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery((CUstream)wild[i]));
		FAILS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery((CUevent)wild[i]));
		BAD(cuMemRelease((uintptr_t)wild[i]));
	}
}

CASE(stack)
{
	CUcontext a, b, out;

	OK(cuCtxCreate(&a, 0, 0));
	OK(cuCtxCreate(&b, 0, 0));
	OK(cuCtxPopCurrent(&out));
	assert_ptr_equal(out, b);
	OK(cuCtxPopCurrent(NULL));
	OK(cuCtxGetCurrent(&out));
	assert_ptr_equal(out, test_context());
	for (int i = 0; i < 50; i++)
		OK(cuCtxPushCurrent(i & 1 ? a : b));
	OK(cuCtxSetCurrent(b));		/* replaces the top */
	for (int i = 0; i < 50; i++)
		OK(cuCtxPopCurrent(&out));
	OK(cuCtxGetCurrent(&out));
	assert_ptr_equal(out, test_context());
	OK(cuCtxSetCurrent(NULL));
	OK(cuCtxGetCurrent(&out));
	assert_null(out);
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&out));
	BAD(cuCtxPushCurrent(NULL));
	OK(cuCtxDestroy(a));
	OK(cuCtxDestroy(b));
	OK(cuCtxSetCurrent(test_context()));
}

CASE(flags)
{
	unsigned int f;
	int least = 9, greatest = 9;

	OK(cuCtxGetFlags(&f));
	assert_int_equal(f, CU_CTX_MAP_HOST);
	OK(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
	OK(cuCtxGetFlags(&f));
	assert_int_equal(f, CU_CTX_SYNC_MEMOPS | CU_CTX_MAP_HOST);
	BAD(cuCtxSetFlags(0x4000));
	OK(cuCtxSetFlags(0));
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	assert_int_equal(least, 0);
	assert_true(greatest <= 0);
}

struct memory {
	CUdeviceptr device[2];
	CUdeviceptr managed;
	void *host;
};

/* In a thread that never had a context, frees work and little else does. */
static void *bare_thread(void *arg)
{
	struct memory *memory = arg;
	unsigned int u, one = 1;
	CUdeviceptr p;
	CUcontext ctx = (CUcontext)1;
	CUstream stream;
	CUevent event;
	CUdevice dev;
	size_t size;
	void *host;
	char buf[16];

	OK(cuCtxGetCurrent(&ctx));
	assert_null(ctx);
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 4096));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemHostAlloc(&host, 4096, 0));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo(&size, &size));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&dev));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoH(buf, memory->device[0], sizeof(buf)));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy(P(buf), memory->device[0], sizeof(buf)));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD8(memory->device[0], 1, 16));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemGetAddressRange(&p, &size, memory->device[0]));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemHostGetDevicePointer(&p, memory->host, 0));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&stream, 0));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuEventCreate(&event, 0));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(NULL));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(NULL));
	OK(cuCtxSetCurrent(NULL));

	OK(cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory->device[0]));
	OK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory->device[0]));
	OK(cuMemFree(memory->device[1]));
	OK(cuMemFree(memory->managed));
	OK(cuMemFreeHost(memory->host));

	OK(cuCtxSetCurrent(test_context()));
	OK(cuMemFree(memory->device[0]));
	return NULL;
}

CASE(no_context)
{
	struct memory memory;
	pthread_t t;

	OK(cuMemAlloc(&memory.device[0], 4096));
	OK(cuMemAlloc(&memory.device[1], 4096));
	OK(cuMemAllocManaged(&memory.managed, 4096, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostAlloc(&memory.host, 4096, 0));
	assert_int_equal(pthread_create(&t, NULL, bare_thread, &memory), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	BAD(cuMemFree(memory.device[0]));
	BAD(cuMemFree(memory.device[1]));
	BAD(cuMemFreeHost(memory.host));
}

/* Release 13's headers call it so.  What asks for something is refused. */
CASE(newest_create)
{
	CUctxCreateParams params = { 0 };
	CUcontext ctx, current;

	OK(cuCtxCreate_v4(&ctx, NULL, 0, 0));
	OK(cuCtxDetach(ctx));
	OK(cuCtxCreate_v4(&ctx, &params, CU_CTX_SCHED_SPIN, 0));
	OK(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, ctx);
	OK(cuCtxDestroy(ctx));
	params.numExecAffinityParams = 1;
	params.execAffinityParams = (CUexecAffinityParam *)&params;
	if (on_softgpu())
		FAILS(CUDA_ERROR_NOT_SUPPORTED, cuCtxCreate_v4(&ctx, &params, 0, 0));
	OK(cuCtxSetCurrent(test_context()));
}

/* No code can be loaded, and looking for its variables does no harm. */
CASE(no_modules)
{
	CUdeviceptr p;
	size_t n;

	ONLY_SOFTGPU("NVIDIA's library follows the pointer");
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuModuleGetGlobal(&p, &n, (CUmodule)&p, "x"));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetGlobal(&p, &n, NULL, "x"));
	BAD(cuModuleGetGlobal(&p, &n, NULL, NULL));
}

MAIN(gpu_setup, gpu_teardown)
