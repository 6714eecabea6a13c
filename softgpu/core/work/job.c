// SPDX-License-Identifier: MIT
/* job.c - jobs as data: how one is made and freed, and which memory it uses. */
#include "work.h"

struct sg_job *sg_job_new(enum sg_op op, const struct sg_job_ops *ops)
{
	struct sg_job *job = sg_zalloc(sizeof(*job));

	if (job) {
		job->op = op;
		job->ops = ops;
		sg_list_init(&job->link);
		sg_list_init(&job->in_poll);
	}
	return job;
}

void sg_job_put_locked(struct sg_job *job)
{
	if (job && !--job->refs)
		sg_free(job);
}

bool sg_record_pending_locked(const struct sg_job *record)
{
	return record && !sg_list_empty(&record->mark.pending);
}

/* Number of bytes from a move's first to its last. */
static u64 span(const struct sg_job *job, u64 pitch)
{
	return job->move.height > 1 ? (job->move.height - 1) * pitch + job->move.width
				    : job->move.width;
}

u64 sg_job_dst_span(const struct sg_job *job)
{
	return span(job, job->move.dst_pitch);
}

u64 sg_job_src_span(const struct sg_job *job)
{
	return span(job, job->move.src_pitch);
}

static bool overlap(u64 a, u64 a_len, u64 b, u64 b_len)
{
	return a < b + b_len && b < a + a_len;
}

bool sg_job_writes(const struct sg_job *job, u64 va, u64 len)
{
	return (job->op == SG_OP_COPY || job->op == SG_OP_FILL) &&
	       overlap(job->move.dst, sg_job_dst_span(job), va, len);
}

bool sg_job_touches(const struct sg_job *job, u64 va, u64 len)
{
	switch (job->op) {
	case SG_OP_COPY:
		return sg_job_writes(job, va, len) ||
		       overlap(job->move.src, sg_job_src_span(job), va, len);
	case SG_OP_FILL:
		return sg_job_writes(job, va, len);
	case SG_OP_WRITE_VALUE:
	case SG_OP_WAIT_VALUE:
		return overlap(job->value.va, job->value.width, va, len);
	case SG_OP_WATCH:
		return overlap(job->watch.va, 4, va, len) || overlap(job->watch.result, 4, va, len);
	default:
		return false;
	}
}
