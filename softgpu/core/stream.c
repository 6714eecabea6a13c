// SPDX-License-Identifier: MIT
/* stream.c - streams and events, and putting work on them. */
#include "sg_int.h"

void sg_stream_init(struct sg_stream *s, struct sg_ctx *ctx, bool non_blocking)
{
	s->ctx = ctx;
	s->non_blocking = non_blocking;
	sg_list_init(&s->in_ctx);
	sg_list_init(&s->in_runnable);
	sg_list_init(&s->in_release);
	sg_list_init(&s->jobs);
}

/*
 * Some steps of the core look at all streams of a process with the lock held, which other
 * users wait for.  So there is a limit.
 */
int sg_stream_count_locked(struct sg_proc *proc)
{
	if (proc->streams == SOFTGPU_MAX_STREAMS)
		return -ENOMEM;
	proc->streams++;
	return 0;
}

static void release_stream_locked(struct sg_obj *obj)
{
	struct sg_stream *s = container_of(obj, struct sg_stream, obj);
	struct sg_ctx *ctx = s->ctx;

	ctx->proc->streams--;
	SG_WARN_ON(s->completed != s->submitted);
	sg_list_del(&s->in_ctx);
	sg_free(s);
	sg_obj_put_locked(&ctx->obj);
}

static void release_event_locked(struct sg_obj *obj)
{
	struct sg_event *e = container_of(obj, struct sg_event, obj);

	SG_WARN_ON(!sg_list_empty(&e->pending));
	sg_free(e);
}

int sg_ctx_get_locked(struct sg_client *client, u32 handle, struct sg_ctx **out)
{
	struct sg_ctx *ctx = sg_ctx_of(sg_obj_get_locked(&client->proc->handles, handle, SG_OBJ_CTX));

	if (!ctx)
		return -ENOENT;
	if (ctx->gpu->removed || ctx->faulted) {
		int err = ctx->gpu->removed ? -ENODEV : -EIO;

		sg_obj_put_locked(&ctx->obj);
		return err;
	}
	*out = ctx;
	return 0;
}

int sg_stream_get_locked(struct sg_client *client, u32 ctx_handle, u32 handle, struct sg_stream **out)
{
	struct sg_stream *s;
	struct sg_ctx *ctx;
	struct sg_obj *obj;
	int err = sg_ctx_get_locked(client, ctx_handle, &ctx);

	if (err)
		return err;
	if (!handle) {
		*out = &ctx->stream0;	/* kept by the context's reference */
		return 0;
	}
	obj = sg_obj_get_locked(&client->proc->handles, handle, SG_OBJ_STREAM);
	s = obj ? container_of(obj, struct sg_stream, obj) : NULL;
	if (s && s->ctx != ctx) {
		sg_obj_put_locked(obj);
		s = NULL;
	}
	sg_obj_put_locked(&ctx->obj);
	*out = s;
	return s ? 0 : -ENOENT;
}

void sg_stream_hold_locked(struct sg_stream *s)
{
	if (s == &s->ctx->stream0)
		s->ctx->obj.refs++;
	else
		s->obj.refs++;
}

void sg_stream_put_locked(struct sg_stream *s)
{
	if (s == &s->ctx->stream0)
		sg_obj_put_locked(&s->ctx->obj);
	else
		sg_obj_put_locked(&s->obj);
}

int sg_stream_create(struct sg_client *client, struct softgpu_stream_create *a)
{
	struct sg_stream *s;
	struct sg_ctx *ctx;
	int err;

	if (a->flags & ~SOFTGPU_STREAM_NON_BLOCKING)
		return -EINVAL;
	s = sg_zalloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	sg_mutex_lock(&client->sg->lock);
	err = sg_ctx_get_locked(client, a->ctx, &ctx);
	if (!err) {
		err = sg_stream_count_locked(client->proc);
		if (err)
			sg_obj_put_locked(&ctx->obj);
	}
	if (!err) {
		/* The stream takes over the reference to the context. */
		sg_stream_init(s, ctx, a->flags & SOFTGPU_STREAM_NON_BLOCKING);
		sg_obj_init(&s->obj, SG_OBJ_STREAM, &client->proc->handles, release_stream_locked);
		sg_list_add_tail(&ctx->streams, &s->in_ctx);
		a->stream = sg_obj_publish_locked(&s->obj, &ctx->client->objs);
		s = NULL;
	}
	sg_mutex_unlock(&client->sg->lock);
	sg_free(s);
	return err;
}

int sg_stream_destroy(struct sg_client *client, struct softgpu_stream *a)
{
	struct sg_stream *s;
	int err;

	if (a->reserved || !a->stream)
		return -EINVAL;
	sg_mutex_lock(&client->sg->lock);
	err = sg_stream_get_locked(client, a->ctx, a->stream, &s);
	if (!err) {
		if (sg_obj_retire_locked(&s->obj))
			sg_obj_put_locked(&s->obj);
		sg_stream_put_locked(s);
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

int sg_stream_query(struct sg_client *client, struct softgpu_stream *a)
{
	struct sg_stream *s;
	int err;

	if (a->reserved)
		return -EINVAL;
	sg_mutex_lock(&client->sg->lock);
	err = sg_stream_get_locked(client, a->ctx, a->stream, &s);
	if (!err) {
		/* A query does not synchronize, but a program that polls would never end. */
		sg_strict_release_locked(s);
		err = s->completed == s->submitted ? 0 : -EAGAIN;
		sg_stream_put_locked(s);
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

int sg_stream_drain_locked(struct sg_stream *s, u64 upto)
{
	struct sg_ctx *ctx = s->ctx;

	sg_strict_release_locked(s);
	while (s->completed < upto) {
		if (sg_cond_wait_killable(&ctx->done, &ctx->gpu->sg->lock))
			return -EINTR;
	}
	return ctx->gpu->removed ? -ENODEV : ctx->faulted ? -EIO : 0;
}

int sg_stream_sync(struct sg_client *client, struct softgpu_stream *a)
{
	struct sg_stream *s;
	int err;

	if (a->reserved)
		return -EINVAL;
	sg_mutex_lock(&client->sg->lock);
	err = sg_stream_get_locked(client, a->ctx, a->stream, &s);
	if (!err) {
		err = sg_stream_drain_locked(s, s->submitted);
		sg_stream_put_locked(s);
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

void sg_submit_locked(struct sg_stream *s, struct sg_job *job)
{
	struct sg_ctx *ctx = s->ctx;
	struct sg_gpu *gpu = ctx->gpu;

	sg_stream_hold_locked(s);
	job->refs = 1;
	job->seq = ctx->next_seq++;
	if (job->held)
		ctx->proc->held++;
	job->index = ++s->submitted;
	if (sg_list_empty(&s->jobs) && !s->running)
		sg_list_add_tail(&gpu->runnable, &s->in_runnable);
	sg_list_add_tail(&s->jobs, &job->link);
	sg_cond_broadcast(&gpu->work);
}

/*
 * Returns false if [va, va + span) begins in VRAM and is not mapped for this access from
 * end to end, or if it begins in a hole, or in memory that is being freed.  Other
 * addresses are not checked here: they are the process's own memory.
 */
static bool mapped_locked(struct sg_proc *proc, u64 va, u64 span, u32 access)
{
	struct sg_range *range = sg_range_at(proc, va);
	u64 end = va + span;

	if (sg_is_leaving(proc, va))
		return false;
	if (!range)
		return !sg_is_hole(proc, va);
	while (range && sg_may_access(range, access) && range->node.key + range->node.len < end)
		range = sg_range_at(proc, range->node.key + range->node.len);
	return range && sg_may_access(range, access);
}

/*
 * Number of bytes from the first to the last of `height` rows that are `pitch` apart; 0:
 * invalid.
 */
static u64 span_of(u64 base, u64 width, u64 height, u64 pitch)
{
	u64 span = width;

	if (!width || !height || width > (u64)1 << 48 || height > (u64)1 << 32)
		return 0;
	if (height > 1) {
		if (pitch < width || pitch > ((u64)1 << 56) / height)
			return 0;
		span = (height - 1) * pitch + width;
	}
	return base + span < base ? 0 : span;
}

/* Number of bytes from a move's first to its last. */
static u64 span(const struct sg_job *job, u64 pitch)
{
	return job->move.height > 1 ? (job->move.height - 1) * pitch + job->move.width : job->move.width;
}

static bool overlap(u64 a, u64 a_len, u64 b, u64 b_len)
{
	return a < b + b_len && b < a + a_len;
}

bool sg_job_writes(const struct sg_job *job, u64 va, u64 len)
{
	return (job->op == SG_OP_COPY || job->op == SG_OP_FILL) &&
	       overlap(job->move.dst, span(job, job->move.dst_pitch), va, len);
}

bool sg_job_touches(const struct sg_job *job, u64 va, u64 len)
{
	switch (job->op) {
	case SG_OP_COPY:
		return sg_job_writes(job, va, len) || overlap(job->move.src, span(job, job->move.src_pitch), va, len);
	case SG_OP_FILL:
		return sg_job_writes(job, va, len);
	case SG_OP_WRITE_VALUE:
	case SG_OP_WAIT_VALUE:
		return overlap(job->value.va, job->value.width, va, len);
	case SG_OP_WATCH:
		return overlap(job->watch.va, 4, va, len) || overlap(job->watch.result, 4, va, len);
	default:
		return false;
	}
}

static int submit_move(struct sg_client *client, u32 ctx, u32 stream, u32 flags, struct sg_job *job,
		       u64 dst_span, u64 src_span)
{
	struct sg_stream *s;
	int err;

	sg_mutex_lock(&client->sg->lock);
	err = sg_stream_get_locked(client, ctx, stream, &s);
	if (err)
		goto out;
	err = -EFAULT;
	if (sg_alias_resolve_locked(client->proc, &job->move.dst, dst_span) &&
	    (job->op == SG_OP_FILL || sg_alias_resolve_locked(client->proc, &job->move.src, src_span)) &&
	    mapped_locked(client->proc, job->move.dst, dst_span, SG_WRITE) &&
	    (job->op == SG_OP_FILL || mapped_locked(client->proc, job->move.src, src_span, SG_READ))) {
		/* Invariant: with SYNC_MEMOPS no call returns before its effect is visible. */
		if (sg_sync_memops_locked(client->proc, job->move.dst) ||
		    (job->op == SG_OP_COPY && sg_sync_memops_locked(client->proc, job->move.src)))
			flags |= SOFTGPU_OP_SYNC;
		job->held = !(flags & SOFTGPU_OP_SYNC) && sg_strict_holds_locked(s, job);
		sg_submit_locked(s, job);
		job = NULL;
		err = flags & SOFTGPU_OP_SYNC ? sg_stream_drain_locked(s, s->submitted) : 0;
	}
	sg_stream_put_locked(s);
out:
	sg_mutex_unlock(&client->sg->lock);
	sg_free(job);
	return err;
}

int sg_copy(struct sg_client *client, struct softgpu_copy *a)
{
	u64 dst_span = span_of(a->dst, a->width, a->height, a->dst_pitch);
	u64 src_span = span_of(a->src, a->width, a->height, a->src_pitch);
	struct sg_job *job;

	if (a->flags & ~SOFTGPU_OP_SYNC || !dst_span || !src_span)
		return -EINVAL;
	job = sg_zalloc(sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->op = SG_OP_COPY;
	job->move.dst = a->dst;
	job->move.src = a->src;
	job->move.width = a->width;
	job->move.height = a->height;
	job->move.dst_pitch = a->dst_pitch;
	job->move.src_pitch = a->src_pitch;
	return submit_move(client, a->ctx, a->stream, a->flags, job, dst_span, src_span);
}

int sg_fill(struct sg_client *client, struct softgpu_fill *a)
{
	struct sg_job *job;
	u64 span;

	if (a->flags & ~SOFTGPU_OP_SYNC || (a->elem != 1 && a->elem != 2 && a->elem != 4) ||
	    a->width > (u64)1 << 46 || a->dst % a->elem || (a->height > 1 && a->pitch % a->elem))
		return -EINVAL;
	span = span_of(a->dst, a->width * a->elem, a->height, a->pitch);
	if (!span)
		return -EINVAL;
	job = sg_zalloc(sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->op = SG_OP_FILL;
	job->move.dst = a->dst;
	job->move.width = a->width * a->elem;
	job->move.height = a->height;
	job->move.dst_pitch = a->pitch;
	job->move.value = a->value;
	job->move.elem = a->elem;
	return submit_move(client, a->ctx, a->stream, a->flags, job, span, 0);
}

int sg_event_create(struct sg_client *client, struct softgpu_event_create *a)
{
	struct sg_event *e;
	struct sg_ctx *ctx;
	int err;

	if (a->flags)
		return -EINVAL;
	e = sg_zalloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	sg_list_init(&e->pending);
	sg_mutex_lock(&client->sg->lock);
	err = sg_ctx_get_locked(client, a->ctx, &ctx);
	if (!err) {
		sg_obj_init(&e->obj, SG_OBJ_EVENT, &client->proc->handles, release_event_locked);
		a->event = sg_obj_publish_locked(&e->obj, &ctx->client->objs);
		sg_obj_put_locked(&ctx->obj);
		e = NULL;
	}
	sg_mutex_unlock(&client->sg->lock);
	sg_free(e);
	return err;
}

static struct sg_event *get_event_locked(struct sg_client *client, u32 handle)
{
	struct sg_obj *obj = sg_obj_get_locked(&client->proc->handles, handle, SG_OBJ_EVENT);

	return obj ? container_of(obj, struct sg_event, obj) : NULL;
}

bool sg_record_pending_locked(const struct sg_job *record)
{
	return record && !sg_list_empty(&record->mark.pending);
}

/* Returns the event's latest record unless it is done.  Pending ones are in order, so it is the last. */
static struct sg_job *latest_record_locked(const struct sg_event *e)
{
	struct sg_job *job = sg_list_entry(e->pending.prev, struct sg_job, mark.pending);

	return !sg_list_empty(&e->pending) && job->mark.serial == e->recorded ? job : NULL;
}

/* A record that is not done stays allocated for the jobs and threads that wait for it. */
static struct sg_job *record_get_locked(const struct sg_event *e)
{
	struct sg_job *record = latest_record_locked(e);

	if (record)
		record->refs++;
	return record;
}

void sg_job_put_locked(struct sg_job *job)
{
	if (job && !--job->refs)
		sg_free(job);
}

/* RECORD and STREAM_WAIT: queues a job that refers to an event. */
static int submit_mark(struct sg_client *client, struct softgpu_event *a, enum sg_op op)
{
	struct sg_job *job = sg_zalloc(sizeof(*job));
	struct sg_stream *s;
	struct sg_event *e;
	int err;

	if (!job)
		return -ENOMEM;
	job->op = op;
	sg_mutex_lock(&client->sg->lock);
	err = sg_stream_get_locked(client, a->ctx, a->stream, &s);
	if (err)
		goto out;
	err = -ENOENT;
	e = get_event_locked(client, a->event);
	if (!e)
		goto put;
	if (op == SG_OP_RECORD) {
		job->mark.serial = ++e->recorded;
		sg_list_add_tail(&e->pending, &job->mark.pending);
	} else {
		job->mark.record = record_get_locked(e);
	}
	job->mark.event = e;	/* with the reference */
	job->mark.stream = s;
	sg_submit_locked(s, job);
	job = NULL;
	err = 0;
put:
	sg_stream_put_locked(s);
out:
	sg_mutex_unlock(&client->sg->lock);
	sg_free(job);
	return err;
}

int sg_event_record(struct sg_client *client, struct softgpu_event *a)
{
	return submit_mark(client, a, SG_OP_RECORD);
}

int sg_stream_wait(struct sg_client *client, struct softgpu_event *a)
{
	return submit_mark(client, a, SG_OP_WAIT);
}

/* Releases the streams in which a record of the event is pending. */
static void release_recorders_locked(const struct sg_client *client, struct sg_event *e)
{
	struct sg_job *job;

	if (!client->proc->held)
		return;
	sg_list_for_each(job, &e->pending, struct sg_job, mark.pending)
		sg_strict_release_locked(job->mark.stream);
}

int sg_event_query(struct sg_client *client, struct softgpu_event *a)
{
	struct sg_event *e;
	int err = -ENOENT;

	sg_mutex_lock(&client->sg->lock);
	e = get_event_locked(client, a->event);
	if (e) {
		release_recorders_locked(client, e);
		err = latest_record_locked(e) ? -EAGAIN : e->failed ? -EIO : 0;
		a->time_ns = e->time_ns;
		sg_obj_put_locked(&e->obj);
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

int sg_event_sync(struct sg_client *client, struct softgpu_event *a)
{
	struct sg *sg = client->sg;
	struct sg_job *record;
	struct sg_event *e;
	int err = -ENOENT;

	sg_mutex_lock(&sg->lock);
	e = get_event_locked(client, a->event);
	if (e) {
		release_recorders_locked(client, e);
		record = record_get_locked(e);
		err = 0;
		while (!err && sg_record_pending_locked(record))
			err = sg_cond_wait_killable(&sg->ended, &sg->lock);
		sg_job_put_locked(record);
		if (!err && e->failed)
			err = -EIO;
		a->time_ns = e->time_ns;
		sg_obj_put_locked(&e->obj);
	}
	sg_mutex_unlock(&sg->lock);
	return err;
}
