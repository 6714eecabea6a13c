// SPDX-License-Identifier: MIT
/*
 * work.c - streams and their work.
 *
 * A stream is a queue, and a thread that runs its work in order. All queues and tickets are under
 * one lock, which is not held while work runs. A piece of work stays at the head of its queue until
 * it is done, so the head's ticket is the oldest one of the stream that is not done.
 *
 * The default stream and the blocking streams of a device order themselves by the tickets: work of
 * one side waits as long as the other side has older work. The oldest ticket of all waits for no
 * other, so no two streams wait for each other.
 */
#include <stdlib.h>

#include "hip_int.h"
#include "thread.h"
#include "uncancelled.h"
#include "work.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct ihipStream_t *streams;		/* all but the default streams */
static struct ihipStream_t defaults[HIP_DEVICES_MAX];
static uint64_t last_ticket;

/* Caller holds the lock. Whether work of the stream that is older than the ticket is not done. */
static bool has_older(const struct ihipStream_t *stream, uint64_t ticket)
{
	return stream->head && stream->head->ticket < ticket;
}

/* Caller holds the lock. The same of the blocking streams of a device. */
static bool blocking_have_older(int device, uint64_t ticket)
{
	for (const struct ihipStream_t *s = streams; s; s = s->next) {
		if (s->device == device && !(s->flags & hipStreamNonBlocking) &&
		    has_older(s, ticket))
			return true;
	}
	return false;
}

static bool is_default(const struct ihipStream_t *stream)
{
	return stream == &defaults[stream->device];
}

/* Caller holds the lock. Whether work with this ticket must wait for other streams. */
static bool must_wait(const struct ihipStream_t *stream, uint64_t ticket)
{
	if (is_default(stream))
		return blocking_have_older(stream->device, ticket);
	return !(stream->flags & hipStreamNonBlocking) &&
	       has_older(&defaults[stream->device], ticket);
}

static void unlink_stream(struct ihipStream_t *stream)
{
	struct ihipStream_t **at = &streams;

	while (*at != stream)
		at = &(*at)->next;
	*at = stream->next;
}

/* Caller holds the lock. Runs the first piece of work. */
static void run_first(struct ihipStream_t *stream)
{
	struct hip_work *work = stream->head;
	hipError_t error;

	pthread_mutex_unlock(&lock);
	error = work->run(work);
	pthread_mutex_lock(&lock);
	stream->head = work->next;
	if (!stream->head)
		stream->tail = &stream->head;
	if (!stream->error)
		stream->error = error;
	pthread_cond_broadcast(&changed);
	free(work);
}

/* The thread of a stream. It ends when the stream is destroyed, and its work is done. */
static void *work_on(void *arg)
{
	struct ihipStream_t *stream = arg;

	pthread_mutex_lock(&lock);
	while (stream->head || !stream->destroyed) {
		if (stream->head && !must_wait(stream, stream->head->ticket))
			run_first(stream);
		else
			pthread_cond_wait(&changed, &lock);
	}
	unlink_stream(stream);
	pthread_mutex_unlock(&lock);
	hip_stream_put(stream);
	return NULL;
}

/* Caller holds the lock. Starts the stream's thread with its first work. */
static bool start_thread(struct ihipStream_t *stream)
{
	pthread_t id;

	if (!stream->has_thread)
		stream->has_thread = !sgu_thread_create(&id, true, work_on, stream);
	return stream->has_thread;
}

hipError_t hip_work_queue(struct ihipStream_t *stream, const struct hip_work *work)
{
	struct hip_work *queued = malloc(sizeof(*queued));
	bool destroyed, started;

	if (!queued)
		return hipErrorOutOfMemory;
	*queued = *work;
	queued->next = NULL;
	pthread_mutex_lock(&lock);
	/* Another thread may have destroyed it since this one found it. */
	destroyed = stream->destroyed;
	started = !destroyed && start_thread(stream);
	if (started) {
		queued->ticket = ++last_ticket;
		*stream->tail = queued;
		stream->tail = &queued->next;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	if (started)
		return hipSuccess;
	free(queued);
	return destroyed ? hipErrorInvalidHandle : hipErrorOutOfMemory;
}

/* Caller holds the lock. */
static hipError_t take_error(struct ihipStream_t *stream)
{
	hipError_t error = stream->error;

	stream->error = hipSuccess;
	return error;
}

/* Caller holds the lock. Whether the work before the ticket is done, as a program sees it. */
static bool is_done(const struct ihipStream_t *stream, uint64_t ticket)
{
	return !has_older(stream, ticket) &&
	       (!is_default(stream) || !blocking_have_older(stream->device, ticket));
}

hipError_t hip_work_wait(struct ihipStream_t *stream)
{
	SGU_UNCANCELLED;
	hipError_t error;
	uint64_t end;

	pthread_mutex_lock(&lock);
	end = last_ticket + 1;
	while (!is_done(stream, end))
		pthread_cond_wait(&changed, &lock);
	error = take_error(stream);
	pthread_mutex_unlock(&lock);
	return error;
}

hipError_t hip_work_query(struct ihipStream_t *stream)
{
	hipError_t error = hipErrorNotReady;

	pthread_mutex_lock(&lock);
	if (is_done(stream, last_ticket + 1))
		error = take_error(stream);
	pthread_mutex_unlock(&lock);
	return error;
}

hipError_t hip_work_wait_default(void)
{
	struct ihipStream_t *stream = hip_stream_get(NULL);

	return hip_work_wait(stream);
}

/* Caller holds the lock. Whether any stream of the device, or of any device, has older work. */
static bool any_has_older(int device, uint64_t ticket)
{
	for (const struct ihipStream_t *s = streams; s; s = s->next) {
		if ((device < 0 || s->device == device) && has_older(s, ticket))
			return true;
	}
	for (int i = 0; i < hip_count; i++) {
		if ((device < 0 || i == device) && has_older(&defaults[i], ticket))
			return true;
	}
	return false;
}

void hip_work_wait_device(int device)
{
	SGU_UNCANCELLED;
	uint64_t end;

	pthread_mutex_lock(&lock);
	end = last_ticket + 1;
	while (any_has_older(device, end))
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* ---- streams ---- */

struct ihipStream_t *hip_stream_get(hipStream_t stream)
{
	struct ihipStream_t *s;

	if (stream && stream != hipStreamLegacy && stream != hipStreamPerThread)
		return hip_handle_get(stream, HIP_STREAM);
	s = &defaults[hip_current()];
	pthread_mutex_lock(&lock);
	s->device = hip_current();
	if (!s->tail)
		s->tail = &s->head;
	pthread_mutex_unlock(&lock);
	return s;
}

/* The default streams are never freed. */
void hip_stream_put(struct ihipStream_t *stream)
{
	if (!is_default(stream) && hip_handle_put(&stream->handle))
		free(stream);
}

struct ihipStream_t *hip_stream_new(unsigned int flags, int priority)
{
	struct ihipStream_t *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->device = hip_current();
	stream->flags = flags;
	stream->priority = priority;
	stream->tail = &stream->head;
	if (!hip_handle_add(&stream->handle, HIP_STREAM)) {
		free(stream);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	stream->next = streams;
	streams = stream;
	pthread_mutex_unlock(&lock);
	return stream;
}

void hip_stream_end(struct ihipStream_t *stream)
{
	bool has_thread;

	pthread_mutex_lock(&lock);
	has_thread = stream->has_thread;
	stream->destroyed = true;
	if (!has_thread)
		unlink_stream(stream);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	/* The thread puts it when it has done the work. */
	if (!has_thread)
		hip_stream_put(stream);
}
