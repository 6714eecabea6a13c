// SPDX-License-Identifier: MIT
/* gpu_cuda.c - the GPU by libcuda, as a program would use it. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include <cuda.h>
#include "gpu.h"

static struct {
	typeof(cuInit) *init;
	typeof(cuDeviceGet) *device_get;
	typeof(cuCtxCreate) *ctx_create;
	typeof(cuCtxDestroy) *ctx_destroy;
	typeof(cuMemAlloc) *mem_alloc;
	typeof(cuMemFree) *mem_free;
	typeof(cuMemHostAlloc) *host_alloc;
	typeof(cuMemFreeHost) *host_free;
	typeof(cuMemcpy) *copy;
	typeof(cuMemcpyAsync) *copy_async;
	typeof(cuCtxSynchronize) *sync;
	typeof(cuPointerGetAttribute) *attribute;
} cu;

static int device;

static int as_errno(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return ENOSPC;
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_NOT_INITIALIZED:
		return ENODEV;
	case CUDA_ERROR_INVALID_VALUE:
		return EINVAL;
	default:
		return EIO;
	}
}

static int cuda_ctx_create(struct user_gpu *g)
{
	CUcontext ctx = NULL;
	CUresult result = cu.ctx_create(&ctx, 0, device);

	g->cu_ctx = ctx;
	return as_errno(result);
}

static int cuda_open(struct user_gpu *g, int index)
{
	CUresult result = cu.init(0);

	if (!result)
		result = cu.device_get(&device, index);
	return result ? as_errno(result) : cuda_ctx_create(g);
}

static int cuda_ctx_destroy(struct user_gpu *g)
{
	CUcontext ctx = g->cu_ctx;

	g->cu_ctx = NULL;
	return as_errno(cu.ctx_destroy(ctx));
}

static int cuda_alloc(struct user_gpu *g, uint64_t length, uint64_t *va)
{
	CUdeviceptr p = 0;
	CUresult result = cu.mem_alloc(&p, length);

	*va = p;
	return as_errno(result);
}

static int cuda_free(struct user_gpu *g, uint64_t va)
{
	return as_errno(cu.mem_free(va));
}

static int cuda_host_alloc(struct user_gpu *g, uint64_t length, uint64_t *va)
{
	void *p = NULL;
	CUresult result = length > 16 << 20 ? CUDA_ERROR_OUT_OF_MEMORY : cu.host_alloc(&p, length, 0);

	*va = (uintptr_t)p;
	return as_errno(result);
}

static int cuda_host_free(struct user_gpu *g, uint64_t va)
{
	return as_errno(cu.host_free((void *)(uintptr_t)va));
}

static int cuda_copy(struct user_gpu *g, uint64_t dst, uint64_t src, uint64_t length, bool sync)
{
	return as_errno(sync ? cu.copy(dst, src, length) : cu.copy_async(dst, src, length, NULL));
}

static int cuda_sync(struct user_gpu *g)
{
	return as_errno(cu.sync());
}

static int cuda_tokens(struct user_gpu *g, uint64_t va, uint64_t *p2p, uint32_t *va_space)
{
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens = { 0 };
	CUresult result = cu.attribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, va);

	*p2p = tokens.p2pToken;
	*va_space = tokens.vaSpaceToken;
	return as_errno(result);
}

static const struct gpu_ops ops = {
	.name = "libcuda",
	.open = cuda_open,
	.ctx_create = cuda_ctx_create,
	.ctx_destroy = cuda_ctx_destroy,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.copy = cuda_copy,
	.sync = cuda_sync,
	.tokens = cuda_tokens,
};

static const struct gpu_ops tegra_ops = {
	.name = "libcuda's host memory",
	.in_host = true,
	.open = cuda_open,
	.ctx_create = cuda_ctx_create,
	.ctx_destroy = cuda_ctx_destroy,
	.alloc = cuda_host_alloc,
	.free = cuda_host_free,
	.copy = cuda_copy,
	.sync = cuda_sync,
};

#define STRING_(name)	#name
#define STRING(name)	STRING_(name)
#define LOAD(member, name) ((cu.member = dlsym(lib, STRING(name))) != NULL)

const struct gpu_ops *gpu_cuda(bool tegra)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib)
		return NULL;
	if (!LOAD(init, cuInit) || !LOAD(device_get, cuDeviceGet) ||
	    !LOAD(ctx_create, cuCtxCreate) || !LOAD(ctx_destroy, cuCtxDestroy) ||
	    !LOAD(mem_alloc, cuMemAlloc) || !LOAD(mem_free, cuMemFree) ||
	    !LOAD(host_alloc, cuMemHostAlloc) || !LOAD(host_free, cuMemFreeHost) ||
	    !LOAD(copy, cuMemcpy) || !LOAD(copy_async, cuMemcpyAsync) ||
	    !LOAD(sync, cuCtxSynchronize) || !LOAD(attribute, cuPointerGetAttribute))
		return NULL;
	return tegra ? &tegra_ops : &ops;
}
