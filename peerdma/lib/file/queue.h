/* SPDX-License-Identifier: MIT */
/*
 * queue.h - queues of transfers.
 *
 *	submit --> idle op --> the ring ------------> wait: takes its completions
 *	                  \--> pending --> threads --> ended --> a word in the ring --> wait
 *
 *	queue_open.c	open, close
 *	queue_calls.c	submit, cancel
 *	queue_wait.c	wait
 *	queue_threads.c	the threads
 *	queue.c		where an op goes next
 *	ring.c		io_uring
 *
 * While the ring is usable, each op that has ended is one completion of it: its own, or a word.  So
 * one system call waits for all, and the ring's descriptor is readable while there is one.  Without
 * a usable ring, a byte in a pipe says that `ended' is not empty.
 *
 * queue->lock guards everything but an op that is in none of the lists: the ring, a thread or a call
 * has it.  It is held while io_uring is given transfers, and not while any is made.
 */
#pragma once

#include "ring.h"

struct op {
	struct transfer transfer;
	struct step step;		/* the next one */
	struct peerdma_file_io *io;
	void *context;			/* CUDA's, of the thread that submitted it */
	struct op *next;
};

struct ops {
	struct op *first, **last;
};

#define THREADS_MAX	4

struct queue {
	struct peerdma_file_queue pub;	/* first */
	uint64_t process;		/* process_id() of the opener */
	pthread_mutex_t lock;
	pthread_cond_t turn;		/* `waiting' is false again */
	pthread_cond_t work;		/* `pending' is not empty, or closing */
	struct op *ops;			/* pub.depth of them */
	struct ops idle, pending, ended;
	uint32_t used;			/* submitted and not returned */
	bool waiting;			/* a thread takes completions */
	bool closing;
	bool signalled;			/* the pipe has a byte */
	struct own_fd pipe[2];
	int epoll;			/* of pipe and ring; -1: the pipe is all */
	struct ring ring;
	void *(*thread)(void *q);	/* queue_thread() */
	pthread_t threads[THREADS_MAX];
	unsigned int thread_count, thread_idle;
	uint32_t pending_count;
};

static inline void ops_init(struct ops *list)
{
	list->first = NULL;
	list->last = &list->first;
}

static inline void ops_add(struct ops *list, struct op *op)
{
	op->next = NULL;
	*list->last = op;
	list->last = &op->next;
}

static inline struct op *ops_take(struct ops *list)
{
	struct op *op = list->first;

	if (op) {
		list->first = op->next;
		if (!list->first)
			list->last = &list->first;
	}
	return op;
}

/* 0, or -EPERM with text in a forked child. */
int queue_check(const struct queue *q, const char *call);

/* Lock, all of these; queue_flush() comes after the others, before the lock is given back. */
void queue_give(struct queue *q, struct op *op);	/* op->step is to be made */
void queue_to_threads(struct queue *q, struct op *op);
void queue_ended(struct queue *q, struct op *op);	/* by another than peerdma_file_wait() */
void queue_flush(struct queue *q);
void queue_ring_lost(struct queue *q, int error);	/* -errno of ring_wait() or ring_submit() */

/* No lock: the op's transfer is over. */
void op_over(struct op *op);

/* queue_wait.c: peerdma_file_wait(). */
int queue_wait(struct queue *q, struct peerdma_file_io **done, size_t min, size_t max,
	       int timeout_ms);

/* Lock.  0 or -EAGAIN. */
int queue_thread_start(struct queue *q);

/* queue_threads.c.  end: no op is left. */
void *queue_thread(void *q);
void queue_threads_end(struct queue *q);
