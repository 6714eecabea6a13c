// SPDX-License-Identifier: MIT
/* drain.c - waits until queued work is done: that of a stream, of a context, or on some memory. */
#include "work.h"

#define JOBS_PER_HOLD	1024	/* jobs looked at before other threads get the lock */

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

int sg_ctx_drain_locked(struct sg_ctx *ctx)
{
	struct sg *sg = ctx->gpu->sg;
	u64 upto = ctx->next_seq;
	int err = 0;

	ctx->obj.refs++;
	/*
	 * Jobs that other threads queue meanwhile are not waited for, because strict mode may
	 * hold them back.
	 */
	sg_strict_release_ctx_locked(ctx);
	while (!err && sg_ctx_busy_before_locked(ctx, upto))
		err = sg_cond_wait_killable(&ctx->done, &sg->lock);
	if (!err && ctx->faulted)
		err = -EIO;
	sg_obj_put_locked(&ctx->obj);
	return err;
}

/*
 * Drops the lock from time to time, since a stream may have millions of jobs.  The caller has
 * a reference to the stream.  Returns the index of its last job that uses this memory; 0: no
 * job does.
 */
static u64 uses_until_locked(const struct sg_stream *s, u64 va, u64 len)
{
	struct sg *sg = s->ctx->gpu->sg;
	struct sg_link *at = s->jobs.next;
	u64 last = s->running && sg_job_touches(s->running, va, len) ? s->running->index : 0;
	u32 n = 0;

	while (at != &s->jobs) {
		struct sg_job *job = sg_list_entry(at, struct sg_job, link);

		if (sg_job_touches(job, va, len))
			last = job->index;
		if (++n % JOBS_PER_HOLD) {
			at = at->next;
			continue;
		}
		job->refs++;
		sg_mutex_unlock(&sg->lock);
		sg_mutex_lock(&sg->lock);
		/*
		 * If this job has left the queue, so have all jobs before it.  A running job may
		 * wait for a page: then its link is in the client's list (fetch.c), not in this one.
		 */
		at = s->running == job || sg_list_empty(&job->link) ? s->jobs.next : job->link.next;
		sg_job_put_locked(job);
	}
	return last;
}

/*
 * Returns a stream of the process's other contexts that this search has not looked at, with a
 * reference.
 */
static struct sg_stream *other_stream_locked(const struct sg_proc *proc,
					     const struct sg_ctx *except, u64 search)
{
	struct sg_stream *s;
	struct sg_ctx *ctx;

	sg_list_for_each(ctx, &proc->sg->ctxs, struct sg_ctx, in_sg) {
		if (ctx == except || ctx->proc != proc)
			continue;
		sg_list_for_each(s, &ctx->streams, struct sg_stream, in_ctx) {
			if (s->completed != s->submitted && s->searched != search) {
				sg_stream_hold_locked(s);
				return s;
			}
		}
	}
	return NULL;
}

/*
 * Drops the lock.  Waits until no other context's work uses this memory.  -EINTR.  Returns at
 * once if the memory is not being freed: new work may be queued on it without end.
 */
static int others_done_locked(const struct sg_buf *buf)
{
	const struct sg_proc *proc = buf->proc;
	const struct sg_ctx *ctx = sg_ctx_of_heap(buf->heap);
	u64 va = buf->node.key, len = buf->node.len, id = buf->buffer_id, upto;
	u64 search = ++proc->sg->searches;
	struct sg_stream *s;
	int err = 0;

	while (err != -EINTR && sg_buf_same_locked(proc, va, id) && sg_is_being_freed(proc, va)) {
		s = other_stream_locked(proc, ctx, search);
		if (!s)
			break;
		upto = uses_until_locked(s, va, len);
		err = upto ? sg_stream_drain_locked(s, upto) : 0;
		if (err != -EINTR)
			s->searched = search;
		sg_stream_put_locked(s);
	}
	return err == -EINTR ? err : 0;
}

int sg_buf_drain_locked(struct sg_client *client, u64 va, u32 kinds, struct sg_buf **out)
{
	struct sg_buf *buf = SG_NODE_OF(sg_tree_find(&client->proc->bufs, va), struct sg_buf);
	struct sg_ctx *ctx;
	u64 id;
	u32 late;
	int err = 0;

	if (!buf || !(kinds & (1u << buf->kind)))
		return -ENOENT;
	*out = buf;
	if (sg_is_contextless(buf) && sg_is_being_freed(client->proc, va))
		return -ENOENT;
	ctx = sg_ctx_of_heap(buf->heap);
	if (!ctx)
		return 0;
	id = buf->buffer_id;
	buf->freeing++;
	do {
		late = buf->late_writes;
		/* After a fault (-EIO) all jobs are done, too. */
		if (sg_ctx_drain_locked(ctx) == -EINTR)
			err = -EINTR;
		/* The lock was dropped, so look the buf up again. */
		buf = sg_buf_same_locked(client->proc, va, id);
		if (buf && !err) {
			err = others_done_locked(buf);
			buf = sg_buf_same_locked(client->proc, va, id);
		}
		if (!buf)
			return err ? err : -ENOENT;
	} while (!err && buf->late_writes != late);
	buf->freeing--;
	return err;
}
