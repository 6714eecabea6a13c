// SPDX-License-Identifier: MIT
/*
 * copy.c - copies and fills: the calls, and how an engine does them.
 *
 * Each chunk of a copy looks up its VRAM anew and holds a reference while it is copied.  So
 * memory that is unmapped in the middle of a copy is never touched after that: the copy
 * faults and its context is dead, as on a real GPU.
 */
#include "work.h"

#define CHUNK		((u64)1 << 20)		/* most bytes for which VRAM is held at once */

/*
 * Returns false if [va, va + span) begins in VRAM and is not mapped for this access from
 * end to end, or if it begins in a hole, or in memory that is being freed.  Other
 * addresses are not checked here: they are the process's own memory.
 */
static bool mapped_locked(struct sg_proc *proc, u64 va, u64 span, u32 access)
{
	struct sg_range *range = sg_range_at(proc, va);
	u64 end = va + span;

	if (sg_is_being_freed(proc, va))
		return false;
	if (!range)
		return !sg_is_hole(proc, va);
	while (range && sg_may_access(range, access) && range->node.key + range->node.len < end)
		range = sg_range_at(proc, range->node.key + range->node.len);
	return range && sg_may_access(range, access);
}

/*
 * Returns whether `height` rows, `pitch` apart, are valid: they are not empty, and no address
 * wraps.
 */
static bool rows_ok(u64 base, u64 width, u64 height, u64 pitch)
{
	u64 span = width;

	if (!width || !height || width > (u64)1 << 48 || height > (u64)1 << 32)
		return false;
	if (height > 1) {
		if (pitch < width || pitch > ((u64)1 << 56) / height)
			return false;
		span = (height - 1) * pitch + width;
	}
	return base + span >= base;
}

/* Checks that the job may use its memory, and translates device pointers of host memory. */
static bool resolve_locked(struct sg_job *job)
{
	struct sg_proc *proc = job->stream->ctx->proc;
	u64 dst_span = sg_job_dst_span(job), src_span = sg_job_src_span(job);
	bool fill = job->op == SG_OP_FILL;

	return sg_alias_resolve_locked(proc, &job->move.dst, dst_span) &&
	       (fill || sg_alias_resolve_locked(proc, &job->move.src, src_span)) &&
	       mapped_locked(proc, job->move.dst, dst_span, SG_WRITE) &&
	       (fill || mapped_locked(proc, job->move.src, src_span, SG_READ));
}

static int check(struct sg_job *job)
{
	struct sg_proc *proc = job->stream->ctx->proc;

	if (!resolve_locked(job))
		return -EFAULT;
	/* Invariant: with SYNC_MEMOPS no call returns before its effect is visible. */
	if (sg_sync_memops_locked(proc, job->move.dst) ||
	    (job->op == SG_OP_COPY && sg_sync_memops_locked(proc, job->move.src)))
		job->move.sync = true;
	job->held = !job->move.sync && sg_strict_holds_locked(job);
	return 0;
}

static int queued(struct sg_job *job)
{
	struct sg_stream *s = job->stream;

	return job->move.sync ? sg_stream_drain_locked(s, s->submitted) : 0;
}

/* Source or destination of a copy, for as many bytes as are contiguous. */
struct side {
	struct sg_gpu *gpu;	/* NULL: memory of the process */
	struct sg_mem *mem;
	void *vram;
};

/*
 * Finds va; shortens *len to what is contiguous there.  False: nothing is mapped, or this
 * access is not allowed.
 */
static bool side_open_locked(struct sg_proc *proc, u64 va, u64 *len, u32 access, struct side *side)
{
	struct sg_range *range = sg_range_at(proc, va);
	u64 run;

	memset(side, 0, sizeof(*side));
	if (!range) {
		struct sg_node *next = sg_tree_ceil(&proc->ranges, va);

		if (sg_is_hole(proc, va))
			return false;
		if (next && next->key - va < *len)
			*len = next->key - va;
		return true;
	}
	if (!sg_may_access(range, access) || !sg_gpu_enter_locked(range->mem->gpu))
		return false;
	side->gpu = range->mem->gpu;
	side->mem = range->mem;
	sg_mem_get_locked(side->mem);
	side->vram = sg_mem_at(side->mem, va - range->node.key, &run);
	if (*len > run)
		*len = run;
	return true;
}

static void side_close_locked(struct side *side)
{
	if (!side->gpu)
		return;
	sg_gpu_leave_locked(side->gpu);
	sg_mem_put_locked(side->mem);
}

static void fill_pattern(void *to, u64 len, u32 value, u32 elem)
{
	u64 i;

	if (elem == 1) {
		memset(to, (u8)value, len);
	} else if (elem == 2) {
		for (i = 0; i < len / 2; i++)
			((u16 *)to)[i] = (u16)value;
	} else {
		for (i = 0; i < len / 4; i++)
			((u32 *)to)[i] = value;
	}
}

/*
 * Strict mode: copies len bytes from `now`.  Of the bytes that have changed since the copy
 * was queued, every second one gets its old value.  So a program gets a wrong result if it
 * launched the copy before the data had arrived, or overwrote the source too early.
 */
static void copy_torn(struct sg_job *job, u8 *to, const u8 *now, u64 src, u64 len)
{
	const u8 *saved = job->move.saved + (src - job->move.src);
	bool old = true;
	u64 i;

	for (i = 0; i < len; i++) {
		to[i] = now[i];
		if (now[i] == saved[i])
			continue;
		if (old)
			to[i] = saved[i];
		old = !old;
		job->move.changed = true;
	}
}

/* Moves len bytes between two open sides. */
static int move(struct sg_engine *e, const struct sg_client *client, struct sg_job *job,
		const struct side *d, u64 dst, const struct side *s, u64 src, u64 len)
{
	int err = 0;

	if (job->op == SG_OP_FILL) {
		void *to = d->gpu ? d->vram : e->bounce;

		fill_pattern(to, len, job->move.value, job->move.elem);
		return d->gpu ? 0 : sg_host_copy(client, job, to, dst, len, true);
	}
	if (d->gpu && s->gpu) {
		/*
		 * CUDA does not define overlapping copies; here the destination gets all of the
		 * source.
		 */
		if (job->move.saved)
			copy_torn(job, d->vram, s->vram, src, len);
		else
			memmove(d->vram, s->vram, len);
		return 0;
	}
	if (d->gpu)
		return sg_host_copy(client, job, d->vram, src, len, false);
	if (s->gpu)
		return sg_host_copy(client, job, s->vram, dst, len, true);
	err = sg_host_copy(client, job, e->bounce, src, len, false);
	return err ? err : sg_host_copy(client, job, e->bounce, dst, len, true);
}

/* Drops the lock.  After a move to or from host memory, updates the copies of managed memory. */
static void moved_locked(struct sg_engine *e, struct sg_proc *proc, struct sg_job *job,
			 const struct side *d, u64 dst, const struct side *s, u64 src, u64 len)
{
	const void *local = d->gpu ? d->vram : s->gpu ? s->vram : e->bounce;

	if (!proc->copies.root)
		return;
	if (!d->gpu)
		sg_managed_moved_locked(proc, dst, local, len);
	if (job->op == SG_OP_COPY && !s->gpu)
		sg_managed_moved_locked(proc, src, local, len);
}

/* Moves the rest of one row, piece by piece. */
static int move_row(struct sg_engine *e, struct sg_job *job)
{
	struct sg_ctx *ctx = job->stream->ctx;
	u64 dst = job->move.dst + job->move.row * job->move.dst_pitch;
	u64 src = job->move.src + job->move.row * job->move.src_pitch;
	struct sg_client *client = ctx->client;
	struct sg *sg = client->sg;
	struct side d, s;
	int err = 0;

	while (job->move.at < job->move.width && !err) {
		u64 left = job->move.width - job->move.at, len = left < CHUNK ? left : CHUNK;

		memset(&s, 0, sizeof(s));
		err = -EFAULT;
		sg_mutex_lock(&sg->lock);
		if (ctx->dead ||
		    !side_open_locked(client->proc, dst + job->move.at, &len, SG_WRITE, &d))
			goto unlock;
		if (job->op == SG_OP_COPY &&
		    !side_open_locked(client->proc, src + job->move.at, &len, SG_READ, &s))
			goto close;
		if (!d.gpu && !s.gpu && len > SG_BOUNCE_SIZE)
			len = SG_BOUNCE_SIZE;
		sg_mutex_unlock(&sg->lock);
		err = move(e, client, job, &d, dst + job->move.at, &s, src + job->move.at, len);
		sg_mutex_lock(&sg->lock);
		if (err != -EAGAIN)
			e->gpu->bytes_copied += len;
		if (d.gpu)
			sg_watch_written_locked(d.gpu, d.vram, len);
		if (!err)
			moved_locked(e, client->proc, job, &d, dst + job->move.at, &s,
				     src + job->move.at, len);
		side_close_locked(&s);
close:
		side_close_locked(&d);
unlock:
		sg_mutex_unlock(&sg->lock);
		if (!err) {
			job->move.at += len;
			job->missing.tries = 0;
		}
	}
	return err;
}

/* 0, -EFAULT; -EAGAIN: host memory is not there. */
static int run(struct sg_engine *e, struct sg_job *job)
{
	int err;

	/* An earlier run may have stopped in the middle: fetch.c. */
	while (job->move.row < job->move.height) {
		err = move_row(e, job);
		if (err)
			return err;
		job->move.row++;
		job->move.at = 0;
	}
	return 0;
}

static void end(struct sg_job *job)
{
	struct sg_gpu *gpu = job->stream->ctx->gpu;

	gpu->copies++;
	if (job->move.changed)
		sg_rule_break_locked(gpu->sg, SG_RULE_LAUNCH_AFTER_DMA);
	sg_free(job->move.saved);
}

static const struct sg_job_ops move_ops = {
	.check = check, .queued = queued, .run = run, .end = end,
};

int sg_copy(struct sg_client *client, struct softgpu_copy *a)
{
	struct sg_job *job;

	if (a->flags & ~SOFTGPU_OP_SYNC || !rows_ok(a->dst, a->width, a->height, a->dst_pitch) ||
	    !rows_ok(a->src, a->width, a->height, a->src_pitch))
		return -EINVAL;
	job = sg_job_new(SG_OP_COPY, &move_ops);
	if (!job)
		return -ENOMEM;
	job->move.dst = a->dst;
	job->move.src = a->src;
	job->move.width = a->width;
	job->move.height = a->height;
	job->move.dst_pitch = a->dst_pitch;
	job->move.src_pitch = a->src_pitch;
	job->move.sync = a->flags & SOFTGPU_OP_SYNC;
	return sg_enqueue(client, a->ctx, a->stream, job);
}

int sg_fill(struct sg_client *client, struct softgpu_fill *a)
{
	struct sg_job *job;

	if (a->flags & ~SOFTGPU_OP_SYNC || (a->elem != 1 && a->elem != 2 && a->elem != 4) ||
	    a->width > (u64)1 << 46 || a->dst % a->elem || (a->height > 1 && a->pitch % a->elem) ||
	    !rows_ok(a->dst, a->width * a->elem, a->height, a->pitch))
		return -EINVAL;
	job = sg_job_new(SG_OP_FILL, &move_ops);
	if (!job)
		return -ENOMEM;
	job->move.dst = a->dst;
	job->move.width = a->width * a->elem;
	job->move.height = a->height;
	job->move.dst_pitch = a->pitch;
	job->move.value = a->value;
	job->move.elem = a->elem;
	job->move.sync = a->flags & SOFTGPU_OP_SYNC;
	return sg_enqueue(client, a->ctx, a->stream, job);
}
