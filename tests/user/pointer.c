// SPDX-License-Identifier: MIT
/* pointer.c - what a pointer is, asked one way and the other. */
#include <fcntl.h>
#include <sys/mman.h>

#include "test.h"

#define A(name) CU_POINTER_ATTRIBUTE_##name
#define CPU_PAGE ((CUdeviceptr)getpagesize())

static unsigned int get32(CUpointer_attribute attribute, CUdeviceptr p)
{
	unsigned int v[2] = { 0x11111111, 0x11111111 };

	OK(cuPointerGetAttribute(v, attribute, p));
	assert_int_equal(v[1], 0x11111111);	/* 4 bytes, no more */
	return v[0];
}

static uint64_t get64(CUpointer_attribute attribute, CUdeviceptr p)
{
	uint64_t v[2] = { 0x1111, 0x1111 };

	OK(cuPointerGetAttribute(v, attribute, p));
	assert_int_equal(v[1], 0x1111);
	return v[0];
}

/* Attributes with the same answer by either call. */
static const CUpointer_attribute both_ways[] = {
	A(CONTEXT), A(MEMORY_TYPE), A(DEVICE_POINTER), A(SYNC_MEMOPS), A(BUFFER_ID), A(IS_MANAGED),
	A(DEVICE_ORDINAL), A(IS_LEGACY_CUDA_IPC_CAPABLE), A(RANGE_START_ADDR), A(RANGE_SIZE), A(MAPPED),
	A(ALLOWED_HANDLE_TYPES), A(IS_GPU_DIRECT_RDMA_CAPABLE), A(ACCESS_FLAGS), A(MEMPOOL_HANDLE),
	A(MAPPING_SIZE), A(MAPPING_BASE_ADDR),
};

static void same_both_ways(CUdeviceptr p)
{
	for (size_t i = 0; i < sizeof(both_ways) / sizeof(both_ways[0]); i++) {
		CUpointer_attribute which[1] = { both_ways[i] };
		uint64_t one = 0x1111111111111111, many = 0x1111111111111111;
		void *data[1] = { &many };

		OK(cuPointerGetAttribute(&one, which[0], p));
		OK(cuPointerGetAttributes(1, which, data, p));
		if (one != many)
			fail_msg("attribute %d of %llx: %llx and %llx", which[0], p,
				 (unsigned long long)one, (unsigned long long)many);
	}
}

CASE(device)
{
	CUdeviceptr p;
	uint64_t v;

	OK(cuMemAlloc(&p, 100));
	same_both_ways(p + 5);
	assert_ptr_equal((void *)get64(A(CONTEXT), p + 5), test_context());
	assert_int_equal(get32(A(MEMORY_TYPE), p + 99), CU_MEMORYTYPE_DEVICE);
	assert_true(get64(A(DEVICE_POINTER), p + 5) == p + 5);
	assert_int_equal(get32(A(IS_MANAGED), p), 0);
	assert_int_equal(get32(A(DEVICE_ORDINAL), p), 0);
	assert_true(get64(A(RANGE_START_ADDR), p + 5) == p);
	assert_int_equal(get64(A(RANGE_SIZE), p + 5), 100);
	assert_int_equal(get32(A(MAPPED), p), 1);
	assert_int_equal(get32(A(IS_GPU_DIRECT_RDMA_CAPABLE), p), 1);
	assert_int_equal(get32(A(ACCESS_FLAGS), p), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	assert_int_equal(get64(A(ALLOWED_HANDLE_TYPES), p), 0);
	assert_int_equal(get64(A(MEMPOOL_HANDLE), p), 0);
	BAD(cuPointerGetAttribute(&v, A(HOST_POINTER), p));
	assert_int_equal(v, 0);
	BAD(cuPointerGetAttribute(NULL, A(CONTEXT), p));
	BAD(cuPointerGetAttribute(&v, (CUpointer_attribute)99, p));
	BAD(cuPointerGetAttribute(&v, (CUpointer_attribute)0, p));
	/* one past the end is another allocation's */
	BAD(cuPointerGetAttribute(&v, A(MEMORY_TYPE), p + 100));
	OK(cuMemFree(p));
	BAD(cuPointerGetAttribute(&v, A(MEMORY_TYPE), p));
}

CASE(managed_and_host)
{
	CUdeviceptr m;
	char *h, *r;
	uint64_t v[2];

	OK(cuMemAllocManaged(&m, 100, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostAlloc((void **)&h, 100, 0));
	r = mmap(NULL, CPU_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	OK(cuMemHostRegister(r + 16, 1000, 0));

	same_both_ways(m + 5);
	assert_int_equal(get32(A(MEMORY_TYPE), m + 5), CU_MEMORYTYPE_DEVICE);
	assert_int_equal(get32(A(IS_MANAGED), m), 1);
	assert_true(get64(A(HOST_POINTER), m + 5) == m + 5);
	assert_int_equal(get64(A(RANGE_SIZE), m), 100);

	same_both_ways(P(h + 5));
	assert_ptr_equal((void *)get64(A(CONTEXT), P(h)), test_context());
	assert_int_equal(get32(A(MEMORY_TYPE), P(h)), CU_MEMORYTYPE_HOST);
	assert_int_equal(get32(A(IS_MANAGED), P(h)), 0);
	assert_true(get64(A(DEVICE_POINTER), P(h + 5)) == P(h + 5));
	assert_true(get64(A(HOST_POINTER), P(h + 5)) == P(h + 5));
	assert_int_equal(get32(A(IS_GPU_DIRECT_RDMA_CAPABLE), P(h)), 0);
	BAD(cuPointerGetAttribute(v, A(P2P_TOKENS), P(h)));

	same_both_ways(P(r + 20));
	assert_int_equal(get32(A(MEMORY_TYPE), P(r + 20)), CU_MEMORYTYPE_HOST);
	assert_true(get64(A(RANGE_START_ADDR), P(r + 20)) == P(r + 16));
	assert_true(get64(A(MAPPING_BASE_ADDR), P(r + 20)) == P(r));
	assert_int_equal(get64(A(MAPPING_SIZE), P(r + 20)), CPU_PAGE);
	BAD(cuPointerGetAttribute(v, A(MEMORY_TYPE), P(r)));

	OK(cuMemHostUnregister(r + 16));
	BAD(cuPointerGetAttribute(v, A(MEMORY_TYPE), P(r + 20)));
	OK(cuMemFreeHost(h));
	OK(cuMemFree(m));
	munmap(r, CPU_PAGE);
}

/* The driver does not know these; asking for several attributes at once succeeds all the same. */
static void unknown(CUdeviceptr p)
{
	struct {
		CUpointer_attribute attribute;
		uint64_t want;
	} want[] = {
		{ A(CONTEXT), 0 }, { A(MEMORY_TYPE), 0x1111111100000000 }, { A(DEVICE_POINTER), 0 },
		{ A(HOST_POINTER), p }, { A(SYNC_MEMOPS), 0x1111111100000000 }, { A(BUFFER_ID), 0 },
		{ A(IS_MANAGED), 0x1111111100000000 }, { A(DEVICE_ORDINAL), 0x11111111fffffffe },
		{ A(IS_LEGACY_CUDA_IPC_CAPABLE), 0x1111111100000000 },
		{ A(RANGE_START_ADDR), 0x1111111111111111 }, { A(RANGE_SIZE), 0x1111111111111111 },
		{ A(MAPPED), 0x1111111100000000 }, { A(ALLOWED_HANDLE_TYPES), 0 },
		{ A(IS_GPU_DIRECT_RDMA_CAPABLE), 0x1111111100000000 },
		{ A(ACCESS_FLAGS), 0x1111111100000000 }, { A(MEMPOOL_HANDLE), 0 },
		{ A(MAPPING_SIZE), 0 }, { A(MAPPING_BASE_ADDR), 0 },
	};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		uint64_t v = 0x1111111111111111;
		void *data[1] = { &v };

		BAD(cuPointerGetAttribute(&v, want[i].attribute, p));
		assert_true(v == 0x1111111111111111);
		OK(cuPointerGetAttributes(1, &want[i].attribute, data, p));
		if (v != want[i].want)
			fail_msg("attribute %d of %llx: %llx, not %llx", want[i].attribute, p,
				 (unsigned long long)v, (unsigned long long)want[i].want);
	}
}

CASE(host_pointers)
{
	void *heap = malloc(100);
	CUcontext current;

	unknown(P(&state));
	unknown(P(heap));
	unknown(0);
	unknown(0xdeadbeef0000);
	/* needs no context, either */
	OK(cuCtxPopCurrent(&current));
	unknown(P(&state));
	OK(cuCtxPushCurrent(current));
	free(heap);
}

CASE(several)
{
	CUpointer_attribute which[] = { A(MEMORY_TYPE), A(IS_MANAGED), A(DEVICE_ORDINAL), A(CONTEXT) };
	unsigned int type = 9, managed = 9;
	int ordinal = 9;
	CUcontext ctx = (CUcontext)9;
	void *data[] = { &type, &managed, &ordinal, &ctx };
	CUdeviceptr p;

	OK(cuMemAlloc(&p, 100));
	OK(cuPointerGetAttributes(4, which, data, p));
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_int_equal(managed, 0);
	assert_int_equal(ordinal, 0);
	assert_ptr_equal(ctx, test_context());
	OK(cuPointerGetAttributes(4, which, data, P(&p)));
	assert_int_equal(type, 0);
	assert_int_equal(ordinal, CU_DEVICE_INVALID);
	assert_null(ctx);
	BAD(cuPointerGetAttributes(0, which, data, p));
	BAD(cuPointerGetAttributes(4, NULL, data, p));
	which[1] = (CUpointer_attribute)99;
	BAD(cuPointerGetAttributes(4, which, data, p));
	which[1] = A(P2P_TOKENS);
	BAD(cuPointerGetAttributes(4, which, data, p));
	OK(cuMemFree(p));
}

CASE(buffer_ids)
{
	uint64_t seen[200], id;
	CUdeviceptr p;

	for (int i = 0; i < 200; i++) {
		OK(cuMemAlloc(&p, i % 3 ? 100 : 100 * KIB));
		seen[i] = get64(A(BUFFER_ID), p + 7);
		assert_true(seen[i] != 0);
		for (int j = 0; j < i; j++)
			assert_true(seen[j] != seen[i]);
		OK(cuMemFree(p));
		BAD(cuPointerGetAttribute(&id, A(BUFFER_ID), p));
	}
}

CASE(sync_memops)
{
	unsigned int zero = 0, one = 1, two = 2;
	CUdeviceptr p, q, m;
	void *h;

	OK(cuMemAlloc(&p, 100));
	OK(cuMemAlloc(&q, 100));
	OK(cuMemAllocManaged(&m, 100, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostAlloc(&h, 100, 0));
	OK(cuPointerSetAttribute(&zero, A(SYNC_MEMOPS), p));
	assert_int_equal(get32(A(SYNC_MEMOPS), p), 0);
	OK(cuPointerSetAttribute(&one, A(SYNC_MEMOPS), p + 5));	/* the whole allocation */
	assert_int_equal(get32(A(SYNC_MEMOPS), p), 1);
	assert_int_equal(get32(A(SYNC_MEMOPS), p + 99), 1);
	assert_int_equal(get32(A(SYNC_MEMOPS), q), 0);
	OK(cuPointerSetAttribute(&one, A(SYNC_MEMOPS), p));
	OK(cuPointerSetAttribute(&zero, A(SYNC_MEMOPS), p));
	OK(cuPointerSetAttribute(&two, A(SYNC_MEMOPS), p));
	assert_int_equal(get32(A(SYNC_MEMOPS), p), 1);
	OK(cuPointerSetAttribute(&one, A(SYNC_MEMOPS), m));
	OK(cuPointerSetAttribute(&one, A(SYNC_MEMOPS), P(h)));
	BAD(cuPointerSetAttribute(&one, A(SYNC_MEMOPS), P(&one)));
	BAD(cuPointerSetAttribute(&one, A(SYNC_MEMOPS), 0));
	BAD(cuPointerSetAttribute(&one, A(BUFFER_ID), p));
	BAD(cuPointerSetAttribute(NULL, A(SYNC_MEMOPS), p));
	OK(cuMemFree(p));
	BAD(cuPointerSetAttribute(&one, A(SYNC_MEMOPS), p));
	/* the next one at this address has its own */
	OK(cuMemAlloc(&p, 100));
	assert_int_equal(get32(A(SYNC_MEMOPS), p), 0);
	OK(cuMemFree(p));
	OK(cuMemFree(q));
	OK(cuMemFree(m));
	OK(cuMemFreeHost(h));
}

CASE(tokens)
{
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS a, b, c;
	CUdeviceptr p, q, r;
	CUcontext ctx;

	OK(cuMemAlloc(&p, 100));
	OK(cuMemAlloc(&q, 100 * KIB));
	OK(cuPointerGetAttribute(&a, A(P2P_TOKENS), p));
	OK(cuPointerGetAttribute(&b, A(P2P_TOKENS), q));
	assert_true(a.p2pToken == b.p2pToken && a.vaSpaceToken == b.vaSpaceToken);
	assert_int_equal(get32(A(SYNC_MEMOPS), p), 1);	/* comes with them */
	if (on_softgpu()) {
		assert_true(a.p2pToken != 0 && a.vaSpaceToken != 0);
		OK(cuCtxCreate(&ctx, 0, 0));
		OK(cuMemAlloc(&r, 100));
		OK(cuPointerGetAttribute(&c, A(P2P_TOKENS), r));
		assert_true(c.p2pToken != a.p2pToken);
		OK(cuCtxDestroy(ctx));
	}
	BAD(cuPointerGetAttribute(&c, A(P2P_TOKENS), P(&c)));
	OK(cuMemFree(p));
	OK(cuMemFree(q));
	BAD(cuPointerGetAttribute(&c, A(P2P_TOKENS), p));
}

static CUresult dma_buf_of(CUdeviceptr p, size_t size, unsigned long long flags, int *fd)
{
	*fd = -1;
	return cuMemGetHandleForAddressRange(fd, p, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

/* As on an H100: allocations side by side are exported as one, with holes or beyond their end they are not. */
CASE(dma_buf_over_several)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				     .allocFlags.gpuDirectRDMACapable = 1 };
	const CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	const size_t n = 52, size = on_softgpu() ? 65536 : 20 * MIB;
	CUmemGenericAllocationHandle h;
	CUdeviceptr va, p, q;
	int supported, fd;

	OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
	if (!supported)
		return;
	OK(cuMemAddressReserve(&va, (n + 2) * size, 0, 0, 0));
	for (size_t i = 0; i < n; i++) {
		OK(cuMemCreate(&h, size, &prop, 0));
		OK(cuMemMap(va + i * size, size, 0, h, 0));
		OK(cuMemRelease(h));
	}
	OK(cuMemSetAccess(va, n * size, &access, 1));
	OK(dma_buf_of(va, n * size, 0, &fd));
	assert_int_equal(lseek(fd, 0, SEEK_END), n * size);
	close(fd);
	OK(dma_buf_of(va + size / 2, size, 0, &fd));
	assert_int_equal(lseek(fd, 0, SEEK_END), size);
	close(fd);
	BAD(dma_buf_of(va, n * size + CPU_PAGE, 0, &fd));
	OK(cuMemUnmap(va + 7 * size, size));
	BAD(dma_buf_of(va, n * size, 0, &fd));
	BAD(dma_buf_of(va + 6 * size, 2 * size, 0, &fd));
	assert_int_equal(fd, -1);
	OK(dma_buf_of(va, 7 * size, 0, &fd));
	close(fd);
	OK(cuMemUnmap(va, 7 * size));
	OK(cuMemUnmap(va + 8 * size, (n - 8) * size));
	OK(cuMemAddressFree(va, (n + 2) * size));

	OK(cuMemAlloc(&p, 2 * MIB));
	OK(cuMemAlloc(&q, 2 * MIB));
	if (p > q) {
		CUdeviceptr other = p;

		p = q;
		q = other;
	}
	if (p + 2 * MIB == q) {
		OK(dma_buf_of(p, 4 * MIB, 0, &fd));
		assert_int_equal(lseek(fd, 0, SEEK_END), 4 * MIB);
		close(fd);
		OK(dma_buf_of(p + MIB, 2 * MIB, 0, &fd));
		close(fd);
	} else {
		assert_false(on_softgpu());
	}
	OK(cuMemFree(q));
	BAD(dma_buf_of(p, 4 * MIB, 0, &fd));
	OK(cuMemFree(p));
}

/* Two mappings side by side, as a dma-buf may cover them. */
static CUdeviceptr two_mappings(size_t grain, const CUmemAllocationProp *prop)
{
	const CUmemAccessDesc access = { .location = prop->location,
					 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h;
	CUdeviceptr va;

	OK(cuMemAddressReserve(&va, 3 * grain, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		OK(cuMemCreate(&h, grain, prop, 0));
		OK(cuMemMap(va + i * grain, grain, 0, h, 0));
		OK(cuMemRelease(h));
	}
	OK(cuMemSetAccess(va, 2 * grain, &access, 1));
	return va;
}

CASE(dma_buf)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				     .allocFlags.gpuDirectRDMACapable = 1 };
	size_t grain, before, after, total;
	CUdeviceptr p, small, m, va;
	CUresult good = CUDA_SUCCESS;
	int supported, coherent, fd, held;
	CUcontext ctx;
	void *h;

	OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
	if (!supported)
		good = CUDA_ERROR_NOT_SUPPORTED;
	OK(cuMemAlloc(&p, 4 * MIB));
	BAD(cuMemGetHandleForAddressRange(NULL, p, CPU_PAGE, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	BAD(cuMemGetHandleForAddressRange(&fd, p, CPU_PAGE, (CUmemRangeHandleType)9, 0));
	BAD(dma_buf_of(p + 512, CPU_PAGE, 0, &fd));
	BAD(dma_buf_of(p, 512, 0, &fd));
	BAD(dma_buf_of(p, 0, 0, &fd));
	BAD(dma_buf_of(p, CPU_PAGE, 2, &fd));
	/* COHERENT=1: nvidia.ko has coherent=1 and VRAM is system memory */
	OK(cuDeviceGetAttribute(&coherent, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0));
	assert_int_equal(coherent, getenv("COHERENT") != NULL);
	if (coherent) {
		OK(dma_buf_of(p, CPU_PAGE, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, &fd));
		assert_int_equal(lseek(fd, 0, SEEK_END), CPU_PAGE);
		assert_int_equal(close(fd), 0);
		fd = -1;
	} else {
		FAILS(CUDA_ERROR_NOT_SUPPORTED, dma_buf_of(p, CPU_PAGE, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, &fd));
	}
	OK(cuCtxPopCurrent(&ctx));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, dma_buf_of(p, CPU_PAGE, 0, &fd));
	OK(cuCtxPushCurrent(ctx));
	assert_int_equal(fd, -1);

	FAILS(good, dma_buf_of(p + CPU_PAGE, 2 * CPU_PAGE, 0, &fd));
	if (supported) {
		assert_int_equal(lseek(fd, 0, SEEK_END), 2 * CPU_PAGE);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		assert_ptr_equal(mmap(NULL, 2 * CPU_PAGE, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
		assert_int_equal(errno, 524);	/* ENOTSUPP, the kernel's own */
		close(fd);
	}
	/* a page that small allocations share */
	OK(cuMemAlloc(&small, 512));
	FAILS(good, dma_buf_of(small & -CPU_PAGE, CPU_PAGE, 0, &fd));
	close(fd);
	OK(cuMemFree(small));
	if (supported) {
		BAD(dma_buf_of(p, 4 * MIB + CPU_PAGE, 0, &fd));
		OK(cuMemAllocManaged(&m, MIB, CU_MEM_ATTACH_GLOBAL));
		BAD(dma_buf_of(m, MIB, 0, &fd));
		OK(cuMemFree(m));
		OK(cuMemHostAlloc(&h, MIB, 0));
		BAD(dma_buf_of(P(h), MIB, 0, &fd));
		OK(cuMemFreeHost(h));
		BAD(dma_buf_of(P(&fd) & -CPU_PAGE, CPU_PAGE, 0, &fd));
		BAD(dma_buf_of(m, MIB, 0, &fd));
	}
	OK(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	va = two_mappings(grain, &prop);
	FAILS(good, dma_buf_of(va, 2 * grain, 0, &fd));
	if (supported) {
		assert_int_equal(lseek(fd, 0, SEEK_END), 2 * grain);
		close(fd);
		OK(dma_buf_of(va + grain - CPU_PAGE, 2 * CPU_PAGE, 0, &fd));
		close(fd);
		BAD(dma_buf_of(va, 3 * grain, 0, &fd));
	}
	OK(cuMemUnmap(va, 2 * grain));
	OK(cuMemAddressFree(va, 3 * grain));

	/* it keeps the memory */
	FAILS(good, dma_buf_of(p, 4 * MIB, 0, &held));
	OK(cuMemFree(p));
	if (supported && on_softgpu()) {
		OK(cuMemGetInfo(&before, &total));
		close(held);
		OK(cuMemGetInfo(&after, &total));
		assert_int_equal(after, before + 4 * MIB);
	} else {
		close(held);
	}
}

MAIN(gpu_setup, gpu_teardown)
