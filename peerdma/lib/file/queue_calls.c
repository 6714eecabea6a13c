// SPDX-License-Identifier: MIT
/* queue_calls.c - peerdma_file_submit() and _cancel(). */
#include "queue.h"

#define IO_FIRST	END_OF(struct peerdma_file_io, result)

/* ---- submit ---- */

static const char call[] = "peerdma_file_submit";

/* 0, -EINVAL or -E2BIG: a struct of this release's size is read where it is. */
static int known_io(const struct peerdma_file_io **from, struct peerdma_file_io *copy)
{
	int ret;

	if (!*from)
		return check_given(call, "ios", *from, NULL);
	if ((*from)->size == sizeof(*copy))
		return 0;
	ret = take_in(call, copy, sizeof(*copy), IO_FIRST, *from);
	*from = copy;
	return ret;
}

static int read_io(struct op *op, struct peerdma_file_io *given)
{
	const struct peerdma_file_io *io = given;
	struct peerdma_file_io copy;
	int ret = known_io(&io, &copy);

	if (ret)
		return ret;
	if (io->flags & ~PEERDMA_FILE_WRITE)
		return fail(-EINVAL, "%s: unknown flags 0x%x", call, io->flags);
	op->io = given;
	op->transfer = (struct transfer){
		.file = io->file, .ptr = io->ptr, .length = io->length, .offset = io->offset,
		.write = io->flags & PEERDMA_FILE_WRITE,
	};
	return transfer_check(call, &op->transfer);
}

static int read_all(const struct ops *ops, struct peerdma_file_io *const *ios)
{
	int ret = 0;

	for (struct op *op = ops->first; !ret && op; op = op->next)
		ret = read_io(op, *ios++);
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
	return ret ? fail(ret, "%s: %zu operations, and the queue has no room for so many: return some that have ended",
			  call, n) : 0;
}

static void give_back(struct queue *q, size_t n, struct ops *ops)
{
	struct op *op;

	pthread_mutex_lock(&q->lock);
	q->used -= (uint32_t)n;
	while ((op = ops_take(ops)))
		ops_add(&q->idle, op);
	pthread_mutex_unlock(&q->lock);
}

/* What fails here is the operation's result. */
static void begin(struct op *op, void *context)
{
	struct transfer *t = &op->transfer;
	int ret;

	op->context = context;
	file_get(t->file);
	ret = transfer_begin(t);
	if (ret) {
		t->done = ret;
		t->over = true;
	}
	/* It may find that it is over. */
	if (!transfer_next(t, &op->step))
		op_over(op);
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

EXPORT int peerdma_file_submit(struct peerdma_file_queue *queue, struct peerdma_file_io *const *ios,
			       size_t n)
{
	struct queue *q = (struct queue *)queue;
	int ret = check_given(call, "queue", queue, "ios", ios, NULL);
	struct ops ops;
	void *context;
	uint32_t was;

	if (!ret)
		ret = queue_check(q, call);
	if (!ret && n > q->pub.depth)
		ret = fail(-EINVAL, "%s: %zu operations, and the queue's depth is %u", call, n, q->pub.depth);
	if (!ret)
		ret = take_idle(q, n, &ops);
	if (ret)
		return ret;
	ret = read_all(&ops, ios);
	if (ret) {
		give_back(q, n, &ops);
		return ret;
	}
	was = attempt_begin();
	context = cuda_context();
	for (struct op *op = ops.first; op; op = op->next)
		begin(op, context);
	give_all(q, &ops);
	attempt_end(was, 0);
	return 0;
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
