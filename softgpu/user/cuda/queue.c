// SPDX-License-Identifier: MIT
/* queue.c - the queue that a stream's handle means, and the calls that ask about it. */
#include "stream.h"

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
