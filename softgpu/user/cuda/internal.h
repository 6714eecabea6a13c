/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the files of softgpu's libcuda share.
 *
 * Locks, outermost first: the library lock (sgu_lock), then the table of
 * objects.  No call to the driver is made with the table's lock held; the
 * library lock is held across the one that makes a primary context.
 */
#ifndef SGU_INTERNAL_H
#define SGU_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>

#include "cuda.h"
#include "object.h"
#include "transport.h"
#include "window.h"

#define SGU_EXPORT __attribute__((visibility("default")))

static inline uint64_t sgu_page_up(uint64_t n)
{
	return (n + SGU_PAGE - 1) & ~(SGU_PAGE - 1);
}

/* ---- init.c ---- */

/* One GPU, numbered by its CUdevice.  Facts are those of cuInit's time. */
struct sgu_gpu {
	struct softgpu_info info;
	struct sgu_ctx *primary;
};

extern pthread_mutex_t sgu_lock;
extern struct sgu_gpu sgu_gpus[SOFTGPU_MAX_GPUS];

/* How many GPUs there are; valid after sgu_enter(). */
int sgu_gpu_count(void);

/*
 * The first thing in an entry point is one of these:
 *
 *	sgu_enter()		CUDA_ERROR_NOT_INITIALIZED; in a function that a stream calls, CUDA_ERROR_NOT_PERMITTED
 *	sgu_enter_alive()	the same, and CUDA_ERROR_ILLEGAL_ADDRESS after a fault
 *	sgu_enter_named()	for what names its stream or event: such a function may call it; after a fault it fails
 *
 * What gets its context by sgu_ctx_live() or its stream by sgu_queue_get() needs none: they begin with it.
 */
CUresult sgu_enter(void);
CUresult sgu_enter_alive(void);
CUresult sgu_enter_named(void);
/* Is this the child of a process that was using the library? */
bool sgu_forked(void);
/* The calling thread is in a function that a stream calls: most of CUDA is refused there. */
extern _Thread_local bool sgu_in_callback;
/* For an entry point that can only fail: this error, unless sgu_enter() has another. */
CUresult sgu_refuse(CUresult error);

static inline bool sgu_device_ok(CUdevice dev)
{
	return dev >= 0 && dev < sgu_gpu_count();
}

/* ---- error.c ---- */

/* What the driver's -errno means in CUDA's terms.  -EIO is a fault: see sgu_faulted(). */
CUresult sgu_result(int err);
/* Has any call told the process of a fault? Then all calls that need a context, a stream or an event fail with it. */
bool sgu_faulted(void);
/* For cuInit: what failed until now was no work. */
void sgu_not_faulted(void);
/* The same, for a call where -ENOENT means this. */
CUresult sgu_result_enoent(int err, CUresult enoent);
/* The same, for a question to a stream or an event: -EAGAIN is the answer that it is not done. */
CUresult sgu_result_query(int err);

/* ---- context.c, current.c ---- */

/*
 * A context.  A primary one lives as long as the library, and is active while
 * kctx is not 0.
 */
struct sgu_ctx {
	struct sgu_obj obj;
	int gpu;
	bool primary;
	unsigned int retained;		/* primary: Retain less Release; under sgu_lock */
	atomic_uint flags;
	atomic_uint kctx;		/* the driver's handle, 0 when destroyed */
	atomic_ullong id;		/* of this life; never used twice */
	struct sgu_ctx *next;		/* all contexts; under sgu_lock */
};

static inline CUcontext sgu_ctx_handle(const struct sgu_ctx *ctx)
{
	return (CUcontext)(uintptr_t)ctx->obj.handle;
}

/* The calling thread's context; it stays valid while it is current. */
CUresult sgu_ctx_current(struct sgu_ctx **ctx);
/* The same, which must also be alive: kctx is its handle. */
CUresult sgu_ctx_live(struct sgu_ctx **ctx, uint32_t *kctx);
/* That there is such a one. */
CUresult sgu_ctx_needed(void);
/* Makes it current.  Takes over the caller's reference, also when it fails. */
CUresult sgu_ctx_push(struct sgu_ctx *ctx);
void sgu_ctx_pop_if_current(const struct sgu_ctx *ctx);
/* A reference to the context behind a CUcontext. */
CUresult sgu_ctx_get(CUcontext handle, struct sgu_ctx **ctx);
/* The CUcontext that the driver knows as kctx, NULL if there is none. */
CUcontext sgu_ctx_of_driver(uint32_t kctx);
/* Waits for the work of every context of this process. */
CUresult sgu_ctx_sync_all(void);
bool sgu_ctx_flags_ok(unsigned int flags);

/* ---- context.c, for context_calls.c and primary.c ---- */

/* One life of a context, from activation to end. */
struct sgu_life {
	int gpu;
	uint32_t kctx;
	uint64_t id;
};

struct sgu_ctx *sgu_ctx_new(int gpu, unsigned int flags);
void sgu_ctx_list(struct sgu_ctx *ctx);		/* with sgu_lock held, as the next */
void sgu_ctx_unlist(struct sgu_ctx *ctx);
CUresult sgu_ctx_activate(struct sgu_ctx *ctx);
/* CUDA_SUCCESS to the one caller that ended this life, who must then finish it. */
CUresult sgu_ctx_end(struct sgu_ctx *ctx, struct sgu_life *life);
/* context_calls.c */
CUresult sgu_life_finish(const struct sgu_life *life);

/* ---- query.c ---- */

/*
 * What stands at va.  Never fails for an unknown address: kind is NONE.
 * Costs no call of the driver for addresses that it cannot know.
 */
CUresult sgu_query(uint64_t va, struct softgpu_query *q);

static inline bool sgu_is_vram(const struct softgpu_query *q)
{
	return q->kind == SOFTGPU_KIND_DEVICE || q->kind == SOFTGPU_KIND_VMM ||
	       q->kind == SOFTGPU_KIND_IPC;
}

/* 0 while no memory outside the window is registered; too high after a context took some with it. */
extern atomic_uint sgu_registered;

/* pointer.c */
CUresult sgu_set_sync_memops(uint64_t va, bool on);

/* ---- host.c ---- */

/* Frees managed memory at va; CUDA_ERROR_INVALID_VALUE when it is not. */
CUresult sgu_managed_free(uint64_t va);
/* That life of a context has ended: gives back the addresses of its host memory. */
void sgu_host_forget(uint64_t ctx_id);

/* ---- stream.c ---- */

/* Where work goes. */
struct sgu_queue {
	int gpu;
	const struct sgu_ctx *ctx;	/* stays valid until sgu_queue_put() */
	uint32_t kctx;
	uint32_t stream;		/* 0: the context's default stream */
	bool sync_memops;		/* the context's flag */
	struct sgu_obj *obj;		/* keeps a stream alive, or NULL */
};

/* Needs sgu_queue_put() when it succeeds. */
CUresult sgu_queue_get(CUstream stream, struct sgu_queue *queue);
void sgu_queue_put(struct sgu_queue *queue);

#endif
