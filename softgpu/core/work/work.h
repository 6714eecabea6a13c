/* SPDX-License-Identifier: MIT */
/*
 * work.h - the core's middle layer: streams, the jobs queued on them, and the threads that
 * run these: engines and the watcher.  It stands on memory (memory.h).  The clients layer
 * (clients.h) makes contexts and clients, and calls it.
 *
 * A kind of job is a table of operations (struct sg_job_ops), so queue.c and engine.c call
 * the files of the kinds (copy.c, event.c, ...) by the table only.
 */
#ifndef SG_WORK_H
#define SG_WORK_H

#include "../memory/memory.h"

struct sg_job;

/* An open file of a program: its process and GPU, and the way to the process's host memory. */
struct sg_client {
	struct sg *sg;			/* fixed, as are the next four */
	struct sg_gpu *gpu;
	struct sg_proc *proc;
	const struct sg_host_ops *ops;
	void *cookie;
	u64 user;			/* fixed before its first call */
	struct sg_heap heap;		/* memory of no context */
	u32 ctxs;			/* contexts made through it that still exist */
	struct sg_link ctx_objs;	/* contexts with a handle */
	struct sg_link objs;		/* other objects with a handle */
	struct sg_link reservations;
	struct sg_link bufs;		/* mappings without a context */
	struct sg_link missing;		/* jobs that wait for host memory (fetch.c), by job->link */
	struct sg_fetch *fetch;		/* for the first of them; NULL: no fetch is under way */
	bool fetch_starts;		/* a thread is in ops->fetch */
};

/* State that the contexts of a server's clients share on one GPU. */
struct sg_shared_ctx {
	u32 ctxs;			/* number of contexts with valid tokens */
	u64 p2p_token;
	u32 va_space_token;
	bool faulted;
};

struct sg_stream {
	struct sg_obj obj;		/* not used for a context's default stream */
	struct sg_ctx *ctx;		/* fixed */
	struct sg_link in_ctx;		/* ctx->streams */
	struct sg_link in_runnable;	/* gpu->runnable */
	struct sg_link jobs;
	struct sg_job *running;
	bool non_blocking;		/* fixed */
	u64 submitted, completed;	/* jobs, ever */
	/* the last search (number of sg->searches) that looked at this stream */
	u64 searched;
	u64 released_seq;		/* strict: jobs with a lower seq are not held back */
	/* strict: all that jobs with a lower seq wait for was released */
	u64 followed_seq;
	struct sg_link in_release;	/* strict: on follow_locked()'s list */
};

struct sg_ctx {
	struct sg_obj obj;
	struct sg_client *client;	/* fixed, as are the next two */
	struct sg_proc *proc;
	struct sg_gpu *gpu;
	struct sg_link in_sg;		/* sg->ctxs, while its tokens are valid */
	struct sg_shared_ctx *shared;	/* fixed; NULL: its process has no server */
	u64 p2p_token;			/* fixed */
	u32 va_space_token;		/* fixed */
	bool dead;			/* faulted or being destroyed: jobs are dropped */
	bool faulted;
	struct sg_cond done;		/* broadcast when a job of one of its streams completes */
	struct sg_cond reached;		/* broadcast when a call joins funcs, or the context ends */
	struct sg_link funcs;		/* HOST_FUNC jobs that wait to be handed out */
	struct sg_link handed_out;	/* HOST_FUNC jobs that threads of the program have taken */
	u32 handed_out_count;		/* at most SOFTGPU_MAX_FUNCS */
	struct sg_link streams;		/* with stream0 */
	struct sg_stream stream0;
	u64 next_seq;			/* seq of the next job; orders blocking streams */
	struct sg_heap heap;		/* its memory */
};

/* Are these one context, or contexts shared through a server? */
static inline bool sg_ctx_same(const struct sg_ctx *a, const struct sg_ctx *b)
{
	return a == b || (a && b && a->shared && a->shared == b->shared);
}

static inline struct sg_ctx *sg_ctx_of(struct sg_obj *obj)
{
	return obj ? container_of(obj, struct sg_ctx, obj) : NULL;
}

/* NULL: of no context. */
static inline struct sg_ctx *sg_ctx_of_heap(const struct sg_heap *heap)
{
	return heap ? sg_ctx_of(heap->obj) : NULL;
}

struct sg_engine {
	struct sg_gpu *gpu;
	struct sg_thread thread;
	void *bounce;			/* for copies within host memory, and for fill patterns */
};

#define SG_BOUNCE_SIZE	((u64)1 << 16)

/* ---- job.c ---- */

enum sg_op {
	SG_OP_COPY, SG_OP_FILL, SG_OP_RECORD, SG_OP_WAIT, SG_OP_WATCH, SG_OP_WRITE_VALUE,
	SG_OP_WAIT_VALUE, SG_OP_HOST_FUNC, SG_OP_FREE,
};

/*
 * What a kind of job does.  NULL: nothing.  All functions but run are called with the lock held.
 * Only those whose comment says so drop it.
 */
struct sg_job_ops {
	/* Called before the job is queued, as the last step that may fail.  0 or -errno. */
	int (*check)(struct sg_job *job);
	/* Called once the job is queued.  May drop the lock.  Returns the result of the call. */
	int (*queued)(struct sg_job *job);
	/*
	 * Called when the stream has reached the job.  True: the job needs no engine, and another
	 * thread completes it.
	 */
	bool (*begin)(struct sg_job *job);
	/*
	 * Called by an engine, without the lock.  0; -EFAULT; -EAGAIN: host memory is not there
	 * (fetch.c).
	 */
	int (*run)(struct sg_engine *e, struct sg_job *job);
	/*
	 * Called by the watcher.  May drop the lock.  0: call again; 1: done; -EFAULT; -EAGAIN:
	 * host memory is not there, and *f is for sg_missing_locked().
	 */
	int (*poll)(struct sg_job *job, u64 now, struct sg_fetch **f);
	/* The job is done, or was dropped, and is freed next. */
	void (*end)(struct sg_job *job);
};

/* Fields other than the links are fixed once it is queued; an engine that runs the job owns it. */
struct sg_job {
	struct sg_link link;		/* stream->jobs, or client->missing */
	struct sg_link in_poll;		/* gpu->polled */
	struct sg_stream *stream;	/* referenced once it is queued */
	const struct sg_job_ops *ops;
	enum sg_op op;
	bool held;			/* strict: may run only when seq < stream->released_seq */
	u32 refs;			/* stream; waits for a RECORD; ctx->funcs, if failed */
	u64 seq;			/* from ctx->next_seq, when it was queued */
	u64 index;			/* among its stream's jobs, from 1 */
	struct {
		u64 va, len;		/* of the latest host memory that was accessed */
		bool write;
		u32 tries;		/* fetches since the job last made progress */
		struct sg_fetch *fetch;
	} missing;			/* host memory: fetch.c */
	union {
		struct {
			u64 dst, src, width, height, dst_pitch, src_pitch;
			u64 row, at;	/* done: rows, and bytes of the next one */
			u32 value, elem;
			bool sync;	/* the call waits until it is done */
			u8 *saved;	/* strict: contents of src when queued; NULL: unknown */
			bool changed;	/* strict: src has changed since then */
		} move;			/* COPY and FILL */
		struct {
			u32 handle;		/* of the event */
			struct sg_event *event;	/* referenced */
			u64 serial;		/* RECORD only */
			struct sg_link pending;	/* event->pending, RECORD only */
			struct sg_job *record;	/* WAIT only: a reference; NULL: it was done */
		} mark;
		struct {
			u64 va, result;
			u32 expected, timeout_ms;
			u64 deadline_ns;
			u32 view;	/* the value that the emulated kernel sees at va */
		} watch;
		struct {
			u64 va, value;
			u32 op;			/* enum softgpu_value_op */
			u32 width;		/* 4 or 8 */
		} value;		/* WRITE_VALUE and WAIT_VALUE */
		struct {
			u64 id;			/* the caller's */
			struct sg_link in_ctx;	/* ctx->funcs or ctx->handed_out */
			bool failed;		/* the stream does not wait for it */
		} func;
		struct {
			u64 va, buffer_id;
			bool contextless;		/* counted in buf->freeing */
		} free;
	};
};

struct sg_job *sg_job_new(enum sg_op op, const struct sg_job_ops *ops);
void sg_job_put_locked(struct sg_job *job);
/* Number of bytes from the first to the last that a copy or fill writes, or reads. */
u64 sg_job_dst_span(const struct sg_job *job);
u64 sg_job_src_span(const struct sg_job *job);
/* Does the job read or write any of these bytes? */
bool sg_job_touches(const struct sg_job *job, u64 va, u64 len);
/* Is it a copy or fill that writes any of them? */
bool sg_job_writes(const struct sg_job *job, u64 va, u64 len);
/* Is this job a record that is not done yet? NULL: no. */
bool sg_record_pending_locked(const struct sg_job *record);

/* ---- queue.c ---- */

void sg_stream_init(struct sg_stream *s, struct sg_ctx *ctx, bool non_blocking);
/* One more reference, which sg_stream_put_locked() drops. */
void sg_stream_hold_locked(struct sg_stream *s);
void sg_stream_put_locked(struct sg_stream *s);
/*
 * Queues a job; from here on the stream owns it.  The job holds the stream until it has
 * completed.
 */
void sg_submit_locked(struct sg_job *job);
/*
 * Takes a job that may run from some stream of the GPU; NULL: there is none.  The caller runs
 * it.
 */
struct sg_job *sg_take_any_locked(struct sg_gpu *gpu);
/*
 * A job that was just queued: if nothing is before it and it may run, takes it, and the caller
 * runs it.
 */
bool sg_take_if_first_locked(struct sg_job *job);
/* Returns a job that was taken to the head of its stream. */
void sg_requeue_locked(struct sg_job *job);
/* A job is done or dropped: wakes all threads that may wait for it, and frees it. */
void sg_complete_locked(struct sg_job *job);
/* A job accessed unmapped memory: kills its context. */
void sg_fault_locked(struct sg_ctx *ctx);
/* Is any job with a lower seq not done yet? */
bool sg_ctx_busy_before_locked(const struct sg_ctx *ctx, u64 seq);

/* ---- strict.c ---- */

/*
 * Decides whether a job that is about to be queued is held back, and counts the rule that it
 * breaks.
 */
bool sg_strict_holds_locked(struct sg_job *job);
/* A WAIT_VALUE job was queued: releases the jobs that write its word, and the jobs before them. */
void sg_strict_release_writers_locked(const struct sg_job *wait);
/* These addresses were pinned: counts the broken rule if held work uses them. */
void sg_strict_pinned_locked(struct sg_range *range, u64 va, u64 len);
void sg_rule_break_locked(struct sg *sg, enum sg_rule rule);
/* A call synchronizes with the stream: releases its jobs, and all jobs for which these wait. */
void sg_strict_release_locked(struct sg_stream *s);
/* A call synchronizes with all streams of the context. */
void sg_strict_release_ctx_locked(struct sg_ctx *ctx);
bool sg_sync_memops_locked(struct sg_proc *proc, u64 va);

/* ---- drain.c ---- */

/*
 * Drops the lock.  Waits until the stream's first `upto' jobs are done.  -EINTR: killed; they
 * are done or dropped later.  -ENODEV, -EIO: they are done, but the GPU was removed, or the
 * context has faulted.
 */
int sg_stream_drain_locked(struct sg_stream *s, u64 upto);
/*
 * Drops the lock.  Waits until all jobs queued so far are done.  -EIO: a job of the context
 * has faulted; -EINTR.
 */
int sg_ctx_drain_locked(struct sg_ctx *ctx);
/*
 * Drops the lock.  Finds the buf that begins at va and is of one of these kinds (bits), after
 * waiting for its context's work, and for work of the process's other contexts that uses it.
 * Does not wait for memory of no context.  -ENOENT, -EINTR.
 */
int sg_buf_drain_locked(struct sg_client *client, u64 va, u32 kinds, struct sg_buf **out);

/* ---- stream.c ---- */

/*
 * Returns a context with a reference.  -ENOENT; -EIO: it has faulted; -ENODEV: its GPU was
 * removed.
 */
int sg_ctx_live_locked(struct sg_client *client, u32 handle, struct sg_ctx **out);
/* Counts one more stream of the process. 0, or -ENOMEM: it has as many as it may. */
int sg_stream_count_locked(struct sg_proc *proc);
/* Finds the stream, then checks and queues the job, as its operations say; frees it on an error. */
int sg_enqueue(struct sg_client *client, u32 ctx, u32 stream, struct sg_job *job);
int sg_stream_create(struct sg_client *client, struct softgpu_stream_create *a);
int sg_stream_destroy(struct sg_client *client, struct softgpu_stream *a);
int sg_stream_query(struct sg_client *client, struct softgpu_stream *a);
int sg_stream_sync(struct sg_client *client, struct softgpu_stream *a);

/* ---- event.c ---- */

struct sg_event {
	struct sg_obj obj;
	u64 recorded;			/* serial of the latest record, 0: never */
	struct sg_link pending;		/* jobs that will complete a record, the oldest first */
	u64 time_ns;			/* of the latest completion */
	bool failed;			/* that completion was due to a fault of the context */
};

int sg_event_create(struct sg_client *client, struct softgpu_event_create *a);
int sg_event_record(struct sg_client *client, struct softgpu_event *a);
int sg_event_query(struct sg_client *client, struct softgpu_event *a);
int sg_event_sync(struct sg_client *client, struct softgpu_event *a);
int sg_stream_wait(struct sg_client *client, struct softgpu_event *a);

/* ---- copy.c ---- */

int sg_copy(struct sg_client *client, struct softgpu_copy *a);
int sg_fill(struct sg_client *client, struct softgpu_fill *a);

/* ---- watcher.c ---- */

/* Starts the GPU's watcher thread, unless it runs already. */
int sg_watcher_start_locked(struct sg_gpu *gpu);
void sg_watcher_stop(struct sg_gpu *gpu);
/* From here on the watcher calls the job's poll operation until that returns other than 0. */
void sg_poll_begin_locked(struct sg_job *job);
/*
 * Returns the address of a word in VRAM of the stream's GPU, which a device may be writing;
 * NULL: not there, or this access is not allowed.
 */
void *sg_word_at_locked(const struct sg_stream *s, u64 va, u32 access);
/* width: 4 or 8 */
u64 sg_word_load(const void *word, u32 width);

/* ---- watch.c ---- */

int sg_watch(struct sg_client *client, struct softgpu_watch *a);
int sg_flush(struct sg_client *client, u32 ctx);
/*
 * An engine has written to VRAM there.  Watches, which emulate kernels, see what the GPU itself
 * writes.
 */
void sg_watch_written_locked(struct sg_gpu *gpu, const void *vram, u64 len);

/* ---- value.c ---- */

int sg_value(struct sg_client *client, struct softgpu_value *a);

/* ---- async_free.c ---- */

int sg_mem_free_async(struct sg_client *client, struct softgpu_mem_free_async *a);
/* Drops the lock.  Releases the memory of all frees that the process's streams have reached. */
void sg_async_frees_release_locked(struct sg_proc *proc);
/* The same, called without the lock. */
void sg_async_frees_release(struct sg_client *client);

/* ---- hostfunc.c ---- */

int sg_host_func(struct sg_client *client, struct softgpu_host_func *a);
int sg_host_func_next(struct sg_client *client, struct softgpu_host_func *a);
int sg_host_func_done(struct sg_client *client, struct softgpu_host_func *a);
/*
 * The thread that called sg_host_func_next() did not get the result: the call will be handed
 * out again.
 */
void sg_host_func_return(struct sg_client *client, const struct softgpu_host_func *a);
/*
 * Drops the lock.  The context has lost its handle: drops all calls, and ends all waits of
 * HOST_FUNC_NEXT.
 */
void sg_funcs_end_locked(struct sg_ctx *ctx);

/* ---- fetch.c ---- */

/* Calls ops->copy for a job, without the lock.  -EAGAIN: give the job to sg_missing_locked(). */
int sg_host_copy(const struct sg_client *client, struct sg_job *job, void *local, u64 va, u64 len,
		 bool to_process);
/*
 * Drops the lock.  Fetches the host memory for which sg_host_copy() has returned -EAGAIN, then
 * continues the job.  f is zeroed, or NULL if there was no memory for it; it is taken over in
 * any case.  On an error the caller ends the job.
 */
int sg_missing_locked(struct sg_job *job, struct sg_fetch *f);
/* The context is dead: drops its jobs that wait for host memory. */
void sg_missing_drop_locked(struct sg_ctx *ctx);
/* Drops the lock.  A client without jobs is being closed.  Returns true if a fetch is under way. */
bool sg_missing_close_locked(struct sg_client *client);

/* ---- engine.c ---- */

int sg_engines_start(struct sg_gpu *gpu);
void sg_engines_stop(struct sg_gpu *gpu);

#endif
