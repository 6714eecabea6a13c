// SPDX-License-Identifier: MIT
/* queue.c - where the ops of a queue go: queue.h. */
#include <signal.h>
#include <unistd.h>

#include "queue.h"

int queue_check(const struct queue *q, const char *call)
{
	if (q->process == process_id())
		return 0;
	return fail(-EPERM, "%s: the queue was opened by a parent process; open one in this process with peerdma_file_queue_open()", call);
}

/* ---- where an op goes ---- */

int queue_thread_start(struct queue *q)
{
	/* Of a thread's own doing: a blocked one would end the process, whatever its handler does. */
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	sigset_t others, was;
	int error;

	if (q->thread_count == THREADS_MAX)
		return 0;
	/* For other signals the program's handlers run in its own threads. */
	sigfillset(&others);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&others, faults[i]);
	pthread_sigmask(SIG_SETMASK, &others, &was);
	error = pthread_create(&q->threads[q->thread_count], NULL, q->thread, q);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (!error)
		q->thread_count++;
	return -error;
}

void queue_to_threads(struct queue *q, struct op *op)
{
	ops_add(&q->pending, op);
	q->pending_count++;
	if (q->pending_count > q->thread_idle)
		queue_thread_start(q);	/* the first one is always there */
	pthread_cond_signal(&q->work);
}

void queue_give(struct queue *q, struct op *op)
{
	if (!q->ring.usable || op->step.way == STEP_COPY) {
		queue_to_threads(q, op);
		return;
	}
	__atomic_fetch_add(&q->pub.by_ring, 1, __ATOMIC_RELAXED);
	ring_give(&q->ring, &op->step, op);
}

void queue_ended(struct queue *q, struct op *op)
{
	ops_add(&q->ended, op);
	if (q->ring.usable)
		ring_give_word(&q->ring);
}

/* What the ring has not taken, threads make. */
void queue_ring_lost(struct queue *q, int error)
{
	__atomic_store_n(&q->ring.usable, false, __ATOMIC_RELAXED);
	__atomic_store_n(&q->pub.why, ring_why(error), __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < q->ring.count; i++) {
		if (q->ring.given[i])
			queue_to_threads(q, q->ring.given[i]);
	}
	q->ring.count = 0;
}

static void pipe_signal(struct queue *q)
{
	char byte = 0;

	if (q->signalled || !q->ended.first || !own_fd_still(&q->pipe[1]))
		return;
	q->signalled = write(q->pipe[1].fd, &byte, 1) == 1;
}

void queue_flush(struct queue *q)
{
	if (q->ring.usable) {
		int ret = ring_submit(&q->ring);

		if (ret)
			queue_ring_lost(q, ret);
	}
	if (!q->ring.usable)
		pipe_signal(q);
}

void op_over(struct op *op)
{
	op->io->result = op->transfer.done;
	transfer_end(&op->transfer);
	file_put(op->transfer.file);
}
