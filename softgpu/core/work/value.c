// SPDX-License-Identifier: MIT
/*
 * value.c - words in memory that streams write and wait for: the basis of
 * cuStreamWriteValue64, cuStreamWaitValue64 and related calls.
 *
 * An engine runs a write, like a copy.  A wait has no engine and no time limit: the watcher
 * (watcher.c) looks at the word until it has the value or the context is dead.  Each look
 * finds the word anew, so a wait holds no reference to memory.
 */
#include "work.h"

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

/*
 * Returns whether the word is in host memory: at an address that is neither in VRAM nor in a
 * hole.
 */
static bool in_host_locked(const struct sg_job *job)
{
	const struct sg_proc *proc = job->stream->ctx->proc;

	return !sg_range_at(proc, job->value.va) && !sg_is_hole(proc, job->value.va);
}

/* Called without the lock, because it accesses host memory. */
static int host_word(struct sg_job *job, void *word, bool to_process)
{
	return sg_host_copy(job->stream->ctx->client, job, word, job->value.va, job->value.width,
			    to_process);
}

static int run(struct sg_engine *e, struct sg_job *job)
{
	struct sg_stream *s = job->stream;
	struct sg *sg = s->ctx->gpu->sg;
	u32 low = (u32)job->value.value;
	int err = -EFAULT;
	void *word;
	bool host;

	(void)e;
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
	return host_word(job, job->value.width == 4 ? (void *)&low : (void *)&job->value.value,
			 true);
}

/* Drops the lock.  Looks once at the word: see struct sg_job_ops. */
static int poll(struct sg_job *job, u64 now, struct sg_fetch **f)
{
	struct sg_stream *s = job->stream;
	struct sg *sg = s->ctx->gpu->sg;
	const void *word;
	u64 there = 0;
	u32 low = 0;
	int err;

	(void)now;
	if (s->ctx->dead)
		return 1;
	if (!in_host_locked(job)) {
		word = sg_word_at_locked(s, job->value.va, SG_READ);
		return word ? compares(job, sg_word_load(word, job->value.width)) : -EFAULT;
	}
	sg_mutex_unlock(&sg->lock);
	err = host_word(job, job->value.width == 4 ? (void *)&low : (void *)&there, false);
	*f = err == -EAGAIN ? sg_zalloc(sizeof(**f)) : NULL;
	sg_mutex_lock(&sg->lock);
	if (err)
		return err;
	return compares(job, job->value.width == 4 ? low : there);
}

/*
 * Returns whether all of the word is in memory that the GPU may access; replaces a device
 * pointer of host memory.
 */
static bool known_locked(struct sg_job *job, u32 access)
{
	const struct sg_stream *s = job->stream;
	const struct sg_proc *proc = s->ctx->proc;
	const struct sg_buf *buf;

	if (!sg_alias_resolve_locked(proc, &job->value.va, job->value.width) ||
	    (access == SG_READ && sg_is_being_freed(proc, job->value.va)) ||
	    (sg_buf_at(proc, job->value.va) && !sg_buf_known_at(proc, job->value.va)))
		return false;
	if (sg_range_at(proc, job->value.va))
		return sg_word_at_locked(s, job->value.va, access);
	buf = sg_buf_at(proc, job->value.va);
	return buf && (buf->kind == SOFTGPU_KIND_HOST || buf->kind == SOFTGPU_KIND_REGISTERED) &&
	       job->value.width <= buf->node.len - (job->value.va - buf->node.key);
}

static int check_write(struct sg_job *job)
{
	struct sg_buf *buf;

	if (!known_locked(job, SG_WRITE))
		return -EFAULT;
	buf = sg_buf_at(job->stream->ctx->proc, job->value.va);
	if (buf)
		buf->late_writes++;
	return 0;
}

/*
 * Other work may wait for the word, and no call would then release what strict mode holds back
 * before the write.
 */
static int queued_write(struct sg_job *job)
{
	sg_strict_release_locked(job->stream);
	return 0;
}

static const struct sg_job_ops write_ops = {
	.check = check_write, .queued = queued_write, .run = run,
};

static int check_wait(struct sg_job *job)
{
	return known_locked(job, SG_READ) ? sg_watcher_start_locked(job->stream->ctx->gpu)
					  : -EFAULT;
}

static int queued_wait(struct sg_job *job)
{
	sg_strict_release_writers_locked(job);
	return 0;
}

static bool begin_wait(struct sg_job *job)
{
	if (job->stream->ctx->dead)
		return false;
	/* Each look counts as a first try. */
	job->missing.tries = 0;
	sg_poll_begin_locked(job);
	return true;
}

static const struct sg_job_ops wait_ops = {
	.check = check_wait, .queued = queued_wait, .begin = begin_wait, .poll = poll,
};

int sg_value(struct sg_client *client, struct softgpu_value *a)
{
	bool write = a->op == SOFTGPU_VALUE_WRITE;
	struct sg_job *job;

	if (a->reserved || a->op > SOFTGPU_VALUE_NOR || (a->width != 4 && a->width != 8) ||
	    a->va % a->width)
		return -EINVAL;
	job = write ? sg_job_new(SG_OP_WRITE_VALUE, &write_ops)
		    : sg_job_new(SG_OP_WAIT_VALUE, &wait_ops);
	if (!job)
		return -ENOMEM;
	job->value.va = a->va;
	job->value.value = a->value;
	job->value.op = a->op;
	job->value.width = a->width;
	return sg_enqueue(client, a->ctx, a->stream, job);
}
