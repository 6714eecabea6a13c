// SPDX-License-Identifier: MIT
/* context_calls.c - cuCtx...(): creates, ends and queries contexts. */
#include "callback.h"
#include "internal.h"

/* Called without sgu_lock, because the driver first finishes the context's work. */
CUresult sgu_life_finish(const struct sgu_life *life)
{
	struct softgpu_handle end = { .size = sizeof(end), .handle = life->kctx };
	int err;

	sgu_callbacks_finish(life->gpu, life->kctx);
	err = sgu_call(life->gpu, SOFTGPU_CTX_DESTROY, &end);
	sgu_callbacks_ended(life->gpu, life->kctx);
	sgu_host_forget(life->id);
	return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

/* Resolves an argument for which NULL means the current context. */
static CUresult get_or_current(CUcontext handle, struct sgu_ctx **ctx)
{
	CUresult result;

	if (handle)
		return sgu_ctx_get(handle, ctx);
	result = sgu_ctx_current(ctx);
	if (!result)
		sgu_obj_ref(&(*ctx)->obj);
	return result;
}

static CUresult unlist_and_end(struct sgu_ctx *ctx)
{
	struct sgu_life life;
	CUresult result;

	pthread_mutex_lock(&sgu_lock);
	sgu_ctx_unlist(ctx);
	result = sgu_ctx_end(ctx, &life);
	pthread_mutex_unlock(&sgu_lock);
	return result ? result : sgu_life_finish(&life);
}

SGU_EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	CUresult result = sgu_enter();
	struct sgu_ctx *ctx;

	if (result)
		return result;
	if (!pctx || !sgu_ctx_flags_ok(flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (!sgu_device_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	ctx = sgu_ctx_new(dev, flags);
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sgu_ctx_activate(ctx);
	if (!result) {
		pthread_mutex_lock(&sgu_lock);
		sgu_ctx_list(ctx);
		pthread_mutex_unlock(&sgu_lock);
		sgu_obj_ref(&ctx->obj);
		result = sgu_ctx_push(ctx);
		if (!result) {
			*pctx = sgu_ctx_handle(ctx);
			return CUDA_SUCCESS;
		}
		unlist_and_end(ctx);
	}
	sgu_obj_take(ctx->obj.handle, SGU_CONTEXT, NULL);
	sgu_obj_put(&ctx->obj);
	return result;
}

SGU_EXPORT CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
				   unsigned int flags, CUdevice dev)
{
	if (paramsArray || numParams)
		return sgu_refuse(CUDA_ERROR_NOT_SUPPORTED);
	return cuCtxCreate_v2(pctx, flags, dev);
}

SGU_EXPORT CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
				   unsigned int flags, CUdevice dev)
{
	/* clients built with the headers of CUDA 13 pass empty parameters */
	if (ctxCreateParams &&
	    (ctxCreateParams->execAffinityParams || ctxCreateParams->numExecAffinityParams ||
	     ctxCreateParams->cigParams))
		return sgu_refuse(CUDA_ERROR_NOT_SUPPORTED);
	return cuCtxCreate_v2(pctx, flags, dev);
}

SGU_EXPORT CUresult cuCtxDestroy_v2(CUcontext handle)
{
	CUresult result = sgu_enter();
	struct sgu_ctx *ctx;
	bool primary;

	if (result)
		return result;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	result = sgu_ctx_get(handle, &ctx);
	if (result)
		return result;
	primary = ctx->primary;
	sgu_obj_put(&ctx->obj);
	if (primary)
		return CUDA_ERROR_INVALID_CONTEXT; /* only cuDevicePrimaryCtxRelease() ends it */

	ctx = (struct sgu_ctx *)sgu_obj_take((uintptr_t)handle, SGU_CONTEXT, NULL);
	if (!ctx)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	result = unlist_and_end(ctx);
	sgu_ctx_pop_if_current(ctx);
	sgu_obj_put(&ctx->obj);
	return result;
}

SGU_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	return ctx ? cuCtxDestroy_v2(ctx) : sgu_refuse(CUDA_ERROR_INVALID_CONTEXT);
}

SGU_EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_current(&ctx);

	if (result)
		return result;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	/* a primary context has it, wanted or not; others map host memory even without this flag */
	*flags = atomic_load(&ctx->flags) | (ctx->primary ? CU_CTX_MAP_HOST : 0);
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_current(&ctx);

	if (!result && !atomic_load(&ctx->kctx))
		result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (result)
		return result;
	if (!sgu_ctx_flags_ok(flags))
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&ctx->flags, flags);
	return CUDA_SUCCESS;
}

/* Queries of a context. For a destroyed context they return the value, and the error. */
static CUresult query_begin(CUcontext handle, const void *answer, struct sgu_ctx **ctx)
{
	CUresult result = sgu_enter();

	if (!result && !answer)
		result = CUDA_ERROR_INVALID_VALUE;
	return result ? result : get_or_current(handle, ctx);
}

static CUresult query_end(struct sgu_ctx *ctx)
{
	CUresult result = atomic_load(&ctx->kctx) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;

	sgu_obj_put(&ctx->obj);
	return result;
}

SGU_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long *ctxId)
{
	struct sgu_ctx *ctx;
	CUresult result = query_begin(handle, ctxId, &ctx);

	if (result)
		return result;
	*ctxId = atomic_load(&ctx->id);
	return query_end(ctx);
}

SGU_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	struct sgu_ctx *ctx;
	CUresult result = query_begin(handle, version, &ctx);

	if (result)
		return result;
	*version = 3020;	/* the version of the ABI, not of the driver */
	return query_end(ctx);
}

SGU_EXPORT CUresult cuCtxSynchronize(void)
{
	struct softgpu_handle sync = { .size = sizeof(sync) };
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_live(&ctx, &sync.handle);

	if (result)
		return result;
	return sgu_result_enoent(sgu_call(ctx->gpu, SOFTGPU_CTX_SYNC, &sync),
				 CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

/* Runs a call of the current context with another context as that. NULL: no other. */
static CUresult in_context(CUcontext ctx, CUresult (*call)(void *arg), void *arg)
{
	CUresult result = ctx ? cuCtxPushCurrent_v2(ctx) : CUDA_SUCCESS;
	CUcontext popped;

	if (result)
		return result;
	result = call(arg);
	if (ctx)
		cuCtxPopCurrent_v2(&popped);
	return result;
}

static CUresult synchronize(void *unused)
{
	(void)unused;
	return cuCtxSynchronize();
}

SGU_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	return in_context(ctx, synchronize, NULL);
}

static CUresult get_device(void *device)
{
	return cuCtxGetDevice(device);
}

SGU_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	return in_context(ctx, get_device, device);
}

SGU_EXPORT CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	CUresult result = sgu_ctx_needed();

	if (result)
		return result;
	if (leastPriority)
		*leastPriority = 0;
	if (greatestPriority)
		*greatestPriority = 0;
	return CUDA_SUCCESS;
}
