// SPDX-License-Identifier: MIT
/*
 * watch.c - a stand-in for a kernel that runs on the GPU and polls a flag there.
 *
 * The watcher (watcher.c) looks at the flag.  What the watch sees is its view.  As a rule
 * the view is the memory; in strict mode it is what the memory held when the watch was
 * launched, and only the GPU's own writes and a flush bring it up to date.
 */
#include "work.h"

#define TIMEOUT_MAX_MS	60000u

static u32 *word_at_locked(const struct sg_job *job, u64 va, u32 access)
{
	return sg_word_at_locked(job->stream, va, access);
}

static u32 load(const u32 *word)
{
	return (u32)sg_word_load(word, 4);
}

static void look_locked(struct sg_job *job)
{
	const u32 *word = word_at_locked(job, job->watch.va, SG_READ);

	if (word)
		job->watch.view = load(word);
}

static int check(struct sg_job *job)
{
	u64 va = job->watch.va, result = job->watch.result;
	const struct sg_ctx *ctx = job->stream->ctx;

	if (!word_at_locked(job, va, SG_READ) || !word_at_locked(job, result, SG_WRITE) ||
	    sg_is_being_freed(ctx->proc, va) || sg_is_being_freed(ctx->proc, result))
		return -EFAULT;
	return sg_watcher_start_locked(ctx->gpu);
}

static bool begin(struct sg_job *job)
{
	struct sg_gpu *gpu = job->stream->ctx->gpu;

	if (job->stream->ctx->dead)
		return false;
	look_locked(job);
	job->watch.deadline_ns = sg_now_ns() + job->watch.timeout_ms * (u64)1000000;
	gpu->watches++;
	sg_poll_begin_locked(job);
	return true;
}

/* If nothing is before the watch, it is launched now; otherwise an engine launches it. */
static int queued(struct sg_job *job)
{
	if (sg_take_if_first_locked(job) && !begin(job))
		sg_complete_locked(job);
	return 0;
}

/* Looks once at the flag: see struct sg_job_ops. */
static int look_again_locked(struct sg_job *job, u64 now)
{
	struct sg_ctx *ctx = job->stream->ctx;
	const u32 *word = word_at_locked(job, job->watch.va, SG_READ);
	u32 *result = word_at_locked(job, job->watch.result, SG_WRITE);

	if (ctx->dead)
		return 1;
	if (!word || !result)
		return -EFAULT;
	if (!ctx->gpu->sg->chaos.strict)
		job->watch.view = load(word);
	if (job->watch.view != job->watch.expected) {
		if (now < job->watch.deadline_ns)
			return 0;
		if (load(word) == job->watch.expected)
			sg_rule_break_locked(ctx->gpu->sg, SG_RULE_LAUNCH_AFTER_DMA);
	}
	__atomic_store_n(result, job->watch.view, __ATOMIC_RELAXED);
	return 1;
}

static int poll(struct sg_job *job, u64 now, struct sg_fetch **f)
{
	int ret = look_again_locked(job, now);

	(void)f;
	if (ret)
		job->stream->ctx->gpu->watches--;
	return ret;
}

static const struct sg_job_ops watch_ops = {
	.check = check, .queued = queued, .begin = begin, .poll = poll,
};

int sg_watch(struct sg_client *client, struct softgpu_watch *a)
{
	struct sg_job *job;

	if (a->flags || a->va % 4 || a->result % 4 || !a->timeout_ms ||
	    a->timeout_ms > TIMEOUT_MAX_MS)
		return -EINVAL;
	job = sg_job_new(SG_OP_WATCH, &watch_ops);
	if (!job)
		return -ENOMEM;
	job->watch.va = a->va;
	job->watch.result = a->result;
	job->watch.expected = a->expected;
	job->watch.timeout_ms = a->timeout_ms;
	return sg_enqueue(client, a->ctx, a->stream, job);
}

int sg_flush(struct sg_client *client, u32 handle)
{
	struct sg_job *job;
	struct sg_ctx *ctx;
	int err;

	sg_mutex_lock(&client->sg->lock);
	err = sg_ctx_live_locked(client, handle, &ctx);
	if (!err) {
		sg_list_for_each(job, &ctx->gpu->polled, struct sg_job, in_poll) {
			if (job->op == SG_OP_WATCH && job->stream->ctx == ctx)
				look_locked(job);
		}
		sg_obj_put_locked(&ctx->obj);
	}
	sg_mutex_unlock(&client->sg->lock);
	return err;
}

void sg_watch_written_locked(struct sg_gpu *gpu, const void *vram, u64 len)
{
	struct sg_job *job;

	if (!gpu->watches)
		return;
	sg_list_for_each(job, &gpu->polled, struct sg_job, in_poll) {
		const u32 *word;

		if (job->op != SG_OP_WATCH)
			continue;
		word = word_at_locked(job, job->watch.va, SG_READ);
		if (word && (const char *)word >= (const char *)vram &&
		    (const char *)word < (const char *)vram + len)
			job->watch.view = load(word);
	}
}
