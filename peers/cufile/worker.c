// SPDX-License-Identifier: MIT
/*
 * worker.c - one thread that makes transfers for batches and streams, in the order in which they are given.  It has no
 * CUDA context: what it copies, it copies by the CPU, and so waits for no stream.
 */
#include "cufile_int.h"

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static struct job *first, **last = &first;
static pid_t runs_in;	/* the process that has the thread: a forked child has none */

static void *work(void *arg)
{
	struct job *job;

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
