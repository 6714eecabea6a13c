// SPDX-License-Identifier: MIT
/*
 * mps.c - processes that share a context (SOFTGPU_MPS).  The clients are forked
 * before CUDA starts here, and do what they are told, a byte each; this process
 * is no client.
 */
#include <sys/socket.h>

#include "test.h"

struct answer {
	CUresult result;
	int enabled;
	CUdeviceptr ptr;
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
};

enum { CLIENTS = 4 };

static int lines[CLIENTS];
static pid_t pids[CLIENTS];

static CUresult begin(struct answer *a, CUcontext *ctx)
{
	CUdevice device;
	CUresult result = cuInit(0);

	if (!result)
		result = cuDeviceGet(&device, 0);
	if (!result)
		result = cuDeviceGetAttribute(&a->enabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device);
	if (!result)
		result = cuCtxCreate(ctx, 0, device);
	if (!result)
		result = cuMemAlloc(&a->ptr, 1 << 20);
	if (!result)
		result = cuPointerGetAttribute(&a->tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, a->ptr);
	return result;
}

/* Through the GPU and back. */
static CUresult use(CUdeviceptr ptr)
{
	char there[64], back[64];
	CUresult result;

	memset(there, 'a' + getpid() % 20, sizeof(there));
	result = cuMemcpyHtoD(ptr, there, sizeof(there));
	if (!result)
		result = cuMemcpyDtoH(back, ptr, sizeof(back));
	return result ? result : memcmp(there, back, sizeof(there)) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static void client(int line)
{
	struct answer a = { 0 };
	CUcontext ctx = NULL;
	char what;

	setenv("SOFTGPU_MPS", "0x15", 1);
	while (read(line, &what, 1) == 1) {
		switch (what) {
		case 'b':
			a.result = begin(&a, &ctx);
			break;
		case 'u':
			a.result = use(a.ptr);
			break;
		case 'f':	/* host memory that is not there */
			a.result = cuMemcpyHtoD(a.ptr, (void *)8, 64);
			break;
		case 'e':
			a.result = cuCtxDestroy(ctx);
			break;
		}
		if (write(line, &a, sizeof(a)) != sizeof(a))
			break;
	}
	_exit(0);
}

static struct answer tell(int i, char what)
{
	struct answer a = { .result = CUDA_ERROR_UNKNOWN };

	assert_int_equal(write(lines[i], &what, 1), 1);
	assert_int_equal(read(lines[i], &a, sizeof(a)), sizeof(a));
	return a;
}

CASE(clients)
{
	struct answer a, b, mine = { 0 };
	CUcontext ctx;
	int exclusive;

	OK(cuInit(0));
	OK(cuDeviceGetAttribute(&exclusive, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0));
	exclusive = exclusive == CU_COMPUTEMODE_EXCLUSIVE_PROCESS;
	a = tell(0, 'b');
	b = tell(1, 'b');
	OK(a.result);
	OK(b.result);
	assert_true(a.enabled == 1 && b.enabled == 1);
	assert_true(a.tokens.p2pToken == b.tokens.p2pToken && a.tokens.vaSpaceToken == b.tokens.vaSpaceToken);
	assert_true(a.ptr != b.ptr);
	OK(tell(0, 'u').result);
	OK(tell(1, 'u').result);
	/* where one context is allowed, theirs is the one */
	if (exclusive) {
		FAILS(CUDA_ERROR_DEVICE_UNAVAILABLE, cuCtxCreate(&ctx, 0, 0));
	} else {
		OK(begin(&mine, &ctx));
		assert_true(!mine.enabled && mine.tokens.p2pToken != a.tokens.p2pToken);
	}
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, tell(0, 'f').result);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, tell(1, 'u').result);
	if (!exclusive)
		OK(use(mine.ptr));
	OK(tell(0, 'e').result);
	/* those that have met the fault never work again; others do when all of them have ended */
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, tell(0, 'b').result);
	FAILS(CUDA_ERROR_MPS_SERVER_NOT_READY, tell(2, 'b').result);
	OK(tell(1, 'e').result);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, tell(1, 'b').result);
	OK(tell(2, 'b').result);
	OK(tell(3, 'b').result);
	OK(tell(3, 'u').result);
	if (!exclusive)
		OK(cuCtxDestroy(ctx));
}

CASE(ends)
{
	for (int i = 0; i < CLIENTS; i++) {
		close(lines[i]);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
}

int main(void)
{
	if (getenv("SOFTGPU_INPROCESS"))
		skip_program("a GPU inside a process has no other clients");
	if (access("/dev/softgpu0", R_OK))
		skip_program("no /dev/softgpu0: load softgpu.ko");
	for (int i = 0; i < CLIENTS; i++) {
		int ends[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) || (pids[i] = fork()) < 0)
			return 1;
		if (!pids[i]) {
			/* or the first client would never hear that this process closes its line */
			for (int other = 0; other < i; other++)
				close(lines[other]);
			close(ends[0]);
			client(ends[1]);
		}
		close(ends[1]);
		lines[i] = ends[0];
	}
	return cases_run(NULL, NULL);
}
