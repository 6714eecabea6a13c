/* SPDX-License-Identifier: MIT */
/*
 * pool_calls.h - for pools.c and pools_busy.c: the calls of CUDA's for memory pools, from whichever libcuda.so.1 is there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_calls.h"
#include "peerdma.h"
#include "peerdma_ipc.h"

#define FD	1			/* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */

enum { POOL_HANDLE_TYPES = 119 };	/* CUdevice_attribute */

static struct cuda_calls cu;
static int (*device_attribute)(int *value, int attribute, int device);
static int (*default_pool)(void **pool, int device);
static int (*can_access_peer)(int *can, int device, int peer);
static int (*pool_create)(void **pool, const struct cuda_pool_props *props);
static int (*pool_destroy)(void *pool);
static int (*pool_trim)(void *pool, size_t keep);
static int (*pool_alloc)(gpu_ptr *p, size_t size, void *pool, void *stream);
static int (*copy_to_host)(void *to, gpu_ptr from, size_t length, void *stream);
static int (*stream_create)(void **stream, unsigned int flags);
static int (*stream_wait)(void *stream, gpu_ptr at, uint64_t value, unsigned int flags);
static int (*host_pointer)(gpu_ptr *p, void *host, unsigned int flags);
static int (*memory_info)(size_t *free, size_t *total);
static int (*synchronize)(void);
static int (*primary_reset)(int device);

static const struct {
	const char *name;
	void *at;
} pool_names[] = {
	{ "cuDeviceGetAttribute", &device_attribute }, { "cuDeviceGetDefaultMemPool", &default_pool }, { "cuMemPoolCreate", &pool_create },
	{ "cuMemPoolDestroy", &pool_destroy }, { "cuMemPoolTrimTo", &pool_trim }, { "cuMemAllocFromPoolAsync", &pool_alloc },
	{ "cuMemcpyDtoHAsync_v2", &copy_to_host }, { "cuStreamCreate", &stream_create }, { "cuStreamWaitValue64_v2", &stream_wait },
	{ "cuMemHostGetDevicePointer_v2", &host_pointer }, { "cuMemGetInfo_v2", &memory_info }, { "cuCtxSynchronize", &synchronize },
	{ "cuDevicePrimaryCtxReset_v2", &primary_reset }, { "cuDeviceCanAccessPeer", &can_access_peer },	/* softgpu has not the last one */
};

static bool pools_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbol;
	bool all = library && cuda_calls_load(&cu);

	for (size_t i = 0; all && i < sizeof(pool_names) / sizeof(pool_names[0]); i++) {
		symbol = dlsym(library, pool_names[i].name);
		memcpy(pool_names[i].at, &symbol, sizeof(symbol));
		all = symbol || pool_names[i].at == &can_access_peer;
	}
	return all;
}

static void need(int failed, const char *what)
{
	if (!failed)
		return;
	printf("not ok - %s: %d, %s\n", what, failed, peerdma_last_error());
	fflush(stdout);
	_exit(1);
}

static void start_cuda(int device)
{
	void *context;

	need(cu.cuInit(0), "cuInit");
	need(cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	need(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

/* 0, or 77 with the reason printed. This process has not used CUDA then: a child asks. */
static int pools_there(void)
{
	int types = 0, status;
	pid_t pid;

	if (!pools_load()) {
		printf("skipped: no libcuda.so.1, or not all of its functions for pools\n");
		return 77;
	}
	pid = fork();
	if (!pid) {
		int r = cu.cuInit(0);

		if (!r)
			r = device_attribute(&types, POOL_HANDLE_TYPES, 0);
		if (r || !(types & FD))
			printf("skipped: no GPU whose pools can be shared: %d\n", r);
		fflush(stdout);
		_exit(r || !(types & FD) ? 77 : 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
