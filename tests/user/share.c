// SPDX-License-Identifier: MIT
/*
 * share.c - memory that goes to other processes by file descriptors: cuMemCreate's, and
 * pools'.  In one process the first part runs alone; the peer needs a GPU that
 * processes share.
 */
#include <fcntl.h>
#include <sys/socket.h>

#include "test.h"

#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static const CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
static CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = FD,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 }, .allocFlags.gpuDirectRDMACapable = 1,
};
static size_t g;

/* For the GPU of the location. */
static CUdeviceptr mapped_for(CUmemGenericAllocationHandle handle, CUmemLocation location)
{
	CUmemAccessDesc rw = { .location = location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUdeviceptr w;

	OK(cuMemAddressReserve(&w, g, 0, 0, 0));
	OK(cuMemMap(w, g, 0, handle, 0));
	OK(cuMemSetAccess(w, g, &rw, 1));
	return w;
}

static CUdeviceptr mapped(CUmemGenericAllocationHandle handle)
{
	return mapped_for(handle, here);
}

static void unmapped(CUdeviceptr w)
{
	OK(cuMemUnmap(w, g));
	OK(cuMemAddressFree(w, g));
}

static CUresult import(CUmemGenericAllocationHandle *handle, int fd)
{
	return cuMemImportFromShareableHandle(handle, (void *)(intptr_t)fd, FD);
}

static size_t free_memory(void)
{
	size_t free, total;

	OK(cuMemGetInfo(&free, &total));
	return free;
}

/* The memory twice in one process. */
CASE(here_again)
{
	CUmemGenericAllocationHandle a, b, c;
	size_t before = free_memory();
	CUmemAllocationProp back;
	CUdeviceptr v, w;
	unsigned char byte = 0;
	uint64_t types = 0;
	int fd;

	OK(cuMemCreate(&a, g, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, a, FD, 0));
	assert_true(fd >= 0 && fcntl(fd, F_GETFD) & FD_CLOEXEC);
	OK(import(&b, fd));
	close(fd);
	OK(cuMemGetAllocationPropertiesFromHandle(&back, b));
	assert_int_equal(back.requestedHandleTypes, FD);
	assert_int_equal(back.location.id, 0);
	v = mapped(a);
	w = mapped(b);
	OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, w));
	assert_int_equal(types, FD);
	OK(cuMemsetD8(v, 42, g));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(&byte, w + g - 1, 1));
	assert_int_equal(byte, 42);
	OK(cuMemRelease(a));
	unmapped(v);
	/* the importer keeps it, and can export it on */
	OK(cuMemcpyDtoH(&byte, w, 1));
	assert_int_equal(byte, 42);
	OK(cuMemExportToShareableHandle(&fd, b, FD, 0));
	OK(cuMemRelease(b));
	OK(import(&c, fd));
	OK(cuMemRelease(c));
	unmapped(w);
	if (on_softgpu()) {
		assert_int_equal(free_memory(), before);
		BAD(import(&c, fd));	/* nothing is left that it opens */
	}
	close(fd);
}

/* A second GPU's is that GPU's, whatever GPU the importer uses. */
CASE(second_gpu)
{
	CUmemAllocationProp second = prop, back;
	CUmemGenericAllocationHandle a, b;
	unsigned char byte = 0;
	CUdeviceptr v, w;
	CUcontext ctx;
	int gpus, fd, gpu = -1;
	size_t before;

	OK(cuDeviceGetCount(&gpus));
	if (gpus < 2)
		skip();
	second.location.id = 1;
	OK(cuDevicePrimaryCtxRetain(&ctx, 1));
	OK(cuCtxSetCurrent(ctx));
	before = free_memory();
	OK(cuMemCreate(&a, g, &second, 0));
	OK(cuMemExportToShareableHandle(&fd, a, FD, 0));
	OK(cuCtxSetCurrent(test_context()));
	OK(import(&b, fd));
	close(fd);
	OK(cuMemGetAllocationPropertiesFromHandle(&back, b));
	assert_int_equal(back.location.id, 1);
	OK(cuCtxSetCurrent(ctx));
	v = mapped_for(a, second.location);
	w = mapped_for(b, second.location);
	OK(cuPointerGetAttribute(&gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, w));
	assert_int_equal(gpu, 1);
	OK(cuMemsetD8(v, 43, g));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(&byte, w + g - 1, 1));
	assert_int_equal(byte, 43);
	unmapped(v);
	unmapped(w);
	OK(cuMemRelease(a));
	if (on_softgpu())
		assert_int_equal(free_memory(), before - g);
	OK(cuMemRelease(b));
	if (on_softgpu())
		assert_int_equal(free_memory(), before);
	OK(cuCtxSetCurrent(test_context()));
	OK(cuDevicePrimaryCtxRelease(1));
}

CASE(wrong)
{
	CUmemAllocationProp plain = prop, fabric = prop;
	CUmemGenericAllocationHandle a, b;
	CUmemFabricHandle handle;
	int fd, ends[2];

	plain.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	OK(cuMemCreate(&a, g, &plain, 0));
	BAD(cuMemExportToShareableHandle(&fd, a, FD, 0));	/* not made for it */
	OK(cuMemRelease(a));
	OK(cuMemCreate(&a, g, &prop, 0));
	BAD(cuMemExportToShareableHandle(&fd, a, FD, 1));
	BAD(cuMemExportToShareableHandle(NULL, a, FD, 0));
	BAD(cuMemExportToShareableHandle(&fd, a, CU_MEM_HANDLE_TYPE_NONE, 0));
	BAD(cuMemExportToShareableHandle(&handle, a, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	OK(cuMemExportToShareableHandle(&fd, a, FD, 0));
	BAD(cuMemImportFromShareableHandle(NULL, (void *)(intptr_t)fd, FD));
	close(fd);
	OK(cuMemRelease(a));
	if (!on_softgpu())
		return;
	BAD(cuMemExportToShareableHandle(&fd, a, FD, 0));
	FAILS(CUDA_ERROR_UNKNOWN, import(&b, -1));
	FAILS(CUDA_ERROR_UNKNOWN, import(&b, fd));		/* closed */
	assert_int_equal(pipe(ends), 0);
	BAD(import(&b, ends[0]));
	close(ends[0]);
	close(ends[1]);
	/* no IMEX channel */
	fabric.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	FAILS(CUDA_ERROR_NOT_PERMITTED, cuMemCreate(&a, g, &fabric, 0));
	FAILS(CUDA_ERROR_NOT_PERMITTED, cuMemImportFromShareableHandle(&a, &handle, CU_MEM_HANDLE_TYPE_FABRIC));
}

/* ---- another process ---- */

struct message {
	CUmemPoolPtrExportData pointer;
	bool pool;
};

static int line = -1;
static pid_t peer;

static void send_fd(const struct message *m, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec iov = { .iov_base = (void *)(uintptr_t)m, .iov_len = sizeof(*m) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	assert_int_equal(sendmsg(line, &h, MSG_NOSIGNAL), sizeof(*m));
}

static bool receive_fd(struct message *m, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = m, .iov_len = sizeof(*m) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };

	if (recvmsg(line, &h, MSG_CMSG_CLOEXEC) != sizeof(*m) || !CMSG_FIRSTHDR(&h))
		return false;
	memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(*fd));
	return true;
}

/* Reads the first byte, and makes the last one 99; what failed, negative. */
static int touch(CUdeviceptr p, size_t n)
{
	unsigned char byte = 0;

	if (cuMemcpyDtoH(&byte, p, 1) || cuMemsetD8(p + n - 1, 99, 1) || cuCtxSynchronize())
		return -1;
	return byte;
}

static int use_memory(int fd)
{
	CUmemAccessDesc rw = { .location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr w;
	int byte;

	if (import(&handle, fd) || cuMemAddressReserve(&w, g, 0, 0, 0) || cuMemMap(w, g, 0, handle, 0) ||
	    cuMemSetAccess(w, g, &rw, 1))
		return -2;
	byte = touch(w, g);
	return cuMemUnmap(w, g) || cuMemRelease(handle) ? -3 : byte;
}

static uint64_t id_of(CUdeviceptr p)
{
	uint64_t id = 0;

	return cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p) ? 0 : id;
}

/* In a context that ends; afterwards, and after the ends of the primary one, it is the same memory. */
static int outlives_contexts(CUmemoryPool pool, CUmemPoolPtrExportData *pointer)
{
	CUcontext ctx, primary;
	CUdeviceptr p;
	uint64_t id;

	if (cuCtxCreate(&ctx, 0, 0) || cuMemPoolImportPointer(&p, pool, pointer))
		return -30;
	id = id_of(p);
	if (!id || cuCtxDestroy(ctx) || id_of(p) != id || cuDevicePrimaryCtxReset(0) || id_of(p) != id)
		return -31;
	if (cuDevicePrimaryCtxRetain(&primary, 0) || cuDevicePrimaryCtxRelease(0) || cuDevicePrimaryCtxRelease(0) || id_of(p) != id)
		return -32;
	if (cuDevicePrimaryCtxRetain(&primary, 0) || cuCtxSetCurrent(primary) || touch(p, MIB) < 0)
		return -33;
	return cuMemFreeAsync(p, NULL) || cuStreamSynchronize(NULL) || id_of(p) ? -34 : 0;
}

static int use_pool(int fd, CUmemPoolPtrExportData *pointer)
{
	CUmemoryPool pool, theirs = NULL;
	CUdeviceptr p, again;
	uint64_t id;
	int byte, status;

	/* the same handle each time */
	if (cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, FD, 0) ||
	    cuMemPoolImportFromShareableHandle(&theirs, (void *)(intptr_t)fd, FD, 0) || theirs != pool)
		return -10;
	if (cuMemAllocFromPoolAsync(&p, 64, pool, NULL) != CUDA_ERROR_INVALID_VALUE)
		return -11;
	if (cuMemPoolImportPointer(&p, pool, pointer))
		return -12;
	if (cuPointerGetAttribute(&theirs, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p) || theirs != pool)
		return -13;
	byte = touch(p, MIB);
	/* one free for all imports, before which the pool cannot be destroyed */
	id = id_of(p);
	if (cuMemPoolImportPointer(&again, pool, pointer) || again != p || id_of(p) != id)
		return -14;
	if (cuMemPoolDestroy(pool) != CUDA_ERROR_INVALID_VALUE || touch(p, MIB) < 0)
		return -15;
	if (cuMemFree(p) || touch(p, MIB) >= 0 || cuMemFree(p) != CUDA_ERROR_INVALID_VALUE)
		return -16;
	/* one destroy for each import of the pool */
	if (cuMemPoolDestroy(pool) || cuMemPoolImportPointer(&p, pool, pointer) || id_of(p) == id || touch(p, MIB) < 0)
		return -17;
	if (cuMemPoolDestroy(pool) != CUDA_ERROR_INVALID_VALUE || cuMemFreeAsync(p, NULL) || cuStreamSynchronize(NULL))
		return -18;
	status = outlives_contexts(pool, pointer);
	if (status)
		return status;
	pointer->reserved[8] ^= 1;
	if (cuMemPoolImportPointer(&p, pool, pointer) != CUDA_ERROR_INVALID_VALUE)
		return -19;
	if (cuMemPoolDestroy(pool))
		return -20;
	/* a real driver takes the pointer that it was */
	if (on_softgpu() && (cuMemPoolDestroy(pool) != CUDA_ERROR_INVALID_VALUE ||
			     cuMemPoolImportPointer(&p, pool, pointer) != CUDA_ERROR_INVALID_VALUE))
		return -21;
	return byte;
}

static void start_peer(void)
{
	struct message m;
	CUcontext ctx;
	int ends[2], fd, byte;

	fflush(NULL);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) || (peer = fork()) < 0)
		exit(1);
	line = ends[peer == 0];
	close(ends[peer != 0]);
	if (peer)
		return;
	while (receive_fd(&m, &fd)) {
		byte = -100;
		if (!cuInit(0) && !cuDevicePrimaryCtxRetain(&ctx, 0) && !cuCtxSetCurrent(ctx) &&
		    !cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
			byte = m.pool ? use_pool(fd, &m.pointer) : use_memory(fd);
		close(fd);
		if (send(line, &byte, sizeof(byte), MSG_NOSIGNAL) != sizeof(byte))
			break;
	}
	_exit(0);
}

static int answer(void)
{
	int byte = -1000;

	assert_int_equal(recv(line, &byte, sizeof(byte), MSG_WAITALL), sizeof(byte));
	return byte;
}

static bool shared(void)
{
	int types = 0;

	OK(cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
	return types & FD;
}

CASE(elsewhere)
{
	CUmemGenericAllocationHandle handle;
	struct message m = { .pool = false };
	unsigned char byte = 0;
	CUdeviceptr w;
	int fd;

	if (!shared())
		skip();
	OK(cuMemCreate(&handle, g, &prop, 0));
	w = mapped(handle);
	OK(cuMemsetD8(w, 21, g));
	OK(cuCtxSynchronize());
	OK(cuMemExportToShareableHandle(&fd, handle, FD, 0));
	send_fd(&m, fd);
	close(fd);
	assert_int_equal(answer(), 21);
	OK(cuMemcpyDtoH(&byte, w + g - 1, 1));
	assert_int_equal(byte, 99);
	OK(cuMemRelease(handle));
	unmapped(w);
}

CASE(pool_elsewhere)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = FD, .location = here };
	struct message m = { .pool = true };
	CUmemoryPool pool, own;
	unsigned char byte = 0;
	uint64_t types = 0;
	CUdeviceptr p;
	int fd;

	if (!shared()) {
		FAILS(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&pool, &props));
		skip();
	}
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL));
	OK(cuMemsetD8(p, 33, MIB));
	OK(cuCtxSynchronize());
	OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p));
	assert_int_equal(types, FD);
	OK(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	OK(cuMemPoolExportPointer(&m.pointer, p));
	send_fd(&m, fd);
	assert_int_equal(answer(), 33);
	OK(cuMemcpyDtoH(&byte, p + MIB - 1, 1));
	assert_int_equal(byte, 99);
	if (on_softgpu()) {	/* one's own memory is no import */
		OK(cuMemPoolImportFromShareableHandle(&own, (void *)(intptr_t)fd, FD, 0));
		FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemPoolImportPointer(&p, own, &m.pointer));
		OK(cuMemPoolDestroy(own));
	}
	close(fd);
	OK(cuMemFree(p));
	OK(cuMemPoolDestroy(pool));
}

static int setup(void **state)
{
	start_peer();
	gpu_setup(state);
	OK(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	return 0;
}

static int teardown(void **state)
{
	close(line);
	waitpid(peer, NULL, 0);
	return gpu_teardown(state);
}

MAIN(setup, teardown)
