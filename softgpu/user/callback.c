// SPDX-License-Identifier: MIT
/*
 * callback.c - functions that a stream calls on the CPU: cuStreamAddCallback and
 * cuLaunchHostFunc.
 *
 * One thread of the library calls them all, in the order in which they were added.  It
 * waits for an event behind the stream's earlier work.  What holds up the later work is
 * the driver's stand-in for a kernel that polls a word of GPU memory (SOFTGPU_WATCH);
 * the thread writes the word when the function has returned, on a stream of its own.
 */
#include <errno.h>
#include <stdlib.h>

#include "callback.h"
#include "internal.h"

#define GATE_MS		60000	/* as long as a watch can last */

struct job {
	struct job *next;
	int gpu;
	uint32_t kctx;
	uint32_t event;		/* what the function comes after */
	uint32_t done;		/* event: the gate was passed, so that it can serve again; 0: never */
	uint32_t opener;	/* stream */
	uint64_t gate;		/* two words: what is polled, and what was seen */
	CUstream stream;
	CUstreamCallback callback;	/* this or fn */
	CUhostFn fn;
	void *data;
};

/* All under `lock', which is innermost. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job *queued, **queue_end = &queued, *spent;
static const struct job *running;
static bool started;

static int record(const struct job *job, uint32_t stream, uint32_t event)
{
	struct softgpu_event call = { .size = sizeof(call), .ctx = job->kctx, .stream = stream, .event = event };

	return sgu_call(job->gpu, SOFTGPU_EVENT_RECORD, &call);
}

/* The gate's word becomes value, in the order of that stream. */
static int set_gate(const struct job *job, uint32_t stream, uint32_t value, uint32_t flags)
{
	struct softgpu_fill fill = {
		.size = sizeof(fill), .ctx = job->kctx, .stream = stream, .flags = flags, .dst = job->gate,
		.width = 1, .height = 1, .pitch = sizeof(value), .value = value, .elem = sizeof(value),
	};

	return sgu_call(job->gpu, SOFTGPU_FILL, &fill);
}

static void call(struct job *job)
{
	struct softgpu_event wait = { .size = sizeof(wait), .ctx = job->kctx, .event = job->event };
	int err = sgu_call(job->gpu, SOFTGPU_EVENT_SYNC, &wait);

	if (job->callback)
		job->callback(job->stream, sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED), job->data);
	else if (!err)
		job->fn(job->data);
	set_gate(job, job->opener, 1, SOFTGPU_OP_SYNC);
}

static void *work(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	for (;;) {
		struct job *job = queued;

		if (!job) {
			pthread_cond_wait(&changed, &lock);
			continue;
		}
		queued = job->next;
		if (!queued)
			queue_end = &queued;
		running = job;
		pthread_mutex_unlock(&lock);
		call(job);
		pthread_mutex_lock(&lock);
		running = NULL;
		job->next = spent;
		spent = job;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

static bool start_locked(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (started)
		return true;
	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	started = !pthread_create(&thread, &attr, work, NULL);
	pthread_attr_destroy(&attr);
	return started;
}

static void destroy_event(int gpu, uint32_t handle)
{
	struct softgpu_handle event = { .size = sizeof(event), .handle = handle };

	if (handle)
		sgu_call(gpu, SOFTGPU_EVENT_DESTROY, &event);
}

/* Gives back what the driver made for a job; of a context that ended, its events are left. */
static void job_end(struct job *job)
{
	destroy_event(job->gpu, job->event);
	destroy_event(job->gpu, job->done);
	free(job);
}

/* A job of that context whose gate has been passed, off the list; any: passed or not. */
static struct job *take_spent(int gpu, uint32_t kctx, bool any)
{
	struct softgpu_event query = { .size = sizeof(query), .ctx = kctx };
	struct job *job;

	pthread_mutex_lock(&lock);
	for (struct job **p = &spent; (job = *p); p = &job->next) {
		query.event = job->done;
		if (job->gpu == gpu && job->kctx == kctx && (any || !sgu_call(gpu, SOFTGPU_EVENT_QUERY, &query))) {
			*p = job->next;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return job;
}

static struct job *job_new(const struct sgu_queue *queue)
{
	struct softgpu_mem_alloc gate = { .size = sizeof(gate), .ctx = queue->kctx, .length = 2 * sizeof(uint32_t) };
	struct softgpu_stream_create opener = {
		.size = sizeof(opener), .ctx = queue->kctx, .flags = SOFTGPU_STREAM_NON_BLOCKING,
	};
	struct softgpu_event_create event = { .size = sizeof(event), .ctx = queue->kctx };
	struct job *job = take_spent(queue->gpu, queue->kctx, false);

	if (job)
		return job;
	job = calloc(1, sizeof(*job));
	if (!job)
		return NULL;
	job->gpu = queue->gpu;
	job->kctx = queue->kctx;
	if (!sgu_call(job->gpu, SOFTGPU_EVENT_CREATE, &event)) {
		job->event = event.event;
		if (!sgu_call(job->gpu, SOFTGPU_EVENT_CREATE, &event)) {
			job->done = event.event;
			if (!sgu_call(job->gpu, SOFTGPU_STREAM_CREATE, &opener) &&
			    !sgu_call(job->gpu, SOFTGPU_MEM_ALLOC, &gate)) {
				job->opener = opener.stream;
				job->gate = gate.va;
				return job;
			}
		}
	}
	/* a stream that was made goes with its context */
	job_end(job);
	return NULL;
}

/* What the stream does: closes the gate, says that it is there, and waits. */
static int put_gate(struct job *job, uint32_t stream)
{
	struct softgpu_watch watch = {
		.size = sizeof(watch), .ctx = job->kctx, .stream = stream, .va = job->gate,
		.result = job->gate + sizeof(uint32_t), .expected = 1, .timeout_ms = GATE_MS,
	};
	int err = set_gate(job, stream, 0, 0);

	if (!err)
		err = record(job, stream, job->event);
	if (!err)
		err = sgu_call(job->gpu, SOFTGPU_WATCH, &watch);
	/* The stream waits already, so there is no way back. */
	if (!err && record(job, stream, job->done)) {
		destroy_event(job->gpu, job->done);
		job->done = 0;
	}
	return err;
}

static CUresult add(CUstream stream, CUstreamCallback callback, CUhostFn fn, void *data)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(stream, &queue);
	struct job *job;
	int err;

	if (result)
		return result;
	job = job_new(&queue);
	if (!job) {
		sgu_queue_put(&queue);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	job->next = NULL;
	job->stream = stream;
	job->callback = callback;
	job->fn = fn;
	job->data = data;
	/* one after the other, so that the thread's order is each stream's */
	pthread_mutex_lock(&lock);
	err = start_locked() ? put_gate(job, queue.stream) : -ENOMEM;
	if (!err) {
		*queue_end = job;
		queue_end = &job->next;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	if (err)
		job_end(job);
	sgu_queue_put(&queue);
	return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static bool waiting_locked(int gpu, uint32_t kctx)
{
	if (running && running->gpu == gpu && running->kctx == kctx)
		return true;
	for (const struct job *job = queued; job; job = job->next) {
		if (job->gpu == gpu && job->kctx == kctx)
			return true;
	}
	return false;
}

void sgu_callbacks_finish(int gpu, uint32_t kctx)
{
	struct job *job;

	pthread_mutex_lock(&lock);
	while (waiting_locked(gpu, kctx))
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	while ((job = take_spent(gpu, kctx, true)))
		job_end(job);
}

SGU_EXPORT CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
					unsigned int flags)
{
	if (!callback || flags)
		return sgu_enter() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
	return add(hStream, callback, NULL, userData);
}

SGU_EXPORT CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	if (!fn)
		return sgu_enter() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
	return add(hStream, NULL, fn, userData);
}
