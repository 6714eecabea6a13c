// SPDX-License-Identifier: MIT
/* current.c - each thread's stack of contexts: the last is current. */
#include <stdlib.h>

#include "internal.h"

static _Thread_local struct stack {
	struct sgu_ctx **ctx;	/* a reference each; the last is current */
	unsigned int depth, room;
} stack;

static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

static void stack_end(void *unused)
{
	(void)unused;
	while (stack.depth)
		sgu_obj_put(&stack.ctx[--stack.depth]->obj);
	free(stack.ctx);
	stack = (struct stack) { 0 };
}

static void stack_init(void)
{
	pthread_key_create(&stack_key, stack_end);
}

CUresult sgu_ctx_push(struct sgu_ctx *ctx)
{
	if (stack.depth == stack.room) {
		unsigned int room = stack.room ? stack.room * 2 : 8;
		struct sgu_ctx **bigger = realloc(stack.ctx, room * sizeof(*bigger));

		if (!bigger) {
			sgu_obj_put(&ctx->obj);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		stack.ctx = bigger;
		stack.room = room;
		pthread_once(&stack_once, stack_init);
		/* any value but NULL makes stack_end run when the thread ends */
		pthread_setspecific(stack_key, &stack_key);
	}
	stack.ctx[stack.depth++] = ctx;
	return CUDA_SUCCESS;
}

static void pop(void)
{
	sgu_obj_put(&stack.ctx[--stack.depth]->obj);
}

void sgu_ctx_pop_if_current(const struct sgu_ctx *ctx)
{
	if (stack.depth && stack.ctx[stack.depth - 1] == ctx)
		pop();
}

CUresult sgu_ctx_current(struct sgu_ctx **ctx)
{
	CUresult result = sgu_enter();

	if (result)
		return result;
	if (!stack.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ctx = stack.ctx[stack.depth - 1];
	return CUDA_SUCCESS;
}

CUresult sgu_ctx_live(struct sgu_ctx **ctx, uint32_t *kctx)
{
	CUresult result = sgu_ctx_current(ctx);

	if (result)
		return result;
	*kctx = atomic_load(&(*ctx)->kctx);
	if (!*kctx)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return sgu_faulted() ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

CUresult sgu_ctx_needed(void)
{
	struct sgu_ctx *ctx;
	uint32_t kctx;

	return sgu_ctx_live(&ctx, &kctx);
}

SGU_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
	CUresult result = sgu_enter();
	struct sgu_ctx *ctx;

	if (result)
		return result;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	result = sgu_ctx_get(handle, &ctx);
	return result ? result : sgu_ctx_push(ctx);
}

SGU_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_current(&ctx);

	if (result)
		return result;
	if (pctx)
		*pctx = sgu_ctx_handle(ctx);
	pop();
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuCtxSetCurrent(CUcontext handle)
{
	CUresult result = sgu_enter();
	struct sgu_ctx *ctx = NULL;

	if (result)
		return result;
	if (handle) {
		result = sgu_ctx_get(handle, &ctx);
		if (result)
			return result;
	}
	if (stack.depth)
		pop();
	return ctx ? sgu_ctx_push(ctx) : CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult result = sgu_enter();

	if (result)
		return result;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = stack.depth ? sgu_ctx_handle(stack.ctx[stack.depth - 1]) : NULL;
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_current(&ctx);

	if (result)
		return result;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = ctx->gpu;
	return CUDA_SUCCESS;
}
