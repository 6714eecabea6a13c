// SPDX-License-Identifier: MIT
/*
 * watcher.c - a thread of each GPU that looks at words in memory every millisecond, for jobs
 * that have no engine: watches (watch.c) and waits for values (value.c).  The first such job
 * starts it.
 */
#include "work.h"

#define POLL_MS		1

void *sg_word_at_locked(const struct sg_stream *s, u64 va, u32 access)
{
	struct sg_range *range = sg_range_at(s->ctx->proc, va);
	u64 run;

	if (!range || !sg_may_access(range, access) || range->mem->gpu != s->ctx->gpu ||
	    s->ctx->gpu->removed)
		return NULL;
	return sg_mem_at(range->mem, va - range->node.key, &run);
}

/*
 * Devices, engines and other processes write the word at the same time.  ThreadSanitizer
 * calls that a race; it is what a polling kernel does.
 */
__attribute__((no_sanitize("thread"), __noinline__))
u64 sg_word_load(const void *word, u32 width)
{
	return width == 4 ? *(const volatile u32 *)word : *(const volatile u64 *)word;
}

void sg_poll_begin_locked(struct sg_job *job)
{
	struct sg_gpu *gpu = job->stream->ctx->gpu;

	sg_list_add_tail(&gpu->polled, &job->in_poll);
	sg_cond_broadcast(&gpu->work);
}

/* Drops the lock.  Looks once for each job. */
static void poll_locked(struct sg_gpu *gpu)
{
	u64 now = sg_now_ns();
	struct sg_link *link;
	struct sg_fetch *f;
	struct sg_job *job;
	int ret;

	/*
	 * Other threads add to the list while the lock is dropped; only this thread takes out
	 * of it.
	 */
	for (link = gpu->polled.next; link != &gpu->polled;) {
		job = sg_list_entry(link, struct sg_job, in_poll);
		ret = job->ops->poll(job, now, &f);
		link = link->next;
		if (!ret)
			continue;
		sg_list_del(&job->in_poll);
		if (ret == -EAGAIN)
			ret = sg_missing_locked(job, f);
		if (!ret)
			continue;
		if (ret < 0)
			sg_fault_locked(job->stream->ctx);
		sg_complete_locked(job);
	}
}

static void watcher_main(void *arg)
{
	struct sg_gpu *gpu = arg;
	struct sg *sg = gpu->sg;

	sg_mutex_lock(&sg->lock);
	for (;;) {
		if (sg_list_empty(&gpu->polled)) {
			if (gpu->stop)
				break;
			sg_cond_wait(&gpu->work, &sg->lock);
			continue;
		}
		poll_locked(gpu);
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
