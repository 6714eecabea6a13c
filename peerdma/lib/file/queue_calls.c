// SPDX-License-Identifier: MIT
/* queue_calls.c - peerdma_file_submit() and _cancel(). */
#include "queue.h"

#define IO_FIRST	END_OF(struct peerdma_file_io, result)

/* ---- submit ---- */

static int read_io(const struct peerdma_file_io *from, struct transfer *t)
{
	static const char call[] = "peerdma_file_submit";
	struct peerdma_file_io io;
	int ret = check_given(call, "ios", from, NULL);

	if (!ret)
		ret = take_in(call, &io, sizeof(io), IO_FIRST, from);
	if (ret)
		return ret;
	if (io.flags & ~PEERDMA_FILE_WRITE)
		return fail(-EINVAL, "%s: unknown flags 0x%x", call, io.flags);
	*t = (struct transfer){
		.file = io.file, .ptr = io.ptr, .length = io.length, .offset = io.offset,
		.write = io.flags & PEERDMA_FILE_WRITE,
	};
	return transfer_check(call, t);
}

static int check_all(struct peerdma_file_io *const *ios, size_t n)
{
	struct transfer t;
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++)
		ret = read_io(ios[i], &t);
	return ret;
}

static int take_idle(struct queue *q, size_t n, struct ops *ops)
{
	int ret = 0;

	ops_init(ops);
	pthread_mutex_lock(&q->lock);
	if (n > q->pub.depth - q->used)
		ret = -EAGAIN;
	else
		q->used += (uint32_t)n;
	for (size_t i = 0; !ret && i < n; i++)
		ops_add(ops, ops_take(&q->idle));
	pthread_mutex_unlock(&q->lock);
	return ret ? fail(ret, "peerdma_file_submit: %zu operations, and the queue has no room for so many: "
			  "return some that have ended", n) : 0;
}

/* What fails here is the operation's result. */
static void begin(struct op *op, struct peerdma_file_io *io, void *context)
{
	struct transfer *t = &op->transfer;
	int ret;

	op->io = io;
	op->context = context;
	read_io(io, t);
	file_get(t->file);
	ret = transfer_begin(t);
	if (ret) {
		t->done = ret;
		t->over = true;
	}
}

static void give_all(struct queue *q, struct ops *begun)
{
	struct op *op;

	pthread_mutex_lock(&q->lock);
	while ((op = ops_take(begun))) {
		if (op->transfer.over)
			queue_ended(q, op);
		else
			queue_give(q, op);
	}
	queue_flush(q);
	pthread_mutex_unlock(&q->lock);
}

static void submit(struct queue *q, struct ops *ops, struct peerdma_file_io *const *ios)
{
	uint32_t was = attempt_begin();
	void *context = cuda_context();
	struct ops begun;
	struct op *op;

	ops_init(&begun);
	for (size_t i = 0; (op = ops_take(ops)); i++) {
		begin(op, ios[i], context);
		/* transfer_next() may find that it is over. */
		if (!transfer_next(&op->transfer, &op->step))
			op_over(op);
		ops_add(&begun, op);
	}
	give_all(q, &begun);
	attempt_end(was, 0);
}

EXPORT int peerdma_file_submit(struct peerdma_file_queue *queue, struct peerdma_file_io *const *ios,
			       size_t n)
{
	struct queue *q = (struct queue *)queue;
	int ret = check_given("peerdma_file_submit", "queue", queue, "ios", ios, NULL);
	struct ops ops;

	if (!ret)
		ret = queue_check(q, "peerdma_file_submit");
	if (!ret && n > q->pub.depth)
		ret = fail(-EINVAL, "peerdma_file_submit: %zu operations, and the queue's depth is %u", n,
			   q->pub.depth);
	if (!ret)
		ret = check_all(ios, n);
	if (!ret)
		ret = take_idle(q, n, &ops);
	if (!ret)
		submit(q, &ops, ios);
	return ret;
}

/* ---- cancel ---- */

EXPORT int peerdma_file_cancel(struct peerdma_file_queue *queue)
{
	struct queue *q = (struct queue *)queue;
	int ret = check_given("peerdma_file_cancel", "queue", queue, NULL), count = 0;
	struct ops pending;
	struct op *op;

	if (!ret)
		ret = queue_check(q, "peerdma_file_cancel");
	if (ret)
		return ret;
	ops_init(&pending);
	pthread_mutex_lock(&q->lock);
	while ((op = ops_take(&q->pending)))
		ops_add(&pending, op);
	q->pending_count = 0;
	pthread_mutex_unlock(&q->lock);
	while ((op = ops_take(&pending))) {
		if (!op->transfer.done)
			op->transfer.done = -ECANCELED;
		op_over(op);
		pthread_mutex_lock(&q->lock);
		queue_ended(q, op);
		queue_flush(q);
		pthread_mutex_unlock(&q->lock);
		count++;
	}
	return count;
}
