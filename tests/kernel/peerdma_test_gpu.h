/* SPDX-License-Identifier: MIT */
/*
 * peerdma_test_gpu.h - GPU memory by libcuda, opened at run time; or by HIP, when
 * PEERDMA_TEST_PROVIDER=amd is in the environment.  The tests are the same.
 */
#ifndef PEERDMA_TEST_GPU_H
#define PEERDMA_TEST_GPU_H

#include "peerdma_test.h"

/* The part of the CUDA driver API that the tests use; functions return 0 or an error. */
struct cuda {
	int (*Init)(unsigned int flags);
	int (*DeviceGet)(int *device, int ordinal);
	int (*CtxCreate)(void **ctx, unsigned int flags, int device);
	int (*CtxDestroy)(void *ctx);
	int (*CtxSynchronize)(void);
	int (*MemAlloc)(unsigned long long *ptr, size_t size);
	int (*MemFree)(unsigned long long ptr);
	int (*MemcpyHtoD)(unsigned long long dst, const void *src, size_t size);
	int (*MemcpyDtoH)(void *dst, unsigned long long src, size_t size);
	int (*PointerGetAttribute)(void *data, int attribute, unsigned long long ptr);
};
extern struct cuda cu;

/* In what providers differ. */
struct gpu_facts {
	const char *provider;
	unsigned int page_shift;
	bool can_persist;
	bool has_contexts;
	const char *put_delay;	/* of softgpu's personality: a file; its put takes so many milliseconds */
};
extern const struct gpu_facts *gpu_facts;

#define CU_P2P_TOKENS 5
struct cu_tokens {
	unsigned long long p2p;
	unsigned int va_space;
};

/* A context on GPU 0; false and why: there is none. */
bool cuda_open(const char **why);
uint64_t gpu_alloc(size_t length);
/* Fills `cu' with HIP's: what is missing, or NULL. */
const char *hip_open(void);

void test_gpu_processes(void);

/* What the process does that the test starts with these arguments. */
int gpu_child(const char *what, int fd, int answer);

#endif
