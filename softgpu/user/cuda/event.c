// SPDX-License-Identifier: MIT
/* event.c - events. */
#include <stdlib.h>

#include "internal.h"

struct event {
	struct sgu_obj obj;
	struct sgu_ctx *ctx;		/* a reference */
	uint32_t kctx;			/* the life of ctx in which the event was made */
	uint32_t handle;
	unsigned int flags;
	atomic_bool recorded;
};

static void event_free(struct sgu_obj *obj)
{
	struct event *event = (struct event *)obj;

	sgu_obj_put(&event->ctx->obj);
	free(event);
}

/* Returns a reference to an event whose context is alive. */
static CUresult event_get(CUevent handle, struct event **out)
{
	CUresult result = sgu_enter_named();
	struct event *event;

	if (result)
		return result;
	event = (struct event *)sgu_obj_get((uintptr_t)handle, SGU_EVENT, NULL);
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (atomic_load(&event->ctx->kctx) != event->kctx) {
		sgu_obj_put(&event->obj);
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	*out = event;
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct softgpu_event_create create = { .size = sizeof(create) };
	struct event *event;
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_live(&ctx, &create.ctx);
	int err;

	if (result)
		return result;
	if (!phEvent ||
	    (Flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)))
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_EVENT_INTERPROCESS)
		return Flags & CU_EVENT_DISABLE_TIMING ? CUDA_ERROR_NOT_SUPPORTED :
							 CUDA_ERROR_INVALID_VALUE;
	event = calloc(1, sizeof(*event));
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = sgu_call(ctx->gpu, SOFTGPU_EVENT_CREATE, &create);
	if (err) {
		free(event);
		return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	}
	event->ctx = ctx;
	event->kctx = create.ctx;
	event->handle = create.event;
	event->flags = Flags;
	atomic_init(&event->recorded, false);
	if (sgu_obj_publish(&event->obj, SGU_EVENT, event_free)) {
		sgu_call(ctx->gpu, SOFTGPU_EVENT_DESTROY, &(struct softgpu_handle) {
			.size = sizeof(struct softgpu_handle), .handle = create.event });
		free(event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sgu_obj_ref(&ctx->obj);
	*phEvent = (CUevent)(uintptr_t)event->obj.handle;
	return CUDA_SUCCESS;
}

/* The driver's event outlives its context, so it is destroyed in any case. */
SGU_EXPORT CUresult cuEventDestroy_v2(CUevent hEvent)
{
	struct softgpu_handle destroy = { .size = sizeof(destroy) };
	CUresult result = sgu_enter_named();
	struct event *event;

	if (result)
		return result;
	event = (struct event *)sgu_obj_take((uintptr_t)hEvent, SGU_EVENT, NULL);
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	destroy.handle = event->handle;
	result = sgu_result_enoent(sgu_call(event->ctx->gpu, SOFTGPU_EVENT_DESTROY, &destroy),
				   CUDA_ERROR_INVALID_HANDLE);
	if (atomic_load(&event->ctx->kctx) != event->kctx)
		result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	sgu_obj_put(&event->obj);
	return result;
}

/* Calls the driver (RECORD or STREAM_WAIT) for an event and a queue. */
static CUresult on_queue(struct event *event, CUstream hStream, unsigned long cmd)
{
	struct softgpu_event call = { .size = sizeof(call), .event = event->handle };
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	call.ctx = queue.kctx;
	call.stream = queue.stream;
	result = sgu_result_enoent(sgu_call(queue.gpu, cmd, &call), CUDA_ERROR_INVALID_HANDLE);
	sgu_queue_put(&queue);
	return result;
}

SGU_EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	struct event *event;
	CUresult result = event_get(hEvent, &event);
	struct sgu_queue queue;

	if (result)
		return result;
	result = sgu_queue_get(hStream, &queue);
	if (!result) {
		/* an event can be recorded only in its own context */
		if (queue.kctx != event->kctx)
			result = CUDA_ERROR_INVALID_HANDLE;
		sgu_queue_put(&queue);
	}
	if (!result)
		result = on_queue(event, hStream, SOFTGPU_EVENT_RECORD);
	if (!result)
		atomic_store(&event->recorded, true);
	sgu_obj_put(&event->obj);
	return result;
}

SGU_EXPORT CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	if (flags & ~CU_EVENT_RECORD_EXTERNAL)
		return sgu_refuse(CUDA_ERROR_INVALID_VALUE);
	return flags ? sgu_refuse(CUDA_ERROR_ILLEGAL_STATE) : cuEventRecord(hEvent, hStream);
}

SGU_EXPORT CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct event *event;
	CUresult result = event_get(hEvent, &event);

	if (result)
		return result;
	if (Flags == CU_EVENT_WAIT_EXTERNAL)
		result = CUDA_ERROR_ILLEGAL_STATE;	/* for a stream that is captured */
	else if (Flags)
		result = CUDA_ERROR_INVALID_VALUE;
	else
		result = on_queue(event, hStream, SOFTGPU_STREAM_WAIT);
	sgu_obj_put(&event->obj);
	return result;
}

static CUresult query(struct event *event, unsigned long cmd, uint64_t *time_ns)
{
	struct softgpu_event call = {
		.size = sizeof(call), .ctx = event->kctx, .event = event->handle,
	};
	int err = sgu_call(event->ctx->gpu, cmd, &call);

	*time_ns = call.time_ns;
	return sgu_result_query(err);
}

static CUresult query_handle(CUevent hEvent, unsigned long cmd)
{
	struct event *event;
	uint64_t time_ns;
	CUresult result = event_get(hEvent, &event);

	if (result)
		return result;
	result = query(event, cmd, &time_ns);
	sgu_obj_put(&event->obj);
	return result;
}

SGU_EXPORT CUresult cuEventQuery(CUevent hEvent)
{
	return query_handle(hEvent, SOFTGPU_EVENT_QUERY);
}

SGU_EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
	return query_handle(hEvent, SOFTGPU_EVENT_SYNC);
}

SGU_EXPORT CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct event *start, *end;
	uint64_t from, to;
	CUresult result = event_get(hStart, &start);

	if (result)
		return result;
	result = event_get(hEnd, &end);
	if (result) {
		sgu_obj_put(&start->obj);
		return result;
	}
	if (!atomic_load(&start->recorded) || !atomic_load(&end->recorded) ||
	    ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) ||
	    start->ctx->gpu != end->ctx->gpu)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (!pMilliseconds)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = query(start, SOFTGPU_EVENT_QUERY, &from);
	if (!result)
		result = query(end, SOFTGPU_EVENT_QUERY, &to);
	if (!result)
		*pMilliseconds = (float)((double)(int64_t)(to - from) / 1e6);
	sgu_obj_put(&end->obj);
	sgu_obj_put(&start->obj);
	return result;
}

/* The second makes fewer checks than the first, and has another error for this one. */
SGU_EXPORT CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return pMilliseconds ? cuEventElapsedTime(pMilliseconds, hStart, hEnd) :
			       sgu_refuse(CUDA_ERROR_INVALID_HANDLE);
}
