// SPDX-License-Identifier: MIT
/*
 * fetch.c - brings in host memory that is not there when a job needs it.
 *
 * The program, or a file system, decides how long that takes, possibly for ever.  So neither an
 * engine nor the watcher waits for it.  The job stays its stream's running job and joins
 * client->missing, and the embedder brings the memory in.  Then an engine continues where the
 * job had stopped.  A client has one fetch at a time, so a program costs the embedder at most
 * one thread.
 *
 * While a fetch is under way, its job may be dropped and its client closed.  Then sg_fetched()
 * only frees the fetch.
 */
#include "work.h"

/*
 * Fetches in a row without progress, because memory is gone again before an engine reads it;
 * then the job faults.
 */
#define TRIES_MAX	100u

int sg_host_copy(const struct sg_client *client, struct sg_job *job, void *local, u64 va, u64 len,
		 bool to_process)
{
	int err = client->ops->copy(client->cookie, local, va, len, to_process);

	job->missing.va = va;
	job->missing.len = len;
	job->missing.write = to_process;
	return err == -EAGAIN && !client->ops->fetch ? -EFAULT : err;
}

/* The memory was brought in, so an engine or the watcher tries again. */
static void resume_locked(struct sg_job *job)
{
	if (!job->ops->begin || !job->ops->begin(job))
		sg_requeue_locked(job);
}

static void end_locked(struct sg_fetch *f, int err)
{
	struct sg_job *job = f->job;

	if (f->client)
		f->client->fetch = NULL;
	if (!job)
		return;
	sg_list_del(&job->link);
	if (!err) {
		resume_locked(job);
		return;
	}
	sg_fault_locked(job->stream->ctx);
	sg_complete_locked(job);
}

/*
 * Drops the lock, since the embedder may start a thread; sg_missing_close_locked() waits for
 * that.
 */
static int start_locked(struct sg_client *client, struct sg_fetch *f)
{
	struct sg *sg = client->sg;
	int err;

	client->fetch = f;
	client->fetch_starts = true;
	sg_mutex_unlock(&sg->lock);
	err = client->ops->fetch(client->cookie, f);
	sg_mutex_lock(&sg->lock);
	client->fetch_starts = false;
	sg_cond_broadcast(&sg->ended);
	return err;
}

/* Drops the lock. */
static void next_locked(struct sg_client *client)
{
	struct sg_fetch *f;
	struct sg_job *job;
	int err;

	while (!client->fetch && !client->fetch_starts && !sg_list_empty(&client->missing)) {
		job = sg_list_entry(client->missing.next, struct sg_job, link);
		f = job->missing.fetch;
		*f = (struct sg_fetch){
			.sg = client->sg, .client = client, .job = job,
			.va = job->missing.va, .len = job->missing.len, .write = job->missing.write,
		};
		err = start_locked(client, f);
		if (err) {
			end_locked(f, err);
			sg_free(f);
		}
	}
}

int sg_missing_locked(struct sg_job *job, struct sg_fetch *f)
{
	struct sg_ctx *ctx = job->stream->ctx;
	struct sg_client *client = ctx->client;

	if (!f)
		return -ENOMEM;
	if (ctx->dead || job->missing.tries++ == TRIES_MAX) {
		sg_free(f);
		return -EFAULT;
	}
	job->missing.fetch = f;
	sg_list_add_tail(&client->missing, &job->link);
	next_locked(client);
	return 0;
}

bool sg_fetched(struct sg_fetch *f, int err)
{
	struct sg_client *client;
	struct sg *sg = f->sg;

	sg_mutex_lock(&sg->lock);
	client = f->client;
	end_locked(f, err);
	if (client)
		next_locked(client);
	sg_mutex_unlock(&sg->lock);
	sg_free(f);
	return client;
}

static struct sg_job *missing_of_locked(const struct sg_ctx *ctx)
{
	struct sg_job *job;

	sg_list_for_each(job, &ctx->client->missing, struct sg_job, link) {
		if (job->stream->ctx == ctx)
			return job;
	}
	return NULL;
}

void sg_missing_drop_locked(struct sg_ctx *ctx)
{
	struct sg_fetch *under_way = ctx->client->fetch;
	struct sg_job *job;

	while ((job = missing_of_locked(ctx))) {
		sg_list_del(&job->link);
		if (under_way && under_way->job == job)
			under_way->job = NULL;
		else
			sg_free(job->missing.fetch);
		sg_complete_locked(job);
	}
}

bool sg_missing_close_locked(struct sg_client *client)
{
	struct sg *sg = client->sg;

	while (client->fetch_starts)
		sg_cond_wait(&sg->ended, &sg->lock);
	if (!client->fetch)
		return false;
	client->fetch->client = NULL;
	client->fetch = NULL;
	return true;
}
