// SPDX-License-Identifier: MIT
/*
 * watch.c - a stand-in for a kernel that runs on the GPU and polls a flag there.
 *
 * It has no engine: a thread of the GPU's, started by the first watch, looks at
 * all of them every millisecond, and at the words that streams wait for (value.c).  What a watch sees is its view.  As a rule that
 * is the memory; in strict mode it is what the memory held when the watch was
 * launched, which only the GPU's own writes and a flush bring up to date.
 */
#include "sg_int.h"

#define POLL_MS		1
#define TIMEOUT_MAX_MS	60000u

void *sg_word_at_locked(const struct sg_stream *s, u64 va, u32 access)
{
	struct sg_range *range = sg_range_at(s->ctx->proc, va);
	u64 run;

	if (!range || !sg_may_access(range, access) || range->mem->gpu != s->ctx->gpu ||
	    s->ctx->gpu->removed)
		return NULL;
	return sg_mem_at(range->mem, va - range->node.key, &run);
}

static u32 *word_at_locked(const struct sg_job *job, u64 va, u32 access)
{
	return sg_word_at_locked(job->watch.stream, va, access);
}

/* Devices and engines write it while it is looked at: a race to ThreadSanitizer, and what a polling kernel is about. */
__attribute__((no_sanitize("thread"), __noinline__))
static u32 load(const u32 *word)
{
	return *(const volatile u32 *)word;
}

static void look_locked(struct sg_job *job)
{
	const u32 *word = word_at_locked(job, job->watch.va, SG_READ);

	if (word)
		job->watch.view = load(word);
}

void sg_watch_begin_locked(struct sg_stream *s, struct sg_job *job)
{
	struct sg_gpu *gpu = s->ctx->gpu;

	look_locked(job);
	job->watch.deadline_ns = sg_now_ns() + job->watch.timeout_ms * (u64)1000000;
	sg_list_add_tail(&gpu->watches, &job->watch.in_gpu);
	sg_cond_broadcast(&gpu->work);
}

static void end_locked(struct sg_job *job)
{
	sg_list_del(&job->watch.in_gpu);
	sg_complete_locked(job->watch.stream, job);
}

/* One look; true when that was the last. */
static bool poll_locked(struct sg_job *job, u64 now)
{
	struct sg_ctx *ctx = job->watch.stream->ctx;
	const u32 *word = word_at_locked(job, job->watch.va, SG_READ);
	u32 *result = word_at_locked(job, job->watch.result, SG_WRITE);

	if (ctx->dead)
		return true;
	if (!word || !result) {
		sg_fault_locked(ctx);
		return true;
	}
	if (!ctx->gpu->sg->chaos.strict)
		job->watch.view = load(word);
	if (job->watch.view != job->watch.expected) {
		if (now < job->watch.deadline_ns)
			return false;
		if (load(word) == job->watch.expected)
			sg_rule_break_locked(ctx->gpu->sg, SG_RULE_LAUNCH_AFTER_DMA);
	}
	__atomic_store_n(result, job->watch.view, __ATOMIC_RELAXED);
	return true;
}

static void watcher_main(void *arg)
{
	struct sg_gpu *gpu = arg;
	struct sg *sg = gpu->sg;
	struct sg_job *job;
	struct sg_link *link;
	u64 now;

	sg_mutex_lock(&sg->lock);
	for (;;) {
		if (sg_list_empty(&gpu->watches) && sg_list_empty(&gpu->waits)) {
			if (gpu->stop)
				break;
			sg_cond_wait(&gpu->work, &sg->lock);
			continue;
		}
		now = sg_now_ns();
		for (link = gpu->watches.next; link != &gpu->watches;) {
			job = sg_list_entry(link, struct sg_job, watch.in_gpu);
			link = link->next;
			if (poll_locked(job, now))
				end_locked(job);
		}
		sg_waits_poll_locked(gpu);
		sg_mutex_unlock(&sg->lock);
		sg_sleep_ms(POLL_MS);
		sg_mutex_lock(&sg->lock);
	}
	sg_mutex_unlock(&sg->lock);
}

int sg_watcher_start_locked(struct sg_gpu *gpu)
{
	int err = 0;

	if (!gpu->has_watcher)
		err = sg_thread_start(&gpu->watcher, watcher_main, gpu, "softgpu-watch");
	gpu->has_watcher = !err;
	return err;
}

void sg_watcher_stop(struct sg_gpu *gpu)
{
	if (gpu->has_watcher)
		sg_thread_join(&gpu->watcher);
	gpu->has_watcher = false;
}

int sg_watch(struct sg_client *client, struct softgpu_watch *a)
{
	struct sg_stream *s;
	struct sg_job *job;
	int err;

	if (a->flags || a->va % 4 || a->result % 4 || !a->timeout_ms || a->timeout_ms > TIMEOUT_MAX_MS)
		return -EINVAL;
	job = sg_zalloc(sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->op = SG_OP_WATCH;
	job->watch.va = a->va;
	job->watch.result = a->result;
	job->watch.expected = a->expected;
	job->watch.timeout_ms = a->timeout_ms;
	sg_list_init(&job->watch.in_gpu);
	sg_mutex_lock(&client->sg->lock);
	err = sg_stream_get_locked(client, a->ctx, a->stream, &s);
	if (err)
		goto out;
	job->watch.stream = s;
	err = -EFAULT;
	if (!word_at_locked(job, a->va, SG_READ) || !word_at_locked(job, a->result, SG_WRITE) ||
	    sg_is_leaving(client->proc, a->va) || sg_is_leaving(client->proc, a->result))
		goto put;
	err = sg_watcher_start_locked(s->ctx->gpu);
	if (err)
		goto put;
	sg_submit_locked(s, job);
	/* If nothing is before it, its launch is now and not when an engine comes by. */
	if (sg_take_if_first_locked(s, job))
		sg_watch_begin_locked(s, job);
	job = NULL;
put:
	sg_stream_put_locked(s);
out:
	sg_mutex_unlock(&client->sg->lock);
	sg_free(job);
	return err;
}

int sg_flush(struct sg_client *client, u32 handle)
{
	struct sg_job *job;
	struct sg_ctx *ctx;
	int err;

	sg_mutex_lock(&client->sg->lock);
	err = sg_ctx_get_locked(client, handle, &ctx);
	if (!err) {
		sg_list_for_each(job, &ctx->gpu->watches, struct sg_job, watch.in_gpu) {
			if (job->watch.stream->ctx == ctx)
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

	sg_list_for_each(job, &gpu->watches, struct sg_job, watch.in_gpu) {
		const u32 *word = word_at_locked(job, job->watch.va, SG_READ);

		if (word && (const char *)word >= (const char *)vram &&
		    (const char *)word < (const char *)vram + len)
			job->watch.view = load(word);
	}
}
