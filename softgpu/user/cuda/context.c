// SPDX-License-Identifier: MIT
/* context.c - contexts: the list of them, and their lives. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "internal.h"

/* Every context that exists, alive or not.  Under sgu_lock. */
static struct sgu_ctx *contexts;

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

void sgu_ctx_unlist(struct sgu_ctx *ctx)
{
	for (struct sgu_ctx **p = &contexts; *p; p = &(*p)->next) {
		if (*p == ctx) {
			*p = ctx->next;
			break;
		}
	}
}

/* Begins a life of the context: afterwards it can hold memory and do work. */
CUresult sgu_ctx_activate(struct sgu_ctx *ctx)
{
	static atomic_ullong ids;
	struct softgpu_ctx_create create = { .size = sizeof(create) };
	int err = sgu_faulted() ? -EIO : sgu_call(ctx->gpu, SOFTGPU_CTX_CREATE, &create);

	/* the compute mode: another process has the GPU alone, or no process may */
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
