// SPDX-License-Identifier: MIT
/*
 * freejob.c - memory that is freed when a stream comes to that: what cuMemFreeAsync stands on.
 *
 * An engine frees it, and revokes its pins.  Nobody waits for work of other streams that still
 * uses it: that is the program's business, and such work faults.
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
	if (!buf || (buf->kind != SOFTGPU_KIND_DEVICE && buf->kind != SOFTGPU_KIND_IPC) ||
	    buf->queued >= (buf->opens ? buf->opens : 1) || sg_is_leaving(client->proc, a->va))
		goto put;
	buf->queued++;
	job->free.proc = client->proc;
	job->free.va = a->va;
	job->free.buffer_id = buf->buffer_id;
	job->free.hidden = sg_is_contextless(buf);
	if (job->free.hidden)
		buf->frees++;
	sg_submit_locked(s, job);
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
	struct sg_buf *buf = sg_buf_same_locked(job->free.proc, job->free.va, job->free.buffer_id);

	/* Its context may have ended, and other memory come to its place. */
	if (!buf)
		return;
	buf->queued--;
	if (job->free.hidden)
		buf->frees--;
	if (buf->opens)
		buf->opens--;
	if (!buf->opens)
		sg_buf_release_locked(buf);
}
