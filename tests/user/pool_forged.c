// SPDX-License-Identifier: MIT
/*
 * pool_forged.c - a pointer that another process exports from a pool is that process's bytes: their length must be the
 * memory's, or this process would take the range for the pool's, with other allocations in it.
 */
#include "device.h"
#include "test.h"

#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

/* As in pool_ipc.c. */
struct pointer {
	char magic[8];
	uint64_t id, key[2], secret[2];
	char zero[8];
	uint64_t length;
};

static const CUmemPoolProps props = {
	.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = FD,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};
static CUmemoryPool own, imported;
static CUmemPoolPtrExportData data;
static struct pointer pointer;

/* Memory of another process, as of its pool, which is imported. */
static int setup(void **state)
{
	struct softgpu_mem_alloc alloc = { .size = sizeof(alloc), .length = MIB };
	struct softgpu_ipc_export export = { .size = sizeof(export) };
	struct sg_client *other;
	CUdeviceptr p;
	uint32_t ctx;
	int fd;

	gpu_setup(state);
	OK(cuMemPoolCreate(&own, &props));
	OK(cuMemPoolExportToShareableHandle(&fd, own, FD, 0));
	OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)fd, FD, 0));
	close(fd);
	OK(cuMemAllocFromPoolAsync(&p, MIB, own, NULL));
	OK(cuMemPoolExportPointer(&data, p));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemPoolImportPointer(&p, imported, &data));
	OK(cuMemFree(p));
	memcpy(&pointer, &data, sizeof(pointer));
	assert_int_equal(pointer.length, MIB);

	other = device_other(0, 0, &ctx);
	assert_int_equal(sg_call(other, _IOC_NR(SOFTGPU_MEM_ALLOC), &alloc, sizeof(alloc)), 0);
	export.va = alloc.va;
	assert_int_equal(sg_call(other, _IOC_NR(SOFTGPU_IPC_EXPORT), &export, sizeof(export)), 0);
	pointer.id = export.id;
	memcpy(pointer.key, export.key, sizeof(pointer.key));
	return 0;
}

static CUresult import(uint64_t length, CUdeviceptr *p)
{
	pointer.length = length;
	memcpy(&data, &pointer, sizeof(data));
	return cuMemPoolImportPointer(p, imported, &data);
}

static CUmemoryPool pool_at(CUdeviceptr p)
{
	CUmemoryPool pool = NULL;

	return cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p) ? NULL : pool;
}

CASE(lengths)
{
	static const uint64_t wrong[] = { 0, 1, MIB - 1, MIB + 1, 1ull << 40, -1ull << 40, -1ull };
	CUdeviceptr before, after, p, again;

	OK(cuMemAllocFromPoolAsync(&before, 64 * KIB, own, NULL));
	OK(import(MIB, &p));
	assert_true(pool_at(p) == imported && pool_at(p + MIB - 1) == imported);
	OK(cuMemAllocFromPoolAsync(&after, 64 * KIB, own, NULL));
	OK(cuMemFree(p));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		FAILS(CUDA_ERROR_INVALID_VALUE, import(wrong[i], &p));
		assert_true(pool_at(before) == own && pool_at(after) == own);
	}
	/* Nothing of those is left. */
	OK(import(MIB, &p));
	OK(import(MIB, &again));
	assert_true(p == again && pool_at(p) == imported);
	OK(cuMemFree(p));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
	OK(cuMemFree(before));
	OK(cuMemFree(after));
}

/* After a free that failed, the memory is the pool's as before. */
CASE(failed_free)
{
	CUdeviceptr p;

	OK(import(MIB, &p));
	device_fail(SOFTGPU_MEM_FREE_ASYNC, 1, EINVAL);
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, NULL));
	assert_true(device_failed && pool_at(p) == imported);
	BAD(cuMemPoolDestroy(imported));
	OK(cuMemFree(p));
	OK(cuMemPoolDestroy(imported));
	OK(cuMemPoolDestroy(own));
}

MAIN(setup, gpu_teardown)
