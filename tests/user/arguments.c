// SPDX-License-Identifier: MIT
/*
 * arguments.c - what each call says before cuInit, without a context, with one that was destroyed, and to each argument that is
 * not one, of which there is one at a time.
 */
#include "test.h"

/* Arguments that are good, once there are such. */
static CUdeviceptr memory, managed, range, ptr;		/* of 1 MiB, 1 MiB, 2 MiB */
static CUmemGenericAllocationHandle physical, handle;	/* of 2 MiB */
static CUmemoryPool pool, other_pool;
static CUstream stream, other_stream;
static CUevent event, untimed, other_event;
static void *host_memory, *host;
static CUcontext context;

static int n;
static unsigned int flags, on = 1;
static unsigned long long id;
static size_t size;
static float ms;
static char text[4096];
static CUuuid uuid;
static CUipcMemHandle ipc;
static CUipcEventHandle ipc_event;
static CUmemAccess_flags access_flags;
static CUmemPoolPtrExportData pointer_data;
static CUmemAllocationProp other_prop;
static void *datas[] = { &n };
static size_t four[] = { 4 };
static CUmem_range_attribute range_attributes[] = { CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY };
static CUpointer_attribute pointer_attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
static CUmemLocation on_gpu = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
static CUmemLocation nowhere = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 7 };
static CUmemAccessDesc accessor = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
static CUmemAccessDesc no_accessor = { { CU_MEM_LOCATION_TYPE_DEVICE, 7 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
static CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
static CUmemAllocationProp no_prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 7 } };
static CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
static CUmemPoolProps no_props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 7 } };
static CUDA_MEMCPY2D copy;
static CUstreamBatchMemOpParams operation, no_operation;

static void CUDA_CB called(CUstream s, CUresult status, void *arg)
{
}

static void CUDA_CB function(void *arg)
{
}

#define CUDA_ERROR_SUCCESS CUDA_SUCCESS
#define CURRENT		CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX
#define OWNER		CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER
#define ALL		CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES
#define FILE_HANDLE	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define DMA_BUF		CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
#define MINIMUM		CU_MEM_ALLOC_GRANULARITY_MINIMUM
#define READ_MOSTLY	CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY
#define PREFERRED	CU_MEM_ADVISE_SET_PREFERRED_LOCATION

/* What needs a context; before cuInit each call says that it was not called. */
#define IN_CONTEXT(X) \
	X(cuFlushGPUDirectRDMAWrites(CURRENT, OWNER)) \
	X(cuCtxSetFlags(0)) \
	X(cuCtxGetId(NULL, &id)) \
	X(cuCtxGetApiVersion(NULL, &flags)) \
	X(cuCtxSynchronize()) \
	X(cuCtxGetStreamPriorityRange(&n, &n)) \
	X(cuMemGetInfo(&size, &size)) \
	X(cuMemAlloc(&ptr, 0)) \
	X(cuMemGetAddressRange(&ptr, &size, memory)) \
	X(cuMemPrefetchAsync(managed, 4096, 0, NULL)) \
	X(cuMemPrefetchAsync_v2(managed, 4096, on_gpu, 0, NULL)) \
	X(cuMemAllocAsync(&ptr, 0, NULL)) \
	X(cuMemAllocFromPoolAsync(&ptr, 0, pool, NULL)) \
	X(cuMemFreeAsync(7, NULL)) \
	X(cuMemPoolImportPointer(&ptr, pool, &pointer_data)) \
	X(cuMemHostAlloc(&host, 0, 0)) \
	X(cuMemAllocHost(&host, 0)) \
	X(cuMemHostRegister(text, 0, 0)) \
	X(cuMemHostGetDevicePointer(&ptr, host_memory, 0)) \
	X(cuMemHostGetFlags(&flags, host_memory)) \
	X(cuMemGetHandleForAddressRange(&n, memory, 4096, DMA_BUF, 0)) \
	X(cuIpcGetMemHandle(&ipc, 7)) \
	X(cuIpcOpenMemHandle(&ptr, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) \
	X(cuIpcCloseMemHandle(7)) \
	X(cuIpcGetEventHandle(&ipc_event, NULL)) \
	X(cuIpcOpenEventHandle(&other_event, ipc_event)) \
	X(cuMemcpy(memory, memory + 64, 8)) \
	X(cuMemcpyHtoD(memory, text, 8)) \
	X(cuMemcpyDtoH(text, memory, 8)) \
	X(cuMemcpyDtoD(memory, memory + 64, 8)) \
	X(cuMemcpyPeer(memory, NULL, memory + 64, NULL, 8)) \
	X(cuMemcpyAsync(memory, memory + 64, 8, NULL)) \
	X(cuMemcpyHtoDAsync(memory, text, 8, NULL)) \
	X(cuMemcpyDtoHAsync(text, memory, 8, NULL)) \
	X(cuMemcpyDtoDAsync(memory, memory + 64, 8, NULL)) \
	X(cuMemcpyPeerAsync(memory, NULL, memory + 64, NULL, 8, NULL)) \
	X(cuMemcpy2D(&copy)) \
	X(cuMemcpy2DUnaligned(&copy)) \
	X(cuMemcpy2DAsync(&copy, NULL)) \
	X(cuMemsetD8(memory, 1, 8)) \
	X(cuMemsetD16(memory, 1, 8)) \
	X(cuMemsetD32(memory, 1, 8)) \
	X(cuMemsetD2D8(memory, 64, 1, 8, 2)) \
	X(cuMemsetD2D16(memory, 64, 1, 8, 2)) \
	X(cuMemsetD2D32(memory, 64, 1, 8, 2)) \
	X(cuMemsetD8Async(memory, 1, 8, NULL)) \
	X(cuMemsetD16Async(memory, 1, 8, NULL)) \
	X(cuMemsetD32Async(memory, 1, 8, NULL)) \
	X(cuMemsetD2D8Async(memory, 64, 1, 8, 2, NULL)) \
	X(cuMemsetD2D16Async(memory, 64, 1, 8, 2, NULL)) \
	X(cuMemsetD2D32Async(memory, 64, 1, 8, 2, NULL)) \
	X(cuStreamCreate(&other_stream, 7)) \
	X(cuStreamCreateWithPriority(&other_stream, 7, 0)) \
	X(cuStreamQuery(NULL)) \
	X(cuStreamSynchronize(NULL)) \
	X(cuStreamWaitEvent(NULL, event, 0)) \
	X(cuStreamGetCtx(NULL, &context)) \
	X(cuStreamGetFlags(NULL, &flags)) \
	X(cuStreamGetPriority(NULL, &n)) \
	X(cuStreamAddCallback(NULL, called, NULL, 0)) \
	X(cuLaunchHostFunc(NULL, function, NULL)) \
	X(cuStreamWaitValue32(NULL, memory, 0, CU_STREAM_WAIT_VALUE_GEQ)) \
	X(cuStreamWaitValue64(NULL, memory, 0, CU_STREAM_WAIT_VALUE_GEQ)) \
	X(cuStreamWriteValue32(NULL, memory, 1, 0)) \
	X(cuStreamWriteValue64(NULL, memory, 1, 0)) \
	X(cuStreamBatchMemOp(NULL, 1, &operation, 0)) \
	X(cuEventCreate(&other_event, 0x1000)) \
	X(cuEventRecord(event, NULL))

/* What each says without one, and with one that was destroyed. */
#define ANYWHERE(X) \
	X(SUCCESS, SUCCESS, cuDeviceGet(&n, 0)) \
	X(SUCCESS, SUCCESS, cuDeviceGetCount(&n)) \
	X(SUCCESS, SUCCESS, cuDeviceGetName(text, 10, 0)) \
	X(SUCCESS, SUCCESS, cuDeviceGetUuid(&uuid, 0)) \
	X(SUCCESS, SUCCESS, cuDeviceTotalMem(&size, 0)) \
	X(SUCCESS, SUCCESS, cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0)) \
	X(INVALID_DEVICE, INVALID_DEVICE, cuDeviceGetByPCIBusId(&n, "7:7:7")) \
	X(SUCCESS, SUCCESS, cuDeviceGetPCIBusId(text, 32, 0)) \
	X(SUCCESS, SUCCESS, cuDeviceCanAccessPeer(&n, 0, 1)) \
	X(SUCCESS, SUCCESS, cuDeviceComputeCapability(&n, &n, 0)) \
	X(SUCCESS, SUCCESS, cuDevicePrimaryCtxGetState(0, &flags, &n)) \
	X(INVALID_CONTEXT, INVALID_CONTEXT, cuDevicePrimaryCtxRelease(1)) \
	X(SUCCESS, SUCCESS, cuDevicePrimaryCtxReset(1)) \
	X(SUCCESS, SUCCESS, cuDevicePrimaryCtxSetFlags(1, 0)) \
	X(SUCCESS, SUCCESS, cuCtxGetCurrent(&context)) \
	X(INVALID_CONTEXT, SUCCESS, cuCtxGetDevice(&n)) \
	X(INVALID_CONTEXT, SUCCESS, cuCtxGetFlags(&flags)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemAllocPitch(&ptr, &size, 0, 1, 4)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemAllocManaged(&ptr, 0, CU_MEM_ATTACH_GLOBAL)) \
	X(SUCCESS, SUCCESS, cuMemFree(0)) \
	X(SUCCESS, SUCCESS, cuMemAdvise(managed, 4096, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0)) \
	X(SUCCESS, SUCCESS, cuMemAdvise_v2(managed, 4096, CU_MEM_ADVISE_UNSET_READ_MOSTLY, on_gpu)) \
	X(SUCCESS, SUCCESS, cuMemRangeGetAttribute(&n, 4, READ_MOSTLY, managed, 4096)) \
	X(SUCCESS, SUCCESS, cuMemRangeGetAttributes(datas, four, range_attributes, 1, managed, 4096)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemPoolCreate(&other_pool, &no_props)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemPoolDestroy(NULL)) \
	X(SUCCESS, SUCCESS, cuMemPoolTrimTo(pool, 0)) \
	X(SUCCESS, SUCCESS, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &id)) \
	X(SUCCESS, SUCCESS, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &id)) \
	X(SUCCESS, SUCCESS, cuMemPoolSetAccess(pool, &accessor, 1)) \
	X(SUCCESS, SUCCESS, cuMemPoolGetAccess(&access_flags, pool, &on_gpu)) \
	X(SUCCESS, SUCCESS, cuDeviceGetDefaultMemPool(&other_pool, 0)) \
	X(SUCCESS, SUCCESS, cuDeviceGetMemPool(&other_pool, 0)) \
	X(SUCCESS, SUCCESS, cuDeviceSetMemPool(0, pool)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemPoolExportToShareableHandle(&n, pool, FILE_HANDLE, 0)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemPoolImportFromShareableHandle(&other_pool, (void *)-1, FILE_HANDLE, 0)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemPoolExportPointer(&pointer_data, memory)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemFreeHost(text)) \
	X(HOST_MEMORY_NOT_REGISTERED, HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(text)) \
	X(SUCCESS, SUCCESS, cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory)) \
	X(SUCCESS, SUCCESS, cuPointerGetAttributes(1, pointer_attributes, datas, memory)) \
	X(SUCCESS, SUCCESS, cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory)) \
	X(SUCCESS, SUCCESS, cuMemGetAllocationGranularity(&size, &prop, MINIMUM)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemCreate(&handle, 1, &prop, 0)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemRelease(7)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemAddressReserve(&ptr, 1, 0, 0, 0)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemAddressFree(7, 1)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemMap(7, 1, 0, physical, 0)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemUnmap(7, 1)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemSetAccess(7, 1, &accessor, 1)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemGetAccess(&id, &on_gpu, 7)) \
	X(SUCCESS, SUCCESS, cuMemGetAllocationPropertiesFromHandle(&other_prop, physical)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemRetainAllocationHandle(&handle, text)) \
	X(INVALID_VALUE, INVALID_VALUE, cuMemExportToShareableHandle(&n, physical, CU_MEM_HANDLE_TYPE_FABRIC, 0)) \
	X(UNKNOWN, UNKNOWN, cuMemImportFromShareableHandle(&handle, (void *)-1, FILE_HANDLE)) \
	X(INVALID_HANDLE, INVALID_HANDLE, cuStreamDestroy(NULL)) \
	X(SUCCESS, SUCCESS, cuStreamSynchronize(stream)) \
	X(SUCCESS, SUCCESS, cuStreamQuery(stream)) \
	X(SUCCESS, SUCCESS, cuStreamGetCtx(stream, &context)) \
	X(INVALID_HANDLE, INVALID_HANDLE, cuModuleGetGlobal(&ptr, &size, NULL, "x")) \
	X(INVALID_HANDLE, INVALID_HANDLE, cuLibraryGetGlobal(&ptr, &size, NULL, "x")) \
	X(INVALID_HANDLE, INVALID_HANDLE, cuEventDestroy(NULL)) \
	X(SUCCESS, SUCCESS, cuEventRecord(event, stream)) \
	X(SUCCESS, SUCCESS, cuEventSynchronize(event)) \
	X(SUCCESS, SUCCESS, cuEventQuery(event)) \
	X(SUCCESS, SUCCESS, cuEventElapsedTime(&ms, event, event))

/* What each says with a context. */
#define ARGUMENTS(X) \
	X(INVALID_VALUE, cuDeviceGet(NULL, 0)) \
	X(INVALID_VALUE, cuDeviceGetCount(NULL)) \
	X(INVALID_VALUE, cuDeviceGetName(NULL, 10, 0)) \
	X(INVALID_VALUE, cuDeviceGetUuid(NULL, 0)) \
	X(INVALID_VALUE, cuDeviceGetUuid_v2(NULL, 0)) \
	X(INVALID_VALUE, cuDeviceTotalMem(NULL, 0)) \
	X(INVALID_DEVICE, cuDeviceTotalMem(&size, 7)) \
	X(INVALID_DEVICE, cuDeviceGetUuid(&uuid, 7)) \
	X(INVALID_VALUE, cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0)) \
	X(INVALID_VALUE, cuDeviceGetByPCIBusId(NULL, "7:7:7")) \
	X(INVALID_VALUE, cuDeviceGetByPCIBusId(&n, NULL)) \
	X(INVALID_VALUE, cuDeviceGetPCIBusId(NULL, 32, 0)) \
	X(INVALID_VALUE, cuDeviceCanAccessPeer(NULL, 0, 1)) \
	X(INVALID_VALUE, cuFlushGPUDirectRDMAWrites((CUflushGPUDirectRDMAWritesTarget)1, OWNER)) \
	X(INVALID_VALUE, cuFlushGPUDirectRDMAWrites(CURRENT, (CUflushGPUDirectRDMAWritesScope)0)) \
	X(SUCCESS, cuFlushGPUDirectRDMAWrites(CURRENT, OWNER)) \
	X(SUCCESS, cuFlushGPUDirectRDMAWrites(CURRENT, ALL)) \
	X(INVALID_VALUE, cuDevicePrimaryCtxRetain(NULL, 0)) \
	X(INVALID_DEVICE, cuDevicePrimaryCtxRetain(&context, 7)) \
	X(INVALID_DEVICE, cuDevicePrimaryCtxRelease(7)) \
	X(INVALID_DEVICE, cuDevicePrimaryCtxReset(7)) \
	X(INVALID_VALUE, cuDevicePrimaryCtxGetState(0, NULL, &n)) \
	X(INVALID_VALUE, cuDevicePrimaryCtxGetState(0, &flags, NULL)) \
	X(INVALID_DEVICE, cuDevicePrimaryCtxGetState(7, &flags, &n)) \
	X(INVALID_DEVICE, cuDevicePrimaryCtxSetFlags(7, 0)) \
	X(INVALID_VALUE, cuDevicePrimaryCtxSetFlags(1, 0x100)) \
	X(INVALID_VALUE, cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD)) \
	X(INVALID_VALUE, cuCtxCreate(NULL, 0, 0)) \
	X(INVALID_VALUE, cuCtxCreate(&context, 0x100, 0)) \
	X(INVALID_VALUE, cuCtxCreate(&context, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, 0)) \
	X(INVALID_DEVICE, cuCtxCreate(&context, 0, 7)) \
	X(INVALID_DEVICE, cuCtxCreate(&context, 0, -1)) \
	X(NOT_SUPPORTED, cuCtxCreate_v3(&context, NULL, 1, 0, 0)) \
	X(NOT_SUPPORTED, cuCtxCreate_v3(&context, (void *)text, 0, 0, 0)) \
	X(INVALID_VALUE, cuCtxCreate_v3(NULL, NULL, 0, 0, 0)) \
	X(NOT_SUPPORTED, cuCtxCreate_v4(&context, &(CUctxCreateParams){ .numExecAffinityParams = 1 }, 0, 0)) \
	X(NOT_SUPPORTED, cuCtxCreate_v4(&context, &(CUctxCreateParams){ .execAffinityParams = (void *)text }, 0, 0)) \
	X(NOT_SUPPORTED, cuCtxCreate_v4(&context, &(CUctxCreateParams){ .cigParams = (void *)text }, 0, 0)) \
	X(INVALID_VALUE, cuCtxCreate_v4(NULL, &(CUctxCreateParams){ .cigParams = NULL }, 0, 0)) \
	X(INVALID_VALUE, cuCtxDestroy(NULL)) \
	X(INVALID_CONTEXT, cuCtxDestroy((CUcontext)text)) \
	X(INVALID_CONTEXT, cuCtxDetach(NULL)) \
	X(INVALID_VALUE, cuCtxPushCurrent(NULL)) \
	X(INVALID_CONTEXT, cuCtxPushCurrent((CUcontext)text)) \
	X(INVALID_CONTEXT, cuCtxSetCurrent((CUcontext)text)) \
	X(INVALID_VALUE, cuCtxGetCurrent(NULL)) \
	X(INVALID_VALUE, cuCtxGetDevice(NULL)) \
	X(INVALID_VALUE, cuCtxGetFlags(NULL)) \
	X(INVALID_VALUE, cuCtxSetFlags(0x100)) \
	X(INVALID_VALUE, cuCtxSetFlags(CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD)) \
	X(INVALID_VALUE, cuCtxGetId(NULL, NULL)) \
	X(INVALID_CONTEXT, cuCtxGetId((CUcontext)text, &id)) \
	X(INVALID_VALUE, cuCtxGetApiVersion(NULL, NULL)) \
	X(SUCCESS, cuCtxGetStreamPriorityRange(NULL, NULL)) \
	X(SUCCESS, cuMemGetInfo(NULL, &size)) \
	X(SUCCESS, cuMemGetInfo(&size, NULL)) \
	X(INVALID_VALUE, cuMemAlloc(NULL, 1)) \
	X(INVALID_VALUE, cuMemAlloc(&ptr, 0)) \
	X(OUT_OF_MEMORY, cuMemAlloc(&ptr, SIZE_MAX)) \
	X(OUT_OF_MEMORY, cuMemAlloc(&ptr, (size_t)1 << 40)) \
	X(INVALID_VALUE, cuMemAllocPitch(NULL, &size, 1, 1, 4)) \
	X(INVALID_VALUE, cuMemAllocPitch(&ptr, NULL, 1, 1, 4)) \
	X(INVALID_VALUE, cuMemAllocPitch(&ptr, &size, 0, 1, 4)) \
	X(INVALID_VALUE, cuMemAllocPitch(&ptr, &size, 1, 0, 4)) \
	X(INVALID_VALUE, cuMemAllocPitch(&ptr, &size, 1, 1, 3)) \
	X(INVALID_VALUE, cuMemAllocPitch(&ptr, &size, 1, 1, 0)) \
	X(INVALID_VALUE, cuMemAllocPitch(&ptr, &size, 1, 1, 32)) \
	X(INVALID_VALUE, cuMemAllocPitch(&ptr, &size, SIZE_MAX, 1, 4)) \
	X(INVALID_VALUE, cuMemAllocPitch(&ptr, &size, SIZE_MAX / 2, 3, 4)) \
	X(INVALID_VALUE, cuMemFree(memory + 1)) \
	X(INVALID_VALUE, cuMemFree(7)) \
	X(NOT_FOUND, cuMemGetAddressRange(&ptr, &size, 7)) \
	X(SUCCESS, cuMemGetAddressRange(NULL, NULL, memory)) \
	X(SUCCESS, cuMemGetAddressRange(&ptr, NULL, memory + MIB - 1)) \
	X(INVALID_VALUE, cuMemAllocManaged(NULL, 1, CU_MEM_ATTACH_GLOBAL)) \
	X(INVALID_VALUE, cuMemAllocManaged(&ptr, 0, CU_MEM_ATTACH_GLOBAL)) \
	X(INVALID_VALUE, cuMemAllocManaged(&ptr, 1, 0)) \
	X(INVALID_VALUE, cuMemAllocManaged(&ptr, 1, 3)) \
	X(INVALID_VALUE, cuMemAllocManaged(&ptr, 1, 4)) \
	X(INVALID_VALUE, cuMemAdvise(managed, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, 0)) \
	X(INVALID_VALUE, cuMemAdvise(managed, 4096, (CUmem_advise)0, 0)) \
	X(INVALID_VALUE, cuMemAdvise(managed, 4096, (CUmem_advise)99, 0)) \
	X(INVALID_DEVICE, cuMemAdvise(managed, 4096, PREFERRED, 7)) \
	X(INVALID_DEVICE, cuMemAdvise(managed, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, 7)) \
	X(INVALID_VALUE, cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0)) \
	X(INVALID_VALUE, cuMemAdvise(managed + MIB - 1, 2, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0)) \
	X(SUCCESS, cuMemAdvise(managed + MIB - 1, 1, CU_MEM_ADVISE_UNSET_READ_MOSTLY, 0)) \
	X(INVALID_VALUE, cuMemAdvise_v2(managed, 4096, PREFERRED, nowhere)) \
	X(INVALID_VALUE, cuMemPrefetchAsync(managed, 0, 0, NULL)) \
	X(INVALID_DEVICE, cuMemPrefetchAsync(managed, 4096, 7, NULL)) \
	X(INVALID_VALUE, cuMemPrefetchAsync(memory, 4096, 0, NULL)) \
	X(INVALID_VALUE, cuMemPrefetchAsync(managed, MIB + 1, 0, NULL)) \
	X(SUCCESS, cuMemPrefetchAsync(managed, MIB, 0, NULL)) \
	X(INVALID_HANDLE, cuMemPrefetchAsync(managed, 4096, 0, (CUstream)text)) \
	X(INVALID_DEVICE, cuMemPrefetchAsync_v2(managed, 4096, nowhere, 0, NULL)) \
	X(INVALID_VALUE, cuMemPrefetchAsync_v2(managed, 4096, on_gpu, 1, NULL)) \
	X(INVALID_VALUE, cuMemRangeGetAttribute(NULL, 4, READ_MOSTLY, managed, 4096)) \
	X(INVALID_VALUE, cuMemRangeGetAttribute(&n, 3, READ_MOSTLY, managed, 4096)) \
	X(INVALID_VALUE, cuMemRangeGetAttribute(&n, 0, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, managed, 4096)) \
	X(INVALID_VALUE, cuMemRangeGetAttribute(&n, 4, (CUmem_range_attribute)99, managed, 4096)) \
	X(INVALID_VALUE, cuMemRangeGetAttribute(&n, 4, READ_MOSTLY, memory, 4096)) \
	X(INVALID_VALUE, cuMemRangeGetAttribute(&n, 4, READ_MOSTLY, managed, 0)) \
	X(INVALID_VALUE, cuMemRangeGetAttribute(&n, 4, READ_MOSTLY, managed, MIB + 1)) \
	X(INVALID_VALUE, cuMemRangeGetAttributes(NULL, four, range_attributes, 1, managed, 4096)) \
	X(INVALID_VALUE, cuMemRangeGetAttributes(datas, NULL, range_attributes, 1, managed, 4096)) \
	X(INVALID_VALUE, cuMemRangeGetAttributes(datas, four, NULL, 1, managed, 4096)) \
	X(INVALID_VALUE, cuMemRangeGetAttributes(datas, four, range_attributes, 0, managed, 4096)) \
	X(INVALID_VALUE, cuMemAllocAsync(NULL, 1, NULL)) \
	X(SUCCESS, cuMemAllocAsync(&ptr, 0, NULL)) \
	X(INVALID_HANDLE, cuMemAllocAsync(&ptr, 1, (CUstream)text)) \
	X(INVALID_VALUE, cuMemAllocFromPoolAsync(NULL, 1, pool, NULL)) \
	X(INVALID_VALUE, cuMemAllocFromPoolAsync(&ptr, 1, NULL, NULL)) \
	X(INVALID_VALUE, cuMemAllocFromPoolAsync(&ptr, 1, (CUmemoryPool)text, NULL)) \
	X(SUCCESS, cuMemFreeAsync(0, NULL)) \
	X(INVALID_VALUE, cuMemFreeAsync(7, NULL)) \
	X(INVALID_VALUE, cuMemFreeAsync(memory + 1, NULL)) \
	X(INVALID_VALUE, cuMemPoolCreate(NULL, &props)) \
	X(INVALID_VALUE, cuMemPoolCreate(&other_pool, NULL)) \
	X(INVALID_VALUE, cuMemPoolCreate(&other_pool, &no_props)) \
	X(INVALID_VALUE, cuMemPoolDestroy(NULL)) \
	X(INVALID_VALUE, cuMemPoolDestroy((CUmemoryPool)text)) \
	X(INVALID_VALUE, cuMemPoolTrimTo(NULL, 0)) \
	X(INVALID_VALUE, cuMemPoolGetAttribute(NULL, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &id)) \
	X(INVALID_VALUE, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, NULL)) \
	X(INVALID_VALUE, cuMemPoolGetAttribute(pool, (CUmemPool_attribute)0, &id)) \
	X(INVALID_VALUE, cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &id)) \
	X(INVALID_VALUE, cuMemPoolSetAttribute(NULL, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &id)) \
	X(INVALID_VALUE, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL)) \
	X(INVALID_VALUE, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &id)) \
	X(INVALID_VALUE, cuMemPoolSetAttribute(pool, (CUmemPool_attribute)0, &id)) \
	X(INVALID_VALUE, cuMemPoolSetAttribute(pool, (CUmemPool_attribute)99, &id)) \
	X(INVALID_VALUE, cuMemPoolSetAccess(NULL, &accessor, 1)) \
	X(INVALID_VALUE, cuMemPoolSetAccess(pool, NULL, 1)) \
	X(SUCCESS, cuMemPoolSetAccess(pool, &accessor, 0)) \
	X(INVALID_VALUE, cuMemPoolGetAccess(NULL, pool, &on_gpu)) \
	X(INVALID_VALUE, cuMemPoolGetAccess(&access_flags, NULL, &on_gpu)) \
	X(INVALID_VALUE, cuMemPoolGetAccess(&access_flags, pool, NULL)) \
	X(INVALID_VALUE, cuMemPoolGetAccess(&access_flags, pool, &nowhere)) \
	X(INVALID_VALUE, cuDeviceGetDefaultMemPool(NULL, 0)) \
	X(INVALID_DEVICE, cuDeviceGetDefaultMemPool(&other_pool, 7)) \
	X(INVALID_VALUE, cuDeviceGetMemPool(NULL, 0)) \
	X(INVALID_DEVICE, cuDeviceGetMemPool(&other_pool, 7)) \
	X(INVALID_DEVICE, cuDeviceSetMemPool(7, pool)) \
	X(INVALID_VALUE, cuDeviceSetMemPool(0, NULL)) \
	X(INVALID_VALUE, cuDeviceSetMemPool(1, pool)) \
	X(INVALID_VALUE, cuMemPoolExportToShareableHandle(NULL, pool, FILE_HANDLE, 0)) \
	X(INVALID_VALUE, cuMemPoolExportToShareableHandle(&n, pool, FILE_HANDLE, 1)) \
	X(INVALID_VALUE, cuMemPoolImportFromShareableHandle(NULL, (void *)-1, FILE_HANDLE, 0)) \
	X(INVALID_VALUE, cuMemPoolExportPointer(NULL, memory)) \
	X(INVALID_VALUE, cuMemPoolExportPointer(&pointer_data, 7)) \
	X(INVALID_VALUE, cuMemPoolImportPointer(NULL, pool, &pointer_data)) \
	X(INVALID_VALUE, cuMemPoolImportPointer(&ptr, pool, NULL)) \
	X(INVALID_VALUE, cuMemPoolImportPointer(&ptr, NULL, &pointer_data)) \
	X(INVALID_VALUE, cuMemHostAlloc(NULL, 1, 0)) \
	X(SUCCESS, cuMemHostAlloc(&host, 0, 0)) \
	X(INVALID_VALUE, cuMemHostAlloc(&host, 1, 8)) \
	X(OUT_OF_MEMORY, cuMemHostAlloc(&host, (size_t)1 << 60, 0)) \
	X(INVALID_VALUE, cuMemAllocHost(NULL, 1)) \
	X(SUCCESS, cuMemAllocHost(&host, 0)) \
	X(SUCCESS, cuMemFreeHost(NULL)) \
	X(INVALID_VALUE, cuMemFreeHost(text)) \
	X(INVALID_VALUE, cuMemFreeHost((void *)((uintptr_t)host_memory + 1))) \
	X(INVALID_VALUE, cuMemHostRegister(NULL, 1, 0)) \
	X(INVALID_VALUE, cuMemHostRegister(text, 0, 0)) \
	X(INVALID_VALUE, cuMemHostRegister(text, 1, 0x10)) \
	X(INVALID_VALUE, cuMemHostRegister(text, SIZE_MAX, 0)) \
	X(HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(NULL)) \
	X(HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(text)) \
	X(INVALID_VALUE, cuMemHostUnregister(host_memory)) \
	X(INVALID_VALUE, cuMemHostGetDevicePointer(NULL, host_memory, 0)) \
	X(INVALID_VALUE, cuMemHostGetDevicePointer(&ptr, NULL, 0)) \
	X(INVALID_VALUE, cuMemHostGetDevicePointer(&ptr, text, 0)) \
	X(INVALID_VALUE, cuMemHostGetDevicePointer(&ptr, host_memory, 1)) \
	X(INVALID_VALUE, cuMemHostGetFlags(NULL, host_memory)) \
	X(INVALID_VALUE, cuMemHostGetFlags(&flags, text)) \
	X(INVALID_VALUE, cuMemHostGetFlags(&flags, NULL)) \
	X(INVALID_VALUE, cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory)) \
	X(INVALID_VALUE, cuPointerGetAttribute(&n, (CUpointer_attribute)0, memory)) \
	X(INVALID_VALUE, cuPointerGetAttribute(&n, (CUpointer_attribute)99, memory)) \
	X(INVALID_VALUE, cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 7)) \
	X(INVALID_VALUE, cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0)) \
	X(INVALID_VALUE, cuPointerGetAttributes(1, NULL, datas, memory)) \
	X(INVALID_VALUE, cuPointerGetAttributes(1, pointer_attributes, NULL, memory)) \
	X(INVALID_VALUE, cuPointerGetAttributes(0, pointer_attributes, datas, memory)) \
	X(INVALID_VALUE, cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory)) \
	X(INVALID_VALUE, cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory)) \
	X(INVALID_VALUE, cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 7)) \
	X(INVALID_VALUE, cuMemGetHandleForAddressRange(NULL, memory, 4096, DMA_BUF, 0)) \
	X(INVALID_VALUE, cuMemGetHandleForAddressRange(&n, memory, 4096, (CUmemRangeHandleType)9, 0)) \
	X(INVALID_VALUE, cuMemGetHandleForAddressRange(&n, memory, 4096, DMA_BUF, 8)) \
	X(INVALID_VALUE, cuMemGetHandleForAddressRange(&n, memory, 0, DMA_BUF, 0)) \
	X(INVALID_VALUE, cuIpcGetMemHandle(NULL, memory)) \
	X(NOT_SUPPORTED, cuIpcGetMemHandle(&ipc, 7)) \
	X(NOT_SUPPORTED, cuIpcGetMemHandle(&ipc, managed)) \
	X(INVALID_VALUE, cuIpcOpenMemHandle(NULL, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) \
	X(INVALID_VALUE, cuIpcOpenMemHandle(&ptr, ipc, 0)) \
	X(INVALID_VALUE, cuIpcOpenMemHandle(&ptr, ipc, 2)) \
	X(INVALID_VALUE, cuIpcOpenMemHandle(&ptr, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) \
	X(INVALID_VALUE, cuIpcCloseMemHandle(7)) \
	X(INVALID_VALUE, cuIpcCloseMemHandle(memory)) \
	X(INVALID_VALUE, cuIpcGetEventHandle(NULL, event)) \
	X(INVALID_HANDLE, cuIpcGetEventHandle(&ipc_event, event)) \
	X(INVALID_HANDLE, cuIpcGetEventHandle(&ipc_event, (CUevent)text)) \
	X(INVALID_VALUE, cuIpcOpenEventHandle(NULL, ipc_event)) \
	X(INVALID_HANDLE, cuIpcOpenEventHandle(&other_event, ipc_event)) \
	X(INVALID_VALUE, cuMemGetAllocationGranularity(NULL, &prop, MINIMUM)) \
	X(INVALID_VALUE, cuMemGetAllocationGranularity(&size, NULL, MINIMUM)) \
	X(INVALID_VALUE, cuMemGetAllocationGranularity(&size, &prop, (CUmemAllocationGranularity_flags)2)) \
	X(INVALID_VALUE, cuMemCreate(NULL, 2 * MIB, &prop, 0)) \
	X(INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, NULL, 0)) \
	X(INVALID_VALUE, cuMemCreate(&handle, 0, &prop, 0)) \
	X(INVALID_VALUE, cuMemCreate(&handle, 1, &prop, 0)) \
	X(INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &prop, 1)) \
	X(INVALID_DEVICE, cuMemCreate(&handle, 2 * MIB, &no_prop, 0)) \
	X(OUT_OF_MEMORY, cuMemCreate(&handle, (size_t)1 << 40, &prop, 0)) \
	X(INVALID_VALUE, cuMemRelease(0)) \
	X(INVALID_VALUE, cuMemRelease(7)) \
	X(INVALID_VALUE, cuMemAddressReserve(NULL, 2 * MIB, 0, 0, 0)) \
	X(INVALID_VALUE, cuMemAddressReserve(&ptr, 0, 0, 0, 0)) \
	X(INVALID_VALUE, cuMemAddressReserve(&ptr, 1, 0, 0, 0)) \
	X(INVALID_VALUE, cuMemAddressReserve(&ptr, 2 * MIB, 3, 0, 0)) \
	X(INVALID_VALUE, cuMemAddressReserve(&ptr, 2 * MIB, 0, 0, 1)) \
	X(OUT_OF_MEMORY, cuMemAddressReserve(&ptr, (size_t)1 << 50, 0, 0, 0)) \
	X(INVALID_VALUE, cuMemAddressFree(range, 1)) \
	X(INVALID_VALUE, cuMemAddressFree(range + 2 * MIB, 2 * MIB)) \
	X(INVALID_VALUE, cuMemAddressFree(7, 2 * MIB)) \
	X(INVALID_VALUE, cuMemAddressFree(range, 4 * MIB)) \
	X(INVALID_VALUE, cuMemMap(range, 2 * MIB, 0, 7, 0)) \
	X(INVALID_VALUE, cuMemMap(range, 2 * MIB, 0, physical, 1)) \
	X(NOT_SUPPORTED, cuMemMap(range, 2 * MIB, 2 * MIB, physical, 0)) \
	X(INVALID_VALUE, cuMemMap(range, 1, 0, physical, 0)) \
	X(INVALID_VALUE, cuMemMap(range, 0, 0, physical, 0)) \
	X(INVALID_VALUE, cuMemMap(range, 4 * MIB, 0, physical, 0)) \
	X(INVALID_VALUE, cuMemMap(range + 2 * MIB, 2 * MIB, 0, physical, 0)) \
	X(INVALID_VALUE, cuMemMap(7, 2 * MIB, 0, physical, 0)) \
	X(INVALID_VALUE, cuMemUnmap(range, 0)) \
	X(INVALID_VALUE, cuMemUnmap(7, 2 * MIB)) \
	X(INVALID_VALUE, cuMemSetAccess(range, 2 * MIB, NULL, 1)) \
	X(INVALID_VALUE, cuMemSetAccess(range, 2 * MIB, &accessor, 0)) \
	X(INVALID_VALUE, cuMemSetAccess(range, 2 * MIB, &accessor, 1)) \
	X(INVALID_VALUE, cuMemSetAccess(range, 2 * MIB, &no_accessor, 1)) \
	X(INVALID_VALUE, cuMemSetAccess(7, 2 * MIB, &accessor, 1)) \
	X(INVALID_VALUE, cuMemGetAccess(NULL, &on_gpu, range)) \
	X(INVALID_VALUE, cuMemGetAccess(&id, NULL, range)) \
	X(INVALID_VALUE, cuMemGetAccess(&id, &on_gpu, range)) \
	X(INVALID_VALUE, cuMemGetAccess(&id, &nowhere, memory)) \
	X(INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(NULL, physical)) \
	X(INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(&other_prop, 7)) \
	X(INVALID_VALUE, cuMemRetainAllocationHandle(NULL, (void *)range)) \
	X(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, NULL)) \
	X(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, (void *)range)) \
	X(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, (void *)memory)) \
	X(INVALID_VALUE, cuMemExportToShareableHandle(NULL, physical, FILE_HANDLE, 0)) \
	X(INVALID_VALUE, cuMemExportToShareableHandle(&n, 7, FILE_HANDLE, 0)) \
	X(INVALID_VALUE, cuMemExportToShareableHandle(&n, physical, FILE_HANDLE, 1)) \
	X(INVALID_VALUE, cuMemExportToShareableHandle(&n, physical, CU_MEM_HANDLE_TYPE_NONE, 0)) \
	X(INVALID_VALUE, cuMemExportToShareableHandle(&n, physical, FILE_HANDLE, 0)) \
	X(INVALID_VALUE, cuMemImportFromShareableHandle(NULL, (void *)-1, FILE_HANDLE)) \
	X(UNKNOWN, cuMemImportFromShareableHandle(&handle, (void *)-1, FILE_HANDLE)) \
	X(INVALID_VALUE, cuMemImportFromShareableHandle(&handle, (void *)-1, CU_MEM_HANDLE_TYPE_NONE)) \
	X(SUCCESS, cuMemcpy(memory, memory + 64, 0)) \
	X(SUCCESS, cuMemcpy(7, memory, 0)) \
	X(SUCCESS, cuMemcpyHtoD(memory, NULL, 0)) \
	X(INVALID_VALUE, cuMemcpyHtoD(memory + MIB - 1, text, 2)) \
	X(SUCCESS, cuMemcpyHtoD(memory + MIB - 1, text, 1)) \
	X(INVALID_VALUE, cuMemcpyDtoH(text, memory + MIB - 1, 2)) \
	X(SUCCESS, cuMemcpyDtoH(text, memory + MIB - 1, 1)) \
	X(INVALID_VALUE, cuMemcpyDtoD(memory + MIB - 1, memory, 2)) \
	X(INVALID_VALUE, cuMemcpyDtoD(memory, memory + MIB - 1, 2)) \
	X(SUCCESS, cuMemcpyDtoD(memory, memory + MIB - 1, 1)) \
	X(INVALID_VALUE, cuMemcpyDtoD(memory, memory, SIZE_MAX)) \
	X(INVALID_CONTEXT, cuMemcpyPeer(memory, (CUcontext)text, memory + 64, NULL, 8)) \
	X(INVALID_CONTEXT, cuMemcpyPeer(memory, NULL, memory + 64, (CUcontext)text, 8)) \
	X(INVALID_HANDLE, cuMemcpyAsync(memory, memory + 64, 8, (CUstream)text)) \
	X(INVALID_HANDLE, cuMemcpyHtoDAsync(memory, text, 8, (CUstream)text)) \
	X(INVALID_HANDLE, cuMemcpyDtoHAsync(text, memory, 8, (CUstream)text)) \
	X(INVALID_HANDLE, cuMemcpyDtoDAsync(memory, memory + 64, 8, (CUstream)text)) \
	X(INVALID_HANDLE, cuMemcpyPeerAsync(memory, NULL, memory + 64, NULL, 8, (CUstream)text)) \
	X(INVALID_VALUE, cuMemcpy2D(NULL)) \
	X(INVALID_VALUE, cuMemcpy2DUnaligned(NULL)) \
	X(INVALID_VALUE, cuMemcpy2DAsync(NULL, NULL)) \
	X(INVALID_HANDLE, cuMemcpy2DAsync(&copy, (CUstream)text)) \
	X(SUCCESS, cuMemsetD8(memory + MIB - 1, 1, 1)) \
	X(INVALID_VALUE, cuMemsetD8(memory, 1, MIB + 1)) \
	X(SUCCESS, cuMemsetD8(memory, 1, 0)) \
	X(INVALID_VALUE, cuMemsetD16(memory + 1, 1, 8)) \
	X(INVALID_VALUE, cuMemsetD16(memory, 1, MIB / 2 + 1)) \
	X(INVALID_VALUE, cuMemsetD16(memory, 1, SIZE_MAX / 2 + 1)) \
	X(INVALID_VALUE, cuMemsetD32(memory + 2, 1, 8)) \
	X(INVALID_VALUE, cuMemsetD32(memory, 1, MIB / 4 + 1)) \
	X(INVALID_VALUE, cuMemsetD32(memory, 1, SIZE_MAX / 4 + 1)) \
	X(INVALID_VALUE, cuMemsetD2D8(memory, 64, 1, 65, 2)) \
	X(SUCCESS, cuMemsetD2D8(memory, 64, 1, 64, 2)) \
	X(SUCCESS, cuMemsetD2D8(memory, 7, 1, 8, 1)) \
	X(INVALID_VALUE, cuMemsetD2D16(memory, 15, 1, 8, 2)) \
	X(INVALID_VALUE, cuMemsetD2D16(memory + 1, 16, 1, 8, 2)) \
	X(INVALID_VALUE, cuMemsetD2D16(memory, 16, 1, 9, 2)) \
	X(INVALID_VALUE, cuMemsetD2D32(memory, 30, 1, 4, 2)) \
	X(INVALID_VALUE, cuMemsetD2D32(memory, 16, 1, 5, 2)) \
	X(INVALID_VALUE, cuMemsetD2D32(memory + 2, 16, 1, 4, 2)) \
	X(INVALID_VALUE, cuMemsetD2D32(memory, MIB / 2, 1, MIB / 8, 3)) \
	X(INVALID_HANDLE, cuMemsetD8Async(memory, 1, 8, (CUstream)text)) \
	X(INVALID_VALUE, cuMemsetD16Async(memory + 1, 1, 8, NULL)) \
	X(INVALID_VALUE, cuMemsetD32Async(memory + 1, 1, 8, NULL)) \
	X(INVALID_VALUE, cuMemsetD2D8Async(memory, 64, 1, 65, 2, NULL)) \
	X(INVALID_VALUE, cuMemsetD2D16Async(memory + 1, 64, 1, 8, 2, NULL)) \
	X(INVALID_VALUE, cuMemsetD2D32Async(memory + 1, 64, 1, 8, 2, NULL)) \
	X(INVALID_VALUE, cuStreamCreate(NULL, 0)) \
	X(INVALID_VALUE, cuStreamCreate(&other_stream, 2)) \
	X(INVALID_VALUE, cuStreamCreateWithPriority(NULL, 0, 0)) \
	X(INVALID_VALUE, cuStreamCreateWithPriority(&other_stream, 2, 0)) \
	X(INVALID_HANDLE, cuStreamDestroy(NULL)) \
	X(INVALID_HANDLE, cuStreamDestroy((CUstream)text)) \
	X(INVALID_HANDLE, cuStreamDestroy(CU_STREAM_LEGACY)) \
	X(INVALID_HANDLE, cuStreamDestroy(CU_STREAM_PER_THREAD)) \
	X(INVALID_HANDLE, cuStreamQuery((CUstream)text)) \
	X(INVALID_HANDLE, cuStreamSynchronize((CUstream)text)) \
	X(INVALID_HANDLE, cuStreamWaitEvent(NULL, NULL, 0)) \
	X(INVALID_HANDLE, cuStreamWaitEvent(NULL, (CUevent)text, 0)) \
	X(INVALID_HANDLE, cuStreamWaitEvent((CUstream)text, event, 0)) \
	X(INVALID_VALUE, cuStreamWaitEvent(NULL, event, 2)) \
	X(INVALID_VALUE, cuStreamGetCtx(stream, NULL)) \
	X(INVALID_HANDLE, cuStreamGetCtx((CUstream)text, &context)) \
	X(INVALID_VALUE, cuStreamGetFlags(stream, NULL)) \
	X(INVALID_HANDLE, cuStreamGetFlags((CUstream)text, &flags)) \
	X(INVALID_VALUE, cuStreamGetPriority(stream, NULL)) \
	X(INVALID_HANDLE, cuStreamGetPriority((CUstream)text, &n)) \
	X(INVALID_VALUE, cuStreamAddCallback(NULL, NULL, NULL, 0)) \
	X(INVALID_VALUE, cuStreamAddCallback(NULL, called, NULL, 1)) \
	X(INVALID_HANDLE, cuStreamAddCallback((CUstream)text, called, NULL, 0)) \
	X(INVALID_VALUE, cuLaunchHostFunc(NULL, NULL, NULL)) \
	X(INVALID_HANDLE, cuLaunchHostFunc((CUstream)text, function, NULL)) \
	X(INVALID_VALUE, cuStreamWaitValue32(NULL, memory + 2, 0, 0)) \
	X(INVALID_VALUE, cuStreamWaitValue32(NULL, memory, 0, 8)) \
	X(INVALID_VALUE, cuStreamWaitValue32(NULL, 8, 0, 0)) \
	X(INVALID_HANDLE, cuStreamWaitValue32((CUstream)text, memory, 0, 0)) \
	X(INVALID_VALUE, cuStreamWaitValue64(NULL, memory + 4, 0, 0)) \
	X(INVALID_VALUE, cuStreamWaitValue64(NULL, memory, 0, 8)) \
	X(INVALID_VALUE, cuStreamWriteValue32(NULL, memory + 2, 0, 0)) \
	X(INVALID_VALUE, cuStreamWriteValue32(NULL, memory, 0, 2)) \
	X(SUCCESS, cuStreamWriteValue32(NULL, memory + MIB - 4, 0, 0)) \
	X(INVALID_VALUE, cuStreamWriteValue64(NULL, memory + 4, 0, 0)) \
	X(INVALID_VALUE, cuStreamWriteValue64(NULL, memory, 0, 2)) \
	X(SUCCESS, cuStreamWriteValue64(NULL, memory + MIB - 8, 0, 0)) \
	X(INVALID_VALUE, cuStreamBatchMemOp(NULL, 1, NULL, 0)) \
	X(SUCCESS, cuStreamBatchMemOp(NULL, 0, &operation, 0)) \
	X(INVALID_VALUE, cuStreamBatchMemOp(NULL, 257, &operation, 0)) \
	X(INVALID_VALUE, cuStreamBatchMemOp(NULL, 1, &operation, 1)) \
	X(INVALID_HANDLE, cuStreamBatchMemOp((CUstream)text, 1, &operation, 0)) \
	X(INVALID_VALUE, cuStreamBatchMemOp(NULL, 1, &no_operation, 0)) \
	X(INVALID_HANDLE, cuModuleGetGlobal(&ptr, &size, NULL, "x")) \
	X(INVALID_HANDLE, cuLibraryGetGlobal(&ptr, &size, NULL, "x")) \
	X(INVALID_VALUE, cuEventCreate(NULL, 0)) \
	X(INVALID_VALUE, cuEventCreate(&other_event, 0x10)) \
	X(INVALID_VALUE, cuEventCreate(&other_event, CU_EVENT_INTERPROCESS)) \
	X(INVALID_HANDLE, cuEventDestroy(NULL)) \
	X(INVALID_HANDLE, cuEventDestroy((CUevent)text)) \
	X(INVALID_HANDLE, cuEventRecord(NULL, NULL)) \
	X(INVALID_HANDLE, cuEventRecord((CUevent)text, NULL)) \
	X(INVALID_HANDLE, cuEventRecord(event, (CUstream)text)) \
	X(INVALID_HANDLE, cuEventQuery(NULL)) \
	X(INVALID_HANDLE, cuEventQuery((CUevent)text)) \
	X(INVALID_HANDLE, cuEventSynchronize(NULL)) \
	X(INVALID_HANDLE, cuEventSynchronize((CUevent)text)) \
	X(INVALID_VALUE, cuEventElapsedTime(NULL, event, event)) \
	X(INVALID_HANDLE, cuEventElapsedTime(&ms, NULL, event)) \
	X(INVALID_HANDLE, cuEventElapsedTime(&ms, event, NULL)) \
	X(INVALID_HANDLE, cuEventElapsedTime(&ms, untimed, event)) \
	X(INVALID_HANDLE, cuEventElapsedTime(&ms, event, untimed))

static void compare(const char *when, const char *call, CUresult got, CUresult want)
{
	const char *got_name = "?", *want_name = "?";

	if (got == want)
		return;
	cuGetErrorName(got, &got_name);
	cuGetErrorName(want, &want_name);
	fail_msg("%s: %s: %s, not %s", when, call, got_name, want_name);
}

static void before(void **state)
{
#define X(call) compare("before cuInit", #call, call, CUDA_ERROR_NOT_INITIALIZED);
	IN_CONTEXT(X)
#undef X
#define X(none, dead, call) compare("before cuInit", #call, call, CUDA_ERROR_NOT_INITIALIZED);
	ANYWHERE(X)
#undef X
#define X(result, call) compare("before cuInit", #call, call, CUDA_ERROR_NOT_INITIALIZED);
	ARGUMENTS(X)
#undef X
}

static int setup(void **state)
{
	gpu_setup(state);
	OK(cuMemAlloc(&memory, MIB));
	OK(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemCreate(&physical, 2 * MIB, &prop, 0));
	OK(cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuStreamCreate(&stream, 0));
	OK(cuEventCreate(&event, 0));
	OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(event, stream));
	OK(cuEventRecord(untimed, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemHostAlloc(&host_memory, 4096, 0));
	copy = (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = memory, .srcPitch = 64, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory + 4096, .dstPitch = 64, .WidthInBytes = 8, .Height = 2,
	};
	operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	operation.writeValue.address = memory;
	no_operation.operation = (CUstreamBatchMemOpType)99;
	return 0;
}

static int teardown(void **state)
{
	OK(cuMemFreeHost(host_memory));
	OK(cuEventDestroy(untimed));
	OK(cuEventDestroy(event));
	OK(cuStreamDestroy(stream));
	OK(cuMemPoolDestroy(pool));
	OK(cuMemAddressFree(range, 2 * MIB));
	OK(cuMemRelease(physical));
	OK(cuMemFree(managed));
	OK(cuMemFree(memory));
	return gpu_teardown(state);
}

/* With each it goes on as before. */
CASE(arguments)
{
	size_t before_free, after_free, total;

	/* The default pool's first question makes it. */
	OK(cuDeviceGetDefaultMemPool(&other_pool, 0));
	OK(cuMemGetInfo(&before_free, &total));
#define X(result, call) compare("with a context", #call, call, CUDA_ERROR_##result);
	ARGUMENTS(X)
#undef X
	OK(cuCtxSynchronize());
	OK(cuMemGetInfo(&after_free, &total));
	assert_int_equal(before_free, after_free);
}

CASE(none)
{
	OK(cuCtxSetCurrent(NULL));
#define X(call) compare("without a context", #call, call, CUDA_ERROR_INVALID_CONTEXT);
	IN_CONTEXT(X)
#undef X
#define X(none, dead, call) compare("without a context", #call, call, CUDA_ERROR_##none);
	ANYWHERE(X)
#undef X
	OK(cuCtxSetCurrent(test_context()));
}

CASE(dead)
{
	CUcontext gone;

	OK(cuCtxCreate(&gone, 0, 0));
	OK(cuCtxPushCurrent(gone));
	OK(cuCtxDestroy(gone));
#define X(call) compare("with a dead context", #call, call, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	IN_CONTEXT(X)
#undef X
#define X(none, dead, call) compare("with a dead context", #call, call, CUDA_ERROR_##dead);
	ANYWHERE(X)
#undef X
	OK(cuCtxSetCurrent(test_context()));
}

int main(void)
{
	const struct CMUnitTest first[] = { cmocka_unit_test(before) };
	pid_t pid = fork();
	int status = 0;

	/* In a child, so that this process meets the tests uninitialised. */
	if (!pid)
		_exit(cuInit(0) == CUDA_ERROR_NO_DEVICE ? 77 : 0);
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_program("no GPU: load softgpu.ko, or set SOFTGPU_INPROCESS=1");
	return cmocka_run_group_tests(first, NULL, NULL) || cases_run(setup, teardown);
}
