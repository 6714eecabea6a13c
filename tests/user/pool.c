// SPDX-License-Identifier: MIT
/* pool.c - memory pools in one process.  share.c: in others. */
#include <pthread.h>

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

CASE(memory)
{
	size_t before = free_memory(), size;
	CUmemoryPool pool, theirs;
	CUdeviceptr p, q, base;
	unsigned char byte = 0;
	uint64_t v;
	CUstream s;
	void *ctx = &s;
	int capable = 5;

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

CASE(bad_memory)
{
	CUdeviceptr p;

	BAD(cuMemAllocAsync(NULL, 100, NULL));
	BAD(cuMemAllocAsync(NULL, 0, NULL));
	p = 7;
	OK(cuMemAllocAsync(&p, 0, NULL));
	assert_int_equal(p, 0);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&p, (size_t)1 << 50, NULL));
	BAD(cuMemAllocFromPoolAsync(&p, 100, NULL, NULL));
	OK(cuMemFreeAsync(0, NULL));
	OK(cuMemAllocAsync(&p, 4096, NULL));
	BAD(cuMemFreeAsync(p + 8, NULL));
	OK(cuMemFreeAsync(p, NULL));
}

CASE(pools)
{
	CUmemPoolProps small = props, wrong = props;
	CUmemoryPool pool, other, first;
	CUdeviceptr p, q;
	uint64_t v = 1234;

	small.maxSize = 33 * MIB;	/* it counts in units of 32 MiB */
	OK(cuMemPoolCreate(&pool, &small));
	OK(cuMemAllocFromPoolAsync(&p, 48 * MIB, pool, NULL));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 32 * MIB, pool, NULL));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 65 * MIB, pool, NULL));
	OK(cuMemAllocFromPoolAsync(&q, 8 * MIB, pool, NULL));
	OK(cuMemFreeAsync(q, NULL));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
	v = 0;
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
	assert_int_equal(v, 1234);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &v));
	assert_true(v >= 56 * MIB);
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
	OK(cuMemPoolCreate(&other, &props));	/* one that is no allocation's place */
	OK(cuMemPoolDestroy(other));
	OK(cuDeviceGetMemPool(&other, 0));
	assert_ptr_equal(other, pool);
	OK(cuMemPoolDestroy(pool));	/* its memory stays, and the first is in its place again */
	OK(cuMemsetD8(p, 1, MIB));
	OK(cuDeviceGetMemPool(&other, 0));
	assert_ptr_equal(other, first);
	OK(cuCtxSynchronize());		/* that cuMemFree does not wait, for pools' memory */
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
	BAD(cuMemPoolCreate(&pool, &wrong));
	BAD(cuMemPoolCreate(NULL, &props));
	if (on_softgpu()) {
		wrong = props;
		wrong.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
		FAILS(CUDA_ERROR_NOT_PERMITTED, cuMemPoolCreate(&pool, &wrong));
	}
}

CASE(access_of_pools)
{
	CUmemAccessDesc desc = { .location = props.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE }, both[2] = { desc, desc }, own = desc;
	CUmemLocation here = props.location;
	CUmemAccess_flags flags;
	CUmemoryPool pool;
	int count;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolGetAccess(&flags, pool, &here));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, &desc, 1));	/* its own GPU's */
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, both, 2));
	own.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolSetAccess(pool, &own, 1));
	own.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	OK(cuMemPoolSetAccess(pool, &own, 1));
	OK(cuMemPoolSetAccess(pool, &own, 0));
	BAD(cuMemPoolSetAccess(pool, NULL, 1));
	own.flags = (CUmemAccess_flags)7;
	BAD(cuMemPoolSetAccess(pool, &own, 1));
	own.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	own.location.id = 99;
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, &own, 1));
	own.location.type = CU_MEM_LOCATION_TYPE_HOST;
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolSetAccess(pool, &own, 1));
	OK(cuDeviceGetCount(&count));
	if (count > 1) {
		desc.location.id = here.id = 1;
		OK(cuMemPoolGetAccess(&flags, pool, &here));
		assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
		desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		OK(cuMemPoolSetAccess(pool, &desc, 1));
		OK(cuMemPoolGetAccess(&flags, pool, &here));
		assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
		/* several at once: all of them, or none */
		both[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		both[1].location.id = 1;
		OK(cuMemPoolSetAccess(pool, both, 2));
		OK(cuMemPoolGetAccess(&flags, pool, &here));
		assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
		both[0] = desc;
		both[1].location = props.location;
		FAILS(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, both, 2));
		OK(cuMemPoolGetAccess(&flags, pool, &here));
		assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	}
	OK(cuMemPoolDestroy(pool));
}

/* An import of a pool is one handle, and is there until each import was destroyed. */
CASE(imports)
{
	CUmemPoolProps shared = props;
	CUmemoryPool pool, one, again;
	int fd, round, types = 0;

	OK(cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
	if (!(types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		skip();		/* a GPU inside the process has no others to share with */
	shared.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	OK(cuMemPoolCreate(&pool, &shared));
	OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	for (round = 0; round < 2; round++) {
		OK(cuMemPoolImportFromShareableHandle(&one, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		OK(cuMemPoolImportFromShareableHandle(&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		assert_ptr_equal(one, again);
		OK(cuMemPoolDestroy(one));
		OK(cuMemPoolImportFromShareableHandle(&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		assert_ptr_equal(one, again);
		OK(cuMemPoolDestroy(one));
		OK(cuMemPoolDestroy(one));
		if (on_softgpu())	/* a real driver takes the pointer that it is */
			BAD(cuMemPoolDestroy(one));
	}
	close(fd);
	OK(cuMemPoolDestroy(pool));
}

static uint64_t id_of(CUdeviceptr p)
{
	uint64_t v = 0;

	OK(cuPointerGetAttribute(&v, A(BUFFER_ID), p));
	return v;
}

/* The current context's view of it. */
static void holds(CUdeviceptr p, size_t length, int want)
{
	unsigned char byte = 0;

	OK(cuMemcpyDtoH(&byte, p + length - 1, 1));
	assert_int_equal(byte, want);
}

/* Pools, and memory of them, belong to no context: none ends with any. */
CASE(contexts_end)
{
	CUmemoryPool pool;
	CUcontext ctx, again;
	CUdeviceptr p, q, small;
	uint64_t id[3];
	CUstream s;
	void *owner = &s;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuCtxCreate(&ctx, 0, 0));
	OK(cuStreamCreate(&s, 0));
	OK(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
	OK(cuMemAllocAsync(&q, MIB, s));
	OK(cuMemAllocFromPoolAsync(&small, 100, pool, s));
	OK(cuMemsetD8Async(p, 5, MIB, s));
	OK(cuMemsetD8Async(q, 6, MIB, s));
	OK(cuMemsetD8Async(small, 7, 100, s));
	OK(cuCtxSynchronize());
	id[0] = id_of(p);
	id[1] = id_of(q);
	id[2] = id_of(small);
	OK(cuCtxDestroy(ctx));
	assert_true(id_of(p) == id[0] && id_of(q) == id[1] && id_of(small) == id[2]);
	OK(cuCtxSetCurrent(test_context()));
	holds(p, MIB, 5);
	holds(q, MIB, 6);
	holds(small, 100, 7);
	OK(cuPointerGetAttribute(&owner, A(CONTEXT), small));
	assert_null(owner);

	/* nor with the primary one, whichever way that ends */
	OK(cuDevicePrimaryCtxReset(0));
	assert_true(id_of(p) == id[0] && id_of(q) == id[1] && id_of(small) == id[2]);
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuCtxSetCurrent(again));
	holds(p, MIB, 5);
	OK(cuDevicePrimaryCtxRelease(0));
	assert_true(id_of(p) == id[0] && id_of(q) == id[1] && id_of(small) == id[2]);
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuCtxSetCurrent(again));
	holds(q, MIB, 6);
	if (on_softgpu())
		assert_int_equal(used(pool), MIB + 100);
	OK(cuMemFree(p));
	OK(cuMemFreeAsync(q, NULL));
	OK(cuMemFreeAsync(small, NULL));
	OK(cuStreamSynchronize(NULL));
	if (on_softgpu())
		assert_int_equal(used(pool), 0);
	OK(cuMemPoolDestroy(pool));
}

static void CUDA_CB slow(void *unused)
{
	usleep(20000);
}

/* A stream, and a word of the host's that it can wait for. */
struct held_up {
	CUstream stream;
	unsigned int *value;
	CUdeviceptr word;
};

static void new_held_up(struct held_up *h)
{
	OK(cuMemAllocHost((void **)&h->value, 4096));
	*h->value = 0;
	OK(cuMemHostGetDevicePointer(&h->word, h->value, 0));
	OK(cuStreamCreate(&h->stream, CU_STREAM_NON_BLOCKING));
}

static void hold_up(struct held_up *h)
{
	OK(cuStreamWaitValue32(h->stream, h->word, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void go_on(struct held_up *h)
{
	__atomic_store_n(h->value, 1, __ATOMIC_SEQ_CST);
}

static void end_held_up(struct held_up *h)
{
	OK(cuStreamDestroy(h->stream));
	OK(cuMemFreeHost(h->value));
}

/* cuMemFreeAsync ends the memory when the stream comes to that; for the program it is gone at once. */
CASE(freed_later)
{
	CUmemoryPool pool;
	CUdeviceptr p, base;
	size_t size, before = 0;
	uint64_t v;
	struct held_up h;

	new_held_up(&h);
	OK(cuMemPoolCreate(&pool, &props));
	if (on_softgpu())
		before = free_memory();
	OK(cuMemAllocFromPoolAsync(&p, MIB, pool, h.stream));
	hold_up(&h);
	OK(cuMemsetD8Async(p, 1, MIB, h.stream));
	OK(cuMemFreeAsync(p, h.stream));	/* in the middle of it all, the call returns */
	assert_int_equal(used(pool), 0);
	BAD(cuPointerGetAttribute(&v, A(BUFFER_ID), p));
	FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p));
	BAD(cuMemsetD8Async(p, 1, MIB, h.stream));
	BAD(cuMemFreeAsync(p, h.stream));
	BAD(cuMemFree(p));
	if (on_softgpu())
		assert_int_equal(before - free_memory(), MIB);
	go_on(&h);
	OK(cuStreamSynchronize(h.stream));	/* the memset was done before the memory went */
	if (on_softgpu())
		assert_int_equal(free_memory(), before);
	OK(cuMemPoolDestroy(pool));
	end_held_up(&h);
}

/* The same for cuMemAlloc's, which is there until then. */
CASE(plain_freed_later)
{
	CUdeviceptr p;
	unsigned char byte;
	uint64_t v;
	struct held_up h;

	new_held_up(&h);
	OK(cuMemAlloc(&p, MIB));
	OK(cuMemsetD8(p, 3, MIB));
	OK(cuCtxSynchronize());
	hold_up(&h);
	OK(cuMemFreeAsync(p, h.stream));
	OK(cuMemcpyDtoH(&byte, p, 1));
	assert_int_equal(byte, 3);
	if (on_softgpu())
		BAD(cuMemFreeAsync(p, h.stream));
	go_on(&h);
	OK(cuStreamSynchronize(h.stream));
	BAD(cuPointerGetAttribute(&v, A(BUFFER_ID), p));
	BAD(cuMemFree(p));
	end_held_up(&h);
}

/* cuMemFree ends a pool's memory at once, whatever streams have still to do. */
CASE(freed_at_once)
{
	CUdeviceptr p;
	uint64_t v;
	struct held_up h;

	new_held_up(&h);
	OK(cuMemAllocAsync(&p, MIB, h.stream));
	OK(cuStreamSynchronize(h.stream));
	hold_up(&h);
	OK(cuMemFree(p));
	BAD(cuPointerGetAttribute(&v, A(BUFFER_ID), p));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(h.stream));
	go_on(&h);
	OK(cuStreamSynchronize(h.stream));
	end_held_up(&h);
}

/* What finds no room waits for frees that streams have still to come to. */
CASE(room_comes)
{
	CUdeviceptr p, q;
	size_t most;
	CUstream s;

	ONLY_SOFTGPU("too much to fill");
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	most = free_memory() / 4 * 3;
	for (int i = 0; i < 4; i++) {
		OK(cuMemAllocAsync(&p, most, s));
		OK(cuLaunchHostFunc(s, slow, NULL));
		OK(cuMemsetD8Async(p, 1, KIB, s));
		OK(cuMemFreeAsync(p, s));
	}
	OK(cuStreamSynchronize(s));
	OK(cuMemAlloc(&p, most));
	/* nothing is to be freed: no call waits */
	OK(cuLaunchHostFunc(s, slow, NULL));
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&q, most, s));
	FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
	OK(cuStreamSynchronize(s));
	OK(cuMemFree(p));
	OK(cuStreamDestroy(s));
}

struct limited {
	CUmemoryPool pool;
	size_t size;
	CUdeviceptr p;
	CUresult result;
};

static void *allocates(void *arg)
{
	struct limited *l = arg;

	l->result = cuCtxSetCurrent(test_context());
	if (!l->result)
		l->result = cuMemAllocFromPoolAsync(&l->p, l->size, l->pool, NULL);
	return NULL;
}

/* An allocation that still waits for room has its part of what the pool may have. */
CASE(limit_holds)
{
	CUmemPoolProps small = props;
	struct limited l = { .size = 32 * MIB };
	struct held_up h;
	pthread_t thread;
	CUdeviceptr all, q;

	ONLY_SOFTGPU("too much to fill");
	small.maxSize = l.size;
	new_held_up(&h);
	OK(cuMemPoolCreate(&l.pool, &small));
	OK(cuMemAllocAsync(&all, free_memory() / MIB * MIB - 8 * MIB, h.stream));
	OK(cuStreamSynchronize(h.stream));
	hold_up(&h);
	OK(cuMemFreeAsync(all, h.stream));
	assert_int_equal(pthread_create(&thread, NULL, allocates, &l), 0);
	for (int i = 0; i < 10000 && !used(l.pool); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	assert_int_equal(used(l.pool), l.size);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, MIB, l.pool, NULL));
	go_on(&h);
	assert_int_equal(pthread_join(thread, NULL), 0);
	OK(l.result);
	OK(cuMemFree(l.p));
	assert_int_equal(used(l.pool), 0);
	/* What fails does not count. */
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&q, 33 * MIB, l.pool, NULL));
	assert_int_equal(used(l.pool), 0);
	OK(cuMemPoolDestroy(l.pool));
	OK(cuStreamSynchronize(h.stream));
	end_held_up(&h);
}

/* Of a GPU that has no context. */
CASE(of_another_gpu)
{
	CUmemPoolProps second = props;
	CUmemoryPool pool;
	CUdeviceptr p;
	int count, gpu = -1;

	OK(cuDeviceGetCount(&count));
	if (count < 2)
		skip();
	second.location.id = 1;
	OK(cuMemPoolCreate(&pool, &second));
	OK(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuPointerGetAttribute(&gpu, A(DEVICE_ORDINAL), p));
	assert_int_equal(gpu, 1);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolDestroy(pool));
}

CASE(runtime)
{
	struct cudaMemPoolProps rt = {
		.allocType = cudaMemAllocationTypePinned, .location = { .type = cudaMemLocationTypeDevice },
	};
	struct cudaPointerAttributes a;
	cudaMemPool_t pool;
	void *p = NULL;
	size_t size;

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

MAIN(gpu_setup, gpu_teardown)
