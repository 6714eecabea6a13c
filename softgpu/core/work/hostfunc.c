// SPDX-License-Identifier: MIT
/*
 * hostfunc.c - host functions: functions of the program that a stream calls on the CPU.  The
 * basis of cuLaunchHostFunc and cuStreamAddCallback.
 *
 * A call is a job without an engine.  When its stream reaches it, the call joins ctx->funcs,
 * and the stream waits.  A thread of the program takes the call (HOST_FUNC_NEXT), runs the
 * function, and reports its end (HOST_FUNC_DONE), which completes the job.  So the calls of
 * different streams do not wait for one another.
 *
 * After a fault the function must not run, but the program must learn of the call.  Such a call
 * is handed out as failed, and its stream does not wait for it.
 */
#include "work.h"

static bool begin(struct sg_job *job)
{
	struct sg_ctx *ctx = job->stream->ctx;

	if (ctx->obj.gone)
		return false;
	sg_list_add_tail(&ctx->funcs, &job->func.in_ctx);
	sg_cond_broadcast(&ctx->reached);
	job->func.failed = ctx->dead;
	if (job->func.failed)
		job->refs++;
	return !job->func.failed;
}

static void end_locked(struct sg_job *job)
{
	sg_list_del(&job->func.in_ctx);
	if (job->func.failed)
		sg_job_put_locked(job);
	else
		sg_complete_locked(job);
}

static void end_all_locked(struct sg *sg, struct sg_link *funcs)
{
	while (!sg_list_empty(funcs)) {
		end_locked(sg_list_entry(funcs->next, struct sg_job, func.in_ctx));
		/* There may be millions: other threads get the lock in between. */
		sg_mutex_unlock(&sg->lock);
		sg_mutex_lock(&sg->lock);
	}
}

void sg_funcs_end_locked(struct sg_ctx *ctx)
{
	end_all_locked(ctx->gpu->sg, &ctx->handed_out);
	end_all_locked(ctx->gpu->sg, &ctx->funcs);
	sg_cond_broadcast(&ctx->reached);
}

/* The oldest call with this id that was handed out. */
static struct sg_job *find_locked(const struct sg_ctx *ctx, u64 id)
{
	struct sg_job *job;

	sg_list_for_each(job, &ctx->handed_out, struct sg_job, func.in_ctx) {
		if (job->func.id == id)
			return job;
	}
	return NULL;
}

/*
 * Other work may wait for the function, and no call would then release what strict mode holds
 * back before it.
 */
static int queued(struct sg_job *job)
{
	sg_strict_release_locked(job->stream);
	return 0;
}

static const struct sg_job_ops func_ops = { .queued = queued, .begin = begin };

int sg_host_func(struct sg_client *client, struct softgpu_host_func *a)
{
	struct sg_job *job;

	if (a->error)
		return -EINVAL;
	job = sg_job_new(SG_OP_HOST_FUNC, &func_ops);
	if (!job)
		return -ENOMEM;
	job->func.id = a->id;
	sg_list_init(&job->func.in_ctx);
	return sg_enqueue(client, a->ctx, a->stream, job);
}

int sg_host_func_next(struct sg_client *client, struct softgpu_host_func *a)
{
	struct sg *sg = client->sg;
	struct sg_job *job;
	struct sg_ctx *ctx;
	int err = 0;

	if (a->error)
		return -EINVAL;
	sg_mutex_lock(&sg->lock);
	ctx = sg_ctx_of(sg_obj_get_locked(&client->proc->handles, a->ctx, SG_OBJ_CTX));
	if (!ctx) {
		sg_mutex_unlock(&sg->lock);
		return -ENOENT;
	}
	while (!err && !ctx->obj.gone && sg_list_empty(&ctx->funcs))
		err = sg_cond_wait_killable(&ctx->reached, &sg->lock);
	if (!err && ctx->obj.gone) {
		err = ctx->gpu->removed ? -ENODEV : -ENOENT;
	} else if (!err && ctx->handed_out_count == SOFTGPU_MAX_FUNCS) {
		err = -EBUSY;
	} else if (!err) {
		job = sg_list_entry(ctx->funcs.next, struct sg_job, func.in_ctx);
		sg_list_del(&job->func.in_ctx);
		sg_list_add_tail(&ctx->handed_out, &job->func.in_ctx);
		ctx->handed_out_count++;
		a->id = job->func.id;
		a->error = job->func.failed ? EIO : 0;
	}
	sg_obj_put_locked(&ctx->obj);
	sg_mutex_unlock(&sg->lock);
	return err;
}

/* Returns a call that was handed out, with a reference to its context; NULL: none. */
static struct sg_job *handed_out_locked(struct sg_client *client, const struct softgpu_host_func *a,
					struct sg_ctx **ctx)
{
	*ctx = sg_ctx_of(sg_obj_get_locked(&client->proc->handles, a->ctx, SG_OBJ_CTX));
	return *ctx ? find_locked(*ctx, a->id) : NULL;
}

int sg_host_func_done(struct sg_client *client, struct softgpu_host_func *a)
{
	struct sg_ctx *ctx;
	struct sg_job *job;

	if (a->error)
		return -EINVAL;
	sg_mutex_lock(&client->sg->lock);
	job = handed_out_locked(client, a, &ctx);
	if (job) {
		ctx->handed_out_count--;
		end_locked(job);
	}
	if (ctx)
		sg_obj_put_locked(&ctx->obj);
	sg_mutex_unlock(&client->sg->lock);
	return job ? 0 : -ENOENT;
}

void sg_host_func_return(struct sg_client *client, const struct softgpu_host_func *a)
{
	struct sg_ctx *ctx;
	struct sg_job *job;

	sg_mutex_lock(&client->sg->lock);
	job = handed_out_locked(client, a, &ctx);
	if (job) {
		ctx->handed_out_count--;
		sg_list_del(&job->func.in_ctx);
		sg_list_add_tail(ctx->funcs.next, &job->func.in_ctx);	/* the first */
		sg_cond_broadcast(&ctx->reached);
	}
	if (ctx)
		sg_obj_put_locked(&ctx->obj);
	sg_mutex_unlock(&client->sg->lock);
}
