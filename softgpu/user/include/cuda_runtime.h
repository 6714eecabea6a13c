/* SPDX-License-Identifier: MIT */
/*
 * cuda_runtime.h - the CUDA runtime API as programs include it: the C functions and, in C++,
 * overloads without casts and with default arguments.
 */
#ifndef SOFTGPU_CUDA_RUNTIME_H
#define SOFTGPU_CUDA_RUNTIME_H
#define __CUDA_RUNTIME_H__

#include "cuda_runtime_api.h"

#ifdef __cplusplus

template <class T> static inline cudaError_t cudaMalloc(T **devPtr, size_t size)
{
	return ::cudaMalloc((void **)(void *)devPtr, size);
}

template <class T> static inline cudaError_t cudaMallocPitch(T **devPtr, size_t *pitch,
							     size_t width, size_t height)
{
	return ::cudaMallocPitch((void **)(void *)devPtr, pitch, width, height);
}

template <class T>
static inline cudaError_t cudaMallocManaged(T **devPtr, size_t size,
					    unsigned int flags = cudaMemAttachGlobal)
{
	return ::cudaMallocManaged((void **)(void *)devPtr, size, flags);
}

template <class T>
static inline cudaError_t cudaMallocHost(T **ptr, size_t size,
					 unsigned int flags = cudaHostAllocDefault)
{
	return ::cudaHostAlloc((void **)(void *)ptr, size, flags);
}

template <class T> static inline cudaError_t cudaHostAlloc(T **ptr, size_t size, unsigned int flags)
{
	return ::cudaHostAlloc((void **)(void *)ptr, size, flags);
}

template <class T> static inline cudaError_t cudaHostGetDevicePointer(T **pDevice, void *pHost,
								      unsigned int flags)
{
	return ::cudaHostGetDevicePointer((void **)(void *)pDevice, pHost, flags);
}

static inline cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count,
					  enum cudaMemcpyKind kind)
{
	return ::cudaMemcpyAsync(dst, src, count, kind, (cudaStream_t)0);
}

static inline cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count)
{
	return ::cudaMemsetAsync(devPtr, value, count, (cudaStream_t)0);
}

static inline cudaError_t cudaEventRecord(cudaEvent_t event)
{
	return ::cudaEventRecord(event, (cudaStream_t)0);
}

static inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags)
{
	return ::cudaEventCreateWithFlags(event, flags);
}

static inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event)
{
	return ::cudaStreamWaitEvent(stream, event, 0);
}

#endif

#endif
