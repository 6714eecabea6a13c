// SPDX-License-Identifier: MIT
/* procaddress.c - cuGetProcAddress: functions by name and CUDA version. */
#include <string.h>

#include "internal.h"

#undef cuGetProcAddress
SGU_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags);

/* Their first version has the plain name, and the same arguments. */
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
extern __typeof__(cuStreamWaitValue32_v2) cuStreamWaitValue32;
extern __typeof__(cuStreamWaitValue64_v2) cuStreamWaitValue64;
extern __typeof__(cuStreamWriteValue32_v2) cuStreamWriteValue32;
extern __typeof__(cuStreamWriteValue64_v2) cuStreamWriteValue64;
extern __typeof__(cuStreamBatchMemOp_v2) cuStreamBatchMemOp;

struct proc {
	const char *name;
	int since;		/* the first CUDA version with this ABI under this name */
	void *fn;
};


/*
 * By name, the newest first.  A name whose first ABI had 32-bit addresses
 * begins with its second; one whose ABI never changed begins with its first.
 */
static const struct proc procs[] = {
	{ "cuInit", 2000, cuInit },
	{ "cuDriverGetVersion", 2020, cuDriverGetVersion },
	{ "cuGetErrorString", 6000, cuGetErrorString },
	{ "cuGetErrorName", 6000, cuGetErrorName },
	{ "cuGetProcAddress", 12000, cuGetProcAddress_v2 },
	{ "cuGetProcAddress", 11030, cuGetProcAddress },
	{ "cuDeviceGet", 2000, cuDeviceGet },
	{ "cuDeviceGetCount", 2000, cuDeviceGetCount },
	{ "cuDeviceGetName", 2000, cuDeviceGetName },
	{ "cuDeviceGetUuid", 11040, cuDeviceGetUuid_v2 },
	{ "cuDeviceGetUuid", 9020, cuDeviceGetUuid },
	{ "cuDeviceTotalMem", 3020, cuDeviceTotalMem_v2 },
	{ "cuDeviceGetAttribute", 2000, cuDeviceGetAttribute },
	{ "cuDeviceGetByPCIBusId", 4010, cuDeviceGetByPCIBusId },
	{ "cuDeviceGetPCIBusId", 4010, cuDeviceGetPCIBusId },
	{ "cuDeviceCanAccessPeer", 4000, cuDeviceCanAccessPeer },
	{ "cuDeviceComputeCapability", 2000, cuDeviceComputeCapability },
	{ "cuFlushGPUDirectRDMAWrites", 11030, cuFlushGPUDirectRDMAWrites },
	{ "cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain },
	{ "cuDevicePrimaryCtxRelease", 7000, cuDevicePrimaryCtxRelease_v2 },
	{ "cuDevicePrimaryCtxReset", 7000, cuDevicePrimaryCtxReset_v2 },
	{ "cuDevicePrimaryCtxGetState", 7000, cuDevicePrimaryCtxGetState },
	{ "cuDevicePrimaryCtxSetFlags", 7000, cuDevicePrimaryCtxSetFlags_v2 },
	{ "cuCtxCreate", 12050, cuCtxCreate_v4 },
	{ "cuCtxCreate", 11040, cuCtxCreate_v3 },
	{ "cuCtxCreate", 2000, cuCtxCreate_v2 },
	{ "cuCtxDestroy", 2000, cuCtxDestroy_v2 },
	{ "cuCtxDetach", 2000, cuCtxDetach },
	{ "cuCtxPushCurrent", 2000, cuCtxPushCurrent_v2 },
	{ "cuCtxPopCurrent", 2000, cuCtxPopCurrent_v2 },
	{ "cuCtxSetCurrent", 4000, cuCtxSetCurrent },
	{ "cuCtxGetCurrent", 4000, cuCtxGetCurrent },
	{ "cuCtxGetDevice", 2000, cuCtxGetDevice },
	{ "cuCtxGetFlags", 7000, cuCtxGetFlags },
	{ "cuCtxSetFlags", 12010, cuCtxSetFlags },
	{ "cuCtxGetId", 12000, cuCtxGetId },
	{ "cuCtxGetApiVersion", 3020, cuCtxGetApiVersion },
	{ "cuCtxSynchronize", 2000, cuCtxSynchronize },
	{ "cuCtxGetStreamPriorityRange", 5050, cuCtxGetStreamPriorityRange },
	{ "cuMemGetInfo", 3020, cuMemGetInfo_v2 },
	{ "cuMemAlloc", 3020, cuMemAlloc_v2 },
	{ "cuMemAllocPitch", 3020, cuMemAllocPitch_v2 },
	{ "cuMemFree", 3020, cuMemFree_v2 },
	{ "cuMemGetAddressRange", 3020, cuMemGetAddressRange_v2 },
	{ "cuMemAllocManaged", 6000, cuMemAllocManaged },
	{ "cuMemHostAlloc", 2020, cuMemHostAlloc },
	{ "cuMemAllocHost", 3020, cuMemAllocHost_v2 },
	{ "cuMemFreeHost", 2000, cuMemFreeHost },
	{ "cuMemHostRegister", 4000, cuMemHostRegister_v2 },
	{ "cuMemHostUnregister", 4000, cuMemHostUnregister },
	{ "cuMemHostGetDevicePointer", 3020, cuMemHostGetDevicePointer_v2 },
	{ "cuMemHostGetFlags", 2030, cuMemHostGetFlags },
	{ "cuPointerGetAttribute", 4000, cuPointerGetAttribute },
	{ "cuPointerGetAttributes", 7000, cuPointerGetAttributes },
	{ "cuPointerSetAttribute", 6000, cuPointerSetAttribute },
	{ "cuIpcGetMemHandle", 4010, cuIpcGetMemHandle },
	{ "cuIpcOpenMemHandle", 4010, cuIpcOpenMemHandle_v2 },
	{ "cuIpcCloseMemHandle", 4010, cuIpcCloseMemHandle },
	{ "cuIpcGetEventHandle", 4010, cuIpcGetEventHandle },
	{ "cuIpcOpenEventHandle", 4010, cuIpcOpenEventHandle },
	{ "cuMemGetHandleForAddressRange", 11070, cuMemGetHandleForAddressRange },
	{ "cuMemGetAllocationGranularity", 10020, cuMemGetAllocationGranularity },
	{ "cuMemCreate", 10020, cuMemCreate },
	{ "cuMemRelease", 10020, cuMemRelease },
	{ "cuMemAddressReserve", 10020, cuMemAddressReserve },
	{ "cuMemAddressFree", 10020, cuMemAddressFree },
	{ "cuMemMap", 10020, cuMemMap },
	{ "cuMemUnmap", 10020, cuMemUnmap },
	{ "cuMemSetAccess", 10020, cuMemSetAccess },
	{ "cuMemGetAccess", 10020, cuMemGetAccess },
	{ "cuMemGetAllocationPropertiesFromHandle", 10020, cuMemGetAllocationPropertiesFromHandle },
	{ "cuMemRetainAllocationHandle", 11000, cuMemRetainAllocationHandle },
	{ "cuMemExportToShareableHandle", 10020, cuMemExportToShareableHandle },
	{ "cuMemImportFromShareableHandle", 10020, cuMemImportFromShareableHandle },
	{ "cuMemAdvise", 12020, cuMemAdvise_v2 },
	{ "cuMemAdvise", 8000, cuMemAdvise },
	{ "cuMemPrefetchAsync", 12020, cuMemPrefetchAsync_v2 },
	{ "cuMemPrefetchAsync", 8000, cuMemPrefetchAsync },
	{ "cuMemRangeGetAttribute", 8000, cuMemRangeGetAttribute },
	{ "cuMemRangeGetAttributes", 8000, cuMemRangeGetAttributes },
	{ "cuMemAllocAsync", 11020, cuMemAllocAsync },
	{ "cuMemAllocFromPoolAsync", 11020, cuMemAllocFromPoolAsync },
	{ "cuMemFreeAsync", 11020, cuMemFreeAsync },
	{ "cuMemPoolCreate", 11020, cuMemPoolCreate },
	{ "cuMemPoolDestroy", 11020, cuMemPoolDestroy },
	{ "cuMemPoolTrimTo", 11020, cuMemPoolTrimTo },
	{ "cuMemPoolSetAttribute", 11020, cuMemPoolSetAttribute },
	{ "cuMemPoolGetAttribute", 11020, cuMemPoolGetAttribute },
	{ "cuMemPoolSetAccess", 11020, cuMemPoolSetAccess },
	{ "cuMemPoolGetAccess", 11020, cuMemPoolGetAccess },
	{ "cuMemPoolExportToShareableHandle", 11020, cuMemPoolExportToShareableHandle },
	{ "cuMemPoolImportFromShareableHandle", 11020, cuMemPoolImportFromShareableHandle },
	{ "cuMemPoolExportPointer", 11020, cuMemPoolExportPointer },
	{ "cuMemPoolImportPointer", 11020, cuMemPoolImportPointer },
	{ "cuDeviceGetDefaultMemPool", 11020, cuDeviceGetDefaultMemPool },
	{ "cuDeviceGetMemPool", 11020, cuDeviceGetMemPool },
	{ "cuDeviceSetMemPool", 11020, cuDeviceSetMemPool },
	{ "cuModuleGetGlobal", 3020, cuModuleGetGlobal_v2 },
	{ "cuLibraryGetGlobal", 12000, cuLibraryGetGlobal },
	{ "cuMemcpyBatchAsync", 12080, cuMemcpyBatchAsync },
	{ "cuStreamAddCallback", 5000, cuStreamAddCallback },
	{ "cuLaunchHostFunc", 10000, cuLaunchHostFunc },
	{ "cuMemcpy", 4000, cuMemcpy },
	{ "cuMemcpyHtoD", 3020, cuMemcpyHtoD_v2 },
	{ "cuMemcpyDtoH", 3020, cuMemcpyDtoH_v2 },
	{ "cuMemcpyDtoD", 3020, cuMemcpyDtoD_v2 },
	{ "cuMemcpyPeer", 4000, cuMemcpyPeer },
	{ "cuMemcpyAsync", 4000, cuMemcpyAsync },
	{ "cuMemcpyHtoDAsync", 3020, cuMemcpyHtoDAsync_v2 },
	{ "cuMemcpyDtoHAsync", 3020, cuMemcpyDtoHAsync_v2 },
	{ "cuMemcpyDtoDAsync", 3020, cuMemcpyDtoDAsync_v2 },
	{ "cuMemcpyPeerAsync", 4000, cuMemcpyPeerAsync },
	{ "cuMemcpy2D", 3020, cuMemcpy2D_v2 },
	{ "cuMemcpy2DUnaligned", 3020, cuMemcpy2DUnaligned_v2 },
	{ "cuMemcpy2DAsync", 3020, cuMemcpy2DAsync_v2 },
	{ "cuMemsetD8", 3020, cuMemsetD8_v2 },
	{ "cuMemsetD16", 3020, cuMemsetD16_v2 },
	{ "cuMemsetD32", 3020, cuMemsetD32_v2 },
	{ "cuMemsetD2D8", 3020, cuMemsetD2D8_v2 },
	{ "cuMemsetD2D16", 3020, cuMemsetD2D16_v2 },
	{ "cuMemsetD2D32", 3020, cuMemsetD2D32_v2 },
	{ "cuMemsetD8Async", 3020, cuMemsetD8Async },
	{ "cuMemsetD16Async", 3020, cuMemsetD16Async },
	{ "cuMemsetD32Async", 3020, cuMemsetD32Async },
	{ "cuMemsetD2D8Async", 3020, cuMemsetD2D8Async },
	{ "cuMemsetD2D16Async", 3020, cuMemsetD2D16Async },
	{ "cuMemsetD2D32Async", 3020, cuMemsetD2D32Async },
	{ "cuStreamCreate", 2000, cuStreamCreate },
	{ "cuStreamCreateWithPriority", 5050, cuStreamCreateWithPriority },
	{ "cuStreamDestroy", 2000, cuStreamDestroy_v2 },
	{ "cuStreamQuery", 2000, cuStreamQuery },
	{ "cuStreamSynchronize", 2000, cuStreamSynchronize },
	{ "cuStreamWaitEvent", 3020, cuStreamWaitEvent },
	{ "cuStreamWaitValue32", 11070, cuStreamWaitValue32_v2 },
	{ "cuStreamWaitValue32", 8000, cuStreamWaitValue32 },
	{ "cuStreamWaitValue64", 11070, cuStreamWaitValue64_v2 },
	{ "cuStreamWaitValue64", 9000, cuStreamWaitValue64 },
	{ "cuStreamWriteValue32", 11070, cuStreamWriteValue32_v2 },
	{ "cuStreamWriteValue32", 8000, cuStreamWriteValue32 },
	{ "cuStreamWriteValue64", 11070, cuStreamWriteValue64_v2 },
	{ "cuStreamWriteValue64", 9000, cuStreamWriteValue64 },
	{ "cuStreamBatchMemOp", 11070, cuStreamBatchMemOp_v2 },
	{ "cuStreamBatchMemOp", 8000, cuStreamBatchMemOp },
	{ "cuStreamGetCtx", 9020, cuStreamGetCtx },
	{ "cuStreamGetFlags", 5050, cuStreamGetFlags },
	{ "cuStreamGetPriority", 5050, cuStreamGetPriority },
	{ "cuEventCreate", 2000, cuEventCreate },
	{ "cuEventDestroy", 2000, cuEventDestroy_v2 },
	{ "cuEventRecord", 2000, cuEventRecord },
	{ "cuEventQuery", 2000, cuEventQuery },
	{ "cuEventSynchronize", 2000, cuEventSynchronize },
	{ "cuEventElapsedTime", 2000, cuEventElapsedTime },
};

/* The newest that this version knows; *known tells whether any version knows the name. */
static const struct proc *find(const char *symbol, int version, bool *known)
{
	*known = false;
	for (size_t i = 0; i < sizeof(procs) / sizeof(procs[0]); i++) {
		if (strcmp(procs[i].name, symbol))
			continue;
		*known = true;
		if (procs[i].since <= version)
			return &procs[i];
	}
	return NULL;
}

static bool arguments_ok(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	return symbol && pfn && version <= CUDA_VERSION &&
	       (flags == CU_GET_PROC_ADDRESS_DEFAULT || flags == CU_GET_PROC_ADDRESS_LEGACY_STREAM ||
		flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

/* A name that is not there is no error of the call: symbolStatus tells, and *pfn is NULL. */
SGU_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
					CUdriverProcAddressQueryResult *symbolStatus)
{
	const struct proc *proc;
	bool known;

	if (!arguments_ok(symbol, pfn, cudaVersion, flags))
		return CUDA_ERROR_INVALID_VALUE;
	proc = find(symbol, cudaVersion, &known);
	*pfn = proc ? proc->fn : NULL;
	if (symbolStatus)
		*symbolStatus = proc ? CU_GET_PROC_ADDRESS_SUCCESS :
				known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT :
				CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

/*
 * The older one, with four arguments.  Clients also find it by its plain name
 * and call it with five; the fifth is theirs, and stays untouched.
 */
SGU_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	const struct proc *proc;
	bool known;

	if (!arguments_ok(symbol, pfn, cudaVersion, flags))
		return CUDA_ERROR_INVALID_VALUE;
	proc = find(symbol, cudaVersion, &known);
	if (!proc)
		return CUDA_ERROR_NOT_FOUND;
	*pfn = proc->fn;
	return CUDA_SUCCESS;
}
