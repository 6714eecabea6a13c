// SPDX-License-Identifier: MIT
/*
 * ipc.c - memory of another process.  A peer, forked before CUDA starts here,
 * does what it is told with a GPU of its own.
 */
#include <sys/socket.h>

#include "test.h"
#include "cuda_runtime_api.h"

#define LAZY CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
#define A(name) CU_POINTER_ATTRIBUTE_##name

/* ---- the peer ---- */

enum op { START, ALLOC, FILL, PEEK, FREE, HANDLE, OPEN, CLOSE };

struct message {
	enum op op;
	CUresult result;
	CUdeviceptr p;
	size_t n;
	unsigned char byte;
	CUipcMemHandle handle;
};

static pid_t peer;
static int line;	/* to the other side */

static void serve(struct message *m)
{
	CUcontext ctx;

	switch (m->op) {
	case START:
		m->result = cuInit(0);
		if (!m->result)
			m->result = cuDevicePrimaryCtxRetain(&ctx, 0);
		if (!m->result)
			m->result = cuCtxSetCurrent(ctx);
		break;
	case ALLOC:
		m->result = cuMemAlloc(&m->p, m->n);
		break;
	case FILL:
		m->result = cuMemsetD8(m->p, m->byte, m->n);
		if (!m->result)
			m->result = cuCtxSynchronize();
		break;
	case PEEK:
		m->result = cuMemcpyDtoH(&m->byte, m->p, 1);
		break;
	case FREE:
		m->result = cuMemFree(m->p);
		break;
	case HANDLE:
		m->result = cuIpcGetMemHandle(&m->handle, m->p);
		break;
	case OPEN:
		m->result = cuIpcOpenMemHandle(&m->p, m->handle, LAZY);
		break;
	case CLOSE:
		m->result = cuIpcCloseMemHandle(m->p);
		break;
	}
}

static void start_peer(void)
{
	struct message m;
	int ends[2];

	fflush(NULL);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) || (peer = fork()) < 0)
		exit(1);
	line = ends[peer == 0];
	close(ends[peer != 0]);
	if (peer)
		return;
	while (recv(line, &m, sizeof(m), MSG_WAITALL) == sizeof(m)) {
		serve(&m);
		if (send(line, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
			break;
	}
	_exit(0);
}

static CUresult ask(struct message *m)
{
	assert_int_equal(send(line, m, sizeof(*m), MSG_NOSIGNAL), sizeof(*m));
	assert_int_equal(recv(line, m, sizeof(*m), MSG_WAITALL), sizeof(*m));
	return m->result;
}

static CUdeviceptr peer_alloc(size_t n, unsigned char byte)
{
	struct message m = { .op = ALLOC, .n = n };

	OK(ask(&m));
	m.op = FILL;
	m.byte = byte;
	OK(ask(&m));
	return m.p;
}

static void peer_fill(CUdeviceptr p, size_t n, unsigned char byte)
{
	struct message m = { .op = FILL, .p = p, .n = n, .byte = byte };

	OK(ask(&m));
}

static CUipcMemHandle peer_handle(CUdeviceptr p)
{
	struct message m = { .op = HANDLE, .p = p };

	OK(ask(&m));
	return m.handle;
}

static int peer_peek(CUdeviceptr p)
{
	struct message m = { .op = PEEK, .p = p };

	OK(ask(&m));
	return m.byte;
}

static void peer_free(CUdeviceptr p)
{
	struct message m = { .op = FREE, .p = p };

	OK(ask(&m));
}

static int peek(CUdeviceptr p)
{
	unsigned char byte;

	OK(cuMemcpyDtoH(&byte, p, 1));
	return byte;
}

/* Not on a GPU inside this process: no other one could ever open it. */
static bool is_supported(void)
{
	return !getenv("SOFTGPU_INPROCESS");
}

static void need_peer(void)
{
	struct message m = { .op = START };

	if (!is_supported())
		skip();
	OK(ask(&m));
}

/* ---- the tests ---- */

CASE(in_this_process_alone)
{
	CUipcMemHandle h;
	CUdeviceptr p;
	int v;

	if (is_supported())
		skip();
	OK(cuMemAlloc(&p, MIB));
	FAILS(CUDA_ERROR_NOT_SUPPORTED, cuIpcGetMemHandle(&h, p));
	OK(cuPointerGetAttribute(&v, A(IS_LEGACY_CUDA_IPC_CAPABLE), p));
	assert_int_equal(v, 0);
	OK(cuMemFree(p));
}

/* No event here is for other processes; a program that looks for the calls finds them, and an error. */
CASE(events)
{
	cudaIpcEventHandle_t runtime_handle = { { 0 } };
	CUipcEventHandle h = { { 0 } };
	CUevent e, none = NULL;
	cudaEvent_t other = NULL;

	OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	BAD(cuIpcGetEventHandle(NULL, e));
	BAD(cuIpcOpenEventHandle(NULL, h));
	if (on_softgpu()) {
		FAILS(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&h, e));
		FAILS(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&h, NULL));
		FAILS(CUDA_ERROR_NOT_SUPPORTED, cuEventCreate(&none, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
		FAILS(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&none, h));
		assert_int_equal(cudaIpcGetEventHandle(&runtime_handle, e), cudaErrorInvalidResourceHandle);
		assert_int_equal(cudaIpcOpenEventHandle(&other, runtime_handle), cudaErrorInvalidResourceHandle);
	}
	assert_null(none);
	assert_null(other);
	OK(cuEventDestroy(e));
}

CASE(handles)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle phys;
	CUipcMemHandle h, same, h1, h2;
	CUdeviceptr p, small1, small2, m, va;
	CUcontext ctx;
	size_t grain;
	void *host;
	int v;

	if (!is_supported())
		skip();
	OK(cuMemAlloc(&p, 4 * MIB));
	OK(cuIpcGetMemHandle(&h, p));
	OK(cuIpcGetMemHandle(&same, p + 65536 + 7));
	assert_memory_equal(&h, &same, sizeof(h));
	OK(cuMemAlloc(&small1, 512));
	OK(cuMemAlloc(&small2, 512));
	OK(cuIpcGetMemHandle(&h1, small1));
	OK(cuIpcGetMemHandle(&h2, small2));
	assert_memory_not_equal(&h1, &h2, sizeof(h1));
	OK(cuPointerGetAttribute(&v, A(IS_LEGACY_CUDA_IPC_CAPABLE), p));
	assert_int_equal(v, 1);
	BAD(cuIpcGetMemHandle(NULL, p));
	OK(cuCtxPopCurrent(&ctx));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuIpcGetMemHandle(&same, p));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&m, h, LAZY));
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuIpcCloseMemHandle(p));
	OK(cuCtxPushCurrent(ctx));
	/* one's own cannot be opened, nor closed */
	FAILS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&m, h, LAZY));
	BAD(cuIpcCloseMemHandle(p));

	OK(cuMemFree(small2));
	BAD(cuIpcGetMemHandle(&same, small2));
	BAD(cuIpcGetMemHandle(&same, 0));
	BAD(cuIpcGetMemHandle(&same, P(&h)));
	OK(cuMemAllocManaged(&m, MIB, CU_MEM_ATTACH_GLOBAL));
	BAD(cuIpcGetMemHandle(&same, m));
	OK(cuMemHostAlloc(&host, MIB, 0));
	BAD(cuIpcGetMemHandle(&same, P(host)));
	OK(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	OK(cuMemAddressReserve(&va, grain, 0, 0, 0));
	OK(cuMemCreate(&phys, grain, &prop, 0));
	OK(cuMemMap(va, grain, 0, phys, 0));
	BAD(cuIpcGetMemHandle(&same, va));
	OK(cuMemUnmap(va, grain));
	OK(cuMemRelease(phys));
	OK(cuMemAddressFree(va, grain));
	OK(cuMemFreeHost(host));
	OK(cuMemFree(m));
	OK(cuMemFree(small1));
	OK(cuMemFree(p));
}

static void attributes(CUdeviceptr p, CUdeviceptr interior, size_t size)
{
	CUpointer_attribute which[] = {
		A(MEMORY_TYPE), A(CONTEXT), A(DEVICE_ORDINAL), A(IS_MANAGED), A(RANGE_SIZE),
		A(IS_LEGACY_CUDA_IPC_CAPABLE), A(IS_GPU_DIRECT_RDMA_CAPABLE), A(ACCESS_FLAGS), A(BUFFER_ID),
	};
	unsigned int type, managed, legacy, rdma;
	unsigned long long access, id;
	size_t range, length;
	CUdeviceptr base;
	CUcontext ctx;
	int ordinal;
	void *data[] = { &type, &ctx, &ordinal, &managed, &range, &legacy, &rdma, &access, &id };
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	void *host;

	OK(cuPointerGetAttributes(9, which, data, interior));
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_ptr_equal(ctx, test_context());
	assert_int_equal(ordinal, 0);
	assert_int_equal(managed, 0);
	assert_int_equal(range, size);
	assert_int_equal(legacy, 0);
	assert_int_equal(rdma, 0);
	assert_int_equal((unsigned int)access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	assert_true(id != 0);
	BAD(cuPointerGetAttribute(&host, A(HOST_POINTER), p));
	OK(cuPointerGetAttribute(&tokens, A(P2P_TOKENS), p));
	OK(cuMemGetAddressRange(&base, &length, interior));
	assert_true(base == p && length == size);
}

CASE(opened)
{
	CUipcMemHandle h, junk;
	CUdeviceptr theirs, p, again, q = 0;
	CUcontext ctx;

	need_peer();
	theirs = peer_alloc(4 * MIB, 0xa0);
	peer_fill(theirs + 65536, 512, 0xa1);
	h = peer_handle(theirs + 5);
	BAD(cuIpcOpenMemHandle(NULL, h, LAZY));
	BAD(cuIpcOpenMemHandle(&p, h, 0));
	BAD(cuIpcOpenMemHandle(&p, h, 2));
	memset(&junk, 0, sizeof(junk));
	BAD(cuIpcOpenMemHandle(&p, junk, LAZY));
	memset(&junk, 0x5a, sizeof(junk));
	BAD(cuIpcOpenMemHandle(&p, junk, LAZY));
	for (size_t byte = 0; on_softgpu() && byte < sizeof(junk); byte++) {
		junk = h;
		junk.reserved[byte] ^= 4;
		BAD(cuIpcOpenMemHandle(&p, junk, LAZY));
	}

	OK(cuIpcOpenMemHandle(&p, h, LAZY));
	assert_int_equal(peek(p), 0xa0);
	assert_int_equal(peek(p + 65536), 0xa1);
	attributes(p, p + MIB, 4 * MIB);
	OK(cuMemsetD8(p + 3 * MIB, 0xb3, 1));
	OK(cuCtxSynchronize());
	assert_int_equal(peer_peek(theirs + 3 * MIB), 0xb3);

	OK(cuIpcOpenMemHandle(&again, h, LAZY));
	assert_true(again == p);
	OK(cuCtxCreate(&ctx, 0, 0));
	FAILS(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle(&q, h, LAZY));
	OK(cuCtxDestroy(ctx));
	OK(cuCtxSetCurrent(test_context()));

	BAD(cuMemFree(p));
	BAD(cuIpcGetMemHandle(&junk, p));
	BAD(cuIpcCloseMemHandle(p + 512));
	BAD(cuIpcCloseMemHandle(0));
	BAD(cuIpcCloseMemHandle(P(&h)));
	OK(cuIpcCloseMemHandle(p));
	assert_int_equal(peek(p), 0xa0);
	OK(cuIpcCloseMemHandle(p));
	BAD(cuIpcCloseMemHandle(p));
	if (on_softgpu()) {
		unsigned char byte;

		BAD(cuMemcpyDtoH(&byte, p, 1));
	}
	peer_free(theirs);
}

CASE(small_ones)
{
	CUdeviceptr t1, t2, p1, p2;

	need_peer();
	t1 = peer_alloc(512, 1);
	t2 = peer_alloc(512, 2);
	OK(cuIpcOpenMemHandle(&p1, peer_handle(t1), LAZY));
	OK(cuIpcOpenMemHandle(&p2, peer_handle(t2), LAZY));
	assert_int_equal(peek(p1), 1);
	assert_int_equal(peek(p2), 2);
	attributes(p2, p2 + 511, 512);
	OK(cuIpcCloseMemHandle(p1));
	assert_int_equal(peek(p2), 2);
	OK(cuIpcCloseMemHandle(p2));
	peer_free(t1);
	peer_free(t2);
}

CASE(freed_by_its_owner)
{
	CUdeviceptr theirs, next, p, q;
	CUipcMemHandle h;

	need_peer();
	theirs = peer_alloc(4 * MIB, 0xa0);
	h = peer_handle(theirs);
	OK(cuIpcOpenMemHandle(&p, h, LAZY));
	peer_free(theirs);
	next = peer_alloc(4 * MIB, 0xcc);
	assert_int_equal(peek(p), 0xa0);
	if (on_softgpu()) {
		BAD(cuIpcOpenMemHandle(&q, h, LAZY));
		assert_true(next == theirs);
		assert_memory_not_equal(&h, &(CUipcMemHandle[]){ peer_handle(next) }, sizeof(h));
	}
	OK(cuIpcCloseMemHandle(p));
	peer_free(next);
}

/* The other way round, and by the runtime's names. */
CASE(runtime)
{
	struct message m = { .op = OPEN };
	cudaIpcMemHandle_t h;
	CUdeviceptr theirs;
	void *p;

	need_peer();
	assert_int_equal(cudaMalloc(&p, MIB), cudaSuccess);
	assert_int_equal(cudaMemset(p, 0x11, MIB), cudaSuccess);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(cudaIpcGetMemHandle(&h, p), cudaSuccess);
	memcpy(&m.handle, &h, sizeof(h));
	OK(ask(&m));
	assert_int_equal(peer_peek(m.p + MIB - 1), 0x11);
	m.op = CLOSE;
	OK(ask(&m));
	assert_int_equal(cudaFree(p), cudaSuccess);

	theirs = peer_alloc(MIB, 0x22);
	m.handle = peer_handle(theirs);
	memcpy(&h, &m.handle, sizeof(h));
	assert_int_equal(cudaIpcOpenMemHandle(&p, h, 0), cudaErrorInvalidValue);
	assert_int_equal(cudaIpcOpenMemHandle(NULL, h, cudaIpcMemLazyEnablePeerAccess), cudaErrorInvalidValue);
	assert_int_equal(cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
	assert_int_equal(peek(P(p)), 0x22);
	assert_int_equal(cudaIpcCloseMemHandle(p), cudaSuccess);
	assert_int_equal(cudaIpcCloseMemHandle(p), cudaErrorInvalidValue);
	peer_free(theirs);
}

/* The last: the peer is killed while its memory is open here. */
CASE(killed)
{
	CUdeviceptr theirs, p, q;
	CUipcMemHandle h;
	int status;

	need_peer();
	theirs = peer_alloc(4 * MIB, 0x77);
	h = peer_handle(theirs);
	OK(cuIpcOpenMemHandle(&p, h, LAZY));
	kill(peer, SIGKILL);
	assert_int_equal(waitpid(peer, &status, 0), peer);
	if (on_softgpu()) {
		assert_int_equal(peek(p), 0x77);
		BAD(cuIpcOpenMemHandle(&q, h, LAZY));
	}
	OK(cuIpcCloseMemHandle(p));
}

int main(void)
{
	start_peer();
	return cases_run(gpu_setup, gpu_teardown);
}
