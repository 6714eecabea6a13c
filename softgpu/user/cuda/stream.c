// SPDX-License-Identifier: MIT
/* stream.c - making and destroying streams. */
#include <stdlib.h>

#include "stream.h"

static void stream_free(struct sgu_obj *obj)
{
	struct stream *stream = (struct stream *)obj;

	sgu_obj_put(&stream->ctx->obj);
	free(stream);
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

bool sgu_stream_ended(CUstream handle)
{
	struct stream *stream = (struct stream *)sgu_obj_get((uintptr_t)handle, SGU_STREAM, NULL);
	bool ended = !stream || atomic_load(&stream->ctx->kctx) != stream->kctx;

	if (stream)
		sgu_obj_put(&stream->obj);
	return ended;
}
