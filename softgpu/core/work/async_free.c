// SPDX-License-Identifier: MIT
/*
 * async_free.c - frees of memory that are queued on a stream: the basis of cuMemFreeAsync.
 *
 * When the stream reaches the free, the memory joins proc->freed.  A thread of the process
 * releases it, revokes its pins and calls their clients, as in every free.  It does so at the
 * beginning or the end of its next call of some kinds (releases_async_frees() in call.c).  An
 * engine cannot do this, because engines must not wait for a client.
 *
 * The free does not wait for work of other streams that still uses the memory.  CUDA's
 * documentation makes the program responsible for that, and such work faults.
 */
#include "work.h"

static int check(struct sg_job *job)
{
	struct sg_proc *proc = job->stream->ctx->proc;
	struct sg_buf *buf = SG_NODE_OF(sg_tree_find(&proc->bufs, job->free.va), struct sg_buf);

	if (!buf ||
	    (buf->kind != SOFTGPU_KIND_DEVICE &&
	     (buf->kind != SOFTGPU_KIND_IPC || !sg_is_contextless(buf))) ||
	    buf->queued_frees >= (buf->opens ? buf->opens : 1) ||
	    sg_is_being_freed(proc, job->free.va))
		return -EFAULT;
	buf->queued_frees++;
	job->free.buffer_id = buf->buffer_id;
	job->free.contextless = sg_is_contextless(buf);
	buf->freeing += job->free.contextless;
	proc->contextless_frees += job->free.contextless;
	return 0;
}

/* If nothing is before the free, it is done now, without an engine. */
static int queued(struct sg_job *job)
{
	if (sg_take_if_first_locked(job))
		sg_complete_locked(job);
	return 0;
}

/*
 * The stream has reached the free, or drops it.  In both cases the process's next call releases
 * the memory.
 */
static void end(struct sg_job *job)
{
	struct sg_proc *proc = job->stream->ctx->proc;
	struct sg_buf *buf = sg_buf_same_locked(proc, job->free.va, job->free.buffer_id);

	proc->contextless_frees -= job->free.contextless;
	sg_cond_broadcast(&proc->sg->ended);
	/* If its context has ended, other memory may be at this address now. */
	if (!buf)
		return;
	buf->queued_frees--;
	if (buf->opens > 1) {
		buf->opens--;
		buf->freeing -= job->free.contextless;
		return;
	}
	/* From now on no work is queued on it, whether it belongs to a context or not. */
	buf->freeing += !job->free.contextless;
	if (sg_list_empty(&buf->in_freed))
		sg_list_add_tail(&proc->freed, &buf->in_freed);
	__atomic_store_n(&proc->has_freed, true, __ATOMIC_RELEASE);
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

void sg_async_frees_release_locked(struct sg_proc *proc)
{
	while (!sg_list_empty(&proc->freed))
		sg_buf_release_locked(sg_list_entry(proc->freed.next, struct sg_buf, in_freed));
	__atomic_store_n(&proc->has_freed, false, __ATOMIC_RELEASE);
}

void sg_async_frees_release(struct sg_client *client)
{
	if (!__atomic_load_n(&client->proc->has_freed, __ATOMIC_ACQUIRE))
		return;
	sg_mutex_lock(&client->sg->lock);
	sg_async_frees_release_locked(client->proc);
	sg_mutex_unlock(&client->sg->lock);
}
