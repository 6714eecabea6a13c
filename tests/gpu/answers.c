// SPDX-License-Identifier: MIT
/*
 * answers.c - prints what CUDA 13 answers: a line for each call, with its error and what it gave out.
 *
 * It runs on a real GPU and on a software GPU; answers.py compares the two. Calls are correct ones,
 * misuse, and calls in a wrong order. Nothing is printed that differs from machine to machine: no
 * address, no size of memory, no name. What crashes NVIDIA's library is left out: stale handles of
 * objects, and NULL in some places.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda.h"
#include "cuda_runtime_api.h"

#define MIB	((size_t)1 << 20)
#define LENGTH(array)	(sizeof(array) / sizeof((array)[0]))

static const char *error_name(CUresult result)
{
	const char *name = NULL;

	cuGetErrorName(result, &name);
	return name ? name : "?";
}

/* A call, in the words of the source, and its error. */
#define Q(call)	printf("%s: %s\n", #call, error_name(call))
/* The same with a value that it gave out; -1 where it failed. */
#define QV(call, value)								\
	do {									\
		CUresult result_ = call;					\
										\
		printf("%s: %s %lld\n", #call, error_name(result_),		\
		       result_ ? -1 : (long long)(value));			\
	} while (0)
/* A call whose words do not say enough: `what` follows. */
#define QW(what, call, value)							\
	do {									\
		CUresult result_ = call;					\
										\
		printf("%s: %s: %s %lld\n", #call, what, error_name(result_),	\
		       result_ ? -1 : (long long)(value));			\
	} while (0)
#define R(call)	printf("%s: %s\n", #call, cudaGetErrorName(call))
#define RV(call, value)								\
	do {									\
		cudaError_t error_ = call;					\
										\
		printf("%s: %s %lld\n", #call, cudaGetErrorName(error_),	\
		       error_ ? -1 : (long long)(value));			\
	} while (0)

static CUcontext ctx;
static CUdeviceptr dev, managed;
static char *host, *registered, *plain;

static void before_init(void)
{
	CUdeviceptr p;
	CUdevice d;
	int n;

	Q(cuDeviceGetCount(&n));
	Q(cuDeviceGet(&d, 0));
	Q(cuMemAlloc(&p, 4096));
	Q(cuCtxGetCurrent(&ctx));
	Q(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	Q(cuDeviceGetCount(NULL));
	Q(cuMemFree(0));
	Q(cuStreamSynchronize(NULL));
	Q(cuDriverGetVersion(NULL));
	Q(cuInit(1));
	Q(cuInit(0));
	Q(cuInit(0));
}

static void devices(void)
{
	unsigned int flags;
	char text[64];
	int n, active;
	CUuuid uuid;
	CUdevice d;
	size_t s;

	Q(cuDeviceGetCount(NULL));
	Q(cuDeviceGet(NULL, 0));
	Q(cuDeviceGet(&d, -1));
	Q(cuDeviceGet(&d, 99));
	QV(cuDeviceGet(&d, 0), d);
	Q(cuDeviceGetName(NULL, 10, 0));
	Q(cuDeviceGetName(text, 3, 0));
	Q(cuDeviceGetName(text, sizeof(text), 99));
	Q(cuDeviceGetUuid(NULL, 0));
	Q(cuDeviceGetUuid(&uuid, 99));
	Q(cuDeviceTotalMem(NULL, 0));
	Q(cuDeviceTotalMem(&s, 99));
	Q(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	Q(cuDeviceGetAttribute(&n, 0, 0));
	Q(cuDeviceGetAttribute(&n, 100000, 0));
	Q(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99));
	Q(cuDeviceGetPCIBusId(text, 0, 0));
	Q(cuDeviceGetPCIBusId(text, 5, 0));
	Q(cuDeviceGetPCIBusId(NULL, 64, 0));
	Q(cuDeviceGetByPCIBusId(&d, NULL));
	Q(cuDeviceGetByPCIBusId(&d, ""));
	Q(cuDeviceGetByPCIBusId(&d, "none"));
	Q(cuDeviceGetByPCIBusId(&d, "ffff:ff:1f.0"));
	Q(cuDeviceCanAccessPeer(&n, 0, 99));
	Q(cuDeviceCanAccessPeer(NULL, 0, 0));
	QV(cuDeviceCanAccessPeer(&n, 0, 0), n);
	QV(cuDeviceGetP2PAttribute(&n, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0), n);
	Q(cuDeviceGetP2PAttribute(&n, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 99));
	Q(cuDeviceGetP2PAttribute(&n, 0, 0, 0));
	QV(cuDevicePrimaryCtxGetState(0, &flags, &active), active);
	Q(cuDevicePrimaryCtxGetState(99, &flags, &active));
	Q(cuDevicePrimaryCtxRelease(0));
	Q(cuDevicePrimaryCtxSetFlags(0, 0x40));
	Q(cuDevicePrimaryCtxRetain(NULL, 0));
	Q(cuDevicePrimaryCtxRetain(&ctx, 99));
}

/* Attributes that do not depend on the model. */
static void attributes(void)
{
	static const CUdevice_attribute same[] = {
		CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
		CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
		CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, CU_DEVICE_ATTRIBUTE_WARP_SIZE,
		CU_DEVICE_ATTRIBUTE_MAX_PITCH, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT,
		CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, CU_DEVICE_ATTRIBUTE_INTEGRATED,
		CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE,
		CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
		CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
		CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
		CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
		CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
		CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
		CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, CU_DEVICE_ATTRIBUTE_MPS_ENABLED,
		CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
	};
	char what[16];
	int n;

	for (size_t i = 0; i < LENGTH(same); i++) {
		snprintf(what, sizeof(what), "%d", same[i]);
		QW(what, cuDeviceGetAttribute(&n, same[i], 0), n);
	}
}

static void names(void)
{
	static const char *const asked[] = {
		"cuInit", "cuMemAlloc", "cuCtxCreate", "cuMemGetDefaultMemPool", "cuMemGetMemPool", "cuMulticastCreate",
		"cuMemcpyBatchAsync", "cuMemAdvise", "cuStreamWaitValue32", "cuGetProcAddress", "cuGetProcAddress_v2",
		"cuMemAlloc_v2", "cuGraphAddNode", "cuLaunchKernelEx", "cuTensorMapEncodeTiled", "cuLogicalEndpointCreate",
		"cuDeviceGetUuid", "cuEventElapsedTime", "cuLibraryLoadData", "cuLogsCurrent", "cudbgApiInit",
		"cuCheckpointProcessLock", "cuMemBatchDecompressAsync", "cuNothing", "", "cuMemcpyHtoD", "cuStreamGetCaptureInfo",
	};
	static const int versions[] = { 2000, 3020, 11000, 11030, 12000, 12060, 12080, 13000, 13010 };
	CUdriverProcAddressQueryResult status;
	char what[64];
	void *fn, *own;

	for (size_t i = 0; i < LENGTH(asked); i++) {
		for (size_t v = 0; v < LENGTH(versions); v++) {
			status = (CUdriverProcAddressQueryResult)9;
			snprintf(what, sizeof(what), "%s %d", asked[i], versions[v]);
			QW(what, cuGetProcAddress(asked[i], &fn, versions[v], 0, &status), status);
		}
		cuGetProcAddress(asked[i], &fn, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status);
		cuGetProcAddress(asked[i], &own, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status);
		printf("%s has a form for per-thread streams: %d\n", asked[i], fn != own);
	}
	Q(cuGetProcAddress("cuInit", &fn, 12000, 3, &status));
	Q(cuGetProcAddress("cuInit", &fn, 12000, 4, &status));
	Q(cuGetProcAddress("cuInit", &fn, -1, 0, &status));
	Q(cuGetProcAddress("cuInit", &fn, 0, 0, &status));
	Q(cuGetProcAddress("cuInit", &fn, 12000, 0, NULL));
	Q(cuGetProcAddress("cuNothing", &fn, 12000, 0, NULL));
}

static void contexts(void)
{
	CUctxCreateParams none = { 0 };
	unsigned long long id, id2;
	CUcontext other, popped;
	unsigned int n;
	CUdevice d;
	int a, b;

	Q(cuCtxGetDevice(&d));
	Q(cuCtxSynchronize());
	Q(cuCtxPopCurrent(&popped));
	Q(cuCtxSetCurrent(NULL));
	Q(cuCtxGetFlags(&n));
	Q(cuMemAlloc(&dev, 4096));
	Q(cuCtxCreate(NULL, NULL, 0, 0));
	Q(cuCtxCreate(&other, NULL, 0, 99));
	Q(cuCtxCreate(&other, NULL, 0x300, 0));
	Q(cuCtxCreate(&other, NULL, 3, 0));
	Q(cuCtxCreate(&other, &none, 0, 0));
	QV(cuCtxGetDevice(&d), d);
	Q(cuCtxGetDevice(NULL));
	QV(cuCtxGetFlags(&n), n);
	QV(cuCtxGetApiVersion(other, &n), n);
	Q(cuCtxGetApiVersion(other, NULL));
	Q(cuCtxGetId(other, NULL));
	cuCtxGetId(other, &id);
	cuCtxGetId(NULL, &id2);
	printf("the current context's id is that of NULL: %d\n", id == id2);
	Q(cuCtxSynchronize_v2(other));
	Q(cuCtxGetStreamPriorityRange(NULL, NULL));
	Q(cuCtxGetStreamPriorityRange(&a, &b));
	Q(cuCtxPushCurrent(NULL));
	Q(cuCtxSetFlags(0x300));
	Q(cuCtxDetach(NULL));
	Q(cuCtxDestroy(NULL));
	Q(cuCtxDestroy(other));
	Q(cuCtxSynchronize());
	Q(cuDevicePrimaryCtxRetain(&ctx, 0));
	Q(cuCtxDestroy(ctx));
	Q(cuCtxSetCurrent(ctx));
	Q(cuCtxEnablePeerAccess(ctx, 0));
	Q(cuCtxEnablePeerAccess(ctx, 1));
	Q(cuCtxEnablePeerAccess(NULL, 0));
	Q(cuCtxDisablePeerAccess(ctx));
	Q(cuCtxDisablePeerAccess(NULL));
}

static void limits(void)
{
	CUstreamCaptureMode mode;
	CUmoduleLoadingMode load;
	CUfunc_cache config;
	char what[16];
	size_t s;

	for (int i = -1; i <= CU_LIMIT_MAX; i++) {
		snprintf(what, sizeof(what), "%d", i);
		if (i != CU_LIMIT_PERSISTING_L2_CACHE_SIZE && i != CU_LIMIT_SHMEM_SIZE)
			QW(what, cuCtxGetLimit(&s, (CUlimit)i), s);
	}
	Q(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
	Q(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
	QV(cuCtxGetLimit(&s, CU_LIMIT_STACK_SIZE), s);
	Q(cuCtxSetLimit(CU_LIMIT_MAX, 1));
	Q(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 1));
	QV(cuCtxGetCacheConfig(&config), config);
	Q(cuCtxGetCacheConfig(NULL));
	Q(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
	Q(cuCtxSetCacheConfig((CUfunc_cache)9));
	Q(cuCtxResetPersistingL2Cache());
	QV(cuModuleGetLoadingMode(&load), load);
	mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	QV(cuThreadExchangeStreamCaptureMode(&mode), mode);
	QV(cuThreadExchangeStreamCaptureMode(&mode), mode);
	mode = (CUstreamCaptureMode)7;
	Q(cuThreadExchangeStreamCaptureMode(&mode));
	Q(cuProfilerStart());
	Q(cuProfilerStop());
}

static void memory(void)
{
	CUdeviceptr p, base;
	unsigned int n;
	size_t s, pitch;
	void *h;

	Q(cuMemAlloc(NULL, 4096));
	Q(cuMemAlloc(&p, 0));
	Q(cuMemAlloc(&p, (size_t)1 << 50));
	Q(cuMemAlloc(&p, ~(size_t)0));
	Q(cuMemFree(0));
	Q(cuMemFree(4096));
	Q(cuMemFree((uintptr_t)&p));
	Q(cuMemAlloc(&dev, 4 * MIB));
	Q(cuMemFree(dev + 512));
	QV(cuMemGetAddressRange(&base, &s, dev + MIB), base == dev && s == 4 * MIB);
	Q(cuMemGetAddressRange(NULL, NULL, dev));
	Q(cuMemGetAddressRange(&base, &s, (uintptr_t)&p));
	Q(cuMemGetAddressRange(&base, &s, 0));
	Q(cuMemAllocPitch(&p, &pitch, 0, 4, 4));
	Q(cuMemAllocPitch(&p, &pitch, 4, 0, 4));
	Q(cuMemAllocPitch(&p, &pitch, 100, 4, 3));
	Q(cuMemAllocPitch(&p, NULL, 100, 4, 4));
	QV(cuMemAllocPitch(&p, &pitch, 100, 4, 4), pitch);
	Q(cuMemFree(p));
	Q(cuMemFree(p));
	Q(cuMemAllocManaged(&managed, 0, CU_MEM_ATTACH_GLOBAL));
	Q(cuMemAllocManaged(&managed, 4096, 0));
	Q(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_SINGLE));
	Q(cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL));
	Q(cuMemAllocManaged(&managed, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
	Q(cuMemHostAlloc(&h, 0, 0));
	Q(cuMemHostAlloc(NULL, 4096, 0));
	Q(cuMemHostAlloc(&h, 4096, 0x100));
	Q(cuMemHostAlloc((void **)&host, MIB, CU_MEMHOSTALLOC_PORTABLE));
	QV(cuMemHostGetFlags(&n, host), n);
	Q(cuMemHostGetFlags(&n, &n));
	Q(cuMemHostGetFlags(NULL, host));
	QV(cuMemHostGetDevicePointer(&p, host, 0), p == (uintptr_t)host);
	Q(cuMemHostGetDevicePointer(&p, host, 1));
	Q(cuMemHostGetDevicePointer(&p, &n, 0));
	Q(cuMemHostGetDevicePointer(NULL, host, 0));
	Q(cuMemFreeHost(NULL));
	Q(cuMemFreeHost(&n));
	Q(cuMemFreeHost(host + 4096));
	Q(cuMemFreeHost((void *)(uintptr_t)dev));
	Q(cuMemFree((uintptr_t)host));
	Q(cuMemHostRegister(registered, 0, 0));
	Q(cuMemHostRegister(NULL, 4096, 0));
	Q(cuMemHostRegister(registered, MIB, 0x100));
	Q(cuMemHostRegister(registered, MIB, 0));
	Q(cuMemHostRegister(registered, MIB, 0));
	Q(cuMemHostRegister(registered + 4096, 4096, 0));
	Q(cuMemHostRegister(host, 4096, 0));
	Q(cuMemHostRegister((void *)(uintptr_t)managed, 4096, 0));
	Q(cuMemHostUnregister(registered + 4096));
	Q(cuMemHostUnregister(plain));
	Q(cuMemHostUnregister(host));
	Q(cuMemFreeHost(registered));
}

static void pointers(void)
{
	const struct { const char *name; CUdeviceptr p; } kinds[] = {
		{ "device", dev }, { "inside device", dev + 4096 }, { "managed", managed }, { "host", (uintptr_t)host },
		{ "registered", (uintptr_t)registered }, { "plain", (uintptr_t)plain }, { "NULL", 0 }, { "nothing", 8 << 20 },
	};
	/* those whose value is the same everywhere */
	static const struct { CUpointer_attribute a; bool shown; } asked[] = {
		{ CU_POINTER_ATTRIBUTE_CONTEXT, false }, { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, true },
		{ CU_POINTER_ATTRIBUTE_DEVICE_POINTER, false }, { CU_POINTER_ATTRIBUTE_HOST_POINTER, false },
		{ CU_POINTER_ATTRIBUTE_P2P_TOKENS, false }, { CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, true },
		{ CU_POINTER_ATTRIBUTE_BUFFER_ID, false }, { CU_POINTER_ATTRIBUTE_IS_MANAGED, true },
		{ CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, true }, { CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, false },
		{ CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, false }, { CU_POINTER_ATTRIBUTE_RANGE_SIZE, true },
		{ CU_POINTER_ATTRIBUTE_MAPPED, true }, { CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, true },
		{ CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, false }, { CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, true },
		{ CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, false },
	};
	unsigned int off = 0;
	char what[64];

	for (size_t k = 0; k < LENGTH(kinds); k++) {
		for (size_t i = 0; i < LENGTH(asked); i++) {
			unsigned long long value[2] = { 0, 0 };
			CUresult result = cuPointerGetAttribute(value, asked[i].a, kinds[k].p);

			printf("cuPointerGetAttribute: %s %d: %s %lld\n", kinds[k].name, asked[i].a, error_name(result),
			       !result && asked[i].shown ? (long long)(int)value[0] : -1);
		}
		snprintf(what, sizeof(what), "sync %s", kinds[k].name);
		QW(what, cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kinds[k].p), 0);
	}
	Q(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, dev));
	Q(cuPointerGetAttribute(what, (CUpointer_attribute)0, dev));
	Q(cuPointerGetAttribute(what, (CUpointer_attribute)99, dev));
	Q(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, dev));
	Q(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, dev));
}

static void several_attributes(void)
{
	CUpointer_attribute list[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_MAPPED };
	unsigned int type = 7, is_managed = 7, mapped = 7;
	void *data[] = { &type, &is_managed, &mapped };

	QV(cuPointerGetAttributes(3, list, data, dev), type);
	QV(cuPointerGetAttributes(3, list, data, (uintptr_t)plain), type);
	QV(cuPointerGetAttributes(3, list, data, 0), type);
	Q(cuPointerGetAttributes(0, list, data, dev));
	Q(cuPointerGetAttributes(3, NULL, data, dev));
	Q(cuPointerGetAttributes(3, list, NULL, dev));
	list[1] = (CUpointer_attribute)99;
	Q(cuPointerGetAttributes(3, list, data, dev));
}

static void virtual_memory(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle, other;
	CUmemAllocationProp back;
	unsigned long long flags;
	size_t unit = 2 * MIB;
	CUdeviceptr va;
	int fd = -1, capable;

	Q(cuMemGetAllocationGranularity(NULL, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	Q(cuMemGetAllocationGranularity(&unit, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	Q(cuMemGetAllocationGranularity(&unit, &prop, (CUmemAllocationGranularity_flags)7));
	unit = 2 * MIB;
	Q(cuMemCreate(NULL, unit, &prop, 0));
	Q(cuMemCreate(&handle, 0, &prop, 0));
	Q(cuMemCreate(&handle, unit + 1, &prop, 0));
	Q(cuMemCreate(&handle, unit, NULL, 0));
	Q(cuMemCreate(&handle, unit, &prop, 1));
	prop.location.id = 99;
	Q(cuMemCreate(&handle, unit, &prop, 0));
	prop.location.id = 0;
	prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	Q(cuMemCreate(&handle, unit, &prop, 0));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	Q(cuMemCreate(&handle, unit, &prop, 0));
	Q(cuMemAddressReserve(NULL, unit, 0, 0, 0));
	Q(cuMemAddressReserve(&va, 0, 0, 0, 0));
	Q(cuMemAddressReserve(&va, unit + 1, 0, 0, 0));
	Q(cuMemAddressReserve(&va, unit, 3, 0, 0));
	Q(cuMemAddressReserve(&va, unit, 0, 0, 1));
	Q(cuMemAddressReserve(&va, 4 * unit, 0, 0, 0));
	Q(cuMemMap(va, unit, 0, 0, 0));
	Q(cuMemMap(va, unit, 0, handle, 1));
	Q(cuMemMap(va, unit, unit, handle, 0));
	Q(cuMemMap(va + 1, unit, 0, handle, 0));
	Q(cuMemMap(va, 0, 0, handle, 0));
	Q(cuMemMap(dev, unit, 0, handle, 0));
	Q(cuMemSetAccess(va, unit, &access, 1));
	Q(cuMemUnmap(va, unit));
	Q(cuMemMap(va, unit, 0, handle, 0));
	Q(cuMemMap(va, unit, 0, handle, 0));
	Q(cuMemsetD8(va, 1, 16));
	Q(cuMemGetAccess(&flags, &access.location, va));
	Q(cuMemSetAccess(va, unit, &access, 0));
	Q(cuMemSetAccess(va, unit, NULL, 1));
	Q(cuMemSetAccess(va, 2 * unit, &access, 1));
	Q(cuMemSetAccess(va, unit, &access, 1));
	QV(cuMemGetAccess(&flags, &access.location, va), flags);
	Q(cuMemGetAccess(&flags, NULL, va));
	Q(cuMemGetAccess(&flags, &access.location, va + unit));
	Q(cuMemsetD8(va, 1, 16));
	Q(cuMemFree(va));
	QV(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, va), capable);
	Q(cuMemGetAllocationPropertiesFromHandle(&back, handle));
	Q(cuMemGetAllocationPropertiesFromHandle(NULL, handle));
	Q(cuMemRetainAllocationHandle(&other, (void *)(uintptr_t)va));
	printf("the retained handle is the same: %d\n", other == handle);
	Q(cuMemRelease(other));
	Q(cuMemRetainAllocationHandle(&other, (void *)(uintptr_t)(va + unit)));
	Q(cuMemRetainAllocationHandle(&other, (void *)(uintptr_t)dev));
	Q(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	Q(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
	Q(cuMemExportToShareableHandle(NULL, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	Q(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	Q(cuMemImportFromShareableHandle(&other, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	Q(cuMemRelease(other));
	close(fd);
	Q(cuMemImportFromShareableHandle(&other, (void *)(uintptr_t)999, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	Q(cuMemUnmap(va, unit / 2));
	Q(cuMemUnmap(va, 2 * unit));
	Q(cuMemAddressFree(va, 4 * unit));
	Q(cuMemUnmap(va, unit));
	Q(cuMemUnmap(va, unit));
	Q(cuMemAddressFree(va, unit));
	Q(cuMemAddressFree(va + unit, unit));
	Q(cuMemAddressFree(va, 4 * unit));
	Q(cuMemAddressFree(va, 4 * unit));
	Q(cuMemAddressFree(0, unit));
	Q(cuMemRelease(handle));
	Q(cuMemRelease(0));
}

static void dma_bufs(void)
{
	int fd = -1;

	if (cuMemGetHandleForAddressRange(&fd, dev, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)) {
		printf("no dma-bufs here\n");
		return;
	}
	close(fd);
	Q(cuMemGetHandleForAddressRange(NULL, dev, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	Q(cuMemGetHandleForAddressRange(&fd, dev, 0, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	Q(cuMemGetHandleForAddressRange(&fd, dev, 4095, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	Q(cuMemGetHandleForAddressRange(&fd, dev + 512, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	Q(cuMemGetHandleForAddressRange(&fd, dev, 4 * MIB, (CUmemRangeHandleType)9, 0));
	Q(cuMemGetHandleForAddressRange(&fd, dev, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 8));
	Q(cuMemGetHandleForAddressRange(&fd, managed, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	Q(cuMemGetHandleForAddressRange(&fd, (uintptr_t)host, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	Q(cuMemGetHandleForAddressRange(&fd, (uintptr_t)plain, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	Q(cuMemGetHandleForAddressRange(&fd, 0, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

static void streams(void)
{
	CUstreamCaptureStatus capture;
	unsigned long long id, id2;
	CUevent e, timed, second;
	unsigned int flags;
	CUstream s;
	CUcontext c;
	CUdevice d;
	float ms;
	int n;

	Q(cuStreamCreate(NULL, 0));
	Q(cuStreamCreate(&s, 2));
	Q(cuStreamCreateWithPriority(&s, 0, 100));
	Q(cuStreamDestroy(s));
	Q(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	QV(cuStreamGetFlags(s, &flags), flags);
	Q(cuStreamGetFlags(s, NULL));
	QV(cuStreamGetFlags(NULL, &flags), flags);
	QV(cuStreamGetPriority(s, &n), n);
	Q(cuStreamGetPriority(s, NULL));
	QV(cuStreamGetCtx(s, &c), c == ctx);
	Q(cuStreamGetCtx(s, NULL));
	QV(cuStreamGetDevice(s, &d), d);
	Q(cuStreamGetDevice(s, NULL));
	QV(cuStreamGetDevice(NULL, &d), d);
	Q(cuStreamGetId(s, NULL));
	cuStreamGetId(s, &id);
	cuStreamGetId(NULL, &id2);
	printf("two streams have two ids: %d\n", id != id2);
	Q(cuStreamQuery(s));
	Q(cuStreamQuery(NULL));
	Q(cuStreamQuery(CU_STREAM_LEGACY));
	Q(cuStreamQuery(CU_STREAM_PER_THREAD));
	Q(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	Q(cuStreamDestroy(NULL));
	Q(cuStreamDestroy(CU_STREAM_LEGACY));
	Q(cuStreamDestroy(CU_STREAM_PER_THREAD));
	QV(cuStreamIsCapturing(s, &capture), capture);
	Q(cuStreamIsCapturing(s, NULL));
	QV(cuStreamIsCapturing(NULL, &capture), capture);
	QV(cuStreamGetCaptureInfo(s, &capture, NULL, NULL, NULL, NULL, NULL), capture);
	Q(cuStreamGetCaptureInfo(s, NULL, NULL, NULL, NULL, NULL, NULL));
	Q(cuEventCreate(NULL, 0));
	Q(cuEventCreate(&e, 0x10));
	Q(cuEventCreate(&e, CU_EVENT_INTERPROCESS));
	Q(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	Q(cuEventCreate(&timed, 0));
	Q(cuEventCreate(&second, CU_EVENT_BLOCKING_SYNC));
	Q(cuEventQuery(e));
	Q(cuEventSynchronize(e));
	Q(cuEventElapsedTime(&ms, timed, second));
	Q(cuEventRecord(timed, s));
	Q(cuEventElapsedTime(&ms, timed, second));
	Q(cuEventRecord(second, NULL));
	Q(cuEventRecord(second, CU_STREAM_PER_THREAD));
	Q(cuEventSynchronize(second));
	Q(cuEventElapsedTime(&ms, timed, second));
	Q(cuEventElapsedTime(NULL, timed, second));
	Q(cuEventRecord(e, s));
	Q(cuEventElapsedTime(&ms, timed, e));
	Q(cuEventRecord(NULL, s));
	Q(cuEventQuery(NULL));
	Q(cuEventRecordWithFlags(e, s, 0));
	Q(cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
	Q(cuEventRecordWithFlags(e, s, 2));
	Q(cuStreamWaitEvent(s, e, 0));
	Q(cuStreamWaitEvent(s, e, 1));
	Q(cuStreamWaitEvent(s, e, 2));
	Q(cuStreamWaitEvent(s, NULL, 0));
	Q(cuStreamAddCallback(s, NULL, NULL, 0));
	Q(cuLaunchHostFunc(s, NULL, NULL));
	Q(cuStreamAttachMemAsync(s, managed, 0, CU_MEM_ATTACH_GLOBAL));
	Q(cuStreamAttachMemAsync(s, managed, 4096, CU_MEM_ATTACH_GLOBAL));
	Q(cuStreamAttachMemAsync(s, managed, 0, CU_MEM_ATTACH_SINGLE));
	Q(cuStreamAttachMemAsync(s, dev, 0, CU_MEM_ATTACH_GLOBAL));
	Q(cuStreamAttachMemAsync(NULL, managed, 0, CU_MEM_ATTACH_SINGLE));
	Q(cuStreamAttachMemAsync(s, managed, 0, CU_MEM_ATTACH_GLOBAL));
	Q(cuStreamSynchronize(s));
	Q(cuEventDestroy(e));
	Q(cuEventDestroy(timed));
	Q(cuEventDestroy(second));
	Q(cuEventDestroy(NULL));
	Q(cuStreamDestroy(s));
}

static void values(void)
{
	CUstream s;

	cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	Q(cuStreamWriteValue32(s, dev, 5, 0));
	Q(cuStreamWriteValue32(s, dev + 2, 5, 0));
	Q(cuStreamWriteValue32(s, dev, 5, 0x10));
	Q(cuStreamWriteValue32(s, 0, 5, 0));
	Q(cuStreamWriteValue32(s, (uintptr_t)plain, 5, 0));
	Q(cuStreamWriteValue64(s, dev, 5, 0));
	Q(cuStreamWriteValue64(s, dev + 4, 5, 0));
	Q(cuStreamWaitValue32(s, dev, 5, CU_STREAM_WAIT_VALUE_EQ));
	Q(cuStreamWaitValue32(s, dev, 5, 9));
	Q(cuStreamWaitValue64(s, dev, 5, CU_STREAM_WAIT_VALUE_GEQ));
	Q(cuStreamBatchMemOp(s, 0, NULL, 0));
	Q(cuStreamSynchronize(s));
	Q(cuStreamDestroy(s));
}

static void pools(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 } };
	CUmemLocation at = props.location;
	CUmemoryPool pool, same, device_pool;
	cuuint64_t u = 0;
	CUdeviceptr p;
	int n = 0;

	Q(cuMemPoolCreate(NULL, &props));
	Q(cuMemPoolCreate(&pool, NULL));
	props.location.id = 99;
	Q(cuMemPoolCreate(&pool, &props));
	props.location.id = 0;
	Q(cuMemPoolCreate(&pool, &props));
	Q(cuMemPoolTrimTo(pool, 0));
	Q(cuMemPoolTrimTo(NULL, 0));
	QV(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &n), n);
	QV(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &u), u);
	Q(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &u));
	Q(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
	Q(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &u));
	Q(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &u));
	Q(cuMemAllocFromPoolAsync(&p, 0, pool, NULL));
	Q(cuMemAllocFromPoolAsync(NULL, 4096, pool, NULL));
	Q(cuMemAllocFromPoolAsync(&p, 4096, NULL, NULL));
	Q(cuMemAllocFromPoolAsync(&p, 4096, pool, NULL));
	Q(cuMemFreeAsync(p, NULL));
	Q(cuMemFreeAsync(p, NULL));
	Q(cuMemFreeAsync(0, NULL));
	Q(cuMemAllocAsync(&p, 4096, NULL));
	Q(cuMemFree(p));
	Q(cuMemAllocAsync(&p, 4096, CU_STREAM_PER_THREAD));
	Q(cuMemFreeAsync(p, CU_STREAM_PER_THREAD));
	Q(cuDeviceGetDefaultMemPool(NULL, 0));
	Q(cuDeviceGetDefaultMemPool(&device_pool, 99));
	Q(cuDeviceGetDefaultMemPool(&device_pool, 0));
	QV(cuDeviceGetMemPool(&same, 0), same == device_pool);
	Q(cuDeviceSetMemPool(0, NULL));
	Q(cuMemPoolDestroy(device_pool));
	QV(cuMemGetDefaultMemPool(&same, &at, CU_MEM_ALLOCATION_TYPE_PINNED), same == device_pool);
	QV(cuMemGetMemPool(&same, &at, CU_MEM_ALLOCATION_TYPE_PINNED), same == device_pool);
	Q(cuMemGetMemPool(NULL, &at, CU_MEM_ALLOCATION_TYPE_PINNED));
	Q(cuMemGetMemPool(&same, NULL, CU_MEM_ALLOCATION_TYPE_PINNED));
	Q(cuMemGetMemPool(&same, &at, CU_MEM_ALLOCATION_TYPE_INVALID));
	Q(cuMemGetMemPool(&same, &at, CU_MEM_ALLOCATION_TYPE_MAX));
	at.id = 99;
	Q(cuMemGetMemPool(&same, &at, CU_MEM_ALLOCATION_TYPE_PINNED));
	at = (CUmemLocation) { .type = CU_MEM_LOCATION_TYPE_INVALID };
	Q(cuMemGetMemPool(&same, &at, CU_MEM_ALLOCATION_TYPE_PINNED));
	at = props.location;
	Q(cuMemSetMemPool(&at, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
	Q(cuMemSetMemPool(&at, CU_MEM_ALLOCATION_TYPE_PINNED, device_pool));
	Q(cuMemPoolDestroy(pool));
	Q(cuMemPoolDestroy(NULL));
}

static void copies(void)
{
	CUmemcpyAttributes attr = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUDA_MEMCPY2D two = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = dev, .srcPitch = 64,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = dev + MIB, .dstPitch = 64,
			      .WidthInBytes = 128, .Height = 2 };
	CUdeviceptr dst = dev, src = dev + MIB;
	size_t size = 4096, first = 0;
	CUstream s;

	cuStreamCreate(&s, 0);
	Q(cuMemcpyHtoD(dev, plain, 0));
	Q(cuMemcpyHtoD(dev, plain, 4096));
	Q(cuMemcpyHtoD(dev, NULL, 4096));
	Q(cuMemcpyHtoD(0, plain, 4096));
	Q(cuMemcpyDtoH(plain, dev, 4096));
	Q(cuMemcpyDtoH(NULL, dev, 4096));
	Q(cuMemcpyDtoD(dev, dev + 64, 4096));
	Q(cuMemcpyDtoD(dev, dev, 4096));
	Q(cuMemcpyDtoD(dev, 0, 4096));
	Q(cuMemcpyHtoD(dev + 4 * MIB - 16, plain, 64));
	Q(cuMemcpy(dev, (uintptr_t)plain, 4096));
	Q(cuMemcpy((uintptr_t)plain, (uintptr_t)host, 4096));
	Q(cuMemcpyAsync(dev, (uintptr_t)host, 4096, s));
	Q(cuMemcpyAsync(dev, (uintptr_t)host, 4096, CU_STREAM_PER_THREAD));
	Q(cuMemcpyPeer(dev, ctx, dev + MIB, ctx, 4096));
	Q(cuMemcpyPeer(dev, NULL, dev + MIB, NULL, 4096));
	Q(cuMemcpy2D(&two));
	two.srcPitch = two.dstPitch = 256;
	Q(cuMemcpy2D(&two));
	two.WidthInBytes = 0;
	Q(cuMemcpy2D(&two));
	Q(cuMemcpy2D(NULL));
	Q(cuMemsetD8(dev, 1, 0));
	Q(cuMemsetD16(dev + 1, 1, 4));
	Q(cuMemsetD32(dev + 2, 1, 4));
	Q(cuMemsetD32(dev, 1, 4));
	Q(cuMemsetD8(0, 1, 4));
	Q(cuMemsetD8((uintptr_t)plain, 1, 4));
	Q(cuMemsetD8(managed, 1, 4));
	Q(cuMemsetD8((uintptr_t)host, 1, 4));
	Q(cuMemsetD8Async(dev, 1, 4, s));
	Q(cuMemsetD2D8(dev, 64, 1, 128, 2));
	Q(cuMemcpyBatchAsync(&dst, &src, &size, 1, &attr, &first, 1, s));
	Q(cuMemcpyBatchAsync(&dst, &src, &size, 1, &attr, &first, 1, NULL));
	Q(cuMemcpyBatchAsync(&dst, &src, &size, 0, &attr, &first, 1, s));
	Q(cuMemcpyBatchAsync(&dst, &src, &size, 1, NULL, NULL, 0, s));
	Q(cuMemcpyBatchAsync(&dst, &src, &size, 1, &attr, &first, 2, s));
	first = 1;
	Q(cuMemcpyBatchAsync(&dst, &src, &size, 1, &attr, &first, 1, s));
	Q(cuStreamSynchronize(s));
	Q(cuStreamDestroy(s));
}

static void advice(void)
{
	CUmemLocation gpu = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 }, cpu = { .type = CU_MEM_LOCATION_TYPE_HOST },
		      bad = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99 };
	int n;

	Q(cuMemAdvise(managed, 4 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	QV(cuMemRangeGetAttribute(&n, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, 4 * MIB), n);
	Q(cuMemAdvise(managed, 4 * MIB, CU_MEM_ADVISE_UNSET_READ_MOSTLY, gpu));
	Q(cuMemAdvise(managed, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, cpu));
	QV(cuMemRangeGetAttribute(&n, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, managed, 4 * MIB), n);
	QV(cuMemRangeGetAttribute(&n, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, managed, 4 * MIB), n);
	Q(cuMemAdvise(managed, 4 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, bad));
	Q(cuMemAdvise(managed, 0, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu));
	Q(cuMemAdvise(managed, 8 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu));
	Q(cuMemAdvise(dev, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu));
	Q(cuMemAdvise(managed, 4096, (CUmem_advise)9, gpu));
	Q(cuMemPrefetchAsync(managed, 4 * MIB, gpu, 0, NULL));
	Q(cuMemPrefetchAsync(managed, 4 * MIB, gpu, 1, NULL));
	Q(cuMemPrefetchAsync(managed, 4 * MIB, bad, 0, NULL));
	Q(cuMemPrefetchAsync(dev, 4096, gpu, 0, NULL));
	Q(cuMemPrefetchAsync(managed, 0, gpu, 0, NULL));
	Q(cuMemRangeGetAttribute(&n, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, 4 * MIB));
	Q(cuMemRangeGetAttribute(NULL, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, 4 * MIB));
	Q(cuMemRangeGetAttribute(&n, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, dev, 4096));
	Q(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
	Q(cuFlushGPUDirectRDMAWrites(1, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
	Q(cuFlushGPUDirectRDMAWrites(0, 7));
}

static void handles(void)
{
	CUipcMemHandle handle;
	CUdeviceptr p;

	Q(cuIpcGetMemHandle(NULL, dev));
	Q(cuIpcGetMemHandle(&handle, 0));
	Q(cuIpcGetMemHandle(&handle, managed));
	Q(cuIpcGetMemHandle(&handle, (uintptr_t)host));
	Q(cuIpcGetMemHandle(&handle, (uintptr_t)plain));
	Q(cuIpcCloseMemHandle(0));
	Q(cuIpcCloseMemHandle(dev));
	memset(&handle, 0, sizeof(handle));
	Q(cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	Q(cuIpcOpenMemHandle(NULL, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	Q(cuIpcOpenMemHandle(&p, handle, 0));
	Q(cuIpcOpenMemHandle(&p, handle, 8));
}

static void runtime(void)
{
	enum cudaDriverEntryPointQueryResult status = 9;
	struct cudaPointerAttributes at;
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	size_t s;
	void *p;
	int n;

	R(cudaGetLastError());
	R(cudaSetDevice(99));
	R(cudaPeekAtLastError());
	R(cudaGetLastError());
	R(cudaGetLastError());
	RV(cudaGetDevice(&n), n);
	R(cudaMalloc(NULL, 1));
	RV(cudaMalloc(&p, 0), p == NULL);
	R(cudaFree(NULL));
	R(cudaFree((void *)(uintptr_t)(dev + 64)));
	R(cudaMemcpy(plain, (void *)(uintptr_t)dev, 16, (enum cudaMemcpyKind)9));
	R(cudaMemcpy(plain, (void *)(uintptr_t)dev, 16, cudaMemcpyDefault));
	RV(cudaPointerGetAttributes(&at, (void *)(uintptr_t)dev), at.type);
	RV(cudaPointerGetAttributes(&at, (void *)(uintptr_t)managed), at.type);
	RV(cudaPointerGetAttributes(&at, host), at.type);
	RV(cudaPointerGetAttributes(&at, plain), at.type);
	RV(cudaPointerGetAttributes(&at, NULL), at.type);
	R(cudaPointerGetAttributes(NULL, plain));
	RV(cudaGetDriverEntryPoint("cuMemAlloc", &p, cudaEnableDefault, &status), status);
	RV(cudaGetDriverEntryPoint("cuNothing", &p, cudaEnableDefault, &status), status);
	R(cudaGetDriverEntryPoint("cuNothing", &p, cudaEnableDefault, NULL));
	R(cudaGetDriverEntryPoint("cuInit", &p, 4, &status));
	RV(cudaGetDriverEntryPointByVersion("cuMemGetMemPool", &p, 12060, cudaEnableDefault, &status), status);
	RV(cudaGetDriverEntryPointByVersion("cuInit", &p, 99000, cudaEnableDefault, &status), status);
	R(cudaDeviceEnablePeerAccess(0, 0));
	R(cudaDeviceEnablePeerAccess(99, 0));
	R(cudaDeviceEnablePeerAccess(0, 1));
	R(cudaDeviceDisablePeerAccess(0));
	RV(cudaDeviceCanAccessPeer(&n, 0, 0), n);
	R(cudaDeviceGetP2PAttribute(&n, cudaDevP2PAttrAccessSupported, 0, 0));
	RV(cudaDeviceGetLimit(&s, cudaLimitMallocHeapSize), s);
	R(cudaDeviceSetLimit((enum cudaLimit)99, 1));
	RV(cudaThreadExchangeStreamCaptureMode(&mode), mode);
	R(cudaStreamSynchronize(cudaStreamPerThread));
	R(cudaInitDevice(0, 0, 0));
	R(cudaInitDevice(99, 0, 0));
	R(cudaProfilerStart());
	R(cudaMemGetMemPool(NULL, NULL, cudaMemAllocationTypePinned));
	R(cudaMemset((void *)(uintptr_t)dev, 1, 16));
	R(cudaMemset(plain, 1, 16));
	R(cudaGetLastError());
	R(cudaDeviceSynchronize());
}

int main(void)
{
	registered = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	plain = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(registered, 1, MIB);
	memset(plain, 1, 2 * MIB);
	setvbuf(stdout, NULL, _IOLBF, 0);
	before_init();
	devices();
	attributes();
	names();
	contexts();
	limits();
	memory();
	pointers();
	several_attributes();
	virtual_memory();
	dma_bufs();
	streams();
	values();
	pools();
	copies();
	advice();
	handles();
	runtime();
	return 0;
}
