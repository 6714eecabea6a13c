// SPDX-License-Identifier: MIT
/* copy.c - copies and fills. */
#include <stdbool.h>
#include <stdint.h>

#include "runtime.h"

static CUdeviceptr address(const void *p)
{
	return (uintptr_t)p;
}

/* Converts a copy's direction to the driver's memory types. False: unknown direction. */
static bool types_of(enum cudaMemcpyKind kind, CUmemorytype *dst, CUmemorytype *src)
{
	static const CUmemorytype types[][2] = {
		[cudaMemcpyHostToHost] = { CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST },
		[cudaMemcpyHostToDevice] = { CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST },
		[cudaMemcpyDeviceToHost] = { CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE },
		[cudaMemcpyDeviceToDevice] = { CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE },
		[cudaMemcpyDefault] = { CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED },
	};

	if ((unsigned int)kind >= sizeof(types) / sizeof(types[0]))
		return false;
	*dst = types[kind][0];
	*src = types[kind][1];
	return true;
}

RT_EXPORT cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	CUresult result = rt_enter();

	if (result)
		return rt_done(result);
	switch (kind) {
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return rt_done(cuMemcpy(address(dst), address(src), count));
	case cudaMemcpyHostToDevice:
		return rt_done(cuMemcpyHtoD(address(dst), src, count));
	case cudaMemcpyDeviceToHost:
		return rt_done(cuMemcpyDtoH(dst, address(src), count));
	case cudaMemcpyDeviceToDevice:
		return rt_done(cuMemcpyDtoD(address(dst), address(src), count));
	}
	return rt_fail(cudaErrorInvalidMemcpyDirection);
}

RT_EXPORT cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count,
				      enum cudaMemcpyKind kind, cudaStream_t stream)
{
	CUresult result = rt_enter();

	if (result)
		return rt_done(result);
	switch (kind) {
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return rt_done(cuMemcpyAsync(address(dst), address(src), count, stream));
	case cudaMemcpyHostToDevice:
		return rt_done(cuMemcpyHtoDAsync(address(dst), src, count, stream));
	case cudaMemcpyDeviceToHost:
		return rt_done(cuMemcpyDtoHAsync(dst, address(src), count, stream));
	case cudaMemcpyDeviceToDevice:
		return rt_done(cuMemcpyDtoDAsync(address(dst), address(src), count, stream));
	}
	return rt_fail(cudaErrorInvalidMemcpyDirection);
}

/*
 * Checks only that both devices exist: with unified addressing, the pointers show which device they
 * belong to.
 */
static CUresult check_peers(int a, int b)
{
	CUresult result = rt_enter();
	CUdevice device;

	if (!result)
		result = cuDeviceGet(&device, a);
	return result ? result : cuDeviceGet(&device, b);
}

RT_EXPORT cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
				     size_t count)
{
	CUresult result = check_peers(dstDevice, srcDevice);

	return rt_done(result ? result :
				cuMemcpyPeer(address(dst), NULL, address(src), NULL, count));
}

RT_EXPORT cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
					  size_t count, cudaStream_t stream)
{
	CUresult result = check_peers(dstDevice, srcDevice);

	if (!result)
		result = cuMemcpyPeerAsync(address(dst), NULL, address(src), NULL, count, stream);
	return rt_done(result);
}

/* Checks width and pitch here, because the driver takes a pitch of 0 as a default. */
static cudaError_t describe(CUDA_MEMCPY2D *c, void *dst, size_t dpitch, const void *src,
			    size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	CUresult result = rt_enter();

	if (result)
		return rt_done(result);
	*c = (CUDA_MEMCPY2D) {
		.dstHost = dst, .dstDevice = address(dst), .dstPitch = dpitch,
		.srcHost = src, .srcDevice = address(src), .srcPitch = spitch,
		.WidthInBytes = width, .Height = height,
	};
	if (!types_of(kind, &c->dstMemoryType, &c->srcMemoryType))
		return rt_fail(cudaErrorInvalidMemcpyDirection);
	if (width > dpitch || width > spitch)
		return rt_fail(cudaErrorInvalidPitchValue);
	return cudaSuccess;
}

RT_EXPORT cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
				   size_t width, size_t height, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY2D c;
	cudaError_t error = describe(&c, dst, dpitch, src, spitch, width, height, kind);

	return error ? error : rt_done(cuMemcpy2D(&c));
}

RT_EXPORT cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
					size_t width, size_t height, enum cudaMemcpyKind kind,
					cudaStream_t stream)
{
	CUDA_MEMCPY2D c;
	cudaError_t error = describe(&c, dst, dpitch, src, spitch, width, height, kind);

	return error ? error : rt_done(cuMemcpy2DAsync(&c, stream));
}

RT_EXPORT cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemsetD8(address(devPtr), (unsigned char)value, count));
}

RT_EXPORT cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
	CUresult result = rt_enter();

	return rt_done(result ? result :
		       cuMemsetD8Async(address(devPtr), (unsigned char)value, count, stream));
}

RT_EXPORT cudaError_t cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width,
				   size_t height)
{
	CUresult result = rt_enter();

	return rt_done(result ? result :
		       cuMemsetD2D8(address(devPtr), pitch, (unsigned char)value, width, height));
}

RT_EXPORT cudaError_t cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width,
					size_t height, cudaStream_t stream)
{
	CUresult result = rt_enter();

	return rt_done(result ? result :
				cuMemsetD2D8Async(address(devPtr), pitch, (unsigned char)value,
						  width, height, stream));
}
