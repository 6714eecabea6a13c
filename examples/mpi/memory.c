// SPDX-License-Identifier: MIT
/* memory.c - see memory.h.  Device memory is filled and read through a buffer in host memory. */
#include <cuda.h>
#include <hip/hip_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

const char *const kind_names[KINDS] = { "host", "cuda", "managed", "amd" };

/* No kind's name is part of another's. */
bool is_asked(int argc, char **argv, int n, enum kind kind)
{
	return argc <= n || strstr(argv[n], kind_names[kind]);
}

static void need(bool is_there, const char *what)
{
	if (is_there)
		return;
	fprintf(stderr, "%s failed\n", what);
	exit(1);
}

bool memory_start(int rank)
{
	int cuda = 0, hip = 0;
	CUcontext ctx;

	if (cuInit(0) || cuDeviceGetCount(&cuda) || cuDevicePrimaryCtxRetain(&ctx, rank % cuda) || cuCtxSetCurrent(ctx)) {
		fprintf(stderr, "there is no GPU for CUDA\n");
		return false;
	}
	if (hipGetDeviceCount(&hip) || hipSetDevice(rank % hip)) {
		fprintf(stderr, "there is no GPU for HIP\n");
		return false;
	}
	return true;
}

void *memory_new(enum kind kind, size_t size)
{
	CUdeviceptr device = 0;
	void *p = NULL;

	switch (kind) {
	case HOST:
		p = malloc(size);
		break;
	case CUDA:
		need(!cuMemAlloc(&device, size), "cuMemAlloc");
		p = (void *)(uintptr_t)device;
		break;
	case MANAGED:
		need(!cuMemAllocManaged(&device, size, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
		p = (void *)(uintptr_t)device;
		break;
	default:
		need(!hipMalloc(&p, size), "hipMalloc");
	}
	need(p, "an allocation");
	return p;
}

void memory_end(enum kind kind, void *p)
{
	if (kind == HOST)
		free(p);
	else if (kind == AMD)
		need(!hipFree(p), "hipFree");
	else
		need(!cuMemFree((uintptr_t)p), "cuMemFree");
}

static void copy(enum kind kind, void *to, const void *from, size_t size)
{
	if (kind == HOST)
		memcpy(to, from, size);
	else if (kind == AMD)
		need(!hipMemcpy(to, from, size, hipMemcpyDefault), "hipMemcpy");
	else
		need(!cuMemcpy((uintptr_t)to, (uintptr_t)from, size) && !cuCtxSynchronize(), "cuMemcpy");
}

void memory_put(enum kind kind, void *to, const void *from, size_t size)
{
	copy(kind, to, from, size);
}

void memory_get(enum kind kind, void *to, const void *from, size_t size)
{
	copy(kind, to, from, size);
}

void pattern(uint64_t *words, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size / sizeof(*words); i++)
		words[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed * UINT64_C(0xff51afd7ed558ccd);
}

void memory_fill(enum kind kind, void *p, size_t size, uint64_t seed)
{
	uint64_t *words = memory_new(HOST, size);

	pattern(words, size, seed);
	memory_put(kind, p, words, size);
	free(words);
}

long memory_differs(enum kind kind, const void *p, size_t size, uint64_t seed)
{
	unsigned char *want = memory_new(HOST, size), *have = memory_new(HOST, size);
	long at = -1;

	pattern((uint64_t *)want, size, seed);
	memory_get(kind, have, p, size);
	if (memcmp(want, have, size)) {
		at = 0;
		while (want[at] == have[at])
			at++;
	}
	free(want);
	free(have);
	return at;
}
