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
#include "sg_int.h"

int sg_mem_free_async(struct sg_client *client, struct softgpu_mem_free_async *a)
{
	struct sg_stream *s;
	struct sg_buf *buf;
	struct sg_job *job;
	int err;

	if (a->flags)
		return -EINVAL;
	job = sg_zalloc(sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->op = SG_OP_FREE;
	sg_mutex_lock(&client->sg->lock);
	err = sg_stream_get_locked(client, a->ctx, a->stream, &s);
	if (err)
		goto out;
	err = -EFAULT;
	buf = SG_NODE_OF(sg_tree_find(&client->proc->bufs, a->va), struct sg_buf);
	if (!buf || (buf->kind != SOFTGPU_KIND_DEVICE && (buf->kind != SOFTGPU_KIND_IPC || !sg_is_contextless(buf))) ||
	    buf->queued >= (buf->opens ? buf->opens : 1) || sg_is_leaving(client->proc, a->va))
		goto put;
	buf->queued++;
	job->free.proc = client->proc;
	job->free.va = a->va;
	job->free.buffer_id = buf->buffer_id;
	job->free.hidden = sg_is_contextless(buf);
	buf->frees += job->free.hidden;
	client->proc->hidden_frees += job->free.hidden;
	sg_submit_locked(s, job);
	/* It needs no engine. */
	if (sg_take_if_first_locked(s, job)) {
		sg_free_job_locked(job);
		sg_complete_locked(s, job);
	}
	job = NULL;
	err = 0;
put:
	sg_stream_put_locked(s);
out:
	sg_mutex_unlock(&client->sg->lock);
	sg_free(job);
	return err;
}

void sg_free_job_locked(const struct sg_job *job)
{
	struct sg_proc *proc = job->free.proc;
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
