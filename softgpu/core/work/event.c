// SPDX-License-Identifier: MIT
/* event.c - events: the jobs that record them, and the jobs and threads that wait for a record. */
#include "work.h"

static void release_locked(struct sg_obj *obj)
{
	struct sg_event *e = container_of(obj, struct sg_event, obj);

	SG_WARN_ON(!sg_list_empty(&e->pending));
	sg_free(e);
}

static struct sg_event *get_event_locked(struct sg_proc *proc, u32 handle)
{
	struct sg_obj *obj = sg_obj_get_locked(&proc->handles, handle, SG_OBJ_EVENT);

	return obj ? container_of(obj, struct sg_event, obj) : NULL;
}

/*
 * Returns the event's latest record, or NULL if it is done.  The pending list is in order of
 * records.
 */
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

static int check_record(struct sg_job *job)
{
	struct sg_event *e = get_event_locked(job->stream->ctx->proc, job->mark.handle);

	if (!e)
		return -ENOENT;
	job->mark.event = e;	/* with the reference */
	job->mark.serial = ++e->recorded;
	sg_list_add_tail(&e->pending, &job->mark.pending);
	return 0;
}

static void end_record(struct sg_job *job)
{
	struct sg_event *e = job->mark.event;
	struct sg_gpu *gpu = job->stream->ctx->gpu;
	struct sg *sg = gpu->sg;
	u32 i;

	sg_list_del(&job->mark.pending);
	e->time_ns = sg_now_ns();
	e->failed = job->stream->ctx->faulted;
	/* Streams of any GPU, and threads, may wait for the event. */
	for (i = 0; i < SOFTGPU_MAX_GPUS; i++) {
		if (sg->gpus[i] && sg->gpus[i] != gpu)
			sg_cond_broadcast(&sg->gpus[i]->work);
	}
	sg_cond_broadcast(&sg->ended);
	sg_obj_put_locked(&e->obj);
}

static const struct sg_job_ops record_ops = { .check = check_record, .end = end_record };

static int check_wait(struct sg_job *job)
{
	struct sg_event *e = get_event_locked(job->stream->ctx->proc, job->mark.handle);

	if (!e)
		return -ENOENT;
	job->mark.event = e;	/* with the reference */
	job->mark.record = record_get_locked(e);
	return 0;
}

static void end_wait(struct sg_job *job)
{
	sg_job_put_locked(job->mark.record);
	sg_obj_put_locked(&job->mark.event->obj);
}

static const struct sg_job_ops wait_ops = { .check = check_wait, .end = end_wait };

static int enqueue_mark(struct sg_client *client, struct softgpu_event *a, enum sg_op op,
			const struct sg_job_ops *ops)
{
	struct sg_job *job = sg_job_new(op, ops);

	if (!job)
		return -ENOMEM;
	job->mark.handle = a->event;
	return sg_enqueue(client, a->ctx, a->stream, job);
}

int sg_event_record(struct sg_client *client, struct softgpu_event *a)
{
	return enqueue_mark(client, a, SG_OP_RECORD, &record_ops);
}

int sg_stream_wait(struct sg_client *client, struct softgpu_event *a)
{
	return enqueue_mark(client, a, SG_OP_WAIT, &wait_ops);
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
	err = sg_ctx_live_locked(client, a->ctx, &ctx);
	if (!err) {
		sg_obj_init(&e->obj, SG_OBJ_EVENT, &client->proc->handles, release_locked);
		a->event = sg_obj_publish_locked(&e->obj, &ctx->client->objs);
		sg_obj_put_locked(&ctx->obj);
		e = NULL;
	}
	sg_mutex_unlock(&client->sg->lock);
	sg_free(e);
	return err;
}

/* Releases the streams in which a record of the event is pending. */
static void release_recorders_locked(const struct sg_proc *proc, struct sg_event *e)
{
	struct sg_job *job;

	if (!proc->held)
		return;
	sg_list_for_each(job, &e->pending, struct sg_job, mark.pending)
		sg_strict_release_locked(job->stream);
}

int sg_event_query(struct sg_client *client, struct softgpu_event *a)
{
	struct sg_event *e;
	int err = -ENOENT;

	sg_mutex_lock(&client->sg->lock);
	e = get_event_locked(client->proc, a->event);
	if (e) {
		release_recorders_locked(client->proc, e);
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
	e = get_event_locked(client->proc, a->event);
	if (e) {
		release_recorders_locked(client->proc, e);
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
