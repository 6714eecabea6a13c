// SPDX-License-Identifier: MIT
/*
 * runtime_facts.c - the runtime API where there is no GPU, with each wrong argument, and each field of what it says of a GPU: on
 * the stand-in for the driver (device.h).
 */
#include "cuda_runtime.h"
#include "device.h"
#include "test.h"

static int n;
static char text[64];
static size_t size;
static unsigned int flags;
static float ms;
static void *p, *memory, *host;
static cudaStream_t stream;
static cudaEvent_t event;
static cudaMemPool_t pool;
static struct cudaDeviceProp prop;
static struct cudaMemPoolProps pool_props;
static struct cudaPointerAttributes attributes;
static struct cudaMemPoolPtrExportData exported;
static cudaIpcMemHandle_t ipc;
static cudaIpcEventHandle_t ipc_event;

static void function(void *arg)
{
}

static void called(cudaStream_t s, cudaError_t error, void *arg)
{
}

/* All but those that do not ask the driver. */
#define CALLS(X) \
	X(cudaGetDeviceCount(&n)) \
	X(cudaGetDevice(&n)) \
	X(cudaSetDevice(0)) \
	X(cudaGetDeviceProperties(&prop, 0)) \
	X(cudaDeviceGetAttribute(&n, cudaDevAttrWarpSize, 0)) \
	X(cudaDeviceGetPCIBusId(text, 64, 0)) \
	X(cudaDeviceGetByPCIBusId(&n, "1:2:3.4")) \
	X(cudaDeviceCanAccessPeer(&n, 0, 1)) \
	X(cudaSetDeviceFlags(0)) \
	X(cudaGetDeviceFlags(&flags)) \
	X(cudaDeviceSynchronize()) \
	X(cudaDeviceReset()) \
	X(cudaDeviceGetStreamPriorityRange(&n, &n)) \
	X(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice, cudaFlushGPUDirectRDMAWritesToOwner)) \
	X(cudaMemGetInfo(&size, &size)) \
	X(cudaMalloc(&p, 1)) \
	X(cudaMalloc(NULL, 1)) \
	X(cudaMallocPitch(&p, &size, 1, 1)) \
	X(cudaFree(NULL)) \
	X(cudaMallocManaged(&p, 1, cudaMemAttachGlobal)) \
	X(cudaMallocManaged(NULL, 1, cudaMemAttachGlobal)) \
	X(cudaHostAlloc(&p, 1, 0)) \
	X(cudaMallocHost(&p, 1)) \
	X(cudaFreeHost(NULL)) \
	X(cudaHostRegister(text, 64, 0)) \
	X(cudaHostUnregister(text)) \
	X(cudaHostGetDevicePointer(&p, text, 0)) \
	X(cudaHostGetFlags(&flags, text)) \
	X(cudaPointerGetAttributes(&attributes, text)) \
	X(cudaMallocAsync(&p, 1, NULL)) \
	X(cudaMallocFromPoolAsync(&p, 1, pool, NULL)) \
	X(cudaFreeAsync(NULL, NULL)) \
	X(cudaDeviceGetDefaultMemPool(&pool, 0)) \
	X(cudaDeviceGetMemPool(&pool, 0)) \
	X(cudaDeviceSetMemPool(0, pool)) \
	X(cudaMemPoolCreate(&pool, &pool_props)) \
	X(cudaMemPoolDestroy(pool)) \
	X(cudaMemPoolTrimTo(pool, 0)) \
	X(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &size)) \
	X(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &size)) \
	X(cudaMemPoolExportPointer(&exported, text)) \
	X(cudaMemPoolImportPointer(&p, pool, &exported)) \
	X(cudaGetSymbolAddress(&p, text)) \
	X(cudaGetSymbolSize(&size, text)) \
	X(cudaIpcGetMemHandle(&ipc, text)) \
	X(cudaIpcOpenMemHandle(&p, ipc, cudaIpcMemLazyEnablePeerAccess)) \
	X(cudaIpcCloseMemHandle(text)) \
	X(cudaIpcGetEventHandle(&ipc_event, event)) \
	X(cudaIpcOpenEventHandle(&event, ipc_event)) \
	X(cudaMemcpy(text, text + 8, 4, cudaMemcpyDefault)) \
	X(cudaMemcpyAsync(text, text + 8, 4, cudaMemcpyDefault, NULL)) \
	X(cudaMemcpyPeer(text, 0, text + 8, 0, 4)) \
	X(cudaMemcpyPeerAsync(text, 0, text + 8, 0, 4, NULL)) \
	X(cudaMemcpy2D(text, 8, text + 32, 8, 4, 2, cudaMemcpyDefault)) \
	X(cudaMemcpy2DAsync(text, 8, text + 32, 8, 4, 2, cudaMemcpyDefault, NULL)) \
	X(cudaMemset(text, 0, 1)) \
	X(cudaMemsetAsync(text, 0, 1, NULL)) \
	X(cudaMemset2D(text, 8, 0, 4, 2)) \
	X(cudaMemset2DAsync(text, 8, 0, 4, 2, NULL)) \
	X(cudaStreamCreate(&stream)) \
	X(cudaStreamCreateWithFlags(&stream, 0)) \
	X(cudaStreamDestroy(stream)) \
	X(cudaStreamQuery(NULL)) \
	X(cudaStreamSynchronize(NULL)) \
	X(cudaStreamWaitEvent(NULL, event, 0)) \
	X(cudaStreamAddCallback(NULL, called, NULL, 0)) \
	X(cudaLaunchHostFunc(NULL, function, NULL)) \
	X(cudaEventCreate(&event)) \
	X(cudaEventDestroy(event)) \
	X(cudaEventRecord(event, NULL)) \
	X(cudaEventQuery(event)) \
	X(cudaEventSynchronize(event)) \
	X(cudaEventElapsedTime(&ms, event, event))

#define ARGUMENTS(X) \
	X(InvalidValue, cudaDriverGetVersion(NULL)) \
	X(InvalidValue, cudaRuntimeGetVersion(NULL)) \
	X(InvalidValue, cudaGetDeviceCount(NULL)) \
	X(InvalidValue, cudaGetDevice(NULL)) \
	X(InvalidDevice, cudaSetDevice(-1)) \
	X(InvalidDevice, cudaSetDevice(2)) \
	X(InvalidValue, cudaGetDeviceProperties(NULL, 0)) \
	X(InvalidDevice, cudaGetDeviceProperties(&prop, 2)) \
	X(InvalidValue, cudaDeviceGetAttribute(NULL, cudaDevAttrWarpSize, 0)) \
	X(InvalidDevice, cudaDeviceGetAttribute(&n, cudaDevAttrWarpSize, 2)) \
	X(InvalidDevice, cudaDeviceGetPCIBusId(text, 64, 2)) \
	X(InvalidValue, cudaDeviceGetPCIBusId(NULL, 64, 0)) \
	X(InvalidValue, cudaDeviceGetByPCIBusId(NULL, "1:2:3.4")) \
	X(InvalidDevice, cudaDeviceCanAccessPeer(&n, 2, 0)) \
	X(InvalidDevice, cudaDeviceCanAccessPeer(&n, 0, 2)) \
	X(InvalidValue, cudaSetDeviceFlags(0x100)) \
	X(InvalidValue, cudaGetDeviceFlags(NULL)) \
	X(InvalidValue, cudaMalloc(NULL, 1)) \
	X(MemoryAllocation, cudaMalloc(&p, DEVICE_VRAM + 1)) \
	X(InvalidValue, cudaMallocPitch(NULL, &size, 1, 1)) \
	X(InvalidValue, cudaMallocPitch(&p, NULL, 1, 1)) \
	X(InvalidValue, cudaFree(text)) \
	X(InvalidValue, cudaMallocManaged(NULL, 1, cudaMemAttachGlobal)) \
	X(InvalidValue, cudaMallocManaged(&p, 1, 0)) \
	X(InvalidValue, cudaHostAlloc(NULL, 1, 0)) \
	X(InvalidValue, cudaHostAlloc(&p, 1, 8)) \
	X(InvalidValue, cudaFreeHost(text)) \
	X(HostMemoryNotRegistered, cudaHostUnregister(text)) \
	X(InvalidValue, cudaHostGetDevicePointer(NULL, host, 0)) \
	X(InvalidValue, cudaHostGetDevicePointer(&p, text, 0)) \
	X(InvalidValue, cudaHostGetFlags(NULL, host)) \
	X(InvalidValue, cudaPointerGetAttributes(NULL, memory)) \
	X(InvalidValue, cudaMallocAsync(NULL, 1, NULL)) \
	X(InvalidValue, cudaMallocFromPoolAsync(NULL, 1, pool, NULL)) \
	X(InvalidValue, cudaMemPoolImportPointer(NULL, pool, &exported)) \
	X(InvalidSymbol, cudaGetSymbolAddress(&p, text)) \
	X(InvalidSymbol, cudaGetSymbolSize(&size, text)) \
	X(InvalidValue, cudaIpcOpenMemHandle(NULL, ipc, cudaIpcMemLazyEnablePeerAccess)) \
	X(InvalidMemcpyDirection, cudaMemcpy(text, text + 8, 4, (enum cudaMemcpyKind)5)) \
	X(InvalidMemcpyDirection, cudaMemcpy(text, text + 8, 4, (enum cudaMemcpyKind)-1)) \
	X(InvalidMemcpyDirection, cudaMemcpyAsync(text, text + 8, 4, (enum cudaMemcpyKind)5, NULL)) \
	X(InvalidMemcpyDirection, cudaMemcpy2D(text, 8, text + 32, 8, 4, 2, (enum cudaMemcpyKind)5)) \
	X(InvalidMemcpyDirection, cudaMemcpy2DAsync(text, 8, text + 32, 8, 4, 2, (enum cudaMemcpyKind)-1, NULL)) \
	X(InvalidPitchValue, cudaMemcpy2D(text, 8, text + 32, 9, 9, 2, cudaMemcpyDefault)) \
	X(InvalidPitchValue, cudaMemcpy2D(text, 9, text + 32, 8, 9, 2, cudaMemcpyDefault)) \
	X(InvalidPitchValue, cudaMemcpy2DAsync(text, 8, text + 32, 9, 9, 2, cudaMemcpyDefault, NULL)) \
	X(InvalidDevice, cudaMemcpyPeer(memory, 2, memory, 0, 4)) \
	X(InvalidDevice, cudaMemcpyPeer(memory, 0, memory, 2, 4)) \
	X(InvalidDevice, cudaMemcpyPeerAsync(memory, 2, memory, 0, 4, NULL)) \
	X(InvalidDevice, cudaMemcpyPeerAsync(memory, 0, memory, 2, 4, NULL)) \
	X(InvalidValue, cudaMemset(memory, 1, 1 << 20)) \
	X(InvalidValue, cudaStreamCreate(NULL)) \
	X(InvalidValue, cudaEventCreate(NULL)) \
	X(InvalidResourceHandle, cudaEventDestroy(NULL)) \
	X(InvalidResourceHandle, cudaEventRecord(NULL, NULL)) \
	X(InvalidResourceHandle, cudaStreamQuery((cudaStream_t)text))

static void is(const char *call, cudaError_t got, cudaError_t want)
{
	if (got != want)
		fail_msg("%s: %s, not %s", call, cudaGetErrorName(got), cudaGetErrorName(want));
	if (cudaPeekAtLastError() != want || cudaGetLastError() != want || cudaGetLastError() != cudaSuccess)
		fail_msg("%s: not the last error", call);
}

/* Before there is one: each call starts the runtime, which says why it does not. */
CASE(no_gpu)
{
	device_open_error = ENOENT;
	n = 7;
#define X(call) is(#call, call, cudaErrorNoDevice);
	CALLS(X)
#undef X
	assert_int_equal(n, 0);	/* cudaGetDeviceCount's */
	device_open_error = 0;
}

CASE(arguments)
{
	assert_int_equal(cudaMalloc(&memory, 4096), cudaSuccess);
	assert_int_equal(cudaMallocHost(&host, 4096), cudaSuccess);
	assert_int_equal(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
#define X(error, call) is(#call, call, cudaError##error);
	ARGUMENTS(X)
#undef X
	/* Nothing asked for is nothing given. */
	p = text;
	is("cudaMalloc", cudaMalloc(&p, 0), cudaSuccess);
	assert_null(p);
	p = text;
	is("cudaMallocPitch", cudaMallocPitch(&p, &size, 0, 5), cudaSuccess);
	assert_null(p);
	p = text;
	is("cudaMallocPitch", cudaMallocPitch(&p, &size, 5, 0), cudaSuccess);
	assert_null(p);
	p = text;
	is("cudaMallocAsync", cudaMallocAsync(&p, 0, NULL), cudaSuccess);
	assert_null(p);
	p = text;
	is("cudaMallocFromPoolAsync", cudaMallocFromPoolAsync(&p, 0, pool, NULL), cudaSuccess);
	assert_null(p);
	is("cudaFreeAsync", cudaFreeAsync(NULL, NULL), cudaSuccess);
	is("cudaMemcpy2D", cudaMemcpy2D(text, 8, text + 32, 8, 8, 2, cudaMemcpyHostToHost), cudaSuccess);

	/* What each pointer is. */
	is("cudaPointerGetAttributes", cudaPointerGetAttributes(&attributes, (char *)memory + 5), cudaSuccess);
	assert_int_equal(attributes.type, cudaMemoryTypeDevice);
	assert_int_equal(attributes.device, 0);
	assert_ptr_equal(attributes.devicePointer, (char *)memory + 5);
	assert_null(attributes.hostPointer);
	is("cudaPointerGetAttributes", cudaPointerGetAttributes(&attributes, (char *)host + 5), cudaSuccess);
	assert_int_equal(attributes.type, cudaMemoryTypeHost);
	assert_int_equal(attributes.device, 0);
	assert_ptr_equal(attributes.devicePointer, (char *)host + 5);
	assert_ptr_equal(attributes.hostPointer, (char *)host + 5);
	is("cudaPointerGetAttributes", cudaPointerGetAttributes(&attributes, text), cudaSuccess);
	assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
	is("cudaMallocManaged", cudaMallocManaged(&p, 100, cudaMemAttachGlobal), cudaSuccess);
	is("cudaPointerGetAttributes", cudaPointerGetAttributes(&attributes, p), cudaSuccess);
	assert_int_equal(attributes.type, cudaMemoryTypeManaged);
	assert_ptr_equal(attributes.devicePointer, p);
	assert_ptr_equal(attributes.hostPointer, p);
	is("cudaFree", cudaFree(p), cudaSuccess);
	is("cudaFreeHost", cudaFreeHost(host), cudaSuccess);
	is("cudaFree", cudaFree(memory), cudaSuccess);
}

CASE(properties)
{
	memset(&prop, 0x5a, sizeof(prop));
	is("cudaGetDeviceProperties", cudaGetDeviceProperties(&prop, 1), cudaSuccess);
	assert_string_equal(prop.name, "softgpu (stand-in)");
	assert_int_equal((unsigned char)prop.uuid.bytes[0], 0xa0);
	assert_int_equal((unsigned char)prop.uuid.bytes[15], 1);
	assert_int_equal(prop.totalGlobalMem, DEVICE_VRAM);
	assert_int_equal(prop.warpSize, 32);
	assert_int_equal(prop.memPitch, 2147483647);
	assert_int_equal(prop.maxThreadsPerBlock, 1024);
	assert_true(prop.maxThreadsDim[0] == 1024 && prop.maxThreadsDim[1] == 1024 && prop.maxThreadsDim[2] == 64);
	assert_true(prop.maxGridSize[0] == 2147483647 && prop.maxGridSize[1] == 65535 && prop.maxGridSize[2] == 65535);
	assert_true(prop.major == 10 && prop.minor == 0);
	assert_int_equal(prop.textureAlignment, 512);
	assert_int_equal(prop.deviceOverlap, 1);
	assert_int_equal(prop.multiProcessorCount, 1);
	assert_int_equal(prop.integrated, 0);
	assert_int_equal(prop.canMapHostMemory, 1);
	assert_int_equal(prop.computeMode, 0);
	assert_int_equal(prop.concurrentKernels, 1);
	assert_int_equal(prop.pciBusID, DEVICE_BUS + 1);
	assert_int_equal(prop.pciDeviceID, DEVICE_SLOT);
	assert_int_equal(prop.pciDomainID, DEVICE_DOMAIN);
	assert_int_equal(prop.asyncEngineCount, 2);
	assert_int_equal(prop.unifiedAddressing, 1);
	assert_int_equal(prop.maxThreadsPerMultiProcessor, 1024);
	assert_int_equal(prop.managedMemory, 1);
	assert_int_equal(prop.pageableMemoryAccess, 0);
	assert_int_equal(prop.concurrentManagedAccess, 1);
	assert_int_equal(prop.canUseHostPointerForRegisteredMem, 1);
	assert_int_equal(prop.directManagedMemAccessFromHost, 1);
	assert_int_equal(prop.hostRegisterSupported, 1);
	assert_int_equal(prop.hostRegisterReadOnlySupported, 1);
	assert_int_equal(prop.gpuDirectRDMASupported, 1);
	assert_int_equal(prop.gpuDirectRDMAFlushWritesOptions, 1);
	assert_int_equal(prop.gpuDirectRDMAWritesOrdering, 100);
	is("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(text, 14, 1), cudaSuccess);
	assert_string_equal(text, "10001:a8:15.6");
	is("cudaDeviceGetByPCIBusId", cudaDeviceGetByPCIBusId(&n, text), cudaSuccess);
	assert_int_equal(n, 1);
	is("cudaSetDevice", cudaSetDevice(1), cudaSuccess);
	is("cudaGetDevice", cudaGetDevice(&n), cudaSuccess);
	assert_int_equal(n, 1);
	is("cudaSetDeviceFlags", cudaSetDeviceFlags(cudaDeviceScheduleYield | cudaDeviceMapHost), cudaSuccess);
	is("cudaGetDeviceFlags", cudaGetDeviceFlags(&flags), cudaSuccess);
	assert_int_equal(flags, cudaDeviceScheduleYield | cudaDeviceMapHost);
	is("cudaDeviceReset", cudaDeviceReset(), cudaSuccess);
	is("cudaSetDevice", cudaSetDevice(0), cudaSuccess);
	assert_string_equal(cudaGetErrorName(cudaSuccess), "cudaSuccess");
	assert_string_equal(cudaGetErrorString(cudaSuccess), "no error");
	assert_string_equal(cudaGetErrorName(cudaErrorUnknown), "cudaErrorUnknown");
	assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
	assert_string_equal(cudaGetErrorString((cudaError_t)12345), "unrecognized error code");
	is("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&n), cudaSuccess);
	assert_int_equal(n, CUDART_VERSION);
}

MAIN(NULL, NULL)
