/* SPDX-License-Identifier: MIT */
/*
 * hip_runtime_api.h - the part of HIP that softgpu's libamdhip64 implements: devices and memory,
 * for C.  The CPU reads and writes memory of hipMalloc at the same address.
 */
#ifndef HIP_RUNTIME_API_H
#define HIP_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hipError_t {
	hipSuccess = 0,
	hipErrorInvalidValue = 1,
	hipErrorOutOfMemory = 2,
	hipErrorNotInitialized = 3,
	hipErrorNoDevice = 100,
	hipErrorInvalidDevice = 101,
	hipErrorUnknown = 999,
} hipError_t;

typedef enum hipMemcpyKind {
	hipMemcpyHostToHost = 0,
	hipMemcpyHostToDevice = 1,
	hipMemcpyDeviceToHost = 2,
	hipMemcpyDeviceToDevice = 3,
	hipMemcpyDefault = 4,
} hipMemcpyKind;

hipError_t hipInit(unsigned int flags);
hipError_t hipGetDeviceCount(int *count);
/* Sets the device of the calling thread, as in CUDA; device 0 until then. */
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device);
hipError_t hipDeviceGetPCIBusId(char *id, int length, int device);
hipError_t hipDeviceSynchronize(void);
hipError_t hipMalloc(void **ptr, size_t size);
hipError_t hipFree(void *ptr);
/*
 * CPU memory that GPU and CPU both use in place: managed memory, and host memory, which hipHostFree
 * frees.
 */
enum { hipMemAttachGlobal = 1, hipMemAttachHost = 2 };
enum {
	hipHostMallocDefault = 0, hipHostMallocPortable = 1, hipHostMallocMapped = 2,
	hipHostMallocWriteCombined = 4, hipHostMallocCoherent = 0x40000000,
};
#ifdef __cplusplus
hipError_t hipMallocManaged(void **ptr, size_t size, unsigned int flags = hipMemAttachGlobal);
hipError_t hipHostMalloc(void **ptr, size_t size, unsigned int flags = hipHostMallocDefault);
#else
hipError_t hipMallocManaged(void **ptr, size_t size, unsigned int flags);
hipError_t hipHostMalloc(void **ptr, size_t size, unsigned int flags);
#endif
hipError_t hipHostFree(void *ptr);
/* Allocates rows of `width` bytes.  *pitch is the distance of their beginnings. */
hipError_t hipMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height);

typedef enum hipMemoryType {
	hipMemoryTypeUnregistered = 0,	/* HIP does not know the memory */
	hipMemoryTypeHost = 1,
	hipMemoryTypeDevice = 2,
	hipMemoryTypeManaged = 3,
	hipMemoryTypeArray = 10,
	hipMemoryTypeUnified = 11,
} hipMemoryType;

typedef struct hipPointerAttribute_t {
	union {
		hipMemoryType type;
		hipMemoryType memoryType;	/* the field's name before HIP 6 */
	};
	int device;
	void *devicePointer, *hostPointer;
	int isManaged;
	unsigned int allocationFlags;
} hipPointerAttribute_t;

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr);
hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind);
hipError_t hipMemset(void *dst, int value, size_t size);
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);

#ifdef __cplusplus
}
#endif
#endif
