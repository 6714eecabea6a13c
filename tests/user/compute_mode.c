// SPDX-License-Identifier: MIT
/*
 * compute_mode.c - who may make contexts, in whichever mode the GPU is.  Another
 * process is one that is forked before CUDA starts here.
 */
#include <sys/socket.h>

#include "test.h"

static int line;

/* The other process: at each byte it hears, it makes a context and destroys it, and says how that went. */
static void other_process(void)
{
	CUresult result;
	CUcontext ctx;
	char go;

	while (read(line, &go, 1) == 1) {
		result = cuInit(0);
		if (!result)
			result = cuDevicePrimaryCtxRetain(&ctx, 0);
		if (!result)
			result = cuDevicePrimaryCtxRelease(0);
		if (write(line, &result, sizeof(result)) != sizeof(result))
			break;
	}
	_exit(0);
}

static CUresult in_the_other(void)
{
	CUresult result;

	assert_int_equal(write(line, "", 1), 1);
	assert_int_equal(read(line, &result, sizeof(result)), sizeof(result));
	return result;
}

CASE(mode)
{
	/* in process each has a GPU of its own, which is of no interest here */
	bool shared = !getenv("SOFTGPU_INPROCESS");
	CUcontext ctx, further;
	CUdeviceptr p = 0;
	int mode;

	OK(cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0));
	print_message("compute mode %d\n", mode);
	if (mode == CU_COMPUTEMODE_PROHIBITED) {
		FAILS(CUDA_ERROR_DEVICE_UNAVAILABLE, cuCtxCreate(&ctx, 0, 0));
		FAILS(CUDA_ERROR_DEVICE_UNAVAILABLE, cuDevicePrimaryCtxRetain(&ctx, 0));
		return;
	}
	OK(cuCtxCreate(&ctx, 0, 0));
	if (mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS) {
		FAILS(CUDA_ERROR_DEVICE_UNAVAILABLE, cuCtxCreate(&further, 0, 0));
		FAILS(CUDA_ERROR_DEVICE_UNAVAILABLE, cuDevicePrimaryCtxRetain(&further, 0));
		if (shared)
			FAILS(CUDA_ERROR_DEVICE_UNAVAILABLE, in_the_other());
		OK(cuCtxSynchronize());
	} else {
		OK(cuDevicePrimaryCtxRetain(&further, 0));
		OK(cuDevicePrimaryCtxRelease(0));
		OK(in_the_other());
	}
	/* memory of pools belongs to no context, and is none */
	if (on_softgpu())
		OK(cuMemAllocAsync(&p, MIB, NULL));
	OK(cuCtxDestroy(ctx));
	OK(in_the_other());
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuMemFree(p));
	OK(cuDevicePrimaryCtxRelease(0));
}

int main(void)
{
	int ends[2];
	pid_t pid;
	CUresult result;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || (pid = fork()) < 0)
		return 1;
	line = ends[!pid];
	close(ends[!!pid]);
	if (!pid)
		other_process();
	result = cuInit(0);
	if (result == CUDA_ERROR_NO_DEVICE)
		skip_program("no GPU: load softgpu.ko, or set SOFTGPU_INPROCESS=1");
	OK(result);
	return cases_run(NULL, NULL);
}
