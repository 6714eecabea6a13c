// SPDX-License-Identifier: MIT
/*
 * freejob.c - memory that is freed when a stream has come to that: what cuMemFreeAsync stands on.
 *
 * Its pins are revoked, and clients called, by a thread of the process, as with every free: by the
 * first that makes one of some calls after that, or returns from one (reaps() of call.c).  Engines
 * must not wait for a client.
 *
 * The free does not wait for work of other streams that still uses the memory: CUDA's documentation
 * leaves that to the program, and such work faults.
 */
#include "work.h"

static int check(struct sg_job *job)
{
	struct sg_proc *proc = job->stream->ctx->proc;
	struct sg_buf *buf = SG_NODE_OF(sg_tree_find(&proc->bufs, job->free.va), struct sg_buf);

	if (!buf || (buf->kind != SOFTGPU_KIND_DEVICE && (buf->kind != SOFTGPU_KIND_IPC || !sg_is_contextless(buf))) ||
	    buf->queued >= (buf->opens ? buf->opens : 1) || sg_is_leaving(proc, job->free.va))
		return -EFAULT;
	buf->queued++;
	job->free.buffer_id = buf->buffer_id;
	job->free.hidden = sg_is_contextless(buf);
	buf->frees += job->free.hidden;
	proc->hidden_frees += job->free.hidden;
	return 0;
}

/* It needs no engine. */
static int queued(struct sg_job *job)
{
	if (sg_take_if_first_locked(job))
		sg_complete_locked(job);
	return 0;
}

/* The stream has come to the job, or it is dropped: the process's next call frees the memory. */
static void end(struct sg_job *job)
{
	struct sg_proc *proc = job->stream->ctx->proc;
	struct sg_buf *buf = sg_buf_same_locked(proc, job->free.va, job->free.buffer_id);

	proc->hidden_frees -= job->free.hidden;
	sg_cond_broadcast(&proc->sg->ended);
	/* Its context may have ended, and other memory come to its place. */
	if (!buf)
		return;
	buf->queued--;
	if (buf->opens > 1) {
		buf->opens--;
		buf->frees -= job->free.hidden;
		return;
	}
	/* From here on nothing is queued on it, whosever it was. */
	buf->frees += !job->free.hidden;
	if (sg_list_empty(&buf->in_ended))
		sg_list_add_tail(&proc->ended, &buf->in_ended);
	__atomic_store_n(&proc->has_ended, true, __ATOMIC_RELEASE);
}

static const struct sg_job_ops free_ops = { .check = check, .queued = queued, .end = end };

int sg_mem_free_async(struct sg_client *client, struct softgpu_mem_free_async *a)
{
	struct sg_job *job;

	if (a->flags)
		return -EINVAL;
	job = sg_job_new(SG_OP_FREE, &free_ops);
	if (!job)
		return -ENOMEM;
	job->free.va = a->va;
	return sg_enqueue(client, a->ctx, a->stream, job);
}

void sg_reap_locked(struct sg_proc *proc)
{
	while (!sg_list_empty(&proc->ended))
		sg_buf_release_locked(sg_list_entry(proc->ended.next, struct sg_buf, in_ended));
	__atomic_store_n(&proc->has_ended, false, __ATOMIC_RELEASE);
}

void sg_reap(struct sg_client *client)
{
	if (!__atomic_load_n(&client->proc->has_ended, __ATOMIC_ACQUIRE))
		return;
	sg_mutex_lock(&client->sg->lock);
	sg_reap_locked(client->proc);
	sg_mutex_unlock(&client->sg->lock);
}
