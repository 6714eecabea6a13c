// SPDX-License-Identifier: MIT
/* stream.c - the calls on streams, and how a call finds its context and stream and queues a job. */
#include "work.h"

int sg_ctx_live_locked(struct sg_client *client, u32 handle, struct sg_ctx **out)
{
	struct sg_ctx *ctx = sg_ctx_of(
		sg_obj_get_locked(&client->proc->handles, handle, SG_OBJ_CTX));
	int err = !ctx ? -ENOENT : ctx->gpu->removed ? -ENODEV : ctx->faulted ? -EIO : 0;

	if (err && ctx)
		sg_obj_put_locked(&ctx->obj);
	*out = err ? NULL : ctx;
	return err;
}

/*
 * The number of streams is limited because some steps of the core look at all streams of a
 * process while they hold the lock, for which other users wait.
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

/*
 * Finds a context's stream, 0 being the default stream; sg_stream_put_locked() drops the
 * reference.  -ENOENT; -EIO and -ENODEV as for the context.
 */
static int sg_stream_get_locked(struct sg_client *client, u32 ctx_handle, u32 handle,
				struct sg_stream **out)
{
	struct sg_stream *s;
	struct sg_ctx *ctx;
	struct sg_obj *obj;
	int err = sg_ctx_live_locked(client, ctx_handle, &ctx);

	if (err)
		return err;
	if (!handle) {
		*out = &ctx->stream0;	/* the context's reference stands for the stream's */
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
	err = sg_ctx_live_locked(client, a->ctx, &ctx);
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
		/*
		 * A query does not synchronize.  It releases held work, or a program that polls
		 * would never end.
		 */
		sg_strict_release_locked(s);
		err = s->completed == s->submitted ? 0 : -EAGAIN;
		sg_stream_put_locked(s);
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
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

int sg_enqueue(struct sg_client *client, u32 ctx, u32 stream, struct sg_job *job)
{
	const struct sg_job_ops *ops = job->ops;
	struct sg_stream *s;
	int err;

	sg_mutex_lock(&client->sg->lock);
	err = sg_stream_get_locked(client, ctx, stream, &s);
	if (err)
		goto out;
	job->stream = s;
	err = ops->check ? ops->check(job) : 0;
	if (!err) {
		sg_submit_locked(job);
		err = ops->queued ? ops->queued(job) : 0;
		job = NULL;
	}
	sg_stream_put_locked(s);
out:
	sg_mutex_unlock(&client->sg->lock);
	sg_free(job);
	return err;
}
