// SPDX-License-Identifier: MIT
/*
 * subjects.c - the memory that is measured, host and GPU, and the back-end that pins it.
 *
 * CUDA by the names of its driver API, from whichever libcuda.so.1 is there; softgpu's
 * says what it is by its device's name.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

static struct {
	int (*init)(unsigned int flags);
	int (*device_get)(int *device, int ordinal);
	int (*device_name)(char *name, int length, int device);
	int (*retain)(void **context, int device);
	int (*set_current)(void *context);
	int (*alloc)(uint64_t *p, size_t length);
	int (*free)(uint64_t p);
	void *context;
} cuda;

static bool cuda_find(void *library)
{
	cuda.init = dlsym(library, "cuInit");
	cuda.device_get = dlsym(library, "cuDeviceGet");
	cuda.device_name = dlsym(library, "cuDeviceGetName");
	cuda.retain = dlsym(library, "cuDevicePrimaryCtxRetain");
	cuda.set_current = dlsym(library, "cuCtxSetCurrent");
	cuda.alloc = dlsym(library, "cuMemAlloc_v2");
	cuda.free = dlsym(library, "cuMemFree_v2");
	return cuda.init && cuda.device_get && cuda.device_name && cuda.retain && cuda.set_current && cuda.alloc && cuda.free;
}

static void gpu_open(struct bench *b)
{
	const char *off = getenv("PEERDMA_CUDA");
	void *library;
	int device, error;

	if (off && !strcmp(off, "off")) {
		snprintf(b->why_no_gpu, sizeof(b->why_no_gpu), "PEERDMA_CUDA=off");
		return;
	}
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!library || !cuda_find(library)) {
		snprintf(b->why_no_gpu, sizeof(b->why_no_gpu), "libcuda.so.1 %s", library ? "lacks a call" : "is not there");
		return;
	}
	error = cuda.init(0);
	if (!error)
		error = cuda.device_get(&device, 0);
	if (!error)
		error = cuda.device_name(b->gpu_name, sizeof(b->gpu_name), device);
	if (!error)
		error = cuda.retain(&cuda.context, device);
	if (!error)
		error = cuda.set_current(cuda.context);
	if (error) {
		snprintf(b->why_no_gpu, sizeof(b->why_no_gpu), "libcuda.so.1 has no GPU: CUDA error %d", error);
		return;
	}
	b->gpu = true;
	b->software = !strncmp(b->gpu_name, "softgpu", strlen("softgpu"));
}

void subjects_open(struct bench *b)
{
	gpu_open(b);
	if (peerdma_open(&b->ctx, 0)) {
		b->ctx = NULL;
		snprintf(b->why_not, sizeof(b->why_not), "%s", peerdma_last_error());
	}
}

void subjects_close(struct bench *b)
{
	peerdma_close(b->ctx);
}

void *subject_alloc(bool device, size_t length)
{
	uint64_t address;
	void *p;

	/* Which context is current is each thread's own. */
	if (device)
		return cuda.set_current(cuda.context) || cuda.alloc(&address, length) ? NULL : (void *)(uintptr_t)address;
	p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void subject_free(bool device, void *p, size_t length)
{
	if (device)
		cuda.free((uintptr_t)p);
	else
		munmap(p, length);
}

void subject_provider(struct bench *b, bool device, struct peerdma_region *region)
{
	char *provider = device ? b->device_provider : b->host_provider;
	struct peerdma_status status = { .size = sizeof(status) };

	if (!*provider && !peerdma_status(region, &status))
		snprintf(provider, sizeof(b->host_provider), "%s", status.provider);
}
