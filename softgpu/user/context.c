// SPDX-License-Identifier: MIT
/* context.c - contexts, and which one is current in each thread. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "callback.h"
#include "internal.h"

/* Every context that exists, alive or not.  Under sgu_lock. */
static struct sgu_ctx *contexts;

/* ---- the thread's stack of current contexts ---- */

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

/* Takes over the caller's reference, also when it fails. */
static CUresult stack_push(struct sgu_ctx *ctx)
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

static void stack_pop(void)
{
	sgu_obj_put(&stack.ctx[--stack.depth]->obj);
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

/* ---- contexts ---- */

CUresult sgu_ctx_get(CUcontext handle, struct sgu_ctx **ctx)
{
	struct sgu_obj *obj;
	int stale;

	obj = sgu_obj_get((uintptr_t)handle, SGU_CONTEXT, &stale);
	if (!obj)
		return stale ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
	*ctx = (struct sgu_ctx *)obj;
	return CUDA_SUCCESS;
}

/* The context meant by an argument for which NULL is the current one. */
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

bool sgu_ctx_flags_ok(unsigned int flags)
{
	unsigned int sched = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~CU_CTX_FLAGS_MASK) && (sched & (sched - 1)) == 0;
}

static void ctx_free(struct sgu_obj *obj)
{
	free(obj);
}

struct sgu_ctx *sgu_ctx_new(int gpu, unsigned int flags)
{
	struct sgu_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->gpu = gpu;
	atomic_init(&ctx->flags, flags);
	if (sgu_obj_publish(&ctx->obj, SGU_CONTEXT, ctx_free)) {
		free(ctx);
		return NULL;
	}
	return ctx;
}

void sgu_ctx_list(struct sgu_ctx *ctx)
{
	ctx->next = contexts;
	contexts = ctx;
}

/* Begins a life of the context: afterwards it can hold memory and do work. */
CUresult sgu_ctx_activate(struct sgu_ctx *ctx)
{
	static atomic_ullong ids;
	struct softgpu_ctx_create create = { .size = sizeof(create) };
	int err = sgu_faulted() ? -EIO : sgu_call(ctx->gpu, SOFTGPU_CTX_CREATE, &create);

	/* the compute mode: somebody has the GPU to himself, or nobody may */
	if (err == -EBUSY || err == -EACCES)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	/* a fault of another client: not before they have all ended */
	if (err == -EIO && !sgu_faulted())
		return CUDA_ERROR_MPS_SERVER_NOT_READY;
	if (err)
		return sgu_result(err);
	atomic_store(&ctx->id, atomic_fetch_add(&ids, 1) + 1);
	atomic_store(&ctx->kctx, create.ctx);
	return CUDA_SUCCESS;
}

/* With sgu_lock held, so that no Retain finds a primary context half ended. */
CUresult sgu_ctx_end(struct sgu_ctx *ctx, struct sgu_life *life)
{
	life->gpu = ctx->gpu;
	life->id = atomic_load(&ctx->id);
	life->kctx = atomic_exchange(&ctx->kctx, 0);
	return life->kctx ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Without it, since the driver first finishes the context's work. */
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

CUcontext sgu_ctx_of_driver(uint32_t kctx)
{
	CUcontext handle = NULL;

	if (!kctx)
		return NULL;
	pthread_mutex_lock(&sgu_lock);
	for (struct sgu_ctx *ctx = contexts; ctx; ctx = ctx->next) {
		if (atomic_load(&ctx->kctx) == kctx)
			handle = sgu_ctx_handle(ctx);
	}
	pthread_mutex_unlock(&sgu_lock);
	return handle;
}

/*
 * Finds the live context with the lowest id above *after, and sets *after to that id.  Returns the driver's handle of it, 0 if
 * there is none.  Ids are never used twice, so a loop over them misses no context, whatever is created and destroyed meanwhile.
 */
static uint32_t next_live(unsigned long long *after, int *gpu)
{
	unsigned long long lowest = ULLONG_MAX;
	uint32_t found = 0;

	pthread_mutex_lock(&sgu_lock);
	for (struct sgu_ctx *ctx = contexts; ctx; ctx = ctx->next) {
		unsigned long long id = atomic_load(&ctx->id);
		uint32_t kctx = atomic_load(&ctx->kctx);

		if (!kctx || id <= *after || id >= lowest)
			continue;
		lowest = id;
		found = kctx;
		*gpu = ctx->gpu;
	}
	pthread_mutex_unlock(&sgu_lock);
	*after = lowest;
	return found;
}

CUresult sgu_ctx_sync_all(void)
{
	struct softgpu_handle sync = { .size = sizeof(sync) };
	unsigned long long last = 0;
	CUresult result = CUDA_SUCCESS;
	int gpu, err;

	/* one at a time, since waiting with the lock held would stop everything */
	while ((sync.handle = next_live(&last, &gpu))) {
		err = sgu_call(gpu, SOFTGPU_CTX_SYNC, &sync);
		/* one that has ended meanwhile, is dead, or lost its GPU has no work left */
		if (err && err != -ENOENT && err != -EIO && err != -ENODEV && !result)
			result = sgu_result(err);
	}
	return result;
}

/* ---- entry points ---- */

static CUresult unlist_and_end(struct sgu_ctx *ctx)
{
	struct sgu_life life;
	CUresult result;

	pthread_mutex_lock(&sgu_lock);
	for (struct sgu_ctx **p = &contexts; *p; p = &(*p)->next) {
		if (*p == ctx) {
			*p = ctx->next;
			break;
		}
	}
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
		result = stack_push(ctx);
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

SGU_EXPORT CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
				   CUdevice dev)
{
	/* clients of release 13's headers pass parameters that ask for nothing */
	if (ctxCreateParams && (ctxCreateParams->execAffinityParams || ctxCreateParams->numExecAffinityParams ||
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
		return CUDA_ERROR_INVALID_CONTEXT;	/* cuDevicePrimaryCtxRelease ends it */

	ctx = (struct sgu_ctx *)sgu_obj_take((uintptr_t)handle, SGU_CONTEXT, NULL);
	if (!ctx)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	result = unlist_and_end(ctx);
	if (stack.depth && stack.ctx[stack.depth - 1] == ctx)
		stack_pop();
	sgu_obj_put(&ctx->obj);
	return result;
}

SGU_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	return cuCtxDestroy_v2(ctx);
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
	return result ? result : stack_push(ctx);
}

SGU_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_current(&ctx);

	if (result)
		return result;
	if (pctx)
		*pctx = sgu_ctx_handle(ctx);
	stack_pop();
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
		stack_pop();
	return ctx ? stack_push(ctx) : CUDA_SUCCESS;
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

SGU_EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_current(&ctx);

	if (result)
		return result;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	/* host memory is always mapped, whether that was asked for or not */
	*flags = atomic_load(&ctx->flags) | CU_CTX_MAP_HOST;
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

/* A question about a context.  Of a destroyed one it is answered as well, and the error told all the same. */
static CUresult ask_begin(CUcontext handle, const void *answer, struct sgu_ctx **ctx)
{
	CUresult result = sgu_enter();

	if (!result && !answer)
		result = CUDA_ERROR_INVALID_VALUE;
	return result ? result : get_or_current(handle, ctx);
}

static CUresult ask_end(struct sgu_ctx *ctx)
{
	CUresult result = atomic_load(&ctx->kctx) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;

	sgu_obj_put(&ctx->obj);
	return result;
}

SGU_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long *ctxId)
{
	struct sgu_ctx *ctx;
	CUresult result = ask_begin(handle, ctxId, &ctx);

	if (result)
		return result;
	*ctxId = atomic_load(&ctx->id);
	return ask_end(ctx);
}

SGU_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	struct sgu_ctx *ctx;
	CUresult result = ask_begin(handle, version, &ctx);

	if (result)
		return result;
	*version = 3020;	/* the version of the ABI, not of the driver */
	return ask_end(ctx);
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
