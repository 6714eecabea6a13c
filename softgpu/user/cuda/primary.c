// SPDX-License-Identifier: MIT
/* primary.c - the primary context of each GPU, which its users share. */
#include "internal.h"

/*
 * Caller holds sgu_lock. Created inactive at the first use, and never freed, so its CUcontext stays
 * the same.
 */
static struct sgu_ctx *primary_of(CUdevice dev)
{
	struct sgu_gpu *gpu = &sgu_gpus[dev];

	if (!gpu->primary) {
		gpu->primary = sgu_ctx_new(dev, 0);
		if (gpu->primary) {
			gpu->primary->primary = true;
			sgu_ctx_list(gpu->primary);
		}
	}
	return gpu->primary;
}

SGU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	CUresult result = sgu_enter_device(dev);
	struct sgu_ctx *ctx;

	if (result)
		return result;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (sgu_faulted())
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_lock(&sgu_lock);
	ctx = primary_of(dev);
	if (!ctx)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	else if (!atomic_load(&ctx->kctx))
		result = sgu_ctx_activate(ctx);
	if (!result) {
		ctx->retained++;
		*pctx = sgu_ctx_handle(ctx);
	}
	pthread_mutex_unlock(&sgu_lock);
	return result;
}

SGU_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult result = sgu_enter_device(dev);
	struct sgu_life life;
	struct sgu_ctx *ctx;
	bool ended = false;

	if (result)
		return result;
	pthread_mutex_lock(&sgu_lock);
	ctx = primary_of(dev);
	if (!ctx || !ctx->retained)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (--ctx->retained == 0)
		ended = sgu_ctx_end(ctx, &life) == CUDA_SUCCESS; /* not if Reset has ended it */
	pthread_mutex_unlock(&sgu_lock);
	return ended ? sgu_life_finish(&life) : result;
}

SGU_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult result = sgu_enter_device(dev);
	struct sgu_life life;
	struct sgu_ctx *ctx;
	bool ended;

	if (result)
		return result;
	pthread_mutex_lock(&sgu_lock);
	ctx = primary_of(dev);
	ended = ctx && sgu_ctx_end(ctx, &life) == CUDA_SUCCESS;
	pthread_mutex_unlock(&sgu_lock);
	return ended ? sgu_life_finish(&life) : CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	CUresult result = sgu_enter_device(dev);
	struct sgu_ctx *ctx;

	if (result)
		return result;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_lock);
	ctx = primary_of(dev);
	if (ctx) {
		*flags = atomic_load(&ctx->flags);
		*active = atomic_load(&ctx->kctx) != 0;
	}
	pthread_mutex_unlock(&sgu_lock);
	return ctx ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SGU_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	CUresult result = sgu_enter_device(dev);
	struct sgu_ctx *ctx;

	if (result)
		return result;
	if (!sgu_ctx_flags_ok(flags))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_lock);
	ctx = primary_of(dev);
	if (ctx)
		atomic_store(&ctx->flags, flags);
	pthread_mutex_unlock(&sgu_lock);
	return ctx ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
