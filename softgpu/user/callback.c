// SPDX-License-Identifier: MIT
/*
 * callback.c - functions that a stream calls on the CPU: cuStreamAddCallback and
 * cuLaunchHostFunc.
 *
 * One thread of the library calls them all, in the order in which they were added.  It
 * waits for an event behind the stream's earlier work.  What holds up the later work is a
 * wait for a word of GPU memory (SOFTGPU_VALUE): the gate, of which each context has one.
 * The functions are numbered.  When one has returned, the thread writes its number to the
 * gate, on a stream of the gate's own, and all that waits for this number or a lower one
 * goes on.  So a function that has returned leaves nothing behind.
 */
#include <errno.h>
#include <stdlib.h>

#include "callback.h"
#include "internal.h"
#include "uncancelled.h"

struct gate {
	struct gate *next;
	int gpu;
	uint32_t kctx;
	uint32_t opener;	/* stream; 0: still to be made */
	uint64_t word;		/* address; 0: still to be made */
	uint64_t added;		/* how many functions; under `lock' */
};

struct job {
	struct job *next;
	const struct gate *gate;
	uint32_t number;	/* of its gate's functions, from 1; may wrap, as the wait expects */
	uint32_t event;		/* what the function comes after */
	CUstream stream;
	CUstreamCallback callback;	/* this or fn */
	CUhostFn fn;
	void *data;
};

/* All under `lock', which is innermost. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct gate *gates;
static struct job *queued, **queue_end = &queued;
static const struct gate *running;
static bool started;

/* The gate's word becomes number. */
static int open_gate(const struct gate *gate, uint32_t number)
{
	struct softgpu_fill fill = {
		.size = sizeof(fill), .ctx = gate->kctx, .stream = gate->opener, .flags = SOFTGPU_OP_SYNC, .dst = gate->word,
		.width = 1, .height = 1, .pitch = sizeof(number), .value = number, .elem = sizeof(number),
	};

	return sgu_call(gate->gpu, SOFTGPU_FILL, &fill);
}

static void destroy_event(const struct job *job)
{
	struct softgpu_handle event = { .size = sizeof(event), .handle = job->event };

	sgu_call(job->gate->gpu, SOFTGPU_EVENT_DESTROY, &event);
}

static void call(struct job *job)
{
	struct softgpu_event wait = { .size = sizeof(wait), .ctx = job->gate->kctx, .event = job->event };
	int err = sgu_call(job->gate->gpu, SOFTGPU_EVENT_SYNC, &wait);

	/* Now, since whoever waits for the stream is to find it gone. */
	destroy_event(job);
	if (job->callback)
		job->callback(job->stream, sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED), job->data);
	else if (!err)
		job->fn(job->data);
	open_gate(job->gate, job->number);
	free(job);
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
		running = job->gate;
		pthread_mutex_unlock(&lock);
		call(job);
		pthread_mutex_lock(&lock);
		running = NULL;
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

static struct gate **find_locked(int gpu, uint32_t kctx)
{
	struct gate **p = &gates;

	while (*p && ((*p)->gpu != gpu || (*p)->kctx != kctx))
		p = &(*p)->next;
	return p;
}

/* What the context's first function makes, or the next one if there was no memory for it.  It goes with the context. */
static int gate_make_locked(struct gate *gate)
{
	struct softgpu_stream_create opener = {
		.size = sizeof(opener), .ctx = gate->kctx, .flags = SOFTGPU_STREAM_NON_BLOCKING,
	};
	struct softgpu_mem_alloc word = { .size = sizeof(word), .ctx = gate->kctx, .length = sizeof(uint32_t) };
	int err = 0;

	if (!gate->opener) {
		err = sgu_call(gate->gpu, SOFTGPU_STREAM_CREATE, &opener);
		gate->opener = err ? 0 : opener.stream;
	}
	if (!err && !gate->word) {
		err = sgu_call(gate->gpu, SOFTGPU_MEM_ALLOC, &word);
		gate->word = err ? 0 : word.va;
	}
	return err ? err : open_gate(gate, 0);
}

static int gate_get_locked(const struct sgu_queue *queue, struct gate **out)
{
	struct gate **p = find_locked(queue->gpu, queue->kctx);

	if (!*p) {
		*p = calloc(1, sizeof(**p));
		if (!*p)
			return -ENOMEM;
		(*p)->gpu = queue->gpu;
		(*p)->kctx = queue->kctx;
	}
	*out = *p;
	return (*p)->added ? 0 : gate_make_locked(*p);
}

/* What the stream does: it says that it is there, and waits. */
static int put_gate(struct job *job, uint32_t stream)
{
	struct softgpu_event reached = {
		.size = sizeof(reached), .ctx = job->gate->kctx, .stream = stream, .event = job->event,
	};
	struct softgpu_value wait = {
		.size = sizeof(wait), .ctx = job->gate->kctx, .stream = stream, .op = SOFTGPU_VALUE_GEQ,
		.va = job->gate->word, .value = job->number, .width = sizeof(job->number),
	};
	int err = sgu_call(job->gate->gpu, SOFTGPU_EVENT_RECORD, &reached);

	return err ? err : sgu_call(job->gate->gpu, SOFTGPU_VALUE, &wait);
}

/* One after the other, so that the thread's order is each stream's and the gate's. */
static int add_locked(struct job *job, const struct sgu_queue *queue)
{
	struct softgpu_event_create event = { .size = sizeof(event), .ctx = queue->kctx };
	struct gate *gate;
	int err = start_locked() ? gate_get_locked(queue, &gate) : -ENOMEM;

	if (!err)
		err = sgu_call(queue->gpu, SOFTGPU_EVENT_CREATE, &event);
	if (err)
		return err;
	job->gate = gate;
	job->event = event.event;
	job->number = (uint32_t)(gate->added + 1);
	err = put_gate(job, queue->stream);
	if (err) {
		destroy_event(job);
		return err;
	}
	gate->added++;
	*queue_end = job;
	queue_end = &job->next;
	pthread_cond_broadcast(&changed);
	return 0;
}

static CUresult add(CUstream stream, CUstreamCallback callback, CUhostFn fn, void *data)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(stream, &queue);
	struct job *job;
	int err = -ENOMEM;

	if (result)
		return result;
	job = calloc(1, sizeof(*job));
	if (job) {
		job->stream = stream;
		job->callback = callback;
		job->fn = fn;
		job->data = data;
		pthread_mutex_lock(&lock);
		err = add_locked(job, &queue);
		pthread_mutex_unlock(&lock);
		if (err)
			free(job);
	}
	sgu_queue_put(&queue);
	return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static bool waiting_locked(const struct gate *gate)
{
	if (running == gate)
		return true;
	for (const struct job *job = queued; job; job = job->next) {
		if (job->gate == gate)
			return true;
	}
	return false;
}

void sgu_callbacks_finish(int gpu, uint32_t kctx)
{
	SGU_UNCANCELLED;
	struct gate **p, *gate;

	pthread_mutex_lock(&lock);
	/* Looked up anew after each wait: others come and go in the list. */
	while (*(p = find_locked(gpu, kctx)) && waiting_locked(*p))
		pthread_cond_wait(&changed, &lock);
	gate = *p;
	if (gate)
		*p = gate->next;
	pthread_mutex_unlock(&lock);
	free(gate);
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
