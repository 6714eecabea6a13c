/* SPDX-License-Identifier: MIT */
/*
 * internal.h - declarations shared by the files of softgpu's libcuda.
 *
 * Locks, outermost first: the library lock (sgu_lock), then the table of objects. No call of the
 * driver is made under the table's lock. The library lock is held across the call that creates a
 * primary context.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>

#include "cuda.h"
#include "object.h"
#include "release.h"
#include "transport.h"
#include "window.h"

#define SGU_EXPORT __attribute__((visibility("default")))

static inline uint64_t sgu_page_up(uint64_t n)
{
	return (n + SGU_PAGE - 1) & ~(SGU_PAGE - 1);
}

/* ---- init.c ---- */

/* One GPU; the index is its CUdevice. `info` is from the time of cuInit(). */
struct sgu_gpu {
	struct softgpu_info info;
	struct sgu_ctx *primary;
};

extern pthread_mutex_t sgu_lock;
extern struct sgu_gpu sgu_gpus[SOFTGPU_MAX_GPUS];

/* The number of GPUs; valid after sgu_enter(). */
int sgu_gpu_count(void);

/*
 * Each entry point begins with one of these:
 *
 *	sgu_enter()        CUDA_ERROR_NOT_INITIALIZED; CUDA_ERROR_NOT_PERMITTED in a function
 *	                   that a stream calls
 *	sgu_enter_device() the same, and CUDA_ERROR_INVALID_DEVICE
 *	sgu_enter_alive()  as sgu_enter(), and CUDA_ERROR_ILLEGAL_ADDRESS after a fault
 *	sgu_enter_named()  for calls with a stream or event as argument: allowed in functions
 *	                   that a stream calls; fails after a fault
 *
 * Entry points that call sgu_ctx_live() or sgu_queue_get() need none, because these begin with it.
 */
CUresult sgu_enter(void);
CUresult sgu_enter_device(CUdevice dev);
CUresult sgu_enter_alive(void);
CUresult sgu_enter_named(void);
/* Whether this is a forked child of a process that used the library. */
bool sgu_forked(void);
/* The calling thread is in a function that a stream calls. Most of CUDA is refused there. */
extern _Thread_local bool sgu_in_callback;
/* For an entry point that always fails: returns this error, or that of sgu_enter(). */
CUresult sgu_refuse(CUresult error);

static inline bool sgu_device_ok(CUdevice dev)
{
	return dev >= 0 && dev < sgu_gpu_count();
}

/* ---- error.c ---- */

/* Converts a driver's -errno to CUDA's error. -EIO is a fault: see sgu_faulted(). */
CUresult sgu_result(int err);
/*
 * Whether a call of this process has reported a fault. Then all calls that need a context, a stream
 * or an event fail with it.
 */
bool sgu_faulted(void);
/* Resets the state after a successful cuInit(): earlier failures were not faults of work. */
void sgu_not_faulted(void);
/* The same, with `enoent` for -ENOENT. */
CUresult sgu_result_enoent(int err, CUresult enoent);
/* The same for queries of a stream or an event: -EAGAIN means "not done yet". */
CUresult sgu_result_query(int err);

/* ---- context.c, current.c ---- */

/* The limits that this GPU has are below this one. */
#define SGU_LIMITS	(CU_LIMIT_CIG_ENABLED + 1)

/* A context. A primary context exists as long as the library, and is active while kctx is not 0. */
struct sgu_ctx {
	struct sgu_obj obj;
	int gpu;
	bool primary;
	/* primary: Retain calls minus Release calls; protected by sgu_lock */
	unsigned int retained;
	atomic_uint flags;
	atomic_uint kctx;		/* the driver's handle; 0: destroyed */
	atomic_ullong id;		/* id of the current life; never reused */
	atomic_size_t limits[SGU_LIMITS];	/* by CUlimit; 0: the default */
	atomic_uint cache_config;
	struct sgu_ctx *next;		/* list of all contexts; protected by sgu_lock */
};

static inline CUcontext sgu_ctx_handle(const struct sgu_ctx *ctx)
{
	return (CUcontext)(uintptr_t)ctx->obj.handle;
}

/* Returns the calling thread's current context, which stays valid while it is current. */
CUresult sgu_ctx_current(struct sgu_ctx **ctx);
/* The same, but the context must be alive. *kctx: the driver's handle. */
CUresult sgu_ctx_live(struct sgu_ctx **ctx, uint32_t *kctx);
/* Checks that the current context is alive. */
CUresult sgu_ctx_needed(void);
/* Makes the context current. Takes over the caller's reference, also on failure. */
CUresult sgu_ctx_push(struct sgu_ctx *ctx);
void sgu_ctx_pop_if_current(const struct sgu_ctx *ctx);
/* Returns a reference to the context of a CUcontext. */
CUresult sgu_ctx_get(CUcontext handle, struct sgu_ctx **ctx);
/* The CUcontext whose driver handle is kctx; NULL: none. */
CUcontext sgu_ctx_of_driver(uint32_t kctx);
/* Waits for the work of all contexts of this process. */
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
void sgu_ctx_list(struct sgu_ctx *ctx);		/* caller holds sgu_lock, also for the next */
void sgu_ctx_unlist(struct sgu_ctx *ctx);
CUresult sgu_ctx_activate(struct sgu_ctx *ctx);
/*
 * Ends the life of a context. CUDA_SUCCESS for the one caller that ended it, which must then call
 * sgu_life_finish().
 */
CUresult sgu_ctx_end(struct sgu_ctx *ctx, struct sgu_life *life);
/* context_calls.c */
CUresult sgu_life_finish(const struct sgu_life *life);

/* ---- query.c ---- */

/*
 * Describes the memory at va. Does not fail for an unknown address: kind is NONE then. Does not
 * call the driver for addresses that it cannot know.
 */
CUresult sgu_query(uint64_t va, struct softgpu_query *q);

static inline bool sgu_is_vram(const struct softgpu_query *q)
{
	return q->kind == SOFTGPU_KIND_DEVICE || q->kind == SOFTGPU_KIND_VMM ||
	       q->kind == SOFTGPU_KIND_IPC;
}

/*
 * 0 if no memory outside the window is registered. May be too high after the end of a context with
 * registered memory.
 */
extern atomic_uint sgu_registered;

/* pointer.c */
CUresult sgu_set_sync_memops(uint64_t va, bool on);

/* ---- host.c ---- */

/* Frees managed memory at va. CUDA_ERROR_INVALID_VALUE: va is not managed memory. */
CUresult sgu_managed_free(uint64_t va);
/* Releases the addresses of a context's host memory after that life of the context has ended. */
void sgu_host_forget(uint64_t ctx_id);

/* ---- queue.c ---- */

/* The destination of work. */
struct sgu_queue {
	int gpu;
	const struct sgu_ctx *ctx;	/* stays valid until sgu_queue_put() */
	uint32_t kctx;
	uint32_t stream;		/* 0: the context's default stream */
	bool sync_memops;		/* the context's flag */
	struct sgu_obj *obj;		/* the stream's reference; NULL: default stream */
};

/* After success the caller must call sgu_queue_put(). */
CUresult sgu_queue_get(CUstream stream, struct sgu_queue *queue);
void sgu_queue_put(struct sgu_queue *queue);

/* ---- per_thread.c ---- */

/* Returns the calling thread's own stream in the current context. */
CUresult sgu_thread_stream(CUstream *stream);
