// SPDX-License-Identifier: MIT
/*
 * blocks.c - blocks of 2 MiB that a context's smaller allocations share, and what an importer of one
 * of them reaches: as on a real GPU.  On softgpu with blocks=1 (SOFTGPU_BLOCKS=1 in the process).
 */
#include "test.h"

#define BLOCK	(2 * MIB)

static bool same_block(CUdeviceptr a, CUdeviceptr b)
{
	return a / BLOCK == b / BLOCK;
}

static unsigned long long id_of(CUdeviceptr p)
{
	unsigned long long id = 0;

	OK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
	return id;
}

static size_t free_now(void)
{
	size_t free, total;

	OK(cuMemGetInfo(&free, &total));
	return free;
}

/* Contexts share no blocks, so a new one begins with none. */
static CUcontext context_new(void)
{
	CUcontext ctx;

	OK(cuCtxCreate(&ctx, 0, 0));
	return ctx;
}

static void context_end(CUcontext ctx)
{
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(test_context()));
}

CASE(neighbours)
{
	static const size_t sizes[] = { 1, 1, 513, 64 << 10, 100000, 1 << 20 };
	CUdeviceptr p[6], again, base;
	CUcontext ctx = context_new();
	unsigned long long id;
	size_t before = free_now(), length;

	for (int i = 0; i < 6; i++) {
		OK(cuMemAlloc(&p[i], sizes[i]));
		assert_true(same_block(p[i], p[0]) && p[i] % 512 == 0);
		OK(cuMemGetAddressRange(&base, &length, p[i]));
		assert_true(base == p[i] && length == sizes[i]);
		for (int j = 0; j < i; j++)
			assert_true(id_of(p[j]) != id_of(p[i]) && (p[j] + sizes[j] <= p[i] || p[i] + sizes[i] <= p[j]));
	}
	assert_true(before - free_now() == BLOCK);
	/* 64 KiB of memory are not the GPU's pages of 64 KiB */
	assert_true(p[3] % (64 << 10));
	/* what lies between them is nothing */
	FAILS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &length, p[0] + 1));
	BAD(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p[0] + 300));

	id = id_of(p[3]);
	OK(cuMemFree(p[3]));
	OK(cuMemAlloc(&again, sizes[3]));
	assert_true(again == p[3] && id_of(again) != id);
	for (int i = 0; i < 6; i++)
		OK(cuMemFree(p[i]));
	/* the last one gives the block back; a context's first was not looked at on a real GPU */
	if (on_softgpu())
		assert_true(free_now() == before);
	context_end(ctx);
}

CASE(large)
{
	CUcontext ctx = context_new();
	size_t before = free_now();
	CUdeviceptr p[4];

	OK(cuMemAlloc(&p[0], BLOCK));
	assert_true(p[0] % BLOCK == 0 && before - free_now() == BLOCK);
	OK(cuMemAlloc(&p[1], BLOCK + 1));
	assert_true(p[1] % BLOCK == 0 && before - free_now() == 3 * BLOCK);
	/* no room beside one another */
	OK(cuMemAlloc(&p[2], MIB + 1));
	OK(cuMemAlloc(&p[3], MIB + 1));
	assert_true(!same_block(p[2], p[3]) && before - free_now() == 5 * BLOCK);
	for (int i = 0; i < 4; i++)
		OK(cuMemFree(p[i]));
	assert_true(free_now() == before);
	context_end(ctx);
}

CASE(contexts)
{
	CUcontext one = context_new(), other;
	CUdeviceptr p, q;

	OK(cuMemAlloc(&p, 64));
	other = context_new();
	OK(cuMemAlloc(&q, 64));
	assert_false(same_block(p, q));
	OK(cuMemFree(p));
	OK(cuMemFree(q));
	OK(cuCtxDestroy(other));
	context_end(one);
}

#define IN_BLOCK	(BLOCK / 512)
#define BLOCKS		4

static int by_address(const void *a, const void *b)
{
	CUdeviceptr x = *(const CUdeviceptr *)a, y = *(const CUdeviceptr *)b;

	return x < y ? -1 : x > y;
}

/* Allocates all, and returns how many blocks they lie in; no two overlap. */
static size_t fill_blocks(CUdeviceptr *p, size_t count)
{
	static CUdeviceptr sorted[BLOCKS * IN_BLOCK];
	size_t blocks = 1;

	for (size_t i = 0; i < count; i++) {
		if (!p[i])
			OK(cuMemAlloc(&p[i], 1 + i % 512));
	}
	memcpy(sorted, p, count * sizeof(*p));
	qsort(sorted, count, sizeof(*sorted), by_address);
	for (size_t i = 1; i < count; i++) {
		assert_true(sorted[i] - sorted[i - 1] >= 512);
		blocks += sorted[i] / BLOCK != sorted[i - 1] / BLOCK;
	}
	return blocks;
}

/* Every place of a block is used, and used again after a free: no block is made while there are free places. */
CASE(many)
{
	static CUdeviceptr p[BLOCKS * IN_BLOCK];
	CUcontext ctx = context_new();

	if (fill_blocks(p, BLOCKS * IN_BLOCK) != BLOCKS && on_softgpu())
		fail_msg("blocks are not filled");
	for (size_t step = 1; step < 100; step += 7) {
		for (size_t i = step; i < BLOCKS * IN_BLOCK; i += step) {
			OK(cuMemFree(p[i]));
			p[i] = 0;
		}
		if (fill_blocks(p, BLOCKS * IN_BLOCK) != BLOCKS && on_softgpu())
			fail_msg("places in blocks are not used again");
	}
	for (size_t i = 0; i < BLOCKS * IN_BLOCK; i++)
		OK(cuMemFree(p[i]));
	context_end(ctx);
}

/* Pages, and so what lies beside it, too; up to the block's end, whether anything is there or not. */
CASE(dmabufs)
{
	CUdeviceptr p, q;
	CUcontext ctx;
	int supported, fd;

	OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
	if (!supported)
		skip();
	ctx = context_new();
	OK(cuMemAlloc(&p, 512));
	OK(cuMemAlloc(&q, 64 << 10));
	BAD(cuMemGetHandleForAddressRange(&fd, q, 64 << 10, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	OK(cuMemGetHandleForAddressRange(&fd, q & ~(CUdeviceptr)4095, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	close(fd);
	OK(cuMemGetHandleForAddressRange(&fd, q & ~(CUdeviceptr)(BLOCK - 1), BLOCK, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	assert_int_equal(lseek(fd, 0, SEEK_END), BLOCK);
	close(fd);
	OK(cuMemFree(p));
	OK(cuMemFree(q));
	context_end(ctx);
}

/* ---- between two processes ---- */

struct offer {
	CUipcMemHandle handle[2];
	CUdeviceptr at[2];
};

static int to_importer[2], to_exporter[2];

static void meet(int out, int in)
{
	char c = 0;

	if (write(out, &c, 1) != 1 || read(in, &c, 1) != 1)
		_exit(1);
}

static void begin(void)
{
	CUcontext ctx;
	CUdevice device;

	if (cuInit(0))
		_exit(77);
	HOLDS(!cuDeviceGet(&device, 0) && !cuDevicePrimaryCtxRetain(&ctx, device) && !cuCtxSetCurrent(ctx));
}

static int byte_at(CUdeviceptr p)
{
	unsigned char byte = 0;

	return cuMemcpyDtoH(&byte, p, 1) ? -1 : byte;
}

static void exporter(void)
{
	static const size_t sizes[2] = { 4096, 200000 };
	struct offer offer;
	CUdeviceptr fresh[2], stays;

	begin();
	for (int i = 0; i < 2; i++) {
		HOLDS(!cuMemAlloc(&offer.at[i], sizes[i]));
		HOLDS(!cuMemsetD8(offer.at[i], (unsigned char)(i + 1), sizes[i]));
		if (cuIpcGetMemHandle(&offer.handle[i], offer.at[i]) == CUDA_ERROR_NOT_SUPPORTED)
			_exit(77);
	}
	/* The block stays, whatever is freed in it. */
	HOLDS(!cuMemAlloc(&stays, 512) && same_block(offer.at[0], stays));
	HOLDS(same_block(offer.at[0], offer.at[1]));
	HOLDS(!cuCtxSynchronize());
	if (write(to_importer[1], &offer, sizeof(offer)) != sizeof(offer))
		_exit(1);
	meet(to_importer[1], to_exporter[0]);
	/* Freed, and allocated anew: one of the same size, one of another. */
	HOLDS(!cuMemFree(offer.at[0]));
	HOLDS(!cuMemFree(offer.at[1]));
	meet(to_importer[1], to_exporter[0]);
	HOLDS(!cuMemAlloc(&fresh[0], sizes[0]));
	HOLDS(!cuMemAlloc(&fresh[1], sizes[1] / 2));
	HOLDS(fresh[0] == offer.at[0] && fresh[1] == offer.at[1]);
	HOLDS(!cuMemsetD8(fresh[0], 99, sizes[0]));
	HOLDS(!cuCtxSynchronize());
	for (int i = 0; i < 2; i++) {
		HOLDS(!cuIpcGetMemHandle(&offer.handle[i], fresh[i]));
		offer.at[i] = fresh[i];
	}
	if (write(to_importer[1], &offer, sizeof(offer)) != sizeof(offer))
		_exit(1);
	meet(to_importer[1], to_exporter[0]);
	_exit(byte_at(fresh[0]) == 98 ? 0 : 1);
}

static void importer(void)
{
	CUdeviceptr p[2], again, base;
	unsigned long long id;
	struct offer offer;
	size_t length;

	begin();
	if (read(to_importer[0], &offer, sizeof(offer)) != sizeof(offer))
		_exit(77);
	HOLDS(!cuIpcOpenMemHandle(&p[0], offer.handle[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	/* what is beside it is mapped, but CUDA knows nothing of it until it is opened */
	HOLDS(byte_at(p[0] + (offer.at[1] - offer.at[0])) == -1);
	HOLDS(!cuIpcOpenMemHandle(&p[1], offer.handle[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	/* the block is mapped once, so they lie as the exporter's do */
	HOLDS(p[1] - p[0] == offer.at[1] - offer.at[0] && p[0] % BLOCK == offer.at[0] % BLOCK);
	HOLDS(!cuMemGetAddressRange(&base, &length, p[1] + 7));
	HOLDS(base == p[1] && length == 200000);
	HOLDS(byte_at(p[0]) == 1 && byte_at(p[1]) == 2 && id_of(p[0]) != id_of(p[1]));
	meet(to_exporter[1], to_importer[0]);

	/* freed there: what is open stays */
	meet(to_exporter[1], to_importer[0]);
	if (read(to_importer[0], &offer, sizeof(offer)) != sizeof(offer))
		_exit(1);
	/* and is what was allocated since */
	HOLDS(byte_at(p[0]) == 99);
	HOLDS(!cuIpcOpenMemHandle(&again, offer.handle[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	HOLDS(again == p[0]);
	HOLDS(cuIpcOpenMemHandle(&again, offer.handle[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_ERROR_ALREADY_MAPPED);
	HOLDS(!cuIpcCloseMemHandle(p[1]));
	HOLDS(!cuIpcOpenMemHandle(&again, offer.handle[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	HOLDS(again == p[1]);
	HOLDS(!cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, again));
	HOLDS(!cuMemsetD8(p[0], 98, 1));
	HOLDS(!cuCtxSynchronize());
	meet(to_exporter[1], to_importer[0]);
	_exit(0);
}

/* 0, 1, or 77 where memory cannot be shared. */
static int between_processes(void)
{
	int status[2] = { -1, -1 };
	pid_t pids[2];

	if (pipe(to_importer) || pipe(to_exporter))
		return 1;
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			close(i ? to_importer[1] : to_importer[0]);
			close(i ? to_exporter[0] : to_exporter[1]);
			alarm(60);
			if (i)
				importer();
			exporter();
		}
	}
	close(to_importer[0]);
	close(to_importer[1]);
	close(to_exporter[0]);
	close(to_exporter[1]);
	for (int i = 0; i < 2; i++)
		waitpid(pids[i], &status[i], 0);
	if (WIFEXITED(status[0]) && WEXITSTATUS(status[0]) == 77)
		return 77;
	printf("%s  two processes, and a block: %#x, %#x\n", status[0] || status[1] ? "not ok" : "ok    ", (unsigned int)status[0],
	       (unsigned int)status[1]);
	return status[0] || status[1];
}

int main(void)
{
	int shared = between_processes();

	if (shared == 77)
		printf("two processes: not here, a GPU inside a process cannot be shared\n");
	return cases_run(gpu_setup, gpu_teardown) || shared == 1;
}
