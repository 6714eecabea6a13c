// SPDX-License-Identifier: MIT
/* queue_threads.c - a queue's threads: they make what has to be copied, or all, if there is no ring. */
#include <signal.h>

#include "queue.h"

/* Lock; given back while the op's transfer is made. */
static void make(struct queue *q, struct op *op)
{
	q->pending_count--;
	pthread_mutex_unlock(&q->lock);
	__atomic_fetch_add(&q->pub.by_threads, 1, __ATOMIC_RELAXED);
	if (op->context)
		cuda_set_context(op->context);
	transfer_rest(&op->transfer);
	op_over(op);
	pthread_mutex_lock(&q->lock);
	queue_ended(q, op);
	queue_flush(q);
}

static void *work(void *arg)
{
	struct queue *q = arg;
	struct op *op;

	pthread_mutex_lock(&q->lock);
	while (!q->closing) {
		op = ops_take(&q->pending);
		if (op) {
			make(q, op);
			continue;
		}
		q->thread_idle++;
		pthread_cond_wait(&q->work, &q->lock);
		q->thread_idle--;
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

int queue_thread_start(struct queue *q)
{
	sigset_t all, was;
	int error;

	if (q->thread_count == THREADS_MAX)
		return 0;
	/* The program's handlers run in its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	error = pthread_create(&q->threads[q->thread_count], NULL, work, q);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (!error)
		q->thread_count++;
	return -error;
}

void queue_threads_end(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closing = true;
	pthread_cond_broadcast(&q->work);
	pthread_mutex_unlock(&q->lock);
	for (unsigned int i = 0; i < q->thread_count; i++)
		pthread_join(q->threads[i], NULL);
}
