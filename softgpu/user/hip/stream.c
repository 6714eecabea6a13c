// SPDX-License-Identifier: MIT
/* stream.c - the calls of streams. */
#include "hip_int.h"
#include "work.h"

static hipError_t create(hipStream_t *stream, unsigned int flags, int priority)
{
	hipError_t error = hip_enter();

	if (error)
		return error;
	if (!stream || flags & ~(unsigned int)hipStreamNonBlocking)
		return hipErrorInvalidValue;
	*stream = hip_stream_new(flags, priority);
	return *stream ? hipSuccess : hipErrorOutOfMemory;
}

HIP_EXPORT hipError_t hipStreamCreate(hipStream_t *stream)
{
	return hip_done(create(stream, hipStreamDefault, 0));
}

HIP_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags)
{
	return hip_done(create(stream, flags, 0));
}

#define PRIORITY_LEAST 1
#define PRIORITY_GREATEST (-1)

/* Priorities have no effect. */
HIP_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned int flags,
						  int priority)
{
	if (priority > PRIORITY_LEAST)
		priority = PRIORITY_LEAST;
	if (priority < PRIORITY_GREATEST)
		priority = PRIORITY_GREATEST;
	return hip_done(create(stream, flags, priority));
}

HIP_EXPORT hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	hipError_t error = hip_enter();

	if (!error && least)
		*least = PRIORITY_LEAST;
	if (!error && greatest)
		*greatest = PRIORITY_GREATEST;
	return hip_done(error);
}

HIP_EXPORT hipError_t hipStreamDestroy(hipStream_t stream)
{
	hipError_t error = hip_enter();

	if (error)
		return hip_done(error);
	if (!stream || !hip_handle_take(stream, HIP_STREAM))
		return hip_done(hipErrorInvalidHandle);
	hip_stream_end(stream);
	return hipSuccess;
}

/* Calls `with' with the stream. */
static hipError_t on_stream(hipStream_t stream, hipError_t (*with)(struct ihipStream_t *stream))
{
	hipError_t error = hip_enter();
	struct ihipStream_t *s;

	if (error)
		return hip_done(error);
	s = hip_stream_get(stream);
	if (!s)
		return hip_done(hipErrorInvalidHandle);
	error = with(s);
	hip_stream_put(s);
	return hip_done(error);
}

HIP_EXPORT hipError_t hipStreamQuery(hipStream_t stream)
{
	return on_stream(stream, hip_work_query);
}

HIP_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream)
{
	return on_stream(stream, hip_work_wait);
}

/* Queues work on a stream. */
static hipError_t queue(hipStream_t stream, const struct hip_work *work)
{
	hipError_t error = hip_enter();
	struct ihipStream_t *s;

	if (error)
		return error;
	s = hip_stream_get(stream);
	if (!s)
		return hipErrorInvalidHandle;
	error = hip_work_queue(s, work);
	hip_stream_put(s);
	return error;
}

static hipError_t run_wait(struct hip_work *work)
{
	hip_event_wait(work->mark.event, work->mark.record);
	hip_event_put(work->mark.event);
	return hipSuccess;
}

/* Later records of the event are not waited for. */
HIP_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags)
{
	struct hip_work work = { .run = run_wait };
	hipError_t error = hip_enter();

	if (!error && flags)
		error = hipErrorInvalidValue;
	if (error)
		return hip_done(error);
	work.mark.event = hip_event_get(event);
	if (!work.mark.event)
		return hip_done(hipErrorInvalidHandle);
	work.mark.record = hip_event_issued(work.mark.event);
	error = queue(stream, &work);
	if (error)
		hip_event_put(work.mark.event);
	return hip_done(error);
}

/* ---- functions of the program ---- */

static hipError_t run_function(struct hip_work *work)
{
	work->call.function(work->call.user_data);
	return hipSuccess;
}

HIP_EXPORT hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *user_data)
{
	struct hip_work work = { .run = run_function };

	if (!function)
		return hip_done(hipErrorInvalidValue);
	work.call.function = function;
	work.call.user_data = user_data;
	return hip_done(queue(stream, &work));
}

static hipError_t run_callback(struct hip_work *work)
{
	work->call.callback(work->call.stream, hipSuccess, work->call.user_data);
	return hipSuccess;
}

HIP_EXPORT hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback,
					   void *user_data, unsigned int flags)
{
	struct hip_work work = { .run = run_callback };

	if (!callback || flags)
		return hip_done(hipErrorInvalidValue);
	work.call.callback = callback;
	work.call.stream = stream;
	work.call.user_data = user_data;
	return hip_done(queue(stream, &work));
}

/* ---- what a stream is ---- */

static hipError_t fact(hipStream_t stream, void *where, struct ihipStream_t **s)
{
	hipError_t error = hip_enter();

	if (!error && !where)
		error = hipErrorInvalidValue;
	if (error)
		return error;
	*s = hip_stream_get(stream);
	return *s ? hipSuccess : hipErrorInvalidHandle;
}

#define FACT(function, type, field)						\
	HIP_EXPORT hipError_t function(hipStream_t stream, type *value)	\
	{									\
		struct ihipStream_t *s;						\
		hipError_t error = fact(stream, value, &s);			\
										\
		if (error)							\
			return hip_done(error);					\
		*value = s->field;						\
		hip_stream_put(s);						\
		return hipSuccess;						\
	}

FACT(hipStreamGetFlags, unsigned int, flags)
FACT(hipStreamGetPriority, int, priority)
FACT(hipStreamGetDevice, hipDevice_t, device)

/* ---- capture: there are no graphs, so no stream is captured ---- */

static hipError_t no_capture(hipStream_t stream, hipStreamCaptureStatus *status)
{
	struct ihipStream_t *s;
	hipError_t error = fact(stream, status, &s);

	if (error)
		return hip_done(error);
	hip_stream_put(s);
	*status = hipStreamCaptureStatusNone;
	return hipSuccess;
}

HIP_EXPORT hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
	return no_capture(stream, status);
}

HIP_EXPORT hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus *status,
					      unsigned long long *id)
{
	if (id)
		*id = 0;
	return no_capture(stream, status);
}

HIP_EXPORT hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status,
						 unsigned long long *id, hipGraph_t *graph,
						 const hipGraphNode_t **dependencies, size_t *n)
{
	if (id)
		*id = 0;
	if (graph)
		*graph = NULL;
	if (dependencies)
		*dependencies = NULL;
	if (n)
		*n = 0;
	return no_capture(stream, status);
}

HIP_EXPORT hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode)
{
	static _Thread_local hipStreamCaptureMode current = hipStreamCaptureModeGlobal;
	hipStreamCaptureMode before = current;

	if (!mode || (unsigned int)*mode > hipStreamCaptureModeRelaxed)
		return hip_done(hipErrorInvalidValue);
	current = *mode;
	*mode = before;
	return hipSuccess;
}
