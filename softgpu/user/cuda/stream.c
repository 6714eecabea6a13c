// SPDX-License-Identifier: MIT
/* stream.c - streams. */
#include <stdlib.h>

#include "internal.h"

struct stream {
	struct sgu_obj obj;
	struct sgu_ctx *ctx;		/* a reference */
	uint32_t kctx;			/* the life of ctx in which the stream was made */
	uint32_t handle;
	unsigned int flags;
};

static void stream_free(struct sgu_obj *obj)
{
	struct stream *stream = (struct stream *)obj;

	sgu_obj_put(&stream->ctx->obj);
	free(stream);
}

CUresult sgu_queue_get(CUstream handle, struct sgu_queue *queue)
{
	CUresult result = sgu_enter_named();
	struct stream *stream;
	struct sgu_ctx *ctx;

	if (result)
		return result;
	if (handle == CU_STREAM_PER_THREAD)
		result = sgu_thread_stream(&handle);
	if (result)
		return result;
	if (!handle || handle == CU_STREAM_LEGACY) {
		result = sgu_ctx_live(&ctx, &queue->kctx);
		if (result)
			return result;
		queue->stream = 0;
		queue->obj = NULL;
	} else {
		stream = (struct stream *)sgu_obj_get((uintptr_t)handle, SGU_STREAM, NULL);
		if (!stream)
			return CUDA_ERROR_INVALID_HANDLE;
		ctx = stream->ctx;
		if (atomic_load(&ctx->kctx) != stream->kctx) {
			sgu_obj_put(&stream->obj);
			return CUDA_ERROR_CONTEXT_IS_DESTROYED;
		}
		queue->kctx = stream->kctx;
		queue->stream = stream->handle;
		queue->obj = &stream->obj;
	}
	queue->ctx = ctx;
	queue->gpu = ctx->gpu;
	queue->sync_memops = atomic_load(&ctx->flags) & CU_CTX_SYNC_MEMOPS;
	return CUDA_SUCCESS;
}

void sgu_queue_put(struct sgu_queue *queue)
{
	if (queue->obj)
		sgu_obj_put(queue->obj);
}

SGU_EXPORT CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	struct softgpu_stream_create create = { .size = sizeof(create) };
	struct stream *stream;
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_live(&ctx, &create.ctx);
	int err;

	if (result)
		return result;
	if (!phStream || (Flags & ~CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	create.flags = Flags & CU_STREAM_NON_BLOCKING ? SOFTGPU_STREAM_NON_BLOCKING : 0;
	err = sgu_call(ctx->gpu, SOFTGPU_STREAM_CREATE, &create);
	if (err) {
		free(stream);
		return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	}
	stream->ctx = ctx;
	stream->kctx = create.ctx;
	stream->handle = create.stream;
	stream->flags = Flags;
	if (sgu_obj_publish(&stream->obj, SGU_STREAM, stream_free)) {
		sgu_call(ctx->gpu, SOFTGPU_STREAM_DESTROY,
			 &(struct softgpu_stream){ .size = sizeof(struct softgpu_stream),
						   .ctx = create.ctx,
						   .stream = create.stream });
		free(stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sgu_obj_ref(&ctx->obj);
	*phStream = (CUstream)(uintptr_t)stream->obj.handle;
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	(void)priority;
	return cuStreamCreate(phStream, flags);
}

/* Queued work is still done. */
SGU_EXPORT CUresult cuStreamDestroy_v2(CUstream hStream)
{
	struct softgpu_stream destroy = { .size = sizeof(destroy) };
	CUresult result = sgu_enter_named();
	struct stream *stream;
	int err = 0;

	if (result)
		return result;
	stream = (struct stream *)sgu_obj_take((uintptr_t)hStream, SGU_STREAM, NULL);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (atomic_load(&stream->ctx->kctx) == stream->kctx) {
		destroy.ctx = stream->kctx;
		destroy.stream = stream->handle;
		err = sgu_call(stream->ctx->gpu, SOFTGPU_STREAM_DESTROY, &destroy);
	} else {
		result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	sgu_obj_put(&stream->obj);
	return result ? result : sgu_result_enoent(err, CUDA_ERROR_INVALID_HANDLE);
}

static CUresult query(CUstream hStream, unsigned long cmd)
{
	struct softgpu_stream stream = { .size = sizeof(stream) };
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	stream.ctx = queue.kctx;
	stream.stream = queue.stream;
	result = sgu_result_query(sgu_call(queue.gpu, cmd, &stream));
	sgu_queue_put(&queue);
	return result;
}

SGU_EXPORT CUresult cuStreamQuery(CUstream hStream)
{
	return query(hStream, SOFTGPU_STREAM_QUERY);
}

SGU_EXPORT CUresult cuStreamSynchronize(CUstream hStream)
{
	return query(hStream, SOFTGPU_STREAM_SYNC);
}

/* Queries of a stream. NULL: the default stream of the current context. */
SGU_EXPORT CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	if (!pctx)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (queue.obj)
		*pctx = sgu_ctx_handle(((struct stream *)queue.obj)->ctx);
	else
		result = cuCtxGetCurrent(pctx);
	sgu_queue_put(&queue);
	return result;
}

SGU_EXPORT CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	if (flags)
		*flags = queue.obj ? ((struct stream *)queue.obj)->flags : CU_STREAM_DEFAULT;
	sgu_queue_put(&queue);
	return flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SGU_EXPORT CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	if (priority)
		*priority = 0;
	sgu_queue_put(&queue);
	return priority ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SGU_EXPORT CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	CUresult result = cuStreamGetCtx(hStream, pCtx);

	if (!result && pGreenCtx)
		*pGreenCtx = NULL;
	return result;
}

SGU_EXPORT CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	if (device)
		*device = queue.gpu;
	sgu_queue_put(&queue);
	return device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* An id of its own for each stream; that of a default stream is made from its context's. */
SGU_EXPORT CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	if (streamId)
		*streamId = queue.obj ? queue.obj->handle : atomic_load(&queue.ctx->id);
	sgu_queue_put(&queue);
	return streamId ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
