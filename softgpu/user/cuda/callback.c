// SPDX-License-Identifier: MIT
/*
 * callback.c - functions that a stream calls on the CPU: cuStreamAddCallback() and
 * cuLaunchHostFunc().
 *
 * A stream waits at a function until the library has called it: SOFTGPU_HOST_FUNC. Each context
 * that has used such a function has a thread. It calls the functions of all streams of the context,
 * in the order in which the streams reach them. The thread ends with the context.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "callback.h"
#include "internal.h"
#include "thread.h"
#include "uncancelled.h"

/* A function to be called. The driver identifies it by the address of this struct. */
struct func {
	TAILQ_ENTRY(func) in_caller;
	CUstream stream;
	CUstreamCallback callback;	/* either this or fn */
	CUhostFn fn;
	void *data;
};

/* The thread of one driver context, and its functions. */
struct caller {
	struct caller *next;
	pthread_t thread;
	int gpu;
	uint32_t kctx;
	TAILQ_HEAD(funcs, func) funcs;	/* functions not called yet or being called, oldest first */
	bool over; /* the context or its GPU is gone; no function is added any more */
};

/* All protected by `lock`, which is the innermost lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct caller *callers;

static void end_locked(struct caller *caller, struct func *func)
{
	TAILQ_REMOVE(&caller->funcs, func, in_caller);
	free(func);
	pthread_cond_broadcast(&changed);
}

static void call(const struct func *func, int err)
{
	sgu_in_callback = true;
	if (func->callback)
		func->callback(func->stream,
			       sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED), func->data);
	else if (!err)
		func->fn(func->data);
	sgu_in_callback = false;
}

/* Called after the end of the context or GPU. Calls the remaining callbacks with an error. */
static void call_rest(struct caller *caller, int err)
{
	struct func *func;

	pthread_mutex_lock(&lock);
	caller->over = true;
	while ((func = TAILQ_FIRST(&caller->funcs))) {
		pthread_mutex_unlock(&lock);
		call(func, err);
		if (sgu_forked())
			return;
		pthread_mutex_lock(&lock);
		end_locked(caller, func);
	}
	pthread_mutex_unlock(&lock);
}

static void *work(void *arg)
{
	struct softgpu_host_func a = { .size = sizeof(a) };
	struct caller *caller = arg;
	struct func *func;
	int err;

	a.ctx = caller->kctx;
	for (;;) {
		a.error = 0;
		err = sgu_call(caller->gpu, SOFTGPU_HOST_FUNC_NEXT, &a);
		if (err)
			break;
		func = (struct func *)(uintptr_t)a.id;
		call(func, -(int)a.error);
		/*
		 * The function has forked, and this is the child. The remaining functions are the
		 * parent's to call, and a thread of the parent may have held the lock.
		 */
		if (sgu_forked())
			return NULL;
		a.error = 0;
		sgu_call(caller->gpu, SOFTGPU_HOST_FUNC_DONE, &a);
		pthread_mutex_lock(&lock);
		end_locked(caller, func);
		pthread_mutex_unlock(&lock);
	}
	call_rest(caller, err);
	return NULL;
}

static struct caller **place_locked(int gpu, uint32_t kctx)
{
	struct caller **p = &callers;

	while (*p && ((*p)->gpu != gpu || (*p)->kctx != kctx))
		p = &(*p)->next;
	return p;
}

static int caller_get_locked(const struct sgu_queue *queue, struct caller **out)
{
	struct caller *caller = *place_locked(queue->gpu, queue->kctx);

	*out = caller;
	if (caller)
		return caller->over ? -ENODEV : 0;
	caller = calloc(1, sizeof(*caller));
	if (!caller)
		return -ENOMEM;
	TAILQ_INIT(&caller->funcs);
	caller->gpu = queue->gpu;
	caller->kctx = queue->kctx;
	if (sgu_thread_create(&caller->thread, false, work, caller)) {
		free(caller);
		return -ENOMEM;
	}
	caller->next = callers;
	callers = caller;
	*out = caller;
	return 0;
}

/*
 * The lock is held during the whole call. So the thread cannot finish a function before it is in
 * the list, and a context that is alive now stays alive until sgu_callbacks_finish() gets the lock.
 */
static int add_locked(struct func *func, const struct sgu_queue *queue)
{
	struct softgpu_host_func a = {
		.size = sizeof(a),
		.ctx = queue->kctx,
		.stream = queue->stream,
		.id = (uintptr_t)func,
	};
	struct caller *caller;
	int err;

	if (atomic_load(&queue->ctx->kctx) != queue->kctx)
		return -ENOENT;
	err = caller_get_locked(queue, &caller);
	if (!err)
		err = sgu_call(queue->gpu, SOFTGPU_HOST_FUNC, &a);
	if (!err)
		TAILQ_INSERT_TAIL(&caller->funcs, func, in_caller);
	return err;
}

static CUresult add(CUstream stream, CUstreamCallback callback, CUhostFn fn, void *data)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(stream, &queue);
	struct func *func;
	int err = -ENOMEM;

	if (result)
		return result;
	func = calloc(1, sizeof(*func));
	if (func) {
		func->stream = stream;
		func->callback = callback;
		func->fn = fn;
		func->data = data;
		pthread_mutex_lock(&lock);
		err = add_locked(func, &queue);
		pthread_mutex_unlock(&lock);
		if (err)
			free(func);
	}
	sgu_queue_put(&queue);
	return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

void sgu_callbacks_finish(int gpu, uint32_t kctx)
{
	SGU_UNCANCELLED;
	const struct caller *caller;

	pthread_mutex_lock(&lock);
	caller = *place_locked(gpu, kctx);
	while (caller && !TAILQ_EMPTY(&caller->funcs))
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void sgu_callbacks_ended(int gpu, uint32_t kctx)
{
	SGU_UNCANCELLED;
	struct caller **place, *caller;

	pthread_mutex_lock(&lock);
	place = place_locked(gpu, kctx);
	caller = *place;
	if (caller)
		*place = caller->next;
	pthread_mutex_unlock(&lock);
	if (caller)
		pthread_join(caller->thread, NULL);
	free(caller);
}

SGU_EXPORT CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
					unsigned int flags)
{
	CUresult result = sgu_enter_named();

	if (!result && (!callback || flags))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result)
		return result;
	return add(hStream, callback, NULL, userData);
}

SGU_EXPORT CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	CUresult result = sgu_enter_named();

	if (!result && !fn)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result)
		return result;
	return add(hStream, NULL, fn, userData);
}
