// SPDX-License-Identifier: MIT
#include <dlfcn.h>
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
		exit(1);							\
	}									\
} while (0)

void cu_start(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	CUdevice device;
	CUcontext ctx;

	if (!lib) {
		fprintf(stderr, "%s\nset LD_LIBRARY_PATH to the folder of libcuda.so.1, as \"make bench\" does\n",
			dlerror());
		exit(1);
	}
	LOAD(init, cuInit);
	LOAD(device_get, cuDeviceGet);
	LOAD(ctx_create, cuCtxCreate);
	LOAD(mem_alloc, cuMemAlloc);
	LOAD(mem_free, cuMemFree);
	LOAD(copy_htod, cuMemcpyHtoD);
	LOAD(copy_dtoh, cuMemcpyDtoH);
	LOAD(copy_dtod, cuMemcpyDtoDAsync);
	LOAD(synchronize, cuCtxSynchronize);
	cu_check(cu.init(0), "cuInit: is softgpu.ko loaded?");
	cu_check(cu.device_get(&device, 0), "cuDeviceGet");
	cu_check(cu.ctx_create(&ctx, 0, device), "cuCtxCreate");
}

CUdeviceptr cu_alloc(size_t length)
{
	CUdeviceptr p = 0;

	cu_check(cu.mem_alloc(&p, length), "cuMemAlloc: not enough GPU memory?");
	return p;
}
