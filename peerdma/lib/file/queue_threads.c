// SPDX-License-Identifier: MIT
/* queue_threads.c - a queue's threads: they make what has to be copied, or all, if there is no ring. */
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

void *queue_thread(void *arg)
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

void queue_threads_end(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closing = true;
	pthread_cond_broadcast(&q->work);
	pthread_mutex_unlock(&q->lock);
	for (unsigned int i = 0; i < q->thread_count; i++)
		pthread_join(q->threads[i], NULL);
}
