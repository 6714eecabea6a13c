// SPDX-License-Identifier: MIT
/* copy.c - copies and fills, of every kind of memory, against a plain memcpy. */
#include "test.h"

enum { N = 300000 };

/* One kind of memory, with a copy of what it must hold. */
struct piece {
	const char *kind;
	CUdeviceptr va;
	bool device;		/* GPUs know it */
	unsigned char *model;
};

enum { DEVICE, DEVICE2, VMM, HOST, MANAGED, REGISTERED, PLAIN, KINDS };

static struct piece pieces[KINDS] = {
	{ .kind = "device", .device = true }, { .kind = "device 2", .device = true },
	{ .kind = "mapped", .device = true }, { .kind = "host", .device = true },
	{ .kind = "managed", .device = true }, { .kind = "registered", .device = true },
	{ .kind = "plain" },
};
static CUstream stream;
static size_t vmm_size;

static unsigned int rnd(unsigned int n)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (x >> 16) % n;
}

static void fill_random(unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = rnd(256);
}

static int setup(void **state)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemAccessDesc rw = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	size_t g;
	void *h;
	int n;

	gpu_setup(state);
	OK(cuMemAlloc(&pieces[DEVICE].va, N));
	/* on another GPU, if there is one */
	OK(cuDeviceGetCount(&n));
	if (n > 1) {
		CUcontext other;

		OK(cuDevicePrimaryCtxRetain(&other, 1));
		OK(cuCtxPushCurrent(other));
		OK(cuMemAlloc(&pieces[DEVICE2].va, N));
		OK(cuCtxPopCurrent(NULL));
	} else {
		OK(cuMemAlloc(&pieces[DEVICE2].va, N));
	}
	OK(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	vmm_size = (N + g - 1) / g * g;
	OK(cuMemCreate(&handle, vmm_size, &prop, 0));
	OK(cuMemAddressReserve(&pieces[VMM].va, vmm_size, 0, 0, 0));
	OK(cuMemMap(pieces[VMM].va, vmm_size, 0, handle, 0));
	OK(cuMemSetAccess(pieces[VMM].va, vmm_size, &rw, 1));
	OK(cuMemRelease(handle));
	OK(cuMemHostAlloc(&h, N, 0));
	pieces[HOST].va = P(h);
	OK(cuMemAllocManaged(&pieces[MANAGED].va, N, CU_MEM_ATTACH_GLOBAL));
	h = aligned_alloc(4096, (N + 4095) / 4096 * 4096);
	OK(cuMemHostRegister(h, N, 0));
	pieces[REGISTERED].va = P(h);
	pieces[PLAIN].va = P(malloc(N));
	OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));

	for (int i = 0; i < KINDS; i++) {
		pieces[i].model = malloc(N);
		fill_random(pieces[i].model, N);
		OK(cuMemcpy(pieces[i].va, P(pieces[i].model), N));
	}
	return 0;
}

static int teardown(void **state)
{
	OK(cuStreamDestroy(stream));
	OK(cuMemFree(pieces[DEVICE].va));
	OK(cuMemFree(pieces[DEVICE2].va));
	OK(cuMemUnmap(pieces[VMM].va, vmm_size));
	OK(cuMemAddressFree(pieces[VMM].va, vmm_size));
	OK(cuMemFreeHost((void *)(uintptr_t)pieces[HOST].va));
	OK(cuMemFree(pieces[MANAGED].va));
	OK(cuMemHostUnregister((void *)(uintptr_t)pieces[REGISTERED].va));
	free((void *)(uintptr_t)pieces[REGISTERED].va);
	free((void *)(uintptr_t)pieces[PLAIN].va);
	for (int i = 0; i < KINDS; i++)
		free(pieces[i].model);
	return gpu_teardown(state);
}

static void compare_all(const char *when)
{
	unsigned char *back = malloc(N);

	OK(cuCtxSynchronize());
	for (int i = 0; i < KINDS; i++) {
		OK(cuMemcpy(P(back), pieces[i].va, N));
		if (memcmp(back, pieces[i].model, N))
			fail_msg("%s memory differs %s", pieces[i].kind, when);
	}
	free(back);
}

static void one_copy(void)
{
	struct piece *to = &pieces[rnd(KINDS)], *from = &pieces[rnd(KINDS)];
	size_t n = rnd(10) ? rnd(5000) : rnd(N), to_at, from_at;
	/* With two GPUs a real driver crashes on no context at all. */
	CUcontext peer = on_softgpu() ? NULL : test_context();
	CUdeviceptr dst, src;

	if (to == from)
		return;
	to_at = rnd(N - n + 1);
	from_at = rnd(N - n + 1);
	dst = to->va + to_at;
	src = from->va + from_at;
	/* all on one stream or the default one, which order each other */
	switch (rnd(8)) {
	case 0:
		OK(cuMemcpy(dst, src, n));
		break;
	case 1:
		OK(cuMemcpyAsync(dst, src, n, rnd(2) ? stream : NULL));
		break;
	case 2:
	case 3:
		if (!to->device)
			return;
		if (rnd(2))
			OK(cuMemcpyHtoD(dst, (void *)(uintptr_t)src, n));
		else
			OK(cuMemcpyHtoDAsync(dst, (void *)(uintptr_t)src, n, stream));
		break;
	case 4:
	case 5:
		if (!from->device)
			return;
		if (rnd(2))
			OK(cuMemcpyDtoH((void *)(uintptr_t)dst, src, n));
		else
			OK(cuMemcpyDtoHAsync((void *)(uintptr_t)dst, src, n, stream));
		break;
	case 6:
		if (!from->device || !to->device)
			return;
		if (rnd(2))
			OK(cuMemcpyDtoD(dst, src, n));
		else
			OK(cuMemcpyDtoDAsync(dst, src, n, stream));
		break;
	case 7:
		if (!from->device || !to->device)
			return;
		if (rnd(2))
			OK(cuMemcpyPeer(dst, peer, src, peer, n));
		else
			OK(cuMemcpyPeerAsync(dst, test_context(), src, test_context(), n, stream));
		break;
	}
	memcpy(to->model + to_at, from->model + from_at, n);
}

/* A GPU fills its own memory and the host's, but not another GPU's: see others_memory(). */
static struct piece *filled_piece(void)
{
	unsigned int i = rnd(PLAIN);

	return &pieces[i == DEVICE2 ? DEVICE : i];
}

static void one_fill(void)
{
	struct piece *to = filled_piece();
	size_t elem = 1 << rnd(3), n = rnd(2000), at = rnd(N - 4 * 2000) & ~(size_t)3;
	unsigned int value = rnd(1u << 31);
	bool async = rnd(2);

	switch (elem) {
	case 1:
		OK(async ? cuMemsetD8Async(to->va + at, value, n, stream) : cuMemsetD8(to->va + at, value, n));
		break;
	case 2:
		OK(async ? cuMemsetD16Async(to->va + at, value, n, stream) : cuMemsetD16(to->va + at, value, n));
		break;
	case 4:
		OK(async ? cuMemsetD32Async(to->va + at, value, n, stream) : cuMemsetD32(to->va + at, value, n));
		break;
	}
	for (size_t i = 0; i < n; i++)
		memcpy(to->model + at + i * elem, &value, elem);
}

static void one_rectangle(void)
{
	CUDA_MEMCPY2D c = { .WidthInBytes = rnd(300), .Height = rnd(30) };
	struct piece *to = &pieces[rnd(KINDS)], *from = &pieces[rnd(KINDS)];

	if (to == from)
		return;
	c.srcXInBytes = rnd(100);
	c.srcY = rnd(50);
	c.srcPitch = c.srcXInBytes + c.WidthInBytes + rnd(1000);
	c.dstXInBytes = rnd(100);
	c.dstY = rnd(50);
	c.dstPitch = c.dstXInBytes + c.WidthInBytes + rnd(1000);
	c.srcMemoryType = from->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	c.dstMemoryType = to->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	if (!rnd(3))
		c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	c.srcDevice = from->va;
	c.srcHost = (void *)(uintptr_t)from->va;
	c.dstDevice = to->va;
	c.dstHost = (void *)(uintptr_t)to->va;
	switch (rnd(3)) {
	case 0:
		OK(cuMemcpy2D(&c));
		break;
	case 1:
		OK(cuMemcpy2DUnaligned(&c));
		break;
	case 2:
		OK(cuMemcpy2DAsync(&c, stream));
		break;
	}
	for (size_t y = 0; y < c.Height; y++)
		memcpy(to->model + (c.dstY + y) * c.dstPitch + c.dstXInBytes,
		       from->model + (c.srcY + y) * c.srcPitch + c.srcXInBytes, c.WidthInBytes);
}

static void one_fill_2d(void)
{
	struct piece *to = filled_piece();
	size_t elem = 1 << rnd(3), w = 1 + rnd(200), h = 1 + rnd(30), pitch = elem * (w + rnd(100));
	size_t at = rnd(1000) & ~(size_t)3;
	unsigned int value = rnd(1u << 31);
	CUdeviceptr p = to->va + at;

	switch (elem | rnd(2) << 4) {
	case 1: OK(cuMemsetD2D8(p, pitch, value, w, h)); break;
	case 2: OK(cuMemsetD2D16(p, pitch, value, w, h)); break;
	case 4: OK(cuMemsetD2D32(p, pitch, value, w, h)); break;
	case 17: OK(cuMemsetD2D8Async(p, pitch, value, w, h, stream)); break;
	case 18: OK(cuMemsetD2D16Async(p, pitch, value, w, h, stream)); break;
	case 20: OK(cuMemsetD2D32Async(p, pitch, value, w, h, stream)); break;
	}
	for (size_t y = 0; y < h; y++) {
		for (size_t x = 0; x < w; x++)
			memcpy(to->model + at + y * pitch + x * elem, &value, elem);
	}
}

CASE(everything)
{
	compare_all("at first");
	for (int i = 0; i < 3000; i++) {
		switch (rnd(4)) {
		case 0: one_fill(); break;
		case 1: one_rectangle(); break;
		case 2: one_fill_2d(); break;
		default: one_copy();
		}
		/* the CPU looks at host memory, so the model must not run ahead for ever */
		if (i % 50 == 49)
			compare_all("after copies and fills");
	}
}

CASE(refused)
{
	CUdeviceptr p, wild = 0xdead0000;
	char buf[256] = { 0 };
	CUcontext ctx = test_context();
	void *h;

	OK(cuMemAlloc(&p, 100));
	OK(cuMemHostAlloc(&h, 100, 0));
	OK(cuMemcpyHtoD(p, buf, 0));
	OK(cuMemcpyHtoD(0, buf, 0));
	OK(cuMemcpyHtoD(p, buf, 100));
	BAD(cuMemcpyHtoD(p, buf, 101));
	BAD(cuMemcpyHtoD(p + 1, buf, 100));
	BAD(cuMemcpyHtoD(P(buf), buf + 128, 16));
	BAD(cuMemcpyHtoD(wild, buf, 16));
	BAD(cuMemcpyDtoH(buf, P(buf) + 128, 16));
	BAD(cuMemcpyDtoH(NULL, p, 16));
	BAD(cuMemcpyDtoD(p, P(buf), 16));
	OK(cuMemcpyDtoH((void *)(uintptr_t)p, p, 16));
	OK(cuMemcpyDtoD(p, P(h), 16));
	OK(cuMemcpy(P(buf), P(buf) + 64, 16));
	OK(cuMemcpyPeer(p, NULL, p + 50, ctx, 16));

	OK(cuMemsetD8(p, 1, 0));
	BAD(cuMemsetD8(P(buf), 1, 4));
	BAD(cuMemsetD8(p, 1, 101));
	BAD(cuMemsetD8(p, 1, (size_t)1 << 40));
	if (on_softgpu())
		BAD(cuMemsetD32(p, 1, ~(size_t)0));	/* 4 times that overflows */
	BAD(cuMemsetD16(p + 1, 1, 4));
	BAD(cuMemsetD32(p + 2, 1, 4));
	BAD(cuMemsetD2D8(p, 8, 1, 16, 2));
	BAD(cuMemsetD2D32(p, 18, 1, 4, 2));
	OK(cuMemsetD2D8(p, 16, 1, 8, 0));

	CUDA_MEMCPY2D c = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = buf, .srcPitch = 16,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = p, .dstPitch = 16,
		.WidthInBytes = 8, .Height = 4,
	};
	OK(cuMemcpy2D(&c));
	c.srcPitch = 4;
	BAD(cuMemcpy2D(&c));
	c.srcPitch = 16;
	c.srcXInBytes = 12;
	BAD(cuMemcpy2D(&c));
	c.srcXInBytes = 0;
	c.Height = 0;
	OK(cuMemcpy2D(&c));
	c.Height = 8;	/* 7 * 16 + 8 = 120 */
	BAD(cuMemcpy2D(&c));
	c.Height = (size_t)1 << 62;
	BAD(cuMemcpy2D(&c));
	c.Height = 4;
	c.srcMemoryType = (CUmemorytype)9;
	BAD(cuMemcpy2D(&c));
	c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = P(buf);
	BAD(cuMemcpy2D(&c));
	BAD(cuMemcpy2D(NULL));

	OK(cuMemFree(p));
	BAD(cuMemcpyDtoH(buf, p, 16));
	BAD(cuMemcpyDtoD(p, p + 8, 8));
	OK(cuMemFreeHost(h));
}

/* Copies go anywhere; a fill is made by the GPU of the stream, and reaches what that reaches. */
CASE(others_memory)
{
	CUcontext own = test_context(), other;
	CUstream there;
	CUdeviceptr p;
	unsigned int back = 0;
	int n;

	OK(cuDeviceGetCount(&n));
	if (n < 2)
		skip();
	OK(cuDevicePrimaryCtxRetain(&other, 1));
	OK(cuCtxPushCurrent(other));
	OK(cuMemAlloc(&p, 4096));
	OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
	OK(cuCtxPopCurrent(NULL));
	assert_ptr_equal(test_context(), own);

	BAD(cuMemsetD8(p, 1, 4096));
	BAD(cuMemsetD16(p, 1, 2048));
	BAD(cuMemsetD32Async(p, 1, 1024, NULL));
	BAD(cuMemsetD2D8(p, 256, 1, 10, 10));
	BAD(cuMemsetD2D32Async(p, 256, 1, 10, 10, stream));
	OK(cuMemsetD32(p, 1, 0));
	OK(cuMemsetD32Async(p, 0x12345678, 1024, there));
	BAD(cuMemsetD32Async(pieces[DEVICE].va, 1, 1, there));
	OK(cuStreamSynchronize(there));
	OK(cuMemcpyDtoH(&back, p + 4092, 4));
	assert_int_equal(back, 0x12345678);
	OK(cuMemcpyHtoD(p, "host", 4));
	OK(cuMemcpyDtoD(p + 4, p, 4));
	OK(cuMemcpyDtoH(&back, p + 4, 4));
	assert_memory_equal(&back, "host", 4);
	OK(cuStreamDestroy(there));
	OK(cuMemFree(p));
	OK(cuDevicePrimaryCtxRelease(1));
}

/* Many in one call, in the stream's order. */
CASE(batch)
{
	CUmemcpyAttributes attrs[2] = {
		{ .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM },
		{ .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL },
	};
	size_t idxs[2] = { 0, 2 }, sizes[3] = { 64, 64, 32 }, failed = 7;
	char text[64] = "to the GPU, on the GPU, and back", back[64] = "";
	CUdeviceptr p, dsts[3], srcs[3];
	CUstream s;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&p, 128));
	srcs[0] = P(text);
	dsts[0] = srcs[1] = p;
	dsts[1] = srcs[2] = p + 64;
	dsts[2] = P(back);
	OK(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, attrs, idxs, 2, s));
	OK(cuStreamSynchronize(s));
	assert_memory_equal(back, text, 32);
	assert_int_equal(back[32], 0);
	sizes[2] = 4;
	OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, idxs, 2, &failed, s));
	if (on_softgpu()) {
		BAD(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, attrs, idxs, 2, NULL));
		BAD(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 0, attrs, idxs, 2, s));
		BAD(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, attrs, idxs, 0, s));
		BAD(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, NULL, idxs, 2, s));
		idxs[1] = 3;
		BAD(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, attrs, idxs, 2, s));
		idxs[1] = 0;
		BAD(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, attrs, idxs, 2, s));
		idxs[1] = 2;
		attrs[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
		BAD(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, idxs, 2, &failed, s));
		assert_true(failed == SIZE_MAX);
		attrs[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
		dsts[1] = p + 100;	/* sticks out */
		BAD(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attrs, idxs, 2, &failed, s));
		assert_int_equal(failed, 1);
	}
	OK(cuStreamSynchronize(s));
	OK(cuMemFree(p));
	OK(cuStreamDestroy(s));
}

MAIN(setup, teardown)
