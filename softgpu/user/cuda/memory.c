// SPDX-License-Identifier: MIT
/* memory.c - device memory. */
#include <errno.h>

#include "hook.h"
#include "internal.h"
#include "pool.h"

SGU_EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct softgpu_info info = { .size = sizeof(info) };
	struct sgu_ctx *ctx;
	uint32_t kctx;
	CUresult result = sgu_ctx_live(&ctx, &kctx);

	if (!result)
		result = sgu_result(sgu_call(ctx->gpu, SOFTGPU_INFO, &info));
	if (result)
		return result;
	if (free)
		*free = info.vram_free;
	if (total)
		*total = info.vram_total;
	return CUDA_SUCCESS;
}

SGU_HOOKED(cuMemAlloc_v2, CUdeviceptr *dptr, size_t bytesize)
{
	struct softgpu_mem_alloc alloc = { .size = sizeof(alloc), .length = bytesize };
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_live(&ctx, &alloc.ctx);
	int err;

	if (result)
		return result;
	if (!dptr || !bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	err = sgu_call(ctx->gpu, SOFTGPU_MEM_ALLOC, &alloc);
	if (err == -EINVAL)
		return CUDA_ERROR_OUT_OF_MEMORY;	/* more than any GPU can have */
	if (err)
		return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	*dptr = alloc.va;
	return CUDA_SUCCESS;
}

SGU_HOOKED(cuMemAllocPitch_v2, CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
	   unsigned int ElementSizeBytes)
{
	size_t pitch, bytes;
	CUresult result;

	if (!dptr || !pPitch || !WidthInBytes || !Height ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) ||
	    __builtin_add_overflow(WidthInBytes, 511, &pitch) ||
	    __builtin_mul_overflow(pitch & ~(size_t)511, Height, &bytes))
		return sgu_refuse(CUDA_ERROR_INVALID_VALUE);
	result = hooked_cuMemAlloc_v2(dptr, bytes);
	if (!result)
		*pPitch = pitch & ~(size_t)511;
	return result;
}

/*
 * Programs free in destructors and in threads of their own, where no context
 * is current, so the address alone says what to free.
 */
SGU_HOOKED(cuMemFree_v2, CUdeviceptr dptr)
{
	struct softgpu_va va = { .size = sizeof(va), .va = dptr };
	CUresult result = sgu_enter_alive();
	int err;

	if (result)
		return result;
	if (!dptr)
		return CUDA_SUCCESS;
	if (sgu_pool_free(dptr, &result))
		return result;
	err = sgu_call_any(SOFTGPU_MEM_FREE, &va);
	if (err == -ENOENT || err == -EINVAL)
		return sgu_managed_free(dptr);
	return sgu_result(err);
}

/* The plain names: stubs of their own, so that a patch at one is not met behind the other. */
#undef cuMemAlloc
#undef cuMemAllocPitch
#undef cuMemFree
SGU_STUB(cuMemAlloc, cuMemAlloc_v2);
SGU_STUB(cuMemAllocPitch, cuMemAllocPitch_v2);
SGU_STUB(cuMemFree, cuMemFree_v2);
