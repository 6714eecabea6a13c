// SPDX-License-Identifier: MIT
/*
 * value.c - words in memory that streams write and wait for: what cuStreamWriteValue64,
 * cuStreamWaitValue64 and their kin stand on.
 *
 * A write is an engine's, like a copy.  A wait has no engine and no end of its own: the
 * thread that looks at watches (watch.c) looks at its word, too, until they compare as they
 * should or the context is dead.  Every look finds the word anew, so nothing is kept for it.
 */
#include "sg_int.h"

/* Devices, engines and other processes write it while it is looked at: see load() in watch.c. */
__attribute__((no_sanitize("thread"), __noinline__))
static u64 load(const void *word, u32 width)
{
	return width == 4 ? *(const volatile u32 *)word : *(const volatile u64 *)word;
}

__attribute__((no_sanitize("thread"), __noinline__))
static void store(void *word, u64 value, u32 width)
{
	if (width == 4)
		__atomic_store_n((u32 *)word, (u32)value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((u64 *)word, value, __ATOMIC_RELEASE);
}

static bool compares(const struct sg_job *job, u64 word)
{
	u64 value = job->value.value, all = ~(u64)0;

	if (job->value.width == 4) {
		all = (u32)all;
		word &= all;
		value &= all;
	}
	switch (job->value.op) {
	case SOFTGPU_VALUE_GEQ:
		return !((word - value) & (all ^ all >> 1));	/* the sign */
	case SOFTGPU_VALUE_EQ:
		return word == value;
	case SOFTGPU_VALUE_AND:
		return word & value;
	default:
		return ~(word | value) & all;
	}
}

/* Whether the word is host memory: what is neither VRAM nor a hole is the process's own business. */
static bool in_host_locked(const struct sg_job *job)
{
	const struct sg_proc *proc = job->value.stream->ctx->proc;

	return !sg_range_at(proc, job->value.va) && !sg_is_hole(proc, job->value.va);
}

/* Without the lock: host memory may be long in coming. */
static int host_word(struct sg_job *job, void *word, bool to_process)
{
	return sg_host_copy(job->value.stream->ctx->client, job, word, job->value.va, job->value.width, to_process);
}

int sg_value_write(struct sg_job *job)
{
	struct sg_stream *s = job->value.stream;
	struct sg *sg = s->ctx->gpu->sg;
	u32 low = (u32)job->value.value;
	int err = -EFAULT;
	void *word;
	bool host;

	sg_mutex_lock(&sg->lock);
	host = in_host_locked(job);
	word = host ? NULL : sg_word_at_locked(s, job->value.va, SG_WRITE);
	if (word) {
		store(word, job->value.value, job->value.width);
		sg_watch_written_locked(s->ctx->gpu, word, job->value.width);
		err = 0;
	}
	sg_mutex_unlock(&sg->lock);
	if (!host)
		return err;
	return host_word(job, job->value.width == 4 ? (void *)&low : (void *)&job->value.value, true);
}

void sg_wait_begin_locked(struct sg_stream *s, struct sg_job *job)
{
	sg_list_add_tail(&s->ctx->gpu->waits, &job->value.in_gpu);
	sg_cond_broadcast(&s->ctx->gpu->work);
}

/* Drops the lock.  One look: 1 when that was the last, 0, -EFAULT, or -EAGAIN: the word has to be fetched, by *f. */
static int look_locked(struct sg_job *job, struct sg_fetch **f)
{
	struct sg_stream *s = job->value.stream;
	struct sg *sg = s->ctx->gpu->sg;
	const void *word;
	u64 there = 0;
	u32 low = 0;
	int err;

	if (s->ctx->dead)
		return 1;
	if (!in_host_locked(job)) {
		word = sg_word_at_locked(s, job->value.va, SG_READ);
		return word ? compares(job, load(word, job->value.width)) : -EFAULT;
	}
	sg_mutex_unlock(&sg->lock);
	err = host_word(job, job->value.width == 4 ? (void *)&low : (void *)&there, false);
	*f = err == -EAGAIN ? sg_zalloc(sizeof(**f)) : NULL;
	sg_mutex_lock(&sg->lock);
	if (err)
		return err;
	return compares(job, job->value.width == 4 ? low : there);
}

void sg_waits_poll_locked(struct sg_gpu *gpu)
{
	struct sg_fetch *f;
	struct sg_link *link;
	struct sg_stream *s;
	struct sg_job *job;
	int ret;

	/* Others add to the list while the lock is dropped; only this thread takes out of it. */
	for (link = gpu->waits.next; link != &gpu->waits;) {
		job = sg_list_entry(link, struct sg_job, value.in_gpu);
		ret = look_locked(job, &f);
		link = link->next;
		if (!ret)
			continue;
		s = job->value.stream;
		sg_list_del(&job->value.in_gpu);
		if (ret == -EAGAIN)
			ret = sg_missing_locked(s, job, f);
		if (!ret)
			continue;
		if (ret < 0)
			sg_fault_locked(s->ctx);
		sg_complete_locked(s, job);
	}
}

/* What the GPUs know there, from the word's first byte to its last. */
static bool known_locked(const struct sg_stream *s, struct sg_job *job, u32 access)
{
	const struct sg_proc *proc = s->ctx->proc;
	const struct sg_buf *buf;

	if (!sg_alias_resolve_locked(proc, &job->value.va, job->value.width) ||
	    (access == SG_READ && sg_is_leaving(proc, job->value.va)) ||
	    (sg_buf_at(proc, job->value.va) && !sg_buf_seen_at(proc, job->value.va)))
		return false;
	if (sg_range_at(proc, job->value.va))
		return sg_word_at_locked(s, job->value.va, access);
	buf = sg_buf_at(proc, job->value.va);
	return buf && (buf->kind == SOFTGPU_KIND_HOST || buf->kind == SOFTGPU_KIND_REGISTERED) &&
	       job->value.width <= buf->node.len - (job->value.va - buf->node.key);
}

int sg_value(struct sg_client *client, struct softgpu_value *a)
{
	bool write = a->op == SOFTGPU_VALUE_WRITE;
	struct sg_buf *buf;
	struct sg_stream *s;
	struct sg_job *job;
	int err;

	if (a->reserved || a->op > SOFTGPU_VALUE_NOR || (a->width != 4 && a->width != 8) || a->va % a->width)
		return -EINVAL;
	job = sg_zalloc(sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->op = write ? SG_OP_WRITE_VALUE : SG_OP_WAIT_VALUE;
	job->value.va = a->va;
	job->value.value = a->value;
	job->value.op = a->op;
	job->value.width = a->width;
	sg_list_init(&job->value.in_gpu);
	sg_mutex_lock(&client->sg->lock);
	err = sg_stream_get_locked(client, a->ctx, a->stream, &s);
	if (err)
		goto out;
	job->value.stream = s;
	err = -EFAULT;
	if (!known_locked(s, job, write ? SG_WRITE : SG_READ))
		goto put;
	err = write ? 0 : sg_watcher_start_locked(s->ctx->gpu);
	if (err)
		goto put;
	buf = sg_buf_at(client->proc, job->value.va);
	if (write && buf)
		buf->late++;
	sg_submit_locked(s, job);
	/* A write is what others wait for, without a call: held work before it would hold it up for ever. */
	if (write)
		sg_strict_release_locked(s);
	else
		sg_strict_awaits_locked(job);
	job = NULL;
put:
	sg_stream_put_locked(s);
out:
	sg_mutex_unlock(&client->sg->lock);
	sg_free(job);
	return err;
}
