/* SPDX-License-Identifier: MIT */
/*
 * cuda_calls.h - the CUDA driver API's functions that these tests call, from
 * whichever libcuda.so.1 is there: NVIDIA's or softgpu's.  Missing ones are NULL.
 */
#pragma once

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef unsigned long long gpu_ptr;

/* CUmemAllocationProp */
struct cuda_prop {
	int type, handle_types, location_type, location_id;
	void *win32;
	unsigned char compression, rdma_capable;
	unsigned short usage;
	unsigned char reserved[4];
};

/* CUmemPoolProps */
struct cuda_pool_props {
	int type, handle_types, location_type, location_id;
	void *win32;
	size_t max;
	unsigned short usage;
	unsigned char reserved[54];
};

_Static_assert(sizeof(struct cuda_pool_props) == 88, "CUDA's layout");

/* CUmemAccessDesc */
struct cuda_access {
	int location_type, location_id, flags;
};

#define CUDA_CALLS(X) \
	X(cuInit, (unsigned int)) \
	X(cuDeviceGetCount, (int *)) \
	X(cuDeviceGet, (int *, int)) \
	X(cuDeviceGetName, (char *, int, int)) \
	X(cuDeviceGetPCIBusId, (char *, int, int)) \
	X(cuDevicePrimaryCtxRetain, (void **, int)) \
	X(cuCtxSetCurrent, (void *)) \
	X(cuCtxCreate_v2, (void **, unsigned int, int)) \
	X(cuCtxDestroy_v2, (void *)) \
	X(cuMemAlloc_v2, (gpu_ptr *, size_t)) \
	X(cuMemFree_v2, (gpu_ptr)) \
	X(cuMemAllocManaged, (gpu_ptr *, size_t, unsigned int)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned int)) \
	X(cuMemFreeHost, (void *)) \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned int)) \
	X(cuMemHostUnregister, (void *)) \
	X(cuMemcpyDtoH_v2, (void *, gpu_ptr, size_t)) \
	X(cuMemcpyHtoD_v2, (gpu_ptr, const void *, size_t)) \
	X(cuMemsetD8_v2, (gpu_ptr, unsigned char, size_t)) \
	X(cuPointerGetAttribute, (void *, int, gpu_ptr)) \
	X(cuMemAllocAsync, (gpu_ptr *, size_t, void *)) \
	X(cuMemFreeAsync, (gpu_ptr, void *)) \
	X(cuStreamSynchronize, (void *)) \
	X(cuMemGetAllocationGranularity, (size_t *, const struct cuda_prop *, int)) \
	X(cuMemAddressReserve, (gpu_ptr *, size_t, size_t, gpu_ptr, unsigned long long)) \
	X(cuMemAddressFree, (gpu_ptr, size_t)) \
	X(cuMemCreate, (unsigned long long *, size_t, const struct cuda_prop *, unsigned long long)) \
	X(cuMemRelease, (unsigned long long)) \
	X(cuMemMap, (gpu_ptr, size_t, size_t, unsigned long long, unsigned long long)) \
	X(cuMemUnmap, (gpu_ptr, size_t)) \
	X(cuMemSetAccess, (gpu_ptr, size_t, const struct cuda_access *, size_t))

struct cuda_calls {
#define X(name, arguments) int (*name) arguments;
	CUDA_CALLS(X)
#undef X
};

/* 0: there is no libcuda.so.1. */
static inline int cuda_calls_load(struct cuda_calls *calls)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbol;

	if (!library)
		return 0;
#define X(name, arguments) \
	symbol = dlsym(library, #name); \
	memcpy(&calls->name, &symbol, sizeof(symbol));
	CUDA_CALLS(X)
#undef X
	return 1;
}
