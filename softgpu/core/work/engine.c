// SPDX-License-Identifier: MIT
/*
 * engine.c - the copy engines: threads that repeatedly take the first job of a stream that
 * may run, and run it with no lock held.
 */
#include "work.h"

/*
 * Drops the lock.  Runs a job that was taken from its stream, or drops it if its context is
 * dead.
 */
static void run_locked(struct sg_engine *e, struct sg_job *job)
{
	struct sg_ctx *ctx = job->stream->ctx;
	struct sg *sg = e->gpu->sg;
	struct sg_fetch *f;
	bool dead = ctx->dead;
	int err;

	/*
	 * The lock is dropped even if the job is dropped, so that other threads get
	 * it in between.
	 */
	sg_mutex_unlock(&sg->lock);
	err = dead || !job->ops->run ? 0 : job->ops->run(e, job);
	f = err == -EAGAIN ? sg_zalloc(sizeof(*f)) : NULL;
	sg_mutex_lock(&sg->lock);
	if (err == -EAGAIN) {
		err = sg_missing_locked(job, f);
		if (!err)
			return;
	}
	if (err)
		sg_fault_locked(ctx);
	sg_complete_locked(job);
}

static void engine_main(void *arg)
{
	struct sg_engine *e = arg;
	struct sg_gpu *gpu = e->gpu;
	struct sg *sg = gpu->sg;
	struct sg_job *job;

	sg_mutex_lock(&sg->lock);
	for (;;) {
		if (gpu->revoke_due) {
			gpu->revoke_due = false;
			sg_pin_revoke_any_locked(gpu);
			continue;
		}
		job = sg_take_any_locked(gpu);
		if (job) {
			if (!job->ops->begin || !job->ops->begin(job))
				run_locked(e, job);
			continue;
		}
		if (gpu->stop)
			break;
		sg_cond_wait(&gpu->work, &sg->lock);
	}
	sg_mutex_unlock(&sg->lock);
}

int sg_engines_start(struct sg_gpu *gpu)
{
	u32 i, n = gpu->desc.engines;
	int err;

	gpu->engines = sg_zalloc(n * sizeof(*gpu->engines));
	if (!gpu->engines)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct sg_engine *e = &gpu->engines[i];

		e->gpu = gpu;
		e->bounce = sg_zalloc(SG_BOUNCE_SIZE);
		err = -ENOMEM;
		if (e->bounce)
			err = sg_thread_start(&e->thread, engine_main, e, "softgpu-engine");
		if (err) {
			sg_free(e->bounce);
			e->bounce = NULL;
			sg_engines_stop(gpu);
			return err;
		}
	}
	return 0;
}

void sg_engines_stop(struct sg_gpu *gpu)
{
	struct sg *sg = gpu->sg;
	u32 i;

	sg_mutex_lock(&sg->lock);
	gpu->stop = true;
	sg_cond_broadcast(&gpu->work);
	sg_mutex_unlock(&sg->lock);
	sg_watcher_stop(gpu);
	for (i = 0; i < gpu->desc.engines; i++) {
		if (gpu->engines[i].bounce)
			sg_thread_join(&gpu->engines[i].thread);
		sg_free(gpu->engines[i].bounce);
	}
	sg_free(gpu->engines);
	gpu->engines = NULL;
}
