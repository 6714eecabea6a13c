// SPDX-License-Identifier: MIT
/* peerdma_test_hip.c - HIP's memory by the calls that the tests know, libcuda's. */
#include <dlfcn.h>

#include "peerdma_test_gpu.h"

static struct {
	int (*init)(unsigned int flags);
	int (*synchronize)(void);
	int (*allocate)(void **p, size_t size);
	int (*end)(void *p);
	int (*copy)(void *dst, const void *src, size_t size, int kind);
} hip;

enum { COPY_DEFAULT = 4 };

static int mem_alloc(unsigned long long *ptr, size_t size)
{
	void *p = NULL;
	int error = hip.allocate(&p, size);

	*ptr = (uintptr_t)p;
	return error;
}

static int mem_free(unsigned long long ptr)
{
	return hip.end((void *)(uintptr_t)ptr);
}

static int copy_to(unsigned long long dst, const void *src, size_t size)
{
	return hip.copy((void *)(uintptr_t)dst, src, size, COPY_DEFAULT);
}

static int copy_from(void *dst, unsigned long long src, size_t size)
{
	return hip.copy(dst, (const void *)(uintptr_t)src, size, COPY_DEFAULT);
}

const char *hip_open(void)
{
	void *lib = dlopen("libamdhip64.so.6", RTLD_NOW);

	if (!lib)
		return "no libamdhip64.so.6";
	*(void **)&hip.init = dlsym(lib, "hipInit");
	*(void **)&hip.synchronize = dlsym(lib, "hipDeviceSynchronize");
	*(void **)&hip.allocate = dlsym(lib, "hipMalloc");
	*(void **)&hip.end = dlsym(lib, "hipFree");
	*(void **)&hip.copy = dlsym(lib, "hipMemcpy");
	if (!hip.init || !hip.synchronize || !hip.allocate || !hip.end || !hip.copy)
		return "libamdhip64.so.6 lacks functions";
	cu = (struct cuda){
		.Init = hip.init, .CtxSynchronize = hip.synchronize, .MemAlloc = mem_alloc, .MemFree = mem_free,
		.MemcpyHtoD = copy_to, .MemcpyDtoH = copy_from,
	};
	return hip.init(0) ? "HIP finds no GPU" : NULL;
}
