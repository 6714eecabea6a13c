// SPDX-License-Identifier: MIT
/* memory.c - memory of all kinds, and queries of pointers. */
#include <stdint.h>
#include <string.h>

#include "runtime.h"

RT_EXPORT cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemGetInfo(free, total));
}

/* A size of 0 returns NULL without an error. */
RT_EXPORT cudaError_t cudaMalloc(void **devPtr, size_t size)
{
	CUresult result = rt_enter();
	CUdeviceptr ptr = 0;

	if (!result && !devPtr)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result && size)
		result = cuMemAlloc(&ptr, size);
	if (!result)
		*devPtr = (void *)(uintptr_t)ptr;
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
	CUresult result = rt_enter();
	CUdeviceptr ptr = 0;

	if (!result && (!devPtr || !pitch))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result && width && height)
		result = cuMemAllocPitch(&ptr, pitch, width, height, 4);
	if (!result)
		*devPtr = (void *)(uintptr_t)ptr;
	return rt_done(result);
}

/* Programs initialize the runtime by cudaFree(0). */
RT_EXPORT cudaError_t cudaFree(void *devPtr)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemFree((uintptr_t)devPtr));
}

RT_EXPORT cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
	CUresult result = rt_enter();
	CUdeviceptr ptr;

	if (!result && !devPtr)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = cuMemAllocManaged(&ptr, size, flags);
	if (!result)
		*devPtr = (void *)(uintptr_t)ptr;
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemHostAlloc(pHost, size, flags));
}

RT_EXPORT cudaError_t cudaMallocHost(void **ptr, size_t size)
{
	return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

RT_EXPORT cudaError_t cudaFreeHost(void *ptr)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemFreeHost(ptr));
}

RT_EXPORT cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemHostRegister(ptr, size, flags));
}

RT_EXPORT cudaError_t cudaHostUnregister(void *ptr)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemHostUnregister(ptr));
}

RT_EXPORT cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
	CUresult result = rt_enter();
	CUdeviceptr ptr;

	if (!result && !pDevice)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = cuMemHostGetDevicePointer(&ptr, pHost, flags);
	if (!result)
		*pDevice = (void *)(uintptr_t)ptr;
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuMemHostGetFlags(pFlags, pHost));
}

/* Host memory that no GPU knows is not an error: its type is cudaMemoryTypeUnregistered. */
RT_EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
					       const void *ptr)
{
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_HOST_POINTER,
	};
	unsigned int type = 0, managed = 0;
	CUdeviceptr device_pointer = 0;
	void *host_pointer = NULL;
	int device = cudaInvalidDeviceId;
	void *values[] = { &type, &managed, &device, &device_pointer, &host_pointer };
	CUresult result = rt_enter();

	if (!result && !attributes)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = cuPointerGetAttributes(5, which, values, (uintptr_t)ptr);
	if (result)
		return rt_done(result);
	attributes->type = managed ? cudaMemoryTypeManaged : (enum cudaMemoryType)type;
	attributes->device = device;
	attributes->devicePointer = (void *)(uintptr_t)device_pointer;
	attributes->hostPointer = host_pointer;
	return cudaSuccess;
}

RT_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
	CUresult result = rt_enter();

	return rt_done(result ? result :
				cuIpcGetMemHandle((CUipcMemHandle *)handle, (uintptr_t)devPtr));
}

RT_EXPORT cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle,
					   unsigned int flags)
{
	CUresult result = rt_enter();
	CUipcMemHandle driver;
	CUdeviceptr ptr;

	memcpy(&driver, &handle, sizeof(driver));
	if (!result && !devPtr)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = cuIpcOpenMemHandle(&ptr, driver, flags);
	if (!result)
		*devPtr = (void *)(uintptr_t)ptr;
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuIpcCloseMemHandle((uintptr_t)devPtr));
}

RT_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuIpcGetEventHandle((CUipcEventHandle *)handle, event));
}

RT_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	CUresult result = rt_enter();
	CUipcEventHandle driver;

	memcpy(&driver, &handle, sizeof(driver));
	return rt_done(result ? result : cuIpcOpenEventHandle(event, driver));
}
