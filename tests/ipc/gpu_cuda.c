// SPDX-License-Identifier: MIT
/* gpu_cuda.c - CUDA's memory: of cuMemAlloc, of cuMemCreate, and of a pool. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda.h"
#include "gpu.h"

#define OK(call) do {								\
	CUresult result_ = (call);						\
	if (result_) {								\
		fprintf(stderr, "%s: CUDA error %d\n", #call, result_);		\
		exit(9);							\
	}									\
} while (0)

enum { ALLOC, VMM, POOL };

const char *const gpu_provider[] = { "cuda", "cuda-vmm", "cuda-pool", NULL };
static CUcontext context;
static CUmemoryPool pool;

bool gpu_begin(void)
{
	CUdevice device;

	if (cuInit(0) || cuDeviceGet(&device, 0))
		return false;
	OK(cuCtxCreate(&context, 0, device));
	return true;
}

bool gpu_shared(void)
{
	CUipcMemHandle handle;
	CUdeviceptr p;
	CUresult result;

	OK(cuMemAlloc(&p, 65536));
	result = cuIpcGetMemHandle(&handle, p);
	OK(cuMemFree(p));
	return result != CUDA_ERROR_NOT_SUPPORTED;
}

static size_t granularity(const CUmemAllocationProp *prop)
{
	size_t g;

	OK(cuMemGetAllocationGranularity(&g, prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	return g;
}

static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};

static size_t whole(size_t length)
{
	size_t g = granularity(&prop);

	return (length + g - 1) / g * g;
}

/* CUDA keeps a descriptor of a pool that was ever shared: from here on, so that a test that counts has it from its beginning. */
static void share_once(void)
{
	int fd;

	OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(fd);
}

/* A pool that can be shared, or the GPU's own, where none can be. */
static void *pool_alloc(size_t length)
{
	bool first = !pool;
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, .location = prop.location,
	};
	CUresult result = pool ? CUDA_SUCCESS : cuMemPoolCreate(&pool, &props);
	CUdeviceptr p;

	if (result == CUDA_ERROR_NOT_SUPPORTED)
		OK(cuDeviceGetDefaultMemPool(&pool, 0));
	else
		OK(result);
	if (first && result == CUDA_SUCCESS)
		share_once();
	OK(cuMemAllocFromPoolAsync(&p, length, pool, NULL));
	OK(cuStreamSynchronize(NULL));
	return (void *)p;
}

void *gpu_alloc(int kind, size_t length)
{
	CUmemAccessDesc rw = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;

	if (kind == ALLOC) {
		OK(cuMemAlloc(&p, length));
		return (void *)p;
	}
	if (kind == POOL)
		return pool_alloc(length);
	OK(cuMemCreate(&handle, whole(length), &prop, 0));
	OK(cuMemAddressReserve(&p, whole(length), 0, 0, 0));
	OK(cuMemMap(p, whole(length), 0, handle, 0));
	OK(cuMemSetAccess(p, whole(length), &rw, 1));
	OK(cuMemRelease(handle));
	return (void *)p;
}

void gpu_free(int kind, void *p, size_t length)
{
	if (kind == ALLOC) {
		OK(cuMemFree((CUdeviceptr)p));
		return;
	}
	if (kind == POOL) {
		OK(cuMemFreeAsync((CUdeviceptr)p, NULL));
		OK(cuStreamSynchronize(NULL));
		return;
	}
	OK(cuMemUnmap((CUdeviceptr)p, whole(length)));
	OK(cuMemAddressFree((CUdeviceptr)p, whole(length)));
}

void gpu_put(void *p, const void *from, size_t length)
{
	OK(cuMemcpyHtoD((CUdeviceptr)p, from, length));
	/* Of pageable memory it returns before the bytes are there, for all that does not follow in this context. */
	OK(cuCtxSynchronize());
}

void gpu_get(void *to, const void *p, size_t length)
{
	OK(cuMemcpyDtoH(to, (CUdeviceptr)p, length));
}

bool gpu_new_context(void)
{
	CUdevice device;

	OK(cuDeviceGet(&device, 0));
	OK(cuCtxDestroy(context));
	OK(cuCtxCreate(&context, 0, device));
	return true;
}

bool gpu_no_context(bool none)
{
	OK(cuCtxSetCurrent(none ? NULL : context));
	return true;
}
