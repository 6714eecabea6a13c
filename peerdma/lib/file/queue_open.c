// SPDX-License-Identifier: MIT
/* queue_open.c - opens and closes queues. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "queue.h"

#define DEPTH_MAX	4096U

/* ---- open ---- */

/* The descriptor that the program polls. */
static int open_fds(struct queue *q)
{
	struct epoll_event in = { .events = EPOLLIN };
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	for (int i = 0; i < 2; i++)
		q->pipe[i] = own_fd(ends[i]);
	q->pub.fd = ends[0];
	if (!q->ring.usable)
		return 0;
	q->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (q->epoll < 0 || epoll_ctl(q->epoll, EPOLL_CTL_ADD, ends[0], &in) ||
	    epoll_ctl(q->epoll, EPOLL_CTL_ADD, q->ring.fd.fd, &in))
		return -errno;
	q->pub.fd = q->epoll;
	return 0;
}

static void queue_free(struct queue *q, bool owner)
{
	/* The epoll looks like any other; while it knows the ring or the pipe, it is the queue's. */
	if (q->epoll >= 0 && own_fd_still(&q->pipe[0]))
		close(q->epoll);
	ring_close(&q->ring, owner);
	for (int i = 0; i < 2; i++)
		own_fd_close(&q->pipe[i]);
	free(q->ops);
	free(q);
}

static void init(struct queue *q, uint32_t depth)
{
	pthread_condattr_t clock;

	q->process = process_id();
	q->pub.depth = depth;
	q->thread = queue_thread;
	q->epoll = -1;
	q->pipe[0] = q->pipe[1] = OWN_FD_NONE;
	q->ring.fd = OWN_FD_NONE;
	ops_init(&q->idle);
	ops_init(&q->pending);
	ops_init(&q->ended);
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->work, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&q->turn, &clock);
	pthread_condattr_destroy(&clock);
	for (uint32_t i = 0; i < depth; i++)
		ops_add(&q->idle, &q->ops[i]);
}

static int start(struct queue *q, uint32_t flags)
{
	int ret = -ECANCELED;

	if (flags & PEERDMA_FILE_QUEUE_THREADS) {
		q->pub.why = "PEERDMA_FILE_QUEUE_THREADS is set";
	} else {
		ret = ring_open(&q->ring, q->pub.depth);
		if (ret)
			q->pub.why = ring_why(ret);
	}
	ret = open_fds(q);
	if (ret)
		return fail(ret, "peerdma_file_queue_open: no descriptor: %s", error_words(ret));
	pthread_mutex_lock(&q->lock);
	ret = queue_thread_start(q);
	pthread_mutex_unlock(&q->lock);
	if (!ret)
		return 0;
	return fail(ret, "peerdma_file_queue_open: no thread for copies: as many as there may be (RLIMIT_NPROC, the cgroup's pids.max), "
		    "or no memory for one");
}

EXPORT int peerdma_file_queue_open(uint32_t depth, uint32_t flags, struct peerdma_file_queue **out)
{
	int ret = check_given("peerdma_file_queue_open", "queue", out, NULL);
	struct queue *q;

	if (ret)
		return ret;
	if (flags & ~PEERDMA_FILE_QUEUE_THREADS)
		return fail(-EINVAL, "peerdma_file_queue_open: unknown flags 0x%x", flags);
	if (!depth || depth > DEPTH_MAX)
		return fail(-EINVAL, "peerdma_file_queue_open: a depth of %u; it may be 1 to %u", depth,
			    DEPTH_MAX);
	q = calloc(1, sizeof(*q));
	if (q)
		q->ops = calloc(depth, sizeof(*q->ops));
	if (!q || !q->ops) {
		free(q);
		return fail(-ENOMEM, "peerdma_file_queue_open: out of memory");
	}
	init(q, depth);
	ret = start(q, flags);
	if (ret) {
		queue_free(q, true);
		return ret;
	}
	*out = &q->pub;
	return 0;
}

/* ---- close ---- */

/* False: it cannot be seen when all have ended. */
static bool drain(struct queue *q)
{
	struct peerdma_file_io *done[16];
	int n = 0;

	peerdma_file_cancel(&q->pub);
	while (q->used && (n >= 0 || n == -EINTR))
		n = queue_wait(q, done, 1, 16, -1);
	return !q->used;
}

EXPORT void peerdma_file_queue_close(struct peerdma_file_queue *queue)
{
	struct queue *q = (struct queue *)queue;
	uint32_t was;
	bool drained;

	if (!q)
		return;
	/* A child has none of the threads; and one may have held the lock. */
	if (q->process != process_id()) {
		queue_free(q, false);
		return;
	}
	was = attempt_begin();
	drained = drain(q);
	attempt_end(was, 0);
	/* Else the kernel may still transfer: what it uses stays. */
	if (!drained)
		return;
	queue_threads_end(q);
	pthread_cond_destroy(&q->turn);
	pthread_cond_destroy(&q->work);
	pthread_mutex_destroy(&q->lock);
	queue_free(q, true);
}
