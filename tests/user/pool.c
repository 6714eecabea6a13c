// SPDX-License-Identifier: MIT
/* pool.c - memory pools in one process.  share.c: in others. */
#include "test.h"
#include "cuda_runtime_api.h"

#define A(name) CU_POINTER_ATTRIBUTE_##name

static const CUmemPoolProps props = {
	.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
};

static uint64_t used(CUmemoryPool pool)
{
	uint64_t v = 12345;

	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
	return v;
}

static size_t free_memory(void)
{
	size_t free, total;

	OK(cuMemGetInfo(&free, &total));
	return free;
}

static void memory(void **state)
{
	size_t before = free_memory(), size;
	CUmemoryPool pool, theirs;
	CUdeviceptr p, q, base;
	unsigned char byte = 0;
	uint64_t v;
	CUstream s;
	void *ctx = &s;
	int capable = 5;

	(void)state;
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemAllocAsync(&p, MIB, s));
	OK(cuMemAllocAsync(&q, 100, NULL));
	OK(cuMemsetD8Async(p, 7, MIB, s));
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoH(&byte, p + MIB - 1, 1));
	assert_int_equal(byte, 7);
	OK(cuMemGetAddressRange(&base, &size, p + 17));
	assert_true(base == p && size >= MIB);

	/* what it is: no context's, the pool's, not for cuIpcGetMemHandle */
	OK(cuPointerGetAttribute(&ctx, A(CONTEXT), p + 5));
	assert_null(ctx);
	OK(cuPointerGetAttribute(&theirs, A(MEMPOOL_HANDLE), p + 5));
	assert_ptr_equal(theirs, pool);
	OK(cuPointerGetAttribute(&capable, A(IS_LEGACY_CUDA_IPC_CAPABLE), p));
	assert_int_equal(capable, 0);
	OK(cuPointerGetAttribute(&v, A(ALLOWED_HANDLE_TYPES), p));
	assert_int_equal(v, 0);
	v = 0;
	OK(cuPointerGetAttribute(&v, A(MEMORY_TYPE), p));
	assert_int_equal(v, CU_MEMORYTYPE_DEVICE);
	if (on_softgpu()) {
		CUipcMemHandle handle;
		CUmemPoolPtrExportData data;

		assert_int_equal(used(pool), MIB + 100);
		/* in one process there is no handle of any memory */
		assert_int_not_equal(cuIpcGetMemHandle(&handle, p), CUDA_SUCCESS);
		BAD(cuMemPoolExportPointer(&data, p));
	}
	/* a neighbour of another kind has none of it */
	OK(cuMemAlloc(&base, MIB));
	OK(cuPointerGetAttribute(&ctx, A(CONTEXT), base));
	assert_ptr_equal(ctx, test_context());
	OK(cuPointerGetAttribute(&theirs, A(MEMPOOL_HANDLE), base));
	assert_null(theirs);

	OK(cuMemFreeAsync(p, s));
	OK(cuMemFree(q));		/* the plain one will do */
	OK(cuMemFreeAsync(base, s));	/* and the other way round */
	OK(cuStreamSynchronize(s));
	BAD(cuPointerGetAttribute(&v, A(BUFFER_ID), p));
	BAD(cuMemFree(p));
	if (on_softgpu()) {
		BAD(cuMemFreeAsync(p, s));
		assert_int_equal(used(pool), 0);
		assert_int_equal(free_memory(), before);
	}
	OK(cuStreamDestroy(s));
}

static void bad_memory(void **state)
{
	CUdeviceptr p;

	(void)state;
	BAD(cuMemAllocAsync(NULL, 100, NULL));
	BAD(cuMemAllocAsync(&p, 0, NULL));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&p, (size_t)1 << 50, NULL));
	BAD(cuMemAllocFromPoolAsync(&p, 100, NULL, NULL));
	BAD(cuMemFreeAsync(0, NULL));
	OK(cuMemAllocAsync(&p, 4096, NULL));
	BAD(cuMemFreeAsync(p + 8, NULL));
	OK(cuMemFreeAsync(p, NULL));
}

static void pools(void **state)
{
	CUmemPoolProps small = props, wrong = props;
	CUmemoryPool pool, other, first;
	CUdeviceptr p, q;
	uint64_t v = 1234;

	(void)state;
	small.maxSize = 4 * MIB;
	OK(cuMemPoolCreate(&pool, &small));
	OK(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, NULL));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 2 * MIB, pool, NULL));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
	v = 0;
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
	assert_int_equal(v, 1234);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &v));
	assert_true(v >= 3 * MIB);
	v = 0;
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &v));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &v));
	assert_int_equal(v, 0);
	v = 1;
	BAD(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &v));
	BAD(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
	BAD(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &v));
	OK(cuMemPoolTrimTo(pool, 0));

	/* the GPU's own one is another's place */
	OK(cuDeviceGetMemPool(&first, 0));
	OK(cuDeviceSetMemPool(0, pool));
	OK(cuDeviceGetMemPool(&other, 0));
	assert_ptr_equal(other, pool);
	OK(cuMemAllocAsync(&p, MIB, NULL));
	assert_true(used(pool) >= MIB);
	BAD(cuMemPoolDestroy(first));
	OK(cuDeviceGetMemPool(&other, 0));
	assert_ptr_equal(other, pool);
	OK(cuMemPoolCreate(&other, &props));	/* one that is nobody's place */
	OK(cuMemPoolDestroy(other));
	OK(cuDeviceGetMemPool(&other, 0));
	assert_ptr_equal(other, pool);
	OK(cuMemPoolDestroy(pool));	/* its memory stays, and the first is in its place again */
	OK(cuMemsetD8(p, 1, MIB));
	OK(cuDeviceGetMemPool(&other, 0));
	assert_ptr_equal(other, first);
	OK(cuMemFree(p));
	if (on_softgpu()) {	/* a real driver takes the pointer that it is */
		BAD(cuMemPoolDestroy(pool));
		BAD(cuMemPoolTrimTo(pool, 0));
		BAD(cuMemAllocFromPoolAsync(&p, 100, pool, NULL));
	}
	wrong.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
	BAD(cuMemPoolCreate(&pool, &wrong));
	wrong = props;
	wrong.location.id = 1000;
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPoolCreate(&pool, &wrong));
	BAD(cuMemPoolCreate(NULL, &props));
	if (on_softgpu()) {
		wrong = props;
		wrong.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
		FAILS(CUDA_ERROR_NOT_PERMITTED, cuMemPoolCreate(&pool, &wrong));
	}
}

static void access_of_pools(void **state)
{
	CUmemAccessDesc desc = { .location = props.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE };
	CUmemLocation here = props.location;
	CUmemAccess_flags flags;
	CUmemoryPool pool;
	int count;

	(void)state;
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolGetAccess(&flags, pool, &here));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	BAD(cuMemPoolSetAccess(pool, &desc, 1));	/* its own GPU's */
	OK(cuDeviceGetCount(&count));
	if (count > 1) {
		desc.location.id = here.id = 1;
		OK(cuMemPoolGetAccess(&flags, pool, &here));
		assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
		desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		OK(cuMemPoolSetAccess(pool, &desc, 1));
		OK(cuMemPoolGetAccess(&flags, pool, &here));
		assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	}
	OK(cuMemPoolDestroy(pool));
}

/* Memory of a context that ended is not the pool's any more. */
static void context_ends(void **state)
{
	CUmemoryPool pool;
	CUcontext ctx;
	CUdeviceptr p;
	uint64_t v;

	(void)state;
	if (!on_softgpu())
		skip();		/* there it stays */
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuCtxCreate(&ctx, 0, 0));
	OK(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
	OK(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(test_context()));
	assert_int_equal(used(pool), 0);
	BAD(cuPointerGetAttribute(&v, A(MEMPOOL_HANDLE), p));
	BAD(cuMemFree(p));
	OK(cuMemPoolDestroy(pool));
}

static void runtime(void **state)
{
	struct cudaMemPoolProps rt = {
		.allocType = cudaMemAllocationTypePinned, .location = { .type = cudaMemLocationTypeDevice },
	};
	struct cudaPointerAttributes a;
	cudaMemPool_t pool;
	void *p = NULL;
	size_t size;

	(void)state;
	assert_int_equal(cudaMallocAsync(&p, 1000, NULL), cudaSuccess);
	assert_int_equal(cudaPointerGetAttributes(&a, p), cudaSuccess);
	assert_int_equal(a.type, cudaMemoryTypeDevice);
	assert_int_equal(cudaFreeAsync(p, NULL), cudaSuccess);
	assert_int_equal(cudaMemPoolCreate(&pool, &rt), cudaSuccess);
	assert_int_equal(cudaMallocFromPoolAsync(&p, 1000, pool, NULL), cudaSuccess);
	assert_int_equal(cudaFree(p), cudaSuccess);
	assert_int_equal(cudaMemPoolDestroy(pool), cudaSuccess);
	assert_int_equal(cudaMallocAsync(NULL, 1000, NULL), cudaErrorInvalidValue);
	/* no kernels, no variables of theirs */
	assert_int_equal(cudaGetSymbolSize(&size, "nothing"), cudaErrorInvalidSymbol);
	assert_int_equal(cudaGetSymbolAddress(&p, "nothing"), cudaErrorInvalidSymbol);
	assert_string_equal(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidSymbol");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory),
		cmocka_unit_test(bad_memory),
		cmocka_unit_test(pools),
		cmocka_unit_test(access_of_pools),
		cmocka_unit_test(context_ends),
		cmocka_unit_test(runtime),
	};

	return RUN(tests);
}
