// SPDX-License-Identifier: MIT
/*
 * engine.c - the copy engines: threads that repeatedly take the first job of a stream that
 * may run and do it with no lock held.
 *
 * A stream is in gpu->runnable while it has queued jobs and none running.  Each chunk of a
 * copy looks up its VRAM anew and holds a reference while it is copied.  So memory that is
 * unmapped in the middle of a copy is never touched after that: the copy faults and its
 * context is dead, as on a real GPU.
 */
#include "sg_int.h"

#define CHUNK		((u64)1 << 20)		/* most bytes for which VRAM is held at once */
#define BOUNCE_SIZE	((u64)1 << 16)

struct sg_engine {
	struct sg_gpu *gpu;
	struct sg_thread thread;
	void *bounce;		/* for copies within a process's memory, and for fill patterns */
};

u64 sg_oldest_seq_locked(const struct sg_stream *s)
{
	if (s->running)
		return s->running->seq;
	if (!sg_list_empty(&s->jobs))
		return sg_list_entry(s->jobs.next, struct sg_job, link)->seq;
	return ~(u64)0;
}

/* The default stream and the blocking ones wait for one another's earlier work. */
static bool in_turn(const struct sg_stream *s, const struct sg_job *job)
{
	const struct sg_ctx *ctx = s->ctx;
	const struct sg_stream *other;

	if (s->non_blocking)
		return true;
	if (s != &ctx->stream0)
		return sg_oldest_seq_locked(&ctx->stream0) > job->seq;
	sg_list_for_each(other, &ctx->streams, struct sg_stream, in_ctx) {
		if (other != s && !other->non_blocking && sg_oldest_seq_locked(other) < job->seq)
			return false;
	}
	return true;
}

bool sg_may_run_locked(const struct sg_stream *s, const struct sg_job *job)
{
	if (s->ctx->dead)
		return true;	/* to be dropped */
	if (job->held && job->seq >= s->released_seq)
		return false;
	if (!in_turn(s, job))
		return false;
	return job->op != SG_OP_WAIT || !sg_record_pending_locked(job->mark.record);
}

static struct sg_stream *pick_locked(struct sg_gpu *gpu)
{
	struct sg_stream *s;

	sg_list_for_each(s, &gpu->runnable, struct sg_stream, in_runnable) {
		if (sg_may_run_locked(s, sg_list_entry(s->jobs.next, struct sg_job, link)))
			return s;
	}
	return NULL;
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
 * Strict mode: copies len bytes from `now`, but every second byte that has changed since
 * the copy was queued gets its old value.  So neither a program that launched the copy
 * before the data had arrived nor one that overwrote the source too early gets what it
 * expects.
 */
static void copy_torn(struct sg_job *job, u8 *to, const u8 *now, u64 src, u64 len)
{
	const u8 *seen = job->move.seen + (src - job->move.src);
	bool old = true;
	u64 i;

	for (i = 0; i < len; i++) {
		to[i] = now[i];
		if (now[i] == seen[i])
			continue;
		if (old)
			to[i] = seen[i];
		old = !old;
		job->move.late = true;
	}
}

/* Moves len bytes between two open sides. */
static int move(struct sg_engine *e, const struct sg_client *client, struct sg_job *job, const struct side *d,
		 u64 dst, const struct side *s, u64 src, u64 len)
{
	int err = 0;

	if (job->op == SG_OP_FILL) {
		void *to = d->gpu ? d->vram : e->bounce;

		fill_pattern(to, len, job->move.value, job->move.elem);
		return d->gpu ? 0 : sg_host_copy(client, job, to, dst, len, true);
	}
	if (d->gpu && s->gpu) {
		/* Overlapping copies are undefined in CUDA; here they are at least whole. */
		if (job->move.seen)
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

/* Drops the lock.  Updates copies of managed memory with what was moved to or from host memory. */
static void moved_locked(struct sg_engine *e, struct sg_proc *proc, struct sg_job *job, const struct side *d, u64 dst,
			 const struct side *s, u64 src, u64 len)
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
static int move_row(struct sg_engine *e, struct sg_ctx *ctx, struct sg_job *job)
{
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
		if (ctx->dead || !side_open_locked(client->proc, dst + job->move.at, &len, SG_WRITE, &d))
			goto unlock;
		if (job->op == SG_OP_COPY && !side_open_locked(client->proc, src + job->move.at, &len, SG_READ, &s))
			goto close;
		if (!d.gpu && !s.gpu && len > BOUNCE_SIZE)
			len = BOUNCE_SIZE;
		sg_mutex_unlock(&sg->lock);
		err = move(e, client, job, &d, dst + job->move.at, &s, src + job->move.at, len);
		sg_mutex_lock(&sg->lock);
		if (err != -EAGAIN)
			e->gpu->bytes_copied += len;
		if (d.gpu)
			sg_watch_written_locked(d.gpu, d.vram, len);
		if (!err)
			moved_locked(e, client->proc, job, &d, dst + job->move.at, &s, src + job->move.at, len);
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
static int run(struct sg_engine *e, struct sg_ctx *ctx, struct sg_job *job)
{
	int err = 0;

	if (job->op == SG_OP_WRITE_VALUE)
		return sg_value_write(job);
	if (job->op != SG_OP_COPY && job->op != SG_OP_FILL)
		return 0;
	/* It may have stopped in the middle: fetch.c. */
	while (job->move.row < job->move.height) {
		err = move_row(e, ctx, job);
		if (err)
			break;
		job->move.row++;
		job->move.at = 0;
	}
	return err;
}

static void die_locked(struct sg_ctx *ctx)
{
	if (!ctx->dead)
		ctx->faulted = true;
	ctx->dead = true;
}

void sg_fault_locked(struct sg_ctx *ctx)
{
	struct sg_ctx *other;

	die_locked(ctx);
	/* If the context has ended meanwhile, the contexts shared with it are not affected. */
	if (!ctx->shared || ctx->obj.gone)
		return;
	ctx->shared->faulted = true;
	sg_list_for_each(other, &ctx->gpu->sg->ctxs, struct sg_ctx, in_sg) {
		if (sg_ctx_same(other, ctx))
			die_locked(other);
	}
	sg_cond_broadcast(&ctx->gpu->work);
}

struct sg_job *sg_take_job_locked(struct sg_stream *s)
{
	struct sg_job *job = sg_list_entry(s->jobs.next, struct sg_job, link);

	sg_list_del(&job->link);
	sg_list_del(&s->in_runnable);
	s->running = job;
	return job;
}

bool sg_take_if_first_locked(struct sg_stream *s, struct sg_job *job)
{
	if (s->running || s->jobs.next != &job->link || !sg_may_run_locked(s, job))
		return false;
	sg_take_job_locked(s);
	return true;
}

static void completed_move_locked(struct sg_gpu *gpu, struct sg_job *job)
{
	gpu->copies++;
	if (job->move.late)
		sg_rule_break_locked(gpu->sg, SG_RULE_LAUNCH_AFTER_DMA);
	sg_free(job->move.seen);
}

void sg_complete_locked(struct sg_stream *s, struct sg_job *job)
{
	struct sg_ctx *ctx = s->ctx;
	struct sg_gpu *gpu = ctx->gpu;
	struct sg *sg = gpu->sg;
	u32 i;

	if (job->op == SG_OP_RECORD) {
		sg_list_del(&job->mark.pending);
		job->mark.event->time_ns = sg_now_ns();
		job->mark.event->failed = ctx->faulted;
		/* Streams of any GPU, and threads, may wait for the event. */
		for (i = 0; i < SOFTGPU_MAX_GPUS; i++) {
			if (sg->gpus[i] && sg->gpus[i] != gpu)
				sg_cond_broadcast(&sg->gpus[i]->work);
		}
		sg_cond_broadcast(&sg->ended);
	}
	if (job->op == SG_OP_WAIT)
		sg_job_put_locked(job->mark.record);
	if (job->held)
		ctx->proc->held--;
	if (job->op == SG_OP_RECORD || job->op == SG_OP_WAIT)
		sg_obj_put_locked(&job->mark.event->obj);
	else if (job->op == SG_OP_COPY || job->op == SG_OP_FILL)
		completed_move_locked(gpu, job);
	s->running = NULL;
	s->completed++;
	if (!sg_list_empty(&s->jobs))
		sg_list_add_tail(&gpu->runnable, &s->in_runnable);
	sg_cond_broadcast(&gpu->work);
	sg_cond_broadcast(&ctx->done);
	sg_job_put_locked(job);
	sg_stream_put_locked(s);
}

static void engine_main(void *arg)
{
	struct sg_engine *e = arg;
	struct sg_gpu *gpu = e->gpu;
	struct sg *sg = gpu->sg;
	struct sg_fetch *f;
	struct sg_stream *s;
	struct sg_job *job;
	bool dead;
	int err;

	sg_mutex_lock(&sg->lock);
	for (;;) {
		if (gpu->revoke_due) {
			gpu->revoke_due = false;
			sg_pin_revoke_any_locked(gpu);
			continue;
		}
		s = pick_locked(gpu);
		if (!s) {
			if (gpu->stop)
				break;
			sg_cond_wait(&gpu->work, &sg->lock);
			continue;
		}
		job = sg_take_job_locked(s);
		dead = s->ctx->dead;
		if (job->op == SG_OP_WATCH && !dead) {
			sg_watch_begin_locked(s, job);
			continue;
		}
		if (job->op == SG_OP_WAIT_VALUE && !dead) {
			sg_wait_begin_locked(s, job);
			continue;
		}
		if (job->op == SG_OP_HOST_FUNC && sg_func_begin_locked(s, job))
			continue;
		/*
		 * The lock is dropped even if the job is dropped, so that other threads get
		 * it in between.
		 */
		sg_mutex_unlock(&sg->lock);
		err = dead ? 0 : run(e, s->ctx, job);
		f = err == -EAGAIN ? sg_zalloc(sizeof(*f)) : NULL;
		sg_mutex_lock(&sg->lock);
		if (err == -EAGAIN) {
			err = sg_missing_locked(s, job, f);
			if (!err)
				continue;
		}
		if (err)
			sg_fault_locked(s->ctx);
		if (job->op == SG_OP_FREE)
			sg_free_job_locked(job);
		sg_complete_locked(s, job);
	}
	sg_mutex_unlock(&sg->lock);
}

int sg_engines_start(struct sg_gpu *gpu)
{
	u32 i, n = gpu->desc.engines;
	int err = -ENOMEM;

	gpu->engines = sg_zalloc(n * sizeof(*gpu->engines));
	if (!gpu->engines)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct sg_engine *e = &gpu->engines[i];

		e->gpu = gpu;
		e->bounce = sg_zalloc(BOUNCE_SIZE);
		err = e->bounce ? sg_thread_start(&e->thread, engine_main, e, "softgpu-engine") : -ENOMEM;
		if (err) {
			sg_free(e->bounce);
			e->bounce = NULL;
			sg_engines_stop(gpu);
			return err;
		}
	}
	return 0;
}

void sg_engines_stop(struct sg_gpu *gpu)
{
	struct sg *sg = gpu->sg;
	u32 i;

	sg_mutex_lock(&sg->lock);
	gpu->stop = true;
	sg_cond_broadcast(&gpu->work);
	sg_mutex_unlock(&sg->lock);
	sg_watcher_stop(gpu);
	for (i = 0; i < gpu->desc.engines; i++) {
		if (gpu->engines[i].bounce)
			sg_thread_join(&gpu->engines[i].thread);
		sg_free(gpu->engines[i].bounce);
	}
	sg_free(gpu->engines);
	gpu->engines = NULL;
}
