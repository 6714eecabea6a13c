// SPDX-License-Identifier: MIT
/*
 * worker.c - one thread that makes transfers for batches and streams, in the order in which they are given.  What it copies,
 * libpeerdma copies in a stream of its own, and so waits for no stream of the program.
 */
#include <dlfcn.h>

#include "cufile_int.h"

typedef CUresult get_fn(void **context);
typedef CUresult set_fn(void *context);

void *cuda_function(const char *name)
{
	static void *library;

	if (!__atomic_load_n(&library, __ATOMIC_ACQUIRE))
		__atomic_store_n(&library, dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD),
				 __ATOMIC_RELEASE);
	return library ? dlsym(library, name) : NULL;
}

void job_init(struct job *job, void (*fn)(struct job *job))
{
	get_fn *get = (get_fn *)(uintptr_t)cuda_function("cuCtxGetCurrent");

	job->fn = fn;
	if (!get || get(&job->context))
		job->context = NULL;
}

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static struct job *first, **last = &first;
static pid_t runs_in; /* the process that has the thread: a forked child has none */

static void *work(void *arg)
{
	struct job *job;
	set_fn *set;

	(void)arg;
	for (;;) {
		pthread_mutex_lock(&jobs_lock);
		while (!first)
			pthread_cond_wait(&given, &jobs_lock);
		job = first;
		first = job->next;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&jobs_lock);
		set = (set_fn *)(uintptr_t)cuda_function("cuCtxSetCurrent");
		if (set)
			set(job->context);
		job->fn(job);
	}
	return NULL;
}

/* jobs_lock held. */
static int start(void)
{
	pthread_t thread;
	int error;

	if (runs_in == getpid())
		return 0;
	error = pthread_create(&thread, NULL, work, NULL);
	if (error)
		return -error;
	pthread_detach(thread);
	runs_in = getpid();
	return 0;
}

int worker_give(struct job *job)
{
	int ret;

	job->next = NULL;
	pthread_mutex_lock(&jobs_lock);
	ret = start();
	if (!ret) {
		*last = job;
		last = &job->next;
		pthread_cond_signal(&given);
	}
	pthread_mutex_unlock(&jobs_lock);
	return ret;
}
