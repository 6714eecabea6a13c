/* SPDX-License-Identifier: MIT */
/*
 * sg_int.h - the core's own objects.  Nobody outside softgpu/core includes it,
 * tests of the core excepted.
 *
 * Lock: sg->lock guards every field of every object here, except those marked
 * "fixed" (set before the object is published) and those of a job that an
 * engine runs.  Functions ending in _locked are called with it held and give it
 * back held; those marked "drops the lock" let go of it in between, so
 * everything learnt before must be learnt again.
 *
 * Waits.  A process can be killed at any time, and must be gone soon after.  So each wait
 * on behalf of a process is of one of two sorts; a new one must be, too, and stands here:
 *
 *   killable: sg_cond_wait_killable().  For the program's own work, which may take hours.
 *   The call fails with -EINTR and has done nothing but what it had queued.
 *     stream.c  STREAM_SYNC, EVENT_SYNC, COPY and FILL that synchronize
 *     ctx.c     sg_ctx_drain_locked(): CTX_SYNC, and what frees memory: MEM_FREE,
 *               HOST_UNREGISTER, IPC_CLOSE (sg_buf_settled_locked())
 *     keep.c    a move, for copies under way on its GPU
 *
 *   bounded: sg_cond_wait(), by another thread's work that does not itself wait for the program.
 *   What takes things down must come to its end, killed or not.
 *     ctx.c     sg_ctx_destroy_locked(): queued jobs are dropped, watches and waits for values end
 *               at their next look, copies at their next piece: CHUNK of engine.c; where a page
 *               fault in it takes long, the embedder's copy ends (hostcopy.c of the kernel's)
 *     pin.c     a revocation, or put: the client's callback; holds: a personality's call
 *     proc.c    sg_client_close(): a context that another thread is destroying
 *     gpu.c     removal: the administrator's, not a process's; all of the above
 *   Engines and the watcher wait for work: they are threads of the core's.  The lock itself
 *   is held for steps of the core's own, the longest of which copies one allocation (keep.c).
 *
 * Who keeps what alive:
 *
 *   client -> gpu, proc             until the client is closed
 *   ctx, stream, event, phys        by their handle, and by refs while in use; the first
 *                                   three belong to their context's client
 *   range  -> mem, gpu              pin -> mem, gpu;  mem -> gpu
 *   buf    -> range                 a range lives as long as a buf stands in it
 *
 *   share  -> nothing               it hangs on its buf, and goes with it
 *
 *   VRAM goes back to its GPU when the last reference to its mem is gone: its
 *   ranges' (other processes' imports have one each), a handle's, every pin's, a
 *   keep's, and that of a copy under way.
 */
#ifndef SG_INT_H
#define SG_INT_H

#include "sg.h"
#include "sg_hash.h"
#include "sg_list.h"
#include "sg_space.h"
#include "sg_tree.h"

#define SG_SLOT_SIZE	512u	/* small allocations come in slots of this */
#define SG_SMALL_MAX	(SG_PAGE_SIZE / 2)	/* longer ones get pages of their own */
#define SG_BLOCK_SIZE	((u64)2 << 20)	/* desc.blocks: what shorter ones share, and longer ones have whole */

struct sg_engine;
struct sg_job;
struct sg_share;

struct sg {
	struct sg_mutex lock;
	struct sg_cond ended;		/* a pin, a hold, or a GPU's use has ended */
	struct sg_gpu *gpus[SOFTGPU_MAX_GPUS];
	struct sg_link procs;
	struct sg_link ctxs;		/* for tokens */
	struct sg_link servers;
	struct sg_hash pins;		/* by address */
	struct sg_tree shares;		/* by id */
	struct sg_tree phys_keys;	/* by id */
	u32 objects;			/* handles, allocations, reservations: of all processes */
	u64 next_buffer_id;
	u64 next_share_id;
	u64 next_pin_serial;
	struct sg_chaos chaos;
	u32 pins_until_revoke;		/* countdown; 0: off */
	u64 random;			/* of chaos.seed */
	u64 broken[SG_RULES];
	enum softgpu_platform platform;
};

struct sg_gpu {
	struct sg *sg;			/* fixed */
	u32 index;			/* fixed */
	struct sg_gpu_desc desc;	/* fixed; desc.vram only between enter and leave */
	char name[SOFTGPU_NAME_LEN];	/* fixed */
	u32 refs;			/* clients, mems, and one while it is present */
	u32 clients;
	u32 entered;			/* threads that touch VRAM now */
	u32 awaited;			/* threads that wait for there to be none */
	bool removed;
	struct sg_space vram;
	u32 *page_pins;			/* per 64 KiB page: pins that hold it */
	u64 bar1_used;			/* bytes, what is reserved not counted */
	struct sg_link pinned;		/* pins, the oldest first */
	struct sg_link orphans;		/* pins that outlived the GPU */
	u32 pins, ctxs;
	u64 revocations, copies, bytes_copied;

	struct sg_cond work;		/* streams may be runnable */
	struct sg_link runnable;	/* streams with queued jobs and none running */
	struct sg_engine *engines;
	bool revoke_due;		/* an engine is to revoke some pin */
	bool stop;

	struct sg_link watches;		/* jobs that run, job->watch.in_gpu */
	struct sg_link waits;		/* the same, for values: job->value.in_gpu */
	struct sg_thread watcher;
	bool has_watcher;		/* the thread was started, by the first watch */
};

/*
 * VRAM: whole 64 KiB pages, not necessarily neighbours; or system memory that it was
 * moved to.  Which, and where, changes only while nobody refers to it but those who
 * look anew each time: keep.c.
 */
struct sg_mem {
	struct sg_gpu *gpu;		/* fixed */
	u64 size;			/* fixed */
	struct sg_extent *first;	/* of gpu->vram; NULL: it is in system memory */
	void *system;
	u32 refs;
	u32 imports;			/* ranges of other processes, by IPC */
	u32 keeps;
	bool moving;
	struct sg_phys_key *key;	/* what opens it in other processes; NULL until asked for */
};

/* What the contexts of a server's clients are together, on one GPU. */
struct sg_shared_ctx {
	u32 ctxs;			/* whose tokens are worth something */
	u64 p2p_token;
	u32 va_space_token;
	bool faulted;
};

/* Processes that share contexts. */
struct sg_server {
	struct sg_link link;		/* sg->servers */
	u64 user;			/* fixed, as the next */
	u32 number;
	u32 procs;			/* its clients: the last one ends it */
	struct sg_shared_ctx at[SOFTGPU_MAX_GPUS];	/* by the GPU's index */
};

/* A process's address space, shared by its clients. */
struct sg_proc {
	struct sg *sg;			/* fixed */
	const void *key;		/* fixed */
	struct sg_link link;
	u32 refs;			/* clients, and ranges on their way out */
	bool has_window;
	u64 window_base, window_len;
	struct sg_space window;		/* what of it is free */
	struct sg_server *server;	/* fixed with the window; NULL: none */
	struct sg_tree bufs;		/* what the program allocated, by address */
	struct sg_tree ranges;		/* what is mapped to VRAM, by address */
	struct sg_tree aliases;		/* device pointers that are others than the host's */
	struct sg_tree copies;		/* strict: VRAM that stands for managed memory, by its address */
	struct sg_tree reservations;	/* of cuMemAddressReserve, by address */
	struct sg_tree objs;		/* by handle */
	u32 next_handle;
};

struct sg_client {
	struct sg *sg;			/* fixed, as the next four */
	struct sg_gpu *gpu;
	struct sg_proc *proc;
	const struct sg_host_ops *ops;
	void *cookie;
	u64 user;			/* fixed before its first call */
	u32 ctxs;			/* contexts made through it that still exist */
	struct sg_link objs, reservations;
	struct sg_link bufs;		/* those that belong to no context */
};

enum sg_obj_type { SG_OBJ_CTX = 1, SG_OBJ_STREAM, SG_OBJ_EVENT, SG_OBJ_PHYS };

/* What a handle names. */
struct sg_obj {
	struct sg_node node;		/* in proc->objs while the handle is valid */
	struct sg_link link;		/* in client->objs, likewise */
	enum sg_obj_type type;		/* fixed */
	struct sg_client *client;	/* fixed */
	u32 refs;			/* the handle is one */
	bool gone;			/* the handle is no longer valid */
};

struct sg_event {
	struct sg_obj obj;
	u64 recorded;			/* serial of the latest record, 0: never */
	struct sg_link pending;		/* jobs that will complete a record */
	u64 time_ns;			/* of the latest completion */
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
	u64 released_seq;		/* strict: jobs before it are no longer held back */
	u64 followed_seq;		/* strict: and what they wait for neither */
	struct sg_link in_release;	/* strict: while a release follows it */
};

struct sg_ctx {
	struct sg_obj obj;
	struct sg_gpu *gpu;		/* fixed */
	struct sg_link in_sg;		/* sg->ctxs, while its tokens are worth something */
	struct sg_shared_ctx *shared;	/* fixed; NULL: its process has no server */
	u64 p2p_token;			/* fixed */
	u32 va_space_token;		/* fixed */
	bool dead;			/* a copy faulted, or it is being destroyed: jobs are dropped */
	bool faulted;
	struct sg_cond done;		/* a job of one of its streams has completed */
	struct sg_link streams;		/* with stream0 */
	struct sg_stream stream0;
	u64 next_seq;			/* orders the default stream and the blocking ones */
	bool visible;			/* fixed; so is what is allocated in it */
	bool system;			/* fixed; and it is system memory */
	struct sg_link bufs;
	struct sg_link slabs;		/* ranges that small allocations share */
};

struct sg_phys {
	struct sg_obj obj;
	struct sg_mem *mem;
};

/* A stretch of addresses mapped to one mem: the unit of pinning. */
struct sg_range {
	struct sg_node node;		/* in *tree: va, length */
	struct sg_tree *tree;		/* fixed; proc->ranges, or proc->copies */
	struct sg_link in_slabs;	/* ctx->slabs */
	struct sg_link pins, kept;	/* kept: the persistent ones */
	struct sg_proc *proc;		/* fixed */
	struct sg_ctx *ctx;		/* NULL: mapped with none */
	struct sg_mem *mem;		/* fixed */
	struct sg_extent *window;	/* addresses to give back; NULL: a reservation's */
	u32 bufs;
	u32 access;			/* SG_READ and SG_WRITE: what copies may do with it */
	bool imported;			/* counted in mem->imports */
	bool visible;			/* fixed; the CPU may see it at its address */
	u8 *slots;			/* a slab's: enum sg_slot each */
	u32 unused, limbo;		/* of them: free or in limbo; in limbo */
};

enum sg_slot { SG_SLOT_FREE, SG_SLOT_USED, SG_SLOT_LIMBO };

/* One allocation as the program knows it. */
struct sg_buf {
	struct sg_node node;		/* in proc->bufs: va, length asked for */
	struct sg_link in_owner;	/* ctx->bufs, or client->bufs when it has none */
	struct sg_proc *proc;		/* fixed */
	struct sg_ctx *ctx;		/* fixed; NULL: none */
	struct sg_range *range;		/* NULL: host memory */
	struct sg_phys *phys;		/* VMM: referenced, so that its handle can be told */
	struct sg_alias *alias;		/* host memory with a device pointer of its own; NULL: it has none */
	u64 buffer_id;			/* fixed */
	struct sg_share *share;		/* what its IPC key opens; NULL until asked for */
	struct sg_link in_share;	/* IPC: share->imports, while the share is there */
	u32 opens;			/* IPC: less closes */
	u32 kind;			/* fixed; enum softgpu_kind */
	u32 host_flags;
	bool sync_memops;
};

struct sg_alias {
	struct sg_node node;		/* in proc->aliases: device pointer, length of the buf */
	struct sg_buf *buf;
	struct sg_extent *window;
};

struct sg_reservation {
	struct sg_node node;		/* in proc->reservations */
	struct sg_link in_client;
	struct sg_extent *window;
};

/* An object of a tree by address that holds va; member is its struct sg_node. */
static inline struct sg_node *sg_covering(const struct sg_tree *tree, u64 va)
{
	struct sg_node *n = sg_tree_floor(tree, va);

	return n && va - n->key < n->len ? n : NULL;
}

/* Whether anything in the tree touches [va, va + len). */
static inline bool sg_overlaps(const struct sg_tree *tree, u64 va, u64 len)
{
	struct sg_node *n;

	if (sg_covering(tree, va))
		return true;
	n = sg_tree_ceil(tree, va);
	return n && n->key - va < len;
}

#define SG_NODE_OF(n, type) ((n) ? container_of(n, type, node) : NULL)

static inline struct sg_range *sg_range_at(const struct sg_proc *proc, u64 va)
{
	return SG_NODE_OF(sg_covering(&proc->ranges, va), struct sg_range);
}

static inline struct sg_buf *sg_buf_at(const struct sg_proc *proc, u64 va)
{
	return SG_NODE_OF(sg_covering(&proc->bufs, va), struct sg_buf);
}

/* The bits of softgpu_va_range.access. */
#define SG_READ		1u
#define SG_WRITE	2u

static inline bool sg_may_access(const struct sg_range *range, u32 access)
{
	return (range->access & access) == access;
}

static inline bool sg_in_window(const struct sg_proc *proc, u64 va)
{
	return proc->has_window && va - proc->window_base < proc->window_len;
}

/* In the window, what is neither VRAM nor host memory of ours is nothing at all. */
static inline bool sg_is_hole(const struct sg_proc *proc, u64 va)
{
	return sg_in_window(proc, va) && !sg_range_at(proc, va) && !sg_buf_at(proc, va);
}

/* gpu.c */
void sg_gpu_get_locked(struct sg_gpu *gpu);
void sg_gpu_put_locked(struct sg_gpu *gpu);
/* Between these two desc.vram may be touched; false: the GPU was removed. */
bool sg_gpu_enter_locked(struct sg_gpu *gpu);
void sg_gpu_leave_locked(struct sg_gpu *gpu);

/* mem.c */
/* Called without the lock; zeroed VRAM, with one reference. */
int sg_mem_create(struct sg_gpu *gpu, u64 size, struct sg_mem **out);
void sg_mem_get_locked(struct sg_mem *mem);
void sg_mem_put_locked(struct sg_mem *mem);
/* The same of system memory, not zeroed. */
int sg_mem_create_system(struct sg_gpu *gpu, u64 size, struct sg_mem **out);
/*
 * Where `offset` is as the CPU sees it, between sg_gpu_enter_locked() and leave; *run is
 * how many bytes follow it there.
 */
void *sg_mem_at(const struct sg_mem *mem, u64 offset, u64 *run);
/* Its physical address; of a stretch, each 64 KiB page's, one every `stride` bytes from `to` on. */
u64 sg_mem_phys(const struct sg_mem *mem, u64 offset);
void sg_mem_phys_pages(const struct sg_mem *mem, u64 offset, u64 len, u64 *to, size_t stride);
/* The aperture, for what is in VRAM: takes the pages of [offset, offset + len), or none and -ENOSPC. */
int sg_bar1_take_locked(struct sg_mem *mem, u64 offset, u64 len);
void sg_bar1_give_locked(struct sg_mem *mem, u64 offset, u64 len);

/* proc.c */
/* The process that clients were opened for with this key; NULL. */
struct sg_proc *sg_proc_by_key_locked(struct sg *sg, const void *key);
void sg_proc_put_locked(struct sg_proc *proc);
void sg_obj_init(struct sg_obj *obj, enum sg_obj_type type, struct sg_client *client);
/* Gives it a handle: the last step of making one. */
u32 sg_obj_publish_locked(struct sg_obj *obj);
/* Finds a handle of that type and takes a reference; NULL. */
struct sg_obj *sg_obj_get_locked(struct sg_proc *proc, u32 handle, enum sg_obj_type type);
/* Ends a handle, once; its reference is the caller's to put. */
bool sg_obj_retire_locked(struct sg_obj *obj);
void sg_obj_put_locked(struct sg_obj *obj);
/* Ends a handle, all in one; takes the lock.  -ENOENT. */
int sg_obj_release(struct sg_client *client, u32 handle, enum sg_obj_type type);

/* ctx.c */
int sg_ctx_create(struct sg_client *client, u32 flags, u32 *handle);
/* Drops the lock.  Frees everything of the context; the caller holds a reference. */
void sg_ctx_destroy_locked(struct sg_ctx *ctx);
/* Drops the lock.  Until all that is queued now is done; -EIO when the context is dead. */
int sg_ctx_drain_locked(struct sg_ctx *ctx);
bool sg_ctx_busy_locked(const struct sg_ctx *ctx);
void sg_ctx_free_locked(struct sg_ctx *ctx);
/* A context, with a reference, that is fit for new work. */
int sg_ctx_live_locked(struct sg_client *client, u32 handle, struct sg_ctx **out);
/* NULL when there is none or the token is wrong; of several that share it, the one whose process has va. */
struct sg_ctx *sg_ctx_by_token_locked(struct sg *sg, u64 p2p_token, u32 va_space_token, u64 va);
/* Whether what belongs to one belongs to the other. */
static inline bool sg_ctx_same(const struct sg_ctx *a, const struct sg_ctx *b)
{
	return a == b || (a && b && a->shared && a->shared == b->shared);
}
static inline struct sg_ctx *sg_ctx_of(struct sg_obj *obj)
{
	return obj ? container_of(obj, struct sg_ctx, obj) : NULL;
}

/* server.c */
/* Makes a process that gets this window a client: -EEXIST, -ENOMEM. */
int sg_server_join_locked(struct sg_proc *proc, u64 user, u32 number, u64 base, u64 length);
void sg_server_leave_locked(struct sg_proc *proc);
/* A context begins or ends to be one with its server's others. */
void sg_shared_enter_locked(struct sg_ctx *ctx);
void sg_shared_leave_locked(struct sg_ctx *ctx);

/* buf.c */
int sg_buf_alloc(struct sg_client *client, struct softgpu_mem_alloc *a);
/* kinds: bits by enum softgpu_kind. */
int sg_buf_free(struct sg_client *client, u64 va, u32 kinds);
int sg_buf_register(struct sg_client *client, struct softgpu_host_register *a);
int sg_buf_unregister(struct sg_client *client, u64 va);
/* Drops the lock.  The buf is found and alive; its pins are revoked if it was its range's last. */
void sg_buf_release_locked(struct sg_buf *buf);
struct sg_buf *sg_buf_new(struct sg_proc *proc, struct sg_ctx *ctx, u32 kind);
void sg_buf_publish_locked(struct sg_buf *buf, u64 va, u64 len, struct sg_link *owner);
/* Takes over the caller's reference to mem. */
struct sg_range *sg_range_new(struct sg_proc *proc, struct sg_ctx *ctx, struct sg_mem *mem);
void sg_range_publish_locked(struct sg_range *range, u64 va);
/* Drops the lock.  Nothing of it is seen when this returns, unless it is shown anew. */
void sg_range_hide_locked(const struct sg_range *range);
/* Drops the lock.  Takes a range down: pins first, then addresses, then memory. */
void sg_range_end_locked(struct sg_range *range);
/* Gives a new range addresses in its process's window, and publishes it. */
int sg_range_place_locked(struct sg_range *range);
/* Freed slots of a slab may be used again, if its last pin, import and keep have gone. */
void sg_range_unpinned_locked(struct sg_range *range);
/* Drops the lock.  The buf that begins at va and is of one of these kinds (bits), its context's work done. */
int sg_buf_settled_locked(struct sg_client *client, u64 va, u32 kinds, struct sg_buf **out);

/* alias.c */
/* Before the buf is published at va. */
int sg_alias_new_locked(struct sg_buf *buf, u64 va, u64 len);
void sg_alias_end_locked(struct sg_buf *buf);
struct sg_alias *sg_alias_at(const struct sg_proc *proc, u64 va);
/* The host's address instead of an alias; others stay.  False: the span is not all inside. */
bool sg_alias_resolve_locked(const struct sg_proc *proc, u64 *va, u64 span);

/* phys_ipc.c */
int sg_phys_export(struct sg_client *client, struct softgpu_phys_export *a);
int sg_phys_import(struct sg_client *client, struct softgpu_phys_import *a);
/* The memory ends, and its key with it. */
void sg_phys_key_end_locked(struct sg_mem *mem);

/* 128 random bits that prove a right.  Compared without a branch, so the time taken tells nothing of them. */
static inline void sg_key_make(u64 key[2])
{
	key[0] = sg_random64();
	key[1] = sg_random64();
}

static inline bool sg_key_opens(const u64 key[2], const u64 given[2])
{
	return !((key[0] ^ given[0]) | (key[1] ^ given[1]));
}

/* ipc.c */
int sg_ipc_export(struct sg_client *client, struct softgpu_ipc_export *a);
int sg_ipc_open(struct sg_client *client, struct softgpu_ipc_open *a);
int sg_ipc_close(struct sg_client *client, u64 va, u32 kinds);
/* The buf is on its way out: its key opens nothing any more. */
void sg_ipc_forget_locked(struct sg_buf *buf);

/* vmm.c */
int sg_vmm_window(struct sg_client *client, struct softgpu_window *a);
int sg_vmm_reserve(struct sg_client *client, struct softgpu_va_reserve *a);
int sg_vmm_release(struct sg_client *client, u64 va);
int sg_vmm_create(struct sg_client *client, struct softgpu_phys_create *a);
int sg_vmm_map(struct sg_client *client, struct softgpu_map *a);
int sg_vmm_unmap(struct sg_client *client, u64 va, u64 len);
int sg_vmm_access(struct sg_client *client, u64 va, u64 len, u32 access);
/* Drops the lock.  Takes down what stands in it, then the reservation. */
void sg_reservation_destroy_locked(struct sg_proc *proc, struct sg_reservation *r);
void sg_phys_free_locked(struct sg_phys *phys);

/* pin.c */
/* May drop the lock.  The range that someone means by [va, va + length), if he may. */
int sg_resolve_locked(struct sg *sg, const struct sg_pin_who *who, u64 va, u64 length, struct sg_range **out);
/* A live pin of [offset, offset + length) of mem that belongs to no range yet. */
int sg_pin_take_locked(struct sg_pin *pin, const struct sg_pin_ops *ops, struct sg_mem *mem, u64 offset, u64 va,
		       u64 length, bool persistent);
/* Drops the lock.  The range is out of proc->ranges: revokes its pins, lets go of persistent ones. */
void sg_pins_revoke_locked(struct sg_range *range);
/* Drops the lock.  Unmaps what persistent pins are left of a removed GPU. */
void sg_pins_orphan_locked(struct sg_gpu *gpu);

/* Drops the lock.  Revokes one pin of the GPU, whichever chaos picks. */
void sg_pin_revoke_any_locked(struct sg_gpu *gpu);

/* chaos.c */
/* Whether this is the one to fail; counts down. */
bool sg_chaos_hits_locked(u32 *countdown);
u64 sg_chaos_random_locked(struct sg *sg);
/* A pin was made: perhaps it is time to revoke one. */
void sg_chaos_pinned_locked(struct sg_gpu *gpu);

/* strict.c */
/* Whether this job, about to be queued, is held back; notes the rule that it breaks.  What a stream waits for is not. */
bool sg_strict_holds_locked(struct sg_stream *s, struct sg_job *job);
/* A wait for a value was queued: what writes the word may run, and what that waits for. */
void sg_strict_awaits_locked(const struct sg_job *wait);
/* These addresses were pinned, perhaps with held work on them. */
void sg_strict_pinned_locked(struct sg_range *range, u64 va, u64 len);
void sg_rule_break_locked(struct sg *sg, enum sg_rule rule);
/* A call that synchronizes with the stream: what it has queued may run, and what that waits for. */
void sg_strict_release_locked(struct sg_stream *s);
/* With all of a context's streams. */
void sg_strict_release_ctx_locked(struct sg_ctx *ctx);
bool sg_sync_memops_locked(struct sg_proc *proc, u64 va);

/* managed.c */
/*
 * Drops the lock.  Strict mode: what a pin of the managed memory at va gets, of this
 * context where not NULL.  -EINVAL: that is no managed memory, or the mode is off.
 */
int sg_managed_copy_locked(struct sg_proc *proc, const struct sg_ctx *ctx, u64 va, struct sg_range **out);
bool sg_is_managed_copy(const struct sg_range *range);
/* Drops the lock.  An engine has read or written host memory at va: `local` is what stands there. */
void sg_managed_moved_locked(struct sg_proc *proc, u64 va, const void *local, u64 len);

/* query.c */
int sg_query(struct sg_client *client, struct softgpu_query *a);
int sg_set_attr(struct sg_client *client, struct softgpu_set_attr *a);
int sg_info_call(struct sg_client *client, struct softgpu_info *a);

/* stream.c */
void sg_stream_init(struct sg_stream *s, struct sg_ctx *ctx, bool non_blocking);
void sg_stream_free_locked(struct sg_stream *s);
void sg_event_free_locked(struct sg_event *e);
int sg_stream_create(struct sg_client *client, struct softgpu_stream_create *a);
int sg_stream_destroy(struct sg_client *client, struct softgpu_stream *a);
int sg_stream_query(struct sg_client *client, struct softgpu_stream *a);
int sg_stream_sync(struct sg_client *client, struct softgpu_stream *a);
int sg_event_create(struct sg_client *client, struct softgpu_event_create *a);
int sg_event_record(struct sg_client *client, struct softgpu_event *a);
int sg_event_query(struct sg_client *client, struct softgpu_event *a);
int sg_event_sync(struct sg_client *client, struct softgpu_event *a);
int sg_stream_wait(struct sg_client *client, struct softgpu_event *a);
/* The job that will complete the record; NULL: it is done, or there was none. */
struct sg_job *sg_event_record_locked(const struct sg_event *e, u64 serial);
int sg_copy(struct sg_client *client, struct softgpu_copy *a);
int sg_fill(struct sg_client *client, struct softgpu_fill *a);
/* From here on the job is its stream's.  It holds the stream until it has completed. */
void sg_submit_locked(struct sg_stream *s, struct sg_job *job);
/*
 * A stream of a context by handle, 0 being the default one; the context may take
 * new work.  The reference that keeps it is given back by sg_stream_put_locked().
 */
int sg_stream_get_locked(struct sg_client *client, u32 ctx, u32 handle, struct sg_stream **out);
void sg_stream_put_locked(struct sg_stream *s);
/* A context by handle, with a reference, that may take new work. */
int sg_ctx_get_locked(struct sg_client *client, u32 handle, struct sg_ctx **out);

/* watch.c */
int sg_watch(struct sg_client *client, struct softgpu_watch *a);
int sg_flush(struct sg_client *client, u32 ctx);
/* Its turn has come: it runs from here on, in the watcher's thread. */
void sg_watch_begin_locked(struct sg_stream *s, struct sg_job *job);
/* An engine has written to VRAM there: kernels see what the GPU itself writes. */
void sg_watch_written_locked(struct sg_gpu *gpu, const void *vram, u64 len);
void sg_watcher_stop(struct sg_gpu *gpu);
/* Starts the GPU's thread that looks at watches and waits, unless it runs. */
int sg_watcher_start_locked(struct sg_gpu *gpu);
/* A word in VRAM of the stream's GPU, which a device may be writing; NULL: not there, or not for this access. */
void *sg_word_at_locked(const struct sg_stream *s, u64 va, u32 access);

/* value.c */
int sg_value(struct sg_client *client, struct softgpu_value *a);
/* Called without the lock, by an engine: -EFAULT. */
int sg_value_write(struct sg_job *job);
/* Its turn has come: it waits from here on, in the watcher's thread. */
void sg_wait_begin_locked(struct sg_stream *s, struct sg_job *job);
/* Drops the lock.  One look at each word that streams wait for; the watcher's. */
void sg_waits_poll_locked(struct sg_gpu *gpu);

/* engine.c */
int sg_engines_start(struct sg_gpu *gpu);
void sg_engines_stop(struct sg_gpu *gpu);
/* Of the job that a stream does now, or would do next; ~0 if it has none. */
u64 sg_oldest_seq_locked(const struct sg_stream *s);
/* Whether a stream's first job may run now; nothing of that stream runs. */
bool sg_may_run_locked(const struct sg_stream *s, const struct sg_job *job);
/* Takes it out of the queue: it runs. */
struct sg_job *sg_take_job_locked(struct sg_stream *s);
/* A job is done or dropped: tells all who may wait for it, and frees it. */
void sg_complete_locked(struct sg_stream *s, struct sg_job *job);
/* A job touched what is not there: its context is dead. */
void sg_fault_locked(struct sg_ctx *ctx);

/*
 * What an engine does next.  Fields are fixed once it is queued, but for the
 * links; the job is the engine's once it runs.
 */
enum sg_op { SG_OP_COPY, SG_OP_FILL, SG_OP_RECORD, SG_OP_WAIT, SG_OP_WATCH, SG_OP_WRITE_VALUE, SG_OP_WAIT_VALUE };

struct sg_job {
	struct sg_link link;		/* stream->jobs */
	enum sg_op op;
	bool held;			/* strict: not before stream->released_seq has passed it */
	u64 seq;			/* ctx->next_seq when it was queued */
	union {
		struct {
			u64 dst, src, width, height, dst_pitch, src_pitch;
			u32 value, elem;
			u8 *seen;	/* strict: what stood in src when it was queued; NULL: unknown */
			bool late;	/* and that has changed since */
		} move;			/* COPY and FILL */
		struct {
			struct sg_event *event;	/* referenced */
			u64 serial;
			struct sg_stream *stream;
			struct sg_link pending;	/* event->pending, RECORD only */
		} mark;
		struct {
			u64 va, result;
			u32 expected, timeout_ms;
			u64 deadline_ns;
			u32 view;	/* what the kernel sees at va */
			struct sg_stream *stream;
			struct sg_link in_gpu;	/* gpu->watches */
		} watch;
		struct {
			u64 va, value;
			u32 op;			/* enum softgpu_value_op */
			u32 width;		/* 4 or 8 */
			struct sg_stream *stream;
			struct sg_link in_gpu;	/* gpu->waits, WAIT_VALUE only */
		} value;		/* WRITE_VALUE and WAIT_VALUE */
	};
};

#endif
