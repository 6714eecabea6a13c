// SPDX-License-Identifier: MIT
/* queue_wait.c - peerdma_file_wait(): takes what has ended, and gives on what has not. */
#include <limits.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "queue.h"

/* ---- completions of the ring ---- */

/*
 * The kernel has moved so many bytes of the op's step, or none and this is why.  True: the step is
 * over, and *n is what it returns; as file_io(), it goes on until nothing more is moved.
 */
static bool step_over(struct step *step, int result, ssize_t *n)
{
	if (result > 0) {
		step->moved += (uint64_t)result;
		*n = (ssize_t)step->moved;
		return step->moved == step->part.length;
	}
	*n = step->moved ? (ssize_t)step->moved : result;
	return true;
}

/*
 * Errors that a thread looks into, by making the transfer once more: the ring's own; and those of the disk, because the kernel
 * gives transfers that lie side by side to the disk as one, and then one bad sector fails all of them.
 */
static bool look_into(int result)
{
	return result < 0 && result != -EINVAL && result != -EFAULT && result != -EREMOTEIO &&
	       result != -EEXIST;
}

/* True: there is another step, which op->step is. */
static bool goes_on(struct op *op, int result)
{
	uint32_t was = attempt_begin();
	bool more = true;
	ssize_t n;

	if (step_over(&op->step, result, &n)) {
		transfer_took(&op->transfer, &op->step, n);
		more = transfer_next(&op->transfer, &op->step);
	}
	if (!more)
		op_over(op);
	attempt_end(was, 0);
	return more;
}

/* Lock; given back meanwhile.  The op, if it has ended. */
static struct op *completed(struct queue *q, struct op *op, int result)
{
	bool more;

	if (look_into(result)) {
		queue_to_threads(q, op);
		return NULL;
	}
	pthread_mutex_unlock(&q->lock);
	more = goes_on(op, result);
	pthread_mutex_lock(&q->lock);
	if (!more)
		return op;
	queue_give(q, op);
	return NULL;
}

/* Lock.  False: there is nothing now.  *op may be NULL, if it is true. */
static bool next_ended(struct queue *q, struct op **op)
{
	bool usable = q->ring.usable;
	void *data;
	int result;

	if (ring_take(&q->ring, &data, &result)) {
		/* A word stands for one that has ended, as long as all of them have one. */
		*op = data ? completed(q, data, result) : usable ? ops_take(&q->ended) : NULL;
		return true;
	}
	*op = usable ? NULL : ops_take(&q->ended);
	return *op;
}

/* Lock. */
static void pipe_quiet(struct queue *q)
{
	char byte;

	if (q->signalled && !q->ended.first && own_fd_still(&q->pipe[0]))
		q->signalled = read(q->pipe[0].fd, &byte, 1) != 1;
}

/* Lock. */
static size_t collect(struct queue *q, struct peerdma_file_io **done, size_t max)
{
	struct op *op;
	size_t n = 0;

	while (n < max && next_ended(q, &op)) {
		if (!op)
			continue;
		done[n++] = op->io;
		ops_add(&q->idle, op);
		q->used--;
	}
	queue_flush(q);
	pipe_quiet(q);
	return n;
}

/* ---- waiting ---- */

struct deadline {
	bool none;
	struct timespec at;	/* CLOCK_MONOTONIC */
};

#define SECOND 1000000000L

/* 0 is in the past. */
static struct deadline deadline_in(int timeout_ms)
{
	struct deadline d = { .none = timeout_ms < 0 };

	if (timeout_ms <= 0)
		return d;
	clock_gettime(CLOCK_MONOTONIC, &d.at);
	d.at.tv_sec += timeout_ms / 1000;
	d.at.tv_nsec += timeout_ms % 1000 * 1000000L;
	d.at.tv_sec += d.at.tv_nsec / SECOND;
	d.at.tv_nsec %= SECOND;
	return d;
}

/* False: it is over. */
static bool left(const struct deadline *d, struct timespec *t)
{
	clock_gettime(CLOCK_MONOTONIC, t);
	t->tv_sec = d->at.tv_sec - t->tv_sec;
	t->tv_nsec = d->at.tv_nsec - t->tv_nsec;
	if (t->tv_nsec < 0) {
		t->tv_sec--;
		t->tv_nsec += SECOND;
	}
	return t->tv_sec >= 0 && (t->tv_sec || t->tv_nsec);
}

/* Without a usable ring: until the pipe has a byte, or the ring one more completion. */
static int wait_polling(struct queue *q, const struct timespec *timeout)
{
	struct pollfd fds[2] = { { .fd = q->pipe[0].fd, .events = POLLIN },
				 { .fd = q->ring.fd.fd, .events = POLLIN } };
	int ret;

	if (!own_fd_still(&q->pipe[0]))
		return fail(-EBADF, "peerdma_file_wait: the program has closed the queue's descriptors");
	ret = ppoll(fds, q->ring.fd.fd < 0 ? 1 : 2, timeout, NULL);
	return ret < 0 ? -errno : ret ? 0 : -ETIME;
}

/* Lock; given back meanwhile.  0: look again. */
static int wait_for(struct queue *q, uint32_t n, const struct deadline *until)
{
	bool usable = q->ring.usable;
	struct timespec t, *timeout = until->none ? NULL : &t;
	int ret;

	if (!until->none && !left(until, &t))
		return -ETIME;
	pthread_mutex_unlock(&q->lock);
	ret = usable ? ring_wait(&q->ring, n, timeout) : wait_polling(q, timeout);
	pthread_mutex_lock(&q->lock);
	if (usable && ret && ret != -ETIME && ret != -EINTR) {
		queue_ring_lost(q, ret);
		queue_flush(q);
		ret = 0;
	}
	return ret;
}

/* Lock.  False: another thread waits, longer than this one may. */
static bool take_turn(struct queue *q, const struct deadline *until)
{
	int ret = 0;

	while (q->waiting && !ret)
		ret = until->none ? pthread_cond_wait(&q->turn, &q->lock) :
				    pthread_cond_timedwait(&q->turn, &q->lock, &until->at);
	if (q->waiting)
		return false;
	q->waiting = true;
	return true;
}

/* Lock. */
static int take_ended(struct queue *q, struct peerdma_file_io **done, size_t min, size_t max,
		      const struct deadline *until)
{
	size_t n = 0;
	int ret = 0;

	for (;;) {
		n += collect(q, done + n, max - n);
		if (n >= min || !q->used || ret)
			break;
		ret = wait_for(q, min - n < q->used ? (uint32_t)(min - n) : q->used, until);
	}
	return n || ret == -ETIME ? (int)n : ret;
}

int queue_wait(struct queue *q, struct peerdma_file_io **done, size_t min, size_t max,
	       int timeout_ms)
{
	struct deadline until = deadline_in(timeout_ms);
	int ret = 0, was = cancel_off();

	pthread_mutex_lock(&q->lock);
	if (take_turn(q, &until)) {
		ret = take_ended(q, done, min, max, &until);
		q->waiting = false;
		pthread_cond_signal(&q->turn);
	}
	pthread_mutex_unlock(&q->lock);
	cancel_back(was);
	return ret;
}

EXPORT int peerdma_file_wait(struct peerdma_file_queue *queue, struct peerdma_file_io **done,
			     size_t min, size_t max, int timeout_ms)
{
	struct queue *q = (struct queue *)queue;
	int ret = check_given("peerdma_file_wait", "queue", queue, "done", done, NULL);

	if (!ret)
		ret = queue_check(q, "peerdma_file_wait");
	if (ret)
		return ret;
	if (min > max || !max || max > INT_MAX || timeout_ms < -1)
		return fail(-EINVAL, "peerdma_file_wait: min %zu, max %zu, timeout_ms %d; max is 1 at least, and min at most", min, max, timeout_ms);
	ret = queue_wait(q, done, min, max, timeout_ms);
	return ret == -EINTR ? fail(ret, "peerdma_file_wait: %s", error_words(ret)) : ret;
}
