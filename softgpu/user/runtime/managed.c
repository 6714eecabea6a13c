// SPDX-License-Identifier: MIT
/* managed.c - settings of managed memory. CUDA 13 names a place by a location, CUDA 12 by a device. */
#include <stdint.h>

#include "runtime.h"

static CUmemLocation location_of(struct cudaMemLocation at)
{
	return (CUmemLocation) { .type = (CUmemLocationType)at.type, .id = at.id };
}

static cudaError_t advise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
			  struct cudaMemLocation at)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemAdvise_v2((uintptr_t)devPtr, count,
							(CUmem_advise)advice, location_of(at)));
}

static cudaError_t prefetch(const void *devPtr, size_t count, struct cudaMemLocation to,
			    unsigned int flags, cudaStream_t stream)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemPrefetchAsync_v2((uintptr_t)devPtr, count,
							       location_of(to), flags, stream));
}

#if CUDART_VERSION >= 13000
RT_EXPORT cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
				    struct cudaMemLocation location)
{
	return advise(devPtr, count, advice, location);
}

RT_EXPORT cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count,
					   struct cudaMemLocation location, unsigned int flags,
					   cudaStream_t stream)
{
	return prefetch(devPtr, count, location, flags, stream);
}
#else
static struct cudaMemLocation of_device(int device)
{
	return (struct cudaMemLocation) {
		.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost :
						    cudaMemLocationTypeDevice,
		.id = device == cudaCpuDeviceId ? 0 : device,
	};
}

RT_EXPORT cudaError_t cudaMemAdvise_v2(const void *devPtr, size_t count,
				       enum cudaMemoryAdvise advice,
				       struct cudaMemLocation location)
{
	return advise(devPtr, count, advice, location);
}

RT_EXPORT cudaError_t cudaMemPrefetchAsync_v2(const void *devPtr, size_t count,
					      struct cudaMemLocation location, unsigned int flags,
					      cudaStream_t stream)
{
	return prefetch(devPtr, count, location, flags, stream);
}

RT_EXPORT cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
				    int device)
{
	return advise(devPtr, count, advice, of_device(device));
}

RT_EXPORT cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, int dstDevice,
					   cudaStream_t stream)
{
	return prefetch(devPtr, count, of_device(dstDevice), 0, stream);
}
#endif

RT_EXPORT cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize,
					       enum cudaMemRangeAttribute attribute,
					       const void *devPtr, size_t count)
{
	CUresult result = rt_enter();

	if (!result)
		result = cuMemRangeGetAttribute(data, dataSize, (CUmem_range_attribute)attribute,
						(uintptr_t)devPtr, count);
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaMemRangeGetAttributes(void **data, size_t *dataSizes,
						enum cudaMemRangeAttribute *attributes,
						size_t numAttributes, const void *devPtr,
						size_t count)
{
	CUresult result = rt_enter();

	/* both enumerations are an unsigned int with the same values */
	if (!result)
		result = cuMemRangeGetAttributes(data, dataSizes,
						 (CUmem_range_attribute *)(void *)attributes,
						 numAttributes, (uintptr_t)devPtr, count);
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length,
					       unsigned int flags)
{
	CUresult result = rt_enter();

	if (!result)
		result = cuStreamAttachMemAsync(stream, (uintptr_t)devPtr, length, flags);
	return rt_done(result);
}
