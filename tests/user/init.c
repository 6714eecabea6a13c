// SPDX-License-Identifier: MIT
/* init.c - before cuInit, across fork, and functions by name. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>

#include "test.h"

/* Nothing but these works without cuInit. */
CASE(before_init)
{
	CUdeviceptr p;
	CUcontext ctx;
	int n = 0;

	OK(cuDriverGetVersion(&n));
	assert_true(n >= 12060);
	BAD(cuDriverGetVersion(NULL));
	FAILS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
	FAILS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGet(&n, 0));
	FAILS(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&ctx));
	FAILS(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&p, 1));
	FAILS(CUDA_ERROR_NOT_INITIALIZED, cuMemFree(0));
	FAILS(CUDA_ERROR_NOT_INITIALIZED, cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, P(&n)));
	BAD(cuInit(1));
}

CASE(error_names)
{
	const char *text = "x";

	OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
	assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
	OK(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
	assert_true(strlen(text) > 0);
	BAD(cuGetErrorName((CUresult)12345, &text));
	assert_null(text);
	text = "x";
	BAD(cuGetErrorString((CUresult)12345, &text));
	assert_null(text);
}

/* What clients load by name; they give up when one is missing. */
static const struct {
	const char *name;
	int version;
} wanted[] = {
	/* perftest */
	{ "cuInit", 2000 }, { "cuDeviceGet", 2000 }, { "cuDeviceGetCount", 2000 },
	{ "cuDeviceGetAttribute", 2000 }, { "cuDeviceGetName", 2000 }, { "cuDriverGetVersion", 2020 },
	{ "cuCtxCreate", 3020 }, { "cuMemAlloc", 3020 }, { "cuMemFree", 3020 },
	{ "cuMemAllocHost", 3020 }, { "cuMemFreeHost", 3020 }, { "cuMemcpyDtoD", 3020 },
	{ "cuCtxSetCurrent", 4000 }, { "cuCtxDestroy", 4000 }, { "cuDevicePrimaryCtxRetain", 7000 },
	{ "cuDeviceGetByPCIBusId", 11030 }, { "cuMemcpy", 11030 }, { "cuCtxSynchronize", 11030 },
	{ "cuMemAllocManaged", 11030 }, { "cuMemGetHandleForAddressRange", 11070 },
	/* gdrcopy's library; it asks for 13030, which an older driver does not know */
	{ "cuCtxGetCurrent", 12000 }, { "cuDevicePrimaryCtxRelease", 12000 },
	{ "cuPointerGetAttribute", 12000 }, { "cuGetErrorString", 12000 }, { "cuGetErrorName", 12000 },
	/* UCX */
	{ "cuCtxSetFlags", 12010 }, { "cuMemGetHandleForAddressRange", 12000 },
};

CASE(names)
{
	CUdriverProcAddressQueryResult status;
	void *fn;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		fn = NULL;
		OK(cuGetProcAddress(wanted[i].name, &fn, wanted[i].version, 0, &status));
		if (!fn || status != CU_GET_PROC_ADDRESS_SUCCESS)
			fail_msg("%s at %d: status %d", wanted[i].name, wanted[i].version, status);
	}

	OK(cuGetProcAddress("cuMemAlloc", &fn, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
	assert_ptr_equal(fn, dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	/* the ABI of the version that was asked for: 3 arguments, 5, and 4 of another kind */
	OK(cuGetProcAddress("cuCtxCreate", &fn, 3020, 0, NULL));
	assert_ptr_equal(fn, dlsym(RTLD_DEFAULT, "cuCtxCreate_v2"));
	OK(cuGetProcAddress("cuCtxCreate", &fn, 11040, 0, NULL));
	assert_ptr_equal(fn, dlsym(RTLD_DEFAULT, "cuCtxCreate_v3"));

	OK(cuGetProcAddress("cuMemCreate", &fn, 9000, 0, &status));
	assert_null(fn);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	OK(cuGetProcAddress("cuNoSuchThing", &fn, 12000, 0, &status));
	assert_null(fn);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	OK(cuGetProcAddress("cuMemAlloc_v2", &fn, 12000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	OK(cuGetProcAddress("cuNoSuchThing", &fn, 12000, 0, NULL));
	BAD(cuGetProcAddress("cuInit", &fn, 12000, 8, NULL));
	BAD(cuGetProcAddress("cuInit", &fn, 99999, 0, NULL));
	/* no version is above a negative one, as with NVIDIA's driver 580 on an H200 */
	for (int version = -1; version > INT_MIN / 2; version *= 2) {
		OK(cuGetProcAddress("cuMemAlloc", &fn, version, 0, &status));
		assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
		assert_ptr_equal(fn, dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	}
}

/* Clients find the older function by its plain name, and call it with the newer one's arguments. */
CASE(plain_get_proc_address)
{
	typedef CUresult (*get_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUdriverProcAddressQueryResult status = 77;
	get_fn get = (get_fn)dlsym(RTLD_DEFAULT, "cuGetProcAddress");
	void *fn = NULL;

	assert_non_null(get);
	OK(get("cuMemAlloc", &fn, 3020, CU_GET_PROC_ADDRESS_DEFAULT, &status));
	assert_ptr_equal(fn, dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	assert_int_equal(status, 77);
	/* whatever stands in the fifth register is not an address */
	OK(get("cuInit", &fn, 2000, CU_GET_PROC_ADDRESS_DEFAULT, (void *)1));
	FAILS(CUDA_ERROR_NOT_FOUND, get("cuNoSuchThing", &fn, 12000, 0, NULL));
}

static void child_starts(void *arg)
{
	CUdeviceptr p;
	CUcontext ctx;

	_exit(cuInit(0) || cuCtxCreate(&ctx, 0, 0) || cuMemAlloc(&p, 4096) || cuMemFree(p) ||
	      cuCtxDestroy(ctx));
}

/* A child of a process that has not started CUDA starts it for itself. */
CASE(fork_before_init)
{
	assert_int_equal(in_child(child_starts, NULL), 0);
}

CASE(init)
{
	int n;

	OK(cuInit(0));
	OK(cuInit(0));
	BAD(cuInit(2));
	OK(cuDeviceGetCount(&n));
	assert_true(n >= 1);
}

struct parent {
	CUcontext ctx;
	CUdeviceptr device;
	char *host;
};

static void child_is_refused(void *arg)
{
	struct parent *parent = arg;
	unsigned int u;
	CUdeviceptr p;
	CUcontext ctx;
	CUdevice dev;
	int n;

#define REFUSED(call) do { if ((call) != CUDA_ERROR_NOT_INITIALIZED) _exit(__LINE__ & 127); } while (0)
	REFUSED(cuInit(0));
	REFUSED(cuDeviceGetCount(&n));
	REFUSED(cuDeviceGet(&dev, 0));
	REFUSED(cuMemAlloc(&p, 4096));
	REFUSED(cuMemFree(parent->device));
	REFUSED(cuMemFreeHost(parent->host));
	REFUSED(cuMemcpyDtoH(&u, parent->device, sizeof(u)));
	REFUSED(cuCtxGetCurrent(&ctx));
	REFUSED(cuCtxSetCurrent(parent->ctx));
	REFUSED(cuCtxDestroy(parent->ctx));
	REFUSED(cuDevicePrimaryCtxReset(0));
	REFUSED(cuCtxSynchronize());
	REFUSED(cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, parent->device));
	REFUSED(cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, P(&u)));
	if (cuDriverGetVersion(&n) != CUDA_SUCCESS)
		_exit(1);
	exit(0);	/* handlers and all: nothing of the parent's may be ended */
}

#ifndef __SANITIZE_THREAD__
static void *in_thread(void *arg)
{
	return NULL;
}

/* A child that starts a thread, and so runs the destructors of one. */
static void child_with_thread(void *arg)
{
	pthread_t t;

	if (pthread_create(&t, NULL, in_thread, NULL) || pthread_join(t, NULL))
		_exit(1);
	exit(0);
}
#endif

CASE(fork_after_init)
{
#ifdef __SANITIZE_ADDRESS__
	/* The child may meet the sanitizer's allocator locked by a thread that it does not have. */
	skip();
#endif
	struct parent parent;
	unsigned int value = 0x12345678, back = 0;

	OK(cuDevicePrimaryCtxRetain(&parent.ctx, 0));
	OK(cuCtxPushCurrent(parent.ctx));
	OK(cuMemAlloc(&parent.device, sizeof(value)));
	OK(cuMemHostAlloc((void **)&parent.host, 4096, 0));
	strcpy(parent.host, "the parent's");
	OK(cuMemcpyHtoD(parent.device, &value, sizeof(value)));

	for (int i = 0; i < 3; i++) {
		assert_int_equal(in_child(child_is_refused, &parent), 0);
#ifndef __SANITIZE_THREAD__	/* it allows no threads after a fork */
		assert_int_equal(in_child(child_with_thread, NULL), 0);
#endif
	}

	OK(cuMemcpyDtoH(&back, parent.device, sizeof(back)));
	assert_int_equal(back, value);
	assert_string_equal(parent.host, "the parent's");
	OK(cuMemFreeHost(parent.host));
	OK(cuMemFree(parent.device));
	OK(cuCtxPopCurrent(NULL));
	OK(cuDevicePrimaryCtxRelease(0));
}

int main(void)
{
	/* in a child, so that this process meets the tests uninitialised */
	pid_t pid = fork();
	int status = 0;

	if (!pid)
		_exit(cuInit(0) == CUDA_ERROR_NO_DEVICE ? 77 : 0);
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_program("no GPU: load softgpu.ko, or set SOFTGPU_INPROCESS=1");
	return cases_run(NULL, NULL);
}
