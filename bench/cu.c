// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cu.h"

struct cu cu;

void cu_check(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: libcuda says %d\n", what, result);
	exit(1);
}

#define STRING_(name)	#name
#define STRING(name)	STRING_(name)
#define LOAD(member, name) do {							\
	cu.member = dlsym(lib, STRING(name));					\
	if (!cu.member) {							\
		fprintf(stderr, "libcuda.so.1 has no %s\n", STRING(name));	\
		exit(missing);							\
	}									\
} while (0)

static void start(int missing, bool last)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	CUdevice device;
	CUcontext ctx;
	int count;
	CUresult ret;

	if (!lib) {
		fprintf(stderr, "%s\nset LD_LIBRARY_PATH to the folder of libcuda.so.1, as \"make bench\" does\n",
			dlerror());
		exit(missing);
	}
	LOAD(init, cuInit);
	LOAD(device_get, cuDeviceGet);
	LOAD(device_count, cuDeviceGetCount);
	LOAD(ctx_create, cuCtxCreate);
	LOAD(mem_alloc, cuMemAlloc);
	LOAD(mem_free, cuMemFree);
	LOAD(copy_htod, cuMemcpyHtoD);
	LOAD(copy_dtoh, cuMemcpyDtoH);
	LOAD(copy_dtod, cuMemcpyDtoDAsync);
	LOAD(synchronize, cuCtxSynchronize);
	LOAD(pointer_get_attribute, cuPointerGetAttribute);
	ret = cu.init(0);
	if (ret) {
		fprintf(stderr, "cuInit: libcuda says %d: no GPU (softgpu's: load softgpu.ko, or set SOFTGPU_INPROCESS=1)\n", ret);
		exit(missing);
	}
	cu_check(cu.device_count(&count), "cuDeviceGetCount");
	cu_check(cu.device_get(&device, last ? count - 1 : 0), "cuDeviceGet");
	cu_check(cu.ctx_create(&ctx, 0, device), "cuCtxCreate");
}

void cu_start(int missing)
{
	start(missing, false);
}

void cu_start_last(int missing)
{
	start(missing, true);
}

CUdeviceptr cu_alloc(size_t length)
{
	CUdeviceptr p = 0;

	cu_check(cu.mem_alloc(&p, length), "cuMemAlloc: not enough GPU memory?");
	return p;
}
