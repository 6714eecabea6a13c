// SPDX-License-Identifier: MIT
/*
 * queue.c - streams as queues of jobs: what is queued, what may run, what is done.
 *
 * A stream is in gpu->runnable while it has queued jobs and none running.
 */
#include "work.h"

void sg_stream_init(struct sg_stream *s, struct sg_ctx *ctx, bool non_blocking)
{
	s->ctx = ctx;
	s->non_blocking = non_blocking;
	sg_list_init(&s->in_ctx);
	sg_list_init(&s->in_runnable);
	sg_list_init(&s->in_release);
	sg_list_init(&s->jobs);
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

void sg_submit_locked(struct sg_job *job)
{
	struct sg_stream *s = job->stream;
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

/* Returns the seq of the job that a stream runs, or would run next; ~0 if it has none. */
static u64 oldest_seq_locked(const struct sg_stream *s)
{
	if (s->running)
		return s->running->seq;
	if (!sg_list_empty(&s->jobs))
		return sg_list_entry(s->jobs.next, struct sg_job, link)->seq;
	return ~(u64)0;
}

/*
 * Returns whether the job's turn has come: the default stream and blocking streams wait for
 * each other's earlier jobs.
 */
static bool in_turn(const struct sg_stream *s, const struct sg_job *job)
{
	const struct sg_ctx *ctx = s->ctx;
	const struct sg_stream *other;

	if (s->non_blocking)
		return true;
	if (s != &ctx->stream0)
		return oldest_seq_locked(&ctx->stream0) > job->seq;
	sg_list_for_each(other, &ctx->streams, struct sg_stream, in_ctx) {
		if (other != s && !other->non_blocking && oldest_seq_locked(other) < job->seq)
			return false;
	}
	return true;
}

/* May a stream's first job run now?  No job of that stream is running. */
static bool may_run_locked(const struct sg_job *job)
{
	const struct sg_stream *s = job->stream;

	if (s->ctx->dead)
		return true;	/* to be dropped */
	if (job->held && job->seq >= s->released_seq)
		return false;
	if (!in_turn(s, job))
		return false;
	return job->op != SG_OP_WAIT || !sg_record_pending_locked(job->mark.record);
}

/* Removes a stream's first job from the queue and marks it as running. */
static struct sg_job *take_locked(struct sg_stream *s)
{
	struct sg_job *job = sg_list_entry(s->jobs.next, struct sg_job, link);

	sg_list_del(&job->link);
	sg_list_del(&s->in_runnable);
	s->running = job;
	return job;
}

bool sg_take_if_first_locked(struct sg_job *job)
{
	struct sg_stream *s = job->stream;

	if (s->running || s->jobs.next != &job->link || !may_run_locked(job))
		return false;
	take_locked(s);
	return true;
}

struct sg_job *sg_take_any_locked(struct sg_gpu *gpu)
{
	struct sg_stream *s;

	sg_list_for_each(s, &gpu->runnable, struct sg_stream, in_runnable) {
		if (may_run_locked(sg_list_entry(s->jobs.next, struct sg_job, link)))
			return take_locked(s);
	}
	return NULL;
}

void sg_requeue_locked(struct sg_job *job)
{
	struct sg_stream *s = job->stream;
	struct sg_gpu *gpu = s->ctx->gpu;

	s->running = NULL;
	sg_list_add_tail(s->jobs.next, &job->link);	/* the first */
	sg_list_add_tail(&gpu->runnable, &s->in_runnable);
	sg_cond_broadcast(&gpu->work);
}

void sg_complete_locked(struct sg_job *job)
{
	struct sg_stream *s = job->stream;
	struct sg_ctx *ctx = s->ctx;
	struct sg_gpu *gpu = ctx->gpu;

	if (job->ops->end)
		job->ops->end(job);
	if (job->held)
		ctx->proc->held--;
	s->running = NULL;
	s->completed++;
	if (!sg_list_empty(&s->jobs))
		sg_list_add_tail(&gpu->runnable, &s->in_runnable);
	sg_cond_broadcast(&gpu->work);
	sg_cond_broadcast(&ctx->done);
	sg_job_put_locked(job);
	sg_stream_put_locked(s);
}

static void die_locked(struct sg_ctx *ctx)
{
	if (!ctx->dead)
		ctx->faulted = true;
	ctx->dead = true;
}

void sg_fault_locked(struct sg_ctx *ctx)
{
	struct sg_ctx *other;

	die_locked(ctx);
	/* If the context has ended meanwhile, the contexts shared with it are not affected. */
	if (!ctx->shared || ctx->obj.gone)
		return;
	ctx->shared->faulted = true;
	sg_list_for_each(other, &ctx->gpu->sg->ctxs, struct sg_ctx, in_sg) {
		if (sg_ctx_same(other, ctx))
			die_locked(other);
	}
	sg_cond_broadcast(&ctx->gpu->work);
}

bool sg_ctx_busy_before_locked(const struct sg_ctx *ctx, u64 seq)
{
	struct sg_stream *s;

	sg_list_for_each(s, &ctx->streams, struct sg_stream, in_ctx) {
		if (oldest_seq_locked(s) < seq)
			return true;
	}
	return false;
}
