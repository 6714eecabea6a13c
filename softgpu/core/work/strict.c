// SPDX-License-Identifier: MIT
/*
 * strict.c - strict mode: reordering that a real GPU shows rarely happens every time.
 *
 * A device-to-device copy or fill is held back until the program calls something that CUDA
 * documents as synchronizing with it: a copy to or from the host, a synchronize, a free.
 * Queries release it, too, or polling would never end.  A device that reads the result by
 * DMA before that reads the old contents.
 *
 * One kind of job is not held back: a copy or fill that writes a word for which a stream of the
 * process waits (value.c).  The jobs queued before it are released, too, because nothing else
 * would end the wait.
 *
 * Held work runs later than on a real GPU, and a copy must not read data that a device
 * wrote to its source after the call.  So a copy job saves the contents of its source when it
 * is queued, unless an earlier job may still write to the source.
 */
#include "work.h"

#define SAVED_MAX	((u64)1 << 20)	/* longer copies do not save their source */

static const char *const rule_texts[SG_RULES] = {
	[SG_RULE_SYNC_MEMOPS] =
		"work was queued on pinned memory without SYNC_MEMOPS: what a device reads there before the next synchronizing call is stale",
	[SG_RULE_LAUNCH_AFTER_DMA] =
		"a kernel or copy looked for data that a device wrote after its launch: only work launched after the DMA has completed must see it",
	[SG_RULE_MANAGED] =
		"managed memory was pinned: a device reads stale data there, and what it writes is overwritten",
};

u64 sg_rule_broken(struct sg *sg, enum sg_rule rule)
{
	u64 n;

	sg_mutex_lock(&sg->lock);
	n = rule < SG_RULES ? sg->broken[rule] : 0;
	sg_mutex_unlock(&sg->lock);
	return n;
}

const char *sg_rule_text(enum sg_rule rule)
{
	return rule < SG_RULES ? rule_texts[rule] : "";
}

void sg_rule_break_locked(struct sg *sg, enum sg_rule rule)
{
	if (!sg->broken[rule]++)
		sg_info("strict: %s", rule_texts[rule]);
}

bool sg_sync_memops_locked(struct sg_proc *proc, u64 va)
{
	struct sg_buf *buf = sg_buf_at(proc, va);

	return buf && buf->sync_memops;
}

/* Does the job touch any of these pins? */
static bool touches_any(const struct sg_job *job, struct sg_link *pins)
{
	struct sg_pin *pin;

	sg_list_for_each(pin, pins, struct sg_pin, link) {
		if (sg_job_touches(job, pin->va, pin->length))
			return true;
	}
	return false;
}

static bool touches_pinned_locked(const struct sg_job *job, struct sg_range *range)
{
	return touches_any(job, &range->pins) || touches_any(job, &range->persistent);
}

/* Saves the contents of the source.  Does nothing if there is no memory for that. */
static void save_source_locked(struct sg_proc *proc, struct sg_job *job)
{
	u64 va = job->move.src, left = job->move.width;
	u8 *to;

	if (job->move.height != 1 || left > SAVED_MAX)
		return;
	job->move.saved = sg_zalloc(left);
	for (to = job->move.saved; to && left;) {
		/* The caller has checked that the source is mapped from end to end. */
		struct sg_range *range = sg_range_at(proc, va);
		u64 run, in_range = range->node.len - (va - range->node.key);
		const void *at = sg_mem_at(range->mem, va - range->node.key, &run);

		if (run > in_range)
			run = in_range;
		if (run > left)
			run = left;
		if (range->mem->gpu->removed) {
			sg_free(job->move.saved);
			job->move.saved = NULL;
			return;
		}
		memcpy(to, at, run);
		to += run;
		va += run;
		left -= run;
	}
}

/* Returns whether `wait` is a WAIT_VALUE job for a word that `job` writes. */
static bool is_awaited(const struct sg_job *wait, const struct sg_job *job)
{
	return wait && wait->op == SG_OP_WAIT_VALUE &&
	       sg_job_writes(job, wait->value.va, wait->value.width);
}

static bool stream_awaits_locked(const struct sg_stream *s, const struct sg_job *job)
{
	const struct sg_job *wait;

	if (is_awaited(s->running, job))
		return true;
	sg_list_for_each(wait, &s->jobs, struct sg_job, link) {
		if (is_awaited(wait, job))
			return true;
	}
	return false;
}

static bool awaited_locked(const struct sg_stream *s, const struct sg_job *job)
{
	const struct sg_proc *proc = s->ctx->proc;
	const struct sg_stream *other;
	const struct sg_ctx *ctx;

	sg_list_for_each(ctx, &proc->sg->ctxs, struct sg_ctx, in_sg) {
		if (ctx->proc != proc)
			continue;
		sg_list_for_each(other, &ctx->streams, struct sg_stream, in_ctx) {
			if (stream_awaits_locked(other, job))
				return true;
		}
	}
	return false;
}

bool sg_strict_holds_locked(struct sg_job *job)
{
	struct sg_stream *s = job->stream;
	struct sg_ctx *ctx = s->ctx;
	struct sg_proc *proc = ctx->proc;
	struct sg_range *dst, *src = NULL;

	if (!ctx->gpu->sg->chaos.strict)
		return false;
	if (awaited_locked(s, job)) {
		sg_strict_release_locked(s);
		return false;
	}
	dst = sg_range_at(proc, job->move.dst);
	if (job->op == SG_OP_COPY)
		src = sg_range_at(proc, job->move.src);
	if (!dst || (job->op == SG_OP_COPY && !src))
		return false;
	if (touches_pinned_locked(job, dst) || (src && touches_pinned_locked(job, src)))
		sg_rule_break_locked(ctx->gpu->sg, SG_RULE_SYNC_MEMOPS);
	if (src && !sg_ctx_busy_before_locked(ctx, ctx->next_seq))
		save_source_locked(proc, job);
	return true;
}

static bool holds_work_on_locked(const struct sg_ctx *ctx, u64 va, u64 len)
{
	struct sg_stream *s;
	struct sg_job *job;

	sg_list_for_each(s, &ctx->streams, struct sg_stream, in_ctx) {
		sg_list_for_each(job, &s->jobs, struct sg_job, link) {
			if (job->held && job->seq >= s->released_seq &&
			    sg_job_touches(job, va, len))
				return true;
		}
	}
	return false;
}

void sg_strict_pinned_locked(struct sg_range *range, u64 va, u64 len)
{
	struct sg *sg = range->proc->sg;
	struct sg_ctx *ctx;

	if (sg_is_managed_copy(range))
		sg_rule_break_locked(sg, SG_RULE_MANAGED);
	if (!range->proc->held)
		return;
	sg_list_for_each(ctx, &sg->ctxs, struct sg_ctx, in_sg) {
		if (ctx->proc == range->proc && holds_work_on_locked(ctx, va, len)) {
			sg_rule_break_locked(sg, SG_RULE_SYNC_MEMOPS);
			return;
		}
	}
}

/* Are jobs of both streams ordered?  The blocking streams of a context wait for one another. */
static bool ordered(const struct sg_stream *s, const struct sg_stream *other)
{
	return s == other || !(s->non_blocking || other->non_blocking);
}

/*
 * Does the process have held jobs?  If not, nothing has to be released: jobs wait only for
 * earlier jobs.
 */
static bool held_locked(const struct sg_ctx *ctx)
{
	return ctx->proc->held;
}

/*
 * Releases the stream's jobs with a lower seq, and adds the stream to `todo` for
 * follow_locked().
 */
static void release_stream_locked(struct sg_stream *s, u64 seq, struct sg_link *todo)
{
	if (s->released_seq >= seq)
		return;
	s->released_seq = seq;
	if (sg_list_empty(&s->in_release))
		sg_list_add_tail(todo, &s->in_release);
}

/*
 * Releases jobs with a lower seq in s and in the streams that are ordered with it.  Adds
 * these streams to `todo`.
 */
static void release_before_locked(struct sg_stream *s, u64 seq, struct sg_link *todo)
{
	struct sg_stream *other;

	sg_list_for_each(other, &s->ctx->streams, struct sg_stream, in_ctx) {
		if (ordered(s, other))
			release_stream_locked(other, seq, todo);
	}
	sg_cond_broadcast(&s->ctx->gpu->work);
}

/*
 * Released jobs may wait for events.  Then the records of these events must run, and the jobs
 * queued before the records, so they are released, too.  All other jobs stay held: which jobs
 * are released must not depend on the progress of the engines.
 */
static void follow_locked(struct sg_link *todo)
{
	struct sg_stream *s;
	struct sg_job *job, *record;

	while (!sg_list_empty(todo)) {
		s = sg_list_entry(todo->next, struct sg_stream, in_release);
		sg_list_del(&s->in_release);
		sg_list_for_each(job, &s->jobs, struct sg_job, link) {
			if (job->seq >= s->released_seq)
				break;
			if (job->seq < s->followed_seq || job->op != SG_OP_WAIT)
				continue;
			record = job->mark.record;
			if (sg_record_pending_locked(record))
				release_before_locked(record->stream, record->seq, todo);
		}
		s->followed_seq = s->released_seq;
	}
}

void sg_strict_release_ctx_locked(struct sg_ctx *ctx)
{
	struct sg_stream *s;
	struct sg_link todo;

	if (!held_locked(ctx))
		return;
	sg_list_init(&todo);
	sg_list_for_each(s, &ctx->streams, struct sg_stream, in_ctx)
		release_stream_locked(s, ctx->next_seq, &todo);
	sg_cond_broadcast(&ctx->gpu->work);
	follow_locked(&todo);
}

/*
 * Releases no more than necessary, so that a program that synchronizes with the wrong stream
 * fails.
 */
void sg_strict_release_locked(struct sg_stream *s)
{
	struct sg_link todo;

	if (!held_locked(s->ctx))
		return;
	sg_list_init(&todo);
	release_before_locked(s, s->ctx->next_seq, &todo);
	follow_locked(&todo);
}

static void release_stream_writers_locked(struct sg_stream *s, const struct sg_job *wait,
					  struct sg_link *todo)
{
	const struct sg_job *job;

	sg_list_for_each(job, &s->jobs, struct sg_job, link) {
		if (is_awaited(wait, job))
			release_before_locked(s, job->seq + 1, todo);
	}
}

void sg_strict_release_writers_locked(const struct sg_job *wait)
{
	struct sg_proc *proc = wait->stream->ctx->proc;
	struct sg_stream *s;
	struct sg_link todo;
	struct sg_ctx *ctx;

	if (!proc->held)
		return;
	sg_list_init(&todo);
	sg_list_for_each(ctx, &proc->sg->ctxs, struct sg_ctx, in_sg) {
		if (ctx->proc != proc)
			continue;
		sg_list_for_each(s, &ctx->streams, struct sg_stream, in_ctx)
			release_stream_writers_locked(s, wait, &todo);
	}
	follow_locked(&todo);
}

void sg_chaos_set(struct sg *sg, const struct sg_chaos *chaos)
{
	struct sg_ctx *ctx;

	sg_mutex_lock(&sg->lock);
	/* The sequence of revocations restarts only if one of its settings changes. */
	if (chaos->seed != sg->chaos.seed || chaos->revoke_every != sg->chaos.revoke_every) {
		sg->random = chaos->seed;
		sg->pins_until_revoke = chaos->revoke_every;
	}
	sg->chaos = *chaos;
	if (!chaos->strict) {
		sg_list_for_each(ctx, &sg->ctxs, struct sg_ctx, in_sg)
			sg_strict_release_ctx_locked(ctx);
	}
	sg_mutex_unlock(&sg->lock);
}
