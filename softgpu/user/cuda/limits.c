// SPDX-License-Identifier: MIT
/*
 * limits.c - settings that matter only to kernels, and calls without an effect here. Programs make
 * them while they start, and expect what they stored.
 */
#include "internal.h"

/* What an idle H200 answers. */
static const size_t defaults[SGU_LIMITS] = {
	[CU_LIMIT_STACK_SIZE] = 1024,
	[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752,
	[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608,
	[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
	[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
	[CU_LIMIT_CIG_ENABLED] = 0,
};

static bool has(CUlimit limit)
{
	return limit != CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH &&
	       limit != CU_LIMIT_PERSISTING_L2_CACHE_SIZE && limit != CU_LIMIT_SHMEM_SIZE &&
	       (unsigned int)limit < SGU_LIMITS;
}

static CUresult enter(CUlimit limit, struct sgu_ctx **ctx)
{
	uint32_t kctx;
	CUresult result = sgu_ctx_live(ctx, &kctx);

	if (result)
		return result;
	if ((unsigned int)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	return has(limit) ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

SGU_EXPORT CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct sgu_ctx *ctx;
	CUresult result = enter(limit, &ctx);
	size_t set;

	if (result)
		return result;
	if (!pvalue)
		return CUDA_ERROR_INVALID_VALUE;
	set = atomic_load(&ctx->limits[limit]);
	*pvalue = set ? set : defaults[limit];
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct sgu_ctx *ctx;
	CUresult result = enter(limit, &ctx);

	if (!result)
		atomic_store(&ctx->limits[limit], value);
	return result;
}

SGU_EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	struct sgu_ctx *ctx;
	uint32_t kctx;
	CUresult result = sgu_ctx_live(&ctx, &kctx);

	if (result)
		return result;
	if (!pconfig)
		return CUDA_ERROR_INVALID_VALUE;
	*pconfig = (CUfunc_cache)atomic_load(&ctx->cache_config);
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct sgu_ctx *ctx;
	uint32_t kctx;
	CUresult result = sgu_ctx_live(&ctx, &kctx);

	if (result)
		return result;
	if ((unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&ctx->cache_config, config);
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuCtxResetPersistingL2Cache(void)
{
	return sgu_ctx_needed();
}

SGU_EXPORT CUresult cuProfilerStart(void)
{
	return sgu_ctx_needed();
}

SGU_EXPORT CUresult cuProfilerStop(void)
{
	return sgu_ctx_needed();
}

SGU_EXPORT CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
					   unsigned int flags)
{
	struct softgpu_query q;
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	sgu_queue_put(&queue);
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	    (flags != CU_MEM_ATTACH_SINGLE || !queue.stream))
		return CUDA_ERROR_INVALID_VALUE;
	result = sgu_query(dptr, &q);
	if (result)
		return result;
	/* the whole of an allocation of managed memory, or 0 for its length */
	return q.kind == SOFTGPU_KIND_MANAGED && (!length || length == q.length) ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
