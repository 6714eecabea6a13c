// SPDX-License-Identifier: MIT
/* pool.c - memory pools, functions that streams call, and kernel symbols, which do not exist. */
#include <stdint.h>

#include "runtime.h"

/* The runtime's enumerators and structs have the same values and layouts as the driver's. */
_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "properties of a pool");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "access to a pool");
_Static_assert(sizeof(struct cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData),
	       "exported pointer");

static cudaError_t allocated(CUresult result, void **out, CUdeviceptr ptr)
{
	if (!result)
		*out = (void *)(uintptr_t)ptr;
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
	CUresult result = rt_enter();
	CUdeviceptr ptr = 0;

	if (!result && !devPtr)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result && size)
		result = cuMemAllocAsync(&ptr, size, hStream);
	return allocated(result, devPtr, ptr);
}

RT_EXPORT cudaError_t cudaMallocFromPoolAsync(void **devPtr, size_t size, cudaMemPool_t memPool,
					      cudaStream_t stream)
{
	CUresult result = rt_enter();
	CUdeviceptr ptr = 0;

	if (!result && !devPtr)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result && size)
		result = cuMemAllocFromPoolAsync(&ptr, size, memPool, stream);
	return allocated(result, devPtr, ptr);
}

RT_EXPORT cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
	CUresult result = rt_enter();

	if (!result && devPtr)
		result = cuMemFreeAsync((uintptr_t)devPtr, hStream);
	return rt_done(result);
}

SAME(cudaDeviceGetDefaultMemPool, (cudaMemPool_t *memPool, int device), cuDeviceGetDefaultMemPool,
     (memPool, device))
SAME(cudaDeviceGetMemPool, (cudaMemPool_t *memPool, int device), cuDeviceGetMemPool,
     (memPool, device))
SAME(cudaDeviceSetMemPool, (int device, cudaMemPool_t memPool), cuDeviceSetMemPool,
     (device, memPool))
SAME(cudaMemPoolCreate, (cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps),
     cuMemPoolCreate, (memPool, (const CUmemPoolProps *)poolProps))
SAME(cudaMemPoolDestroy, (cudaMemPool_t memPool), cuMemPoolDestroy, (memPool))
SAME(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep), cuMemPoolTrimTo,
     (memPool, minBytesToKeep))
SAME(cudaMemPoolSetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
     cuMemPoolSetAttribute, (memPool, (CUmemPool_attribute)attr, value))
SAME(cudaMemPoolGetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
     cuMemPoolGetAttribute, (memPool, (CUmemPool_attribute)attr, value))
SAME(cudaMemPoolSetAccess, (cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList,
			    size_t count),
     cuMemPoolSetAccess, (memPool, (const CUmemAccessDesc *)descList, count))
SAME(cudaMemPoolGetAccess, (enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
			    struct cudaMemLocation *location),
     cuMemPoolGetAccess, ((CUmemAccess_flags *)flags, memPool, (CUmemLocation *)location))
SAME(cudaMemPoolExportToShareableHandle,
     (void *shareableHandle, cudaMemPool_t memPool, enum cudaMemAllocationHandleType handleType,
      unsigned int flags),
     cuMemPoolExportToShareableHandle,
     (shareableHandle, memPool, (CUmemAllocationHandleType)handleType, flags))
SAME(cudaMemPoolImportFromShareableHandle,
     (cudaMemPool_t *memPool, void *shareableHandle, enum cudaMemAllocationHandleType handleType,
      unsigned int flags),
     cuMemPoolImportFromShareableHandle,
     (memPool, shareableHandle, (CUmemAllocationHandleType)handleType, flags))
SAME(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData *exportData, void *ptr),
     cuMemPoolExportPointer, ((CUmemPoolPtrExportData *)exportData, (uintptr_t)ptr))

RT_EXPORT cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
					       struct cudaMemPoolPtrExportData *exportData)
{
	CUresult result = rt_enter();
	CUdeviceptr opened = 0;

	if (!result && !ptr)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = cuMemPoolImportPointer(&opened, memPool,
						(CUmemPoolPtrExportData *)exportData);
	return allocated(result, ptr, opened);
}

SAME(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void *userData), cuLaunchHostFunc,
     (stream, fn, userData))
SAME(cudaStreamAddCallback, (cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
			     unsigned int flags),
     cuStreamAddCallback, (stream, (CUstreamCallback)callback, userData, flags))

RT_EXPORT cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
	CUresult result = rt_enter();

	(void)devPtr;
	(void)symbol;
	return result ? rt_done(result) : rt_fail(cudaErrorInvalidSymbol);
}

RT_EXPORT cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
	CUresult result = rt_enter();

	(void)size;
	(void)symbol;
	return result ? rt_done(result) : rt_fail(cudaErrorInvalidSymbol);
}

SAME(cudaMemGetDefaultMemPool,
     (cudaMemPool_t *memPool, struct cudaMemLocation *location, enum cudaMemAllocationType type),
     cuMemGetDefaultMemPool,
     (memPool, (CUmemLocation *)(void *)location, (CUmemAllocationType)type))
SAME(cudaMemGetMemPool,
     (cudaMemPool_t *memPool, struct cudaMemLocation *location, enum cudaMemAllocationType type),
     cuMemGetMemPool, (memPool, (CUmemLocation *)(void *)location, (CUmemAllocationType)type))
SAME(cudaMemSetMemPool,
     (struct cudaMemLocation *location, enum cudaMemAllocationType type, cudaMemPool_t memPool),
     cuMemSetMemPool, ((CUmemLocation *)(void *)location, (CUmemAllocationType)type, memPool))
