/* SPDX-License-Identifier: MIT */
/*
 * sg_int.h - the core's own objects.  Only softgpu/core and its tests include it.
 *
 * Lock: sg->lock guards every field of every object here, except those marked "fixed" (set
 * before the object is published) and those of a job that an engine is running.  Functions
 * ending in _locked are called with the lock held and return with it held.  Those marked
 * "drops the lock" release it in between, so the caller must then look up again everything
 * that it had found before.
 *
 * Waits.  A process can be killed at any time, and must then exit soon.  So each wait on
 * behalf of a process is of one of two sorts.  A new wait must be of one of them, too, and
 * is to be listed here:
 *
 *    killable: sg_cond_wait_killable(). For the program's own work, which may take hours.
 *    The call fails with -EINTR and has done nothing but what it had queued.
 *      stream.c  STREAM_SYNC, EVENT_SYNC, COPY and FILL that synchronize
 *      ctx.c     sg_ctx_drain_locked(): CTX_SYNC, and calls that free memory: MEM_FREE,
 *                HOST_UNREGISTER, IPC_CLOSE (sg_buf_settled_locked(), which also waits in
 *                sg_stream_drain_locked())
 *      keep.c    a move waits for copies under way on its GPU
 *      hostfunc.c  HOST_FUNC_NEXT, which a thread of the program waits in all the time
 *      buf.c     MEM_ALLOC with SOFTGPU_ALLOC_WAIT waits for streams that are to free memory
 *
 *    bounded: sg_cond_wait(), for another thread's work that does not itself wait for the program.
 *    Teardown must complete, whether the process was killed or not.
 *      ctx.c     sg_ctx_destroy_locked(): queued jobs are dropped, watches and waits for values end
 *                at their next look, copies at their next piece (CHUNK of engine.c), those whose
 *                memory is not there at once (fetch.c)
 *      pin.c     a revocation or put waits for the client's callback, and for holds: a
 *                personality's call
 *      proc.c    sg_client_close() waits for a context that another thread is destroying
 *      fetch.c   and for a thread that is in ops->fetch, which begins to fetch memory
 *      gpu.c     removal, which the administrator does and no process: waits for all of the above
 *    Engines and the watcher wait for work: they are the core's own threads. The lock itself
 *    is held for steps of the core only, the longest of which copies one allocation (keep.c).
 *
 * References:
 *
 *    client -> gpu, proc             until the client is closed
 *    ctx, stream, event, phys        alive by their handle, and by refs while in use; the first
 *                                    three belong to their context's client
 *    range  -> mem, gpu              pin -> mem, gpu;  mem -> gpu
 *    buf    -> range                 a range lives as long as a buf lies in it
 *    share  -> nothing               it belongs to its buf, and is freed with it
 *
 *    VRAM goes back to its GPU when the last reference to its mem is dropped. References are
 *    held by ranges (including those of other processes' imports), handles, pins, keeps, and
 *    copies under way.
 */
#ifndef SG_INT_H
#define SG_INT_H

#include "sg.h"
#include "sg_hash.h"
#include "sg_list.h"
#include "sg_object.h"
#include "sg_space.h"
#include "sg_tree.h"

#define SG_SLOT_SIZE	512u	/* unit of small allocations */
#define SG_SMALL_MAX	(SG_PAGE_SIZE / 2)	/* longer allocations get pages of their own */
#define SG_BLOCK_SIZE	((u64)2 << 20)	/* desc.blocks: size of shared blocks */

struct sg_engine;
struct sg_job;
struct sg_job_ops;
struct sg_share;

struct sg {
	struct sg_mutex lock;
	struct sg_cond ended;		/* broadcast when a pin, a hold, or a GPU's use has ended */
	struct sg_gpu *gpus[SOFTGPU_MAX_GPUS];
	struct sg_link procs;
	struct sg_link ctxs;		/* contexts, to look up tokens */
	struct sg_link servers;
	struct sg_hash pins;		/* by address */
	struct sg_tree shares;		/* by id */
	struct sg_tree mem_keys;	/* by id */
	u32 objects;			/* handles, allocations, reservations of all processes */
	u64 next_buffer_id;
	u64 next_share_id;
	u64 next_pin_serial;
	u64 looks;			/* for users of memory that is leaving, ever */
	struct sg_chaos chaos;
	u32 pins_until_revoke;		/* countdown; 0: off */
	u64 random;			/* state of the generator, from chaos.seed */
	u64 broken[SG_RULES];
	enum softgpu_platform platform;
};

struct sg_gpu {
	struct sg *sg;			/* fixed */
	u32 index;			/* fixed */
	struct sg_gpu_desc desc;	/* fixed; desc.vram: only between enter and leave */
	char name[SOFTGPU_NAME_LEN];	/* fixed */
	u32 refs;			/* clients, mems, and one while the GPU is present */
	u32 clients;
	u32 entered;			/* threads using VRAM now: sg_gpu_enter_locked() */
	u32 awaited;			/* threads waiting for `entered` to become 0 */
	bool removed;
	struct sg_space vram;
	u32 *page_pins;			/* per 64 KiB page: pins that hold it */
	u64 bar1_used;			/* bytes, without desc.bar1_reserved */
	struct sg_link pinned;		/* pins, the oldest first */
	struct sg_link orphans;		/* pins that outlived the GPU */
	u32 pins, ctxs;
	u64 revocations, copies, bytes_copied;

	struct sg_cond work;		/* streams may be runnable */
	struct sg_link runnable;	/* streams with queued jobs and none running */
	struct sg_engine *engines;
	bool revoke_due;		/* chaos: the next engine revokes a random pin */
	bool stop;

	struct sg_link polled;		/* jobs that the watcher looks at, by job->in_poll */
	u32 watches;			/* of them, watches, which rely on the location of memory */
	struct sg_thread watcher;
	bool has_watcher;		/* the thread was started, by the first watch */
};

/*
 * Memory of one allocation: whole 64 KiB pages of VRAM, not necessarily contiguous, or
 * system memory that it was moved to.  Its location changes only while all users of the mem
 * are threads that look it up anew for each access: keep.c.
 */
struct sg_mem {
	struct sg_gpu *gpu;		/* fixed */
	u64 size;			/* fixed */
	struct sg_extent *first;	/* extents of gpu->vram; NULL: in system memory */
	void *system;
	u32 refs;
	u32 imports;			/* ranges of other processes, by IPC */
	u32 keeps;
	bool moving;
	struct sg_mem_key *key;		/* opens it in other processes; NULL until requested */
};

/* State that the contexts of a server's clients share on one GPU. */
struct sg_shared_ctx {
	u32 ctxs;			/* number of contexts with valid tokens */
	u64 p2p_token;
	u32 va_space_token;
	bool faulted;
};

/* Processes that share contexts, as with MPS: server.c. */
struct sg_server {
	struct sg_link link;		/* sg->servers */
	u64 user;			/* fixed, as is number */
	u32 number;
	u32 procs;			/* its member processes; freed with the last one */
	struct sg_shared_ctx at[SOFTGPU_MAX_GPUS];	/* by the GPU's index */
};

/* A process's address space, shared by its clients. */
struct sg_proc {
	struct sg *sg;			/* fixed */
	const void *key;		/* fixed */
	struct sg_link link;
	u32 refs;			/* clients, and ranges that are being ended */
	void (*release)(struct sg_proc *proc);	/* fixed; before it is freed */
	bool has_window;
	u64 window_base, window_len;
	struct sg_space window;		/* its free parts */
	struct sg_server *server;	/* fixed with the window; NULL: none */
	struct sg_tree bufs;		/* allocations of the program, by address */
	struct sg_tree ranges;		/* mappings of VRAM, by address */
	struct sg_tree aliases;		/* device pointers unlike host pointers: alias.c */
	struct sg_tree copies;		/* strict: VRAM copies of managed memory, by address */
	struct sg_tree reservations;	/* of cuMemAddressReserve, by address */
	struct sg_handles handles;
	u32 streams;			/* default streams included; at most SOFTGPU_MAX_STREAMS */
	u64 held;			/* strict: jobs that were queued with `held' and are not done */
	struct sg_link ended;		/* bufs that a stream has freed, to be released by the process's next call */
	bool has_ended;			/* there are some; atomic, read without the lock */
	u32 hidden_frees;		/* FREE jobs of memory of no context that are not done */
};

/* The memory of a context, or of a client without a context. */
struct sg_heap {
	struct sg_obj *obj;		/* fixed; the context, which lives as long as the memory; NULL: none */
	struct sg_gpu *gpu;		/* fixed */
	bool visible;			/* fixed; the CPU can see its memory */
	bool system;			/* fixed; its memory is system memory */
	struct sg_link bufs;
	struct sg_link slabs;		/* ranges shared by small allocations */
};

static inline void sg_heap_init(struct sg_heap *heap, struct sg_obj *obj, struct sg_gpu *gpu)
{
	heap->obj = obj;
	heap->gpu = gpu;
	sg_list_init(&heap->bufs);
	sg_list_init(&heap->slabs);
}

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
	struct sg_link bufs;		/* bufs without a context */
	struct sg_link missing;		/* jobs whose host memory is being brought in, or will be, by job->link */
	struct sg_fetch *fetch;		/* of the first of them; NULL: none is under way */
	bool fetch_starts;		/* a thread is in ops->fetch */
};

struct sg_event {
	struct sg_obj obj;
	u64 recorded;			/* serial of the latest record, 0: never */
	struct sg_link pending;		/* jobs that will complete a record, the oldest first */
	u64 time_ns;			/* of the latest completion */
	bool failed;			/* which came because the context was dead */
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
	u64 looked_at;			/* the latest look for users of leaving memory (sg->looks) that is done here */
	u64 released_seq;		/* strict: jobs with a lower seq are not held back */
	u64 followed_seq;		/* strict: nor those that jobs below this seq wait for */
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
	struct sg_cond reached;		/* broadcast when a call joins funcs, and when the context ends */
	struct sg_link funcs;		/* HOST_FUNC jobs that their streams have come to, and that were not handed out */
	struct sg_link taken;		/* those that were */
	u32 taken_count;		/* at most SOFTGPU_MAX_FUNCS */
	struct sg_link streams;		/* with stream0 */
	struct sg_stream stream0;
	u64 next_seq;			/* seq of the next job; orders blocking streams */
	struct sg_heap heap;		/* its memory */
};

struct sg_phys {
	struct sg_obj obj;
	struct sg_mem *mem;
};

/* An address range mapped to one mem: the unit of pinning. */
struct sg_range {
	struct sg_node node;		/* in *tree: va, length */
	struct sg_tree *tree;		/* fixed; &proc->ranges or &proc->copies */
	struct sg_link in_slabs;	/* heap->slabs */
	struct sg_link pins, kept;	/* pins of this range; kept: persistent ones */
	struct sg_proc *proc;		/* fixed */
	struct sg_heap *heap;		/* NULL: of no context */
	struct sg_mem *mem;		/* fixed */
	struct sg_extent *window;	/* addresses to give back; NULL: part of a reservation */
	u32 bufs;
	u32 access;			/* SG_READ and SG_WRITE: accesses allowed to copies */
	bool imported;			/* counted in mem->imports */
	bool visible;			/* fixed; the CPU can see it at its address */
	u8 *slots;			/* of a slab: enum sg_slot each; else NULL */
	u32 unused;			/* number of slots that are free or in limbo */
	u32 limbo;			/* number of slots in limbo */
};

enum sg_slot { SG_SLOT_FREE, SG_SLOT_USED, SG_SLOT_LIMBO };

/* One allocation as the program knows it. */
struct sg_buf {
	struct sg_node node;		/* in proc->bufs: va, length asked for */
	struct sg_link in_owner;	/* heap->bufs, or client->bufs when it has none */
	struct sg_proc *proc;		/* fixed */
	struct sg_heap *heap;		/* fixed; NULL: none */
	struct sg_range *range;		/* NULL: host memory */
	struct sg_phys *phys;		/* VMM: a reference; queries return its handle */
	struct sg_alias *alias;		/* device pointer, if unlike the host pointer; or NULL */
	u64 buffer_id;			/* fixed */
	struct sg_share *share;		/* opened by its IPC key; NULL until requested */
	struct sg_link in_share;	/* IPC: share->imports, while the share exists */
	u32 opens;			/* IPC: opens minus closes */
	u32 frees;			/* calls that wait to free it, or to close it; queued frees of memory of no context */
	u32 queued;			/* FREE jobs */
	struct sg_link in_ended;	/* proc->ended */
	u32 late;			/* SOFTGPU_VALUE_WRITEs that were queued on it, ever */
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

/* Returns the object of a tree by address that contains va; `node` must be its first tree node. */
static inline struct sg_node *sg_covering(const struct sg_tree *tree, u64 va)
{
	struct sg_node *n = sg_tree_floor(tree, va);

	return n && va - n->key < n->len ? n : NULL;
}

/* Does any object in the tree overlap [va, va + len)? */
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

static inline bool sg_is_contextless(const struct sg_buf *buf)
{
	return buf->heap && !buf->heap->obj;
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

/*
 * Is memory there that a call is about to free, or memory of no context that a stream will free?  A call waits only for what was
 * queued before it, so nothing is queued on that memory any more.  SOFTGPU_VALUE_WRITE is: the call may be waiting for that write.  What a program registered stays
 * the program's.
 */
static inline bool sg_is_leaving(const struct sg_proc *proc, u64 va)
{
	const struct sg_buf *buf = sg_buf_at(proc, va);

	return buf && buf->frees && buf->frees >= buf->opens && buf->kind != SOFTGPU_KIND_REGISTERED;
}

/* The same as sg_buf_at(), as the program sees it: memory of no context that a stream will free is gone. */
static inline struct sg_buf *sg_buf_seen_at(const struct sg_proc *proc, u64 va)
{
	struct sg_buf *buf = sg_buf_at(proc, va);

	return buf && sg_is_contextless(buf) && sg_is_leaving(proc, va) ? NULL : buf;
}

/* Is va in the window, but neither in VRAM nor in host memory of ours?  Then nothing is there. */
static inline bool sg_is_hole(const struct sg_proc *proc, u64 va)
{
	return sg_in_window(proc, va) && !sg_range_at(proc, va) && !sg_buf_at(proc, va);
}

/* gpu.c */
/* Makes a GPU with one reference, which is in no list.  sg_gpu_free(): before it is in one. */
int sg_gpu_new(struct sg *sg, const struct sg_gpu_desc *desc, struct sg_gpu **out);
void sg_gpu_free(struct sg_gpu *gpu);
void sg_gpu_get_locked(struct sg_gpu *gpu);
void sg_gpu_put_locked(struct sg_gpu *gpu);
/* desc.vram may be accessed between these two calls.  False: the GPU was removed. */
bool sg_gpu_enter_locked(struct sg_gpu *gpu);
void sg_gpu_leave_locked(struct sg_gpu *gpu);

/* mem.c */
/* Allocates zeroed VRAM, with one reference.  Called without the lock. */
int sg_mem_create(struct sg_gpu *gpu, u64 size, struct sg_mem **out);
void sg_mem_get_locked(struct sg_mem *mem);
void sg_mem_put_locked(struct sg_mem *mem);
/* The same for system memory, not zeroed. */
int sg_mem_create_system(struct sg_gpu *gpu, u64 size, struct sg_mem **out);
/*
 * Returns the CPU address of `offset`, to be used between sg_gpu_enter_locked() and leave;
 * *run is the number of bytes that are contiguous there.
 */
void *sg_mem_at(const struct sg_mem *mem, u64 offset, u64 *run);
/* The same, of memory that is in VRAM: its offset there. */
u64 sg_mem_vram_at(const struct sg_mem *mem, u64 offset, u64 *run);
/*
 * Returns the physical address of `offset`. _pages: writes that of each 64 KiB page of
 * [offset, offset + len), one every `stride` bytes from `to` on.
 */
u64 sg_mem_phys(const struct sg_mem *mem, u64 offset);
void sg_mem_phys_pages(const struct sg_mem *mem, u64 offset, u64 len, u64 *to, size_t stride);
/* bar1.c */
/*
 * Charges the pages of [offset, offset + len) to the aperture if they are in VRAM, or
 * charges none and returns -ENOSPC.
 */
int sg_bar1_take_locked(struct sg_mem *mem, u64 offset, u64 len);
void sg_bar1_give_locked(struct sg_mem *mem, u64 offset, u64 len);

/* proc.c */
/* Returns the process with this key, or NULL. */
struct sg_proc *sg_proc_by_key_locked(struct sg *sg, const void *key);
void sg_proc_put_locked(struct sg_proc *proc);

/* ctx.c */
int sg_ctx_create(struct sg_client *client, u32 flags, u32 *handle);
/* Drops the lock.  Frees everything that belongs to the context; the caller holds a reference. */
void sg_ctx_destroy_locked(struct sg_ctx *ctx);
/*
 * Returns the context with these tokens, or NULL.  If several share them, the one whose
 * process has va in its window.
 */
struct sg_ctx *sg_ctx_by_token_locked(struct sg *sg, u64 p2p_token, u32 va_space_token, u64 va);
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

/* server.c */
/*
 * Makes a process with this window a client of a server.  -EEXIST: the window overlaps
 * another client's; -ENOMEM.
 */
int sg_server_join_locked(struct sg_proc *proc, u64 user, u32 number, u64 base, u64 length);
void sg_server_leave_locked(struct sg_proc *proc);
/* A context joins or leaves those that its server's clients share. */
void sg_shared_enter_locked(struct sg_ctx *ctx);
void sg_shared_leave_locked(struct sg_ctx *ctx);

/* buf.c */
int sg_buf_alloc(struct sg_client *client, struct softgpu_mem_alloc *a);
/* kinds: a bit for each enum softgpu_kind. */
int sg_buf_free(struct sg_client *client, u64 va, u32 kinds);
int sg_buf_register(struct sg_client *client, struct softgpu_host_register *a);
int sg_buf_unregister(struct sg_client *client, u64 va);
/* Drops the lock.  Frees a buf.  If it was its range's last, the range's pins are revoked. */
void sg_buf_release_locked(struct sg_buf *buf);
/* The buf that begins at va, if it has this buffer_id. */
struct sg_buf *sg_buf_same_locked(const struct sg_proc *proc, u64 va, u64 id);
struct sg_buf *sg_buf_new(struct sg_proc *proc, struct sg_heap *heap, u32 kind);
void sg_buf_publish_locked(struct sg_buf *buf, u64 va, u64 len, struct sg_link *owner);
/* On success, the caller's reference to mem is the range's. */
struct sg_range *sg_range_new(struct sg_proc *proc, struct sg_heap *heap, struct sg_mem *mem);
void sg_range_publish_locked(struct sg_range *range, u64 va);
/*
 * Drops the lock.  When this returns, the CPU does not see the range any more, unless it is
 * shown anew.
 */
void sg_range_hide_locked(const struct sg_range *range);
/*
 * Drops the lock.  Ends a range: revokes its pins, then gives back its addresses, then its
 * memory.
 */
void sg_range_end_locked(struct sg_range *range);
/* Gives a new range addresses in its process's window, and publishes it. */
int sg_range_place_locked(struct sg_range *range);
/* Makes freed slots of a slab available again, if its last pin, import and keep are gone. */
void sg_slab_unpinned_locked(struct sg_range *range);

/* alias.c */
/* Gives a buf a device pointer of its own, before it is published at va. */
int sg_alias_new_locked(struct sg_buf *buf, u64 va, u64 len);
void sg_alias_end_locked(struct sg_buf *buf);
struct sg_alias *sg_alias_at(const struct sg_proc *proc, u64 va);
/*
 * Replaces a device pointer that is an alias by the host address; other addresses stay.
 * False: the span is not all inside the alias.
 */
bool sg_alias_resolve_locked(const struct sg_proc *proc, u64 *va, u64 span);

/* phys_ipc.c */
int sg_phys_create(struct sg_client *client, struct softgpu_phys_create *a);
int sg_phys_export(struct sg_client *client, struct softgpu_phys_export *a);
int sg_phys_import(struct sg_client *client, struct softgpu_phys_import *a);

/*
 * 128 random bits that prove a right.  Compared without a branch, so that the time taken
 * reveals nothing about them.
 */
static inline void sg_key_make(u64 key[2])
{
	key[0] = sg_random64();
	key[1] = sg_random64();
}

static inline bool sg_key_opens(const u64 key[2], const u64 given[2])
{
	return !((key[0] ^ given[0]) | (key[1] ^ given[1]));
}

/* key.c */
struct sg_mem_key {
	struct sg_node node;		/* in sg->mem_keys, by id */
	struct sg_mem *mem;		/* fixed; no reference: the key is freed with mem */
	u64 key[2];			/* fixed */
};

struct sg_mem_key *sg_mem_key_new(void);
/* Returns the memory's key.  If it has none yet, it gets *fresh, which is then NULL. */
const struct sg_mem_key *sg_mem_key_locked(struct sg_mem *mem, struct sg_mem_key **fresh);
/* Returns the memory that this key opens, or NULL. */
struct sg_mem *sg_mem_by_key_locked(struct sg *sg, u64 id, const u64 key[2]);
void sg_mem_key_end_locked(struct sg_mem *mem);

/* share.c */
struct sg_share {
	struct sg_node node;		/* in sg->shares, by id */
	struct sg_buf *buf;		/* fixed */
	u64 key[2];			/* fixed */
	struct sg_link imports;		/* bufs, by in_share */
};

struct sg_share *sg_share_new(void);
/* Returns the allocation's share.  If it has none yet, it gets *fresh, which is then NULL. */
const struct sg_share *sg_share_locked(struct sg_buf *buf, struct sg_share **fresh);
/* Returns the share that this key opens, or NULL. */
struct sg_share *sg_share_by_key_locked(struct sg *sg, u64 id, const u64 key[2]);
/* The allocation is being freed: its key opens nothing any more. */
void sg_share_end_locked(struct sg_buf *buf);

/* slab.c */
void sg_slots_set(struct sg_range *slab, u32 first, u32 count, enum sg_slot state);
u32 sg_slots_of(const struct sg_range *slab);
u32 sg_slots_for(u64 len);
/* Returns the first of so many free slots; the number of slots: no room. */
u32 sg_slots_find(const struct sg_range *slab, u32 count);
bool sg_slab_in_use_elsewhere(const struct sg_range *slab);

/* alloc.c */
/*
 * May drop the lock.  Gives a new buf of buf->heap its range and address.  -ENOSPC, -ENOMEM;
 * -ENOENT: the context was destroyed meanwhile; -ENODEV.
 */
int sg_buf_place_locked(struct sg_buf *buf, u64 len, u64 *va);

/* allocate.c */
/* Returns the heap of a context with a reference, as sg_ctx_live_locked(); 0: the client's own. */
int sg_heap_get_locked(struct sg_client *client, u32 ctx, struct sg_heap **out);
void sg_heap_put_locked(struct sg_heap *heap);

/* ipc.c */
int sg_ipc_export(struct sg_client *client, struct softgpu_ipc_export *a);
int sg_ipc_open(struct sg_client *client, struct softgpu_ipc_open *a);
int sg_ipc_close(struct sg_client *client, u64 va, u32 kinds);

/* vmm.c */
int sg_vmm_window(struct sg_client *client, struct softgpu_window *a);
int sg_vmm_reserve(struct sg_client *client, struct softgpu_va_reserve *a);
int sg_vmm_release(struct sg_client *client, u64 va);
int sg_vmm_map(struct sg_client *client, struct softgpu_map *a);
int sg_vmm_unmap(struct sg_client *client, u64 va, u64 len);
int sg_vmm_access(struct sg_client *client, u64 va, u64 len, u32 access);
/* Drops the lock.  Frees the bufs in a reservation, then the reservation. */
void sg_reservation_destroy_locked(struct sg_proc *proc, struct sg_reservation *r);

/* pin.c */
/* Makes a live pin of [offset, offset + length) of mem, and of no range. */
int sg_pin_take_locked(struct sg_pin *pin, const struct sg_pin_ops *ops, struct sg_mem *mem, u64 offset, u64 va,
		       u64 length, bool persistent);
void sg_pin_attach_locked(struct sg_pin *pin, struct sg_range *range);
/* Returns the live pin at this address, if its serial is this one or serial is 0; NULL: none. */
struct sg_pin *sg_pin_live_at_locked(struct sg *sg, const void *key, u64 serial);
/* May drop the lock.  As sg_pin_put(), of the pin with this serial, if that is not 0. */
int sg_pin_put_locked(struct sg *sg, const void *key, bool persistent, u64 serial, bool no_wait);
/*
 * Drops the lock.  Revokes the pins of a range that was removed from proc->ranges, and
 * unlinks its persistent pins.
 */
void sg_pins_revoke_locked(struct sg_range *range);
/* Drops the lock.  Unmaps the persistent pins of a removed GPU. */
void sg_pins_orphan_locked(struct sg_gpu *gpu);

/* Drops the lock.  Revokes one random pin of the GPU. */
void sg_pin_revoke_any_locked(struct sg_gpu *gpu);

/* keep.c */
/* Returns the mapping of the memory, if the process still has it. */
struct sg_range *sg_keep_range_locked(const struct sg_keep *keep);

/* chaos.c */
/* Counts down; returns whether this operation is the one to fail. */
bool sg_chaos_hits_locked(u32 *countdown);
u64 sg_chaos_random_locked(struct sg *sg);
/* To be called after each pin: schedules a revocation if one is due. */
void sg_chaos_pinned_locked(struct sg_gpu *gpu);

/* strict.c */
/*
 * Returns whether this job, about to be queued, is held back; counts the rule that it breaks.
 * A job that writes a word that a stream waits for is not.
 */
bool sg_strict_holds_locked(struct sg_job *job);
/*
 * To be called when a wait for a value was queued: releases the jobs that write the word, and
 * those before them.
 */
void sg_strict_awaits_locked(const struct sg_job *wait);
/* To be called after a pin of these addresses: counts the rule that held work on them breaks. */
void sg_strict_pinned_locked(struct sg_range *range, u64 va, u64 len);
void sg_rule_break_locked(struct sg *sg, enum sg_rule rule);
/*
 * For a call that synchronizes with the stream: releases the jobs that it has queued, and
 * those that these wait for.
 */
void sg_strict_release_locked(struct sg_stream *s);
/* The same for all streams of a context. */
void sg_strict_release_ctx_locked(struct sg_ctx *ctx);
bool sg_sync_memops_locked(struct sg_proc *proc, u64 va);

/* managed.c */
/*
 * Drops the lock.  Strict mode: returns the copy of the managed memory at va that a pin
 * gets.  -EINVAL: no managed memory there, or strict mode is off.
 */
int sg_managed_copy_locked(struct sg_proc *proc, u64 va, struct sg_range **out);
bool sg_is_managed_copy(const struct sg_range *range);
/*
 * Drops the lock.  An engine has read or written host memory at va; `local` has the same
 * bytes.  Updates copies of managed memory.
 */
void sg_managed_moved_locked(struct sg_proc *proc, u64 va, const void *local, u64 len);

/* query.c */
int sg_query(struct sg_client *client, struct softgpu_query *a);
int sg_set_attr(struct sg_client *client, struct softgpu_set_attr *a);
int sg_info_call(struct sg_client *client, struct softgpu_info *a);

/*
 * A job of a stream.  Fields other than the links are fixed once it is queued; an engine
 * that runs the job owns it.
 */
enum sg_op {
	SG_OP_COPY, SG_OP_FILL, SG_OP_RECORD, SG_OP_WAIT, SG_OP_WATCH, SG_OP_WRITE_VALUE, SG_OP_WAIT_VALUE, SG_OP_HOST_FUNC,
	SG_OP_FREE,
};

/*
 * What a kind of job does.  NULL: nothing.  Each operation but run is called with the lock
 * held, and all but poll return with it held throughout.
 */
struct sg_job_ops {
	/* Before the job is queued, as the last step that may fail: 0 or -errno. */
	int (*check)(struct sg_job *job);
	/* Once it is queued; returns what the call returns.  May drop the lock. */
	int (*queued)(struct sg_job *job);
	/*
	 * The stream has come to the job.  True: it goes on without an engine, and another
	 * thread completes it.
	 */
	bool (*begin)(struct sg_job *job);
	/* By an engine, without the lock: 0; -EFAULT; -EAGAIN: host memory is not there (fetch.c). */
	int (*run)(struct sg_engine *e, struct sg_job *job);
	/*
	 * By the watcher, which may drop the lock.  0: look again; 1: done; -EFAULT; -EAGAIN, with *f
	 * for sg_missing_locked().
	 */
	int (*poll)(struct sg_job *job, u64 now, struct sg_fetch **f);
	/* It is done, or was dropped, and is freed next. */
	void (*end)(struct sg_job *job);
};

struct sg_job {
	struct sg_link link;		/* stream->jobs, or client->missing */
	struct sg_link in_poll;		/* gpu->polled */
	struct sg_stream *stream;	/* referenced once it is queued */
	const struct sg_job_ops *ops;
	enum sg_op op;
	bool held;			/* strict: may run only when seq < stream->released_seq */
	u32 refs;			/* the stream; RECORD: the jobs and threads that wait for it; HOST_FUNC: ctx->funcs, if failed */
	u64 seq;			/* from ctx->next_seq, when it was queued */
	u64 index;			/* among its stream's jobs, from 1 */
	struct {
		u64 va, len;		/* of the latest host memory that was accessed */
		bool write;
		u32 tries;		/* since the job last got on */
		struct sg_fetch *fetch;
	} missing;			/* fetch.c */
	union {
		struct {
			u64 dst, src, width, height, dst_pitch, src_pitch;
			u64 row, at;	/* done: rows, and bytes of the next one */
			u32 value, elem;
			bool sync;	/* the call waits until it is done */
			u8 *seen;	/* strict: contents of src when queued; NULL: unknown */
			bool late;	/* strict: src has changed since then */
		} move;			/* COPY and FILL */
		struct {
			u32 handle;		/* of the event */
			struct sg_event *event;	/* referenced */
			u64 serial;		/* RECORD only */
			struct sg_link pending;	/* event->pending, RECORD only */
			struct sg_job *record;	/* WAIT only: referenced; NULL: nothing to wait for */
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
			struct sg_link in_ctx;	/* ctx->funcs or ctx->taken, from when the stream has come to it */
			bool failed;		/* handed out as failed; the stream does not wait for it */
		} func;
		struct {
			u64 va, buffer_id;
			bool hidden;		/* counted in buf->frees */
		} free;
	};
};

/* job.c */
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

/* queue.c */
void sg_stream_init(struct sg_stream *s, struct sg_ctx *ctx, bool non_blocking);
/* One more reference, which sg_stream_put_locked() drops. */
void sg_stream_hold_locked(struct sg_stream *s);
void sg_stream_put_locked(struct sg_stream *s);
/*
 * Queues a job; from here on the stream owns it.  The job holds the stream until it has
 * completed.
 */
void sg_submit_locked(struct sg_job *job);
/* Takes a job that may run from some stream of the GPU; NULL: there is none.  The caller runs it. */
struct sg_job *sg_take_any_locked(struct sg_gpu *gpu);
/* A job that was just queued: if nothing is before it and it may run, takes it, and the caller runs it. */
bool sg_take_if_first_locked(struct sg_job *job);
/* Returns a job that was taken to the head of its stream. */
void sg_requeue_locked(struct sg_job *job);
/* A job is done or dropped: wakes all threads that may wait for it, and frees it. */
void sg_complete_locked(struct sg_job *job);
/* A job accessed unmapped memory: kills its context. */
void sg_fault_locked(struct sg_ctx *ctx);
/* Is any job with a lower seq not done yet? */
bool sg_ctx_busy_before_locked(const struct sg_ctx *ctx, u64 seq);

/* drain.c */
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
int sg_buf_settled_locked(struct sg_client *client, u64 va, u32 kinds, struct sg_buf **out);

/* stream.c */
/* Returns a context with a reference.  -ENOENT; -EIO: it has faulted; -ENODEV: its GPU was removed. */
int sg_ctx_live_locked(struct sg_client *client, u32 handle, struct sg_ctx **out);
/*
 * The same for a stream of a context, 0 being the default stream; sg_stream_put_locked() drops the
 * reference.
 */
int sg_stream_get_locked(struct sg_client *client, u32 ctx, u32 handle, struct sg_stream **out);
/* Counts one more stream of the process. 0, or -ENOMEM: it has as many as it may. */
int sg_stream_count_locked(struct sg_proc *proc);
/* Finds the stream, then checks and queues the job, as its operations say; frees it on an error. */
int sg_enqueue(struct sg_client *client, u32 ctx, u32 stream, struct sg_job *job);
int sg_stream_create(struct sg_client *client, struct softgpu_stream_create *a);
int sg_stream_destroy(struct sg_client *client, struct softgpu_stream *a);
int sg_stream_query(struct sg_client *client, struct softgpu_stream *a);
int sg_stream_sync(struct sg_client *client, struct softgpu_stream *a);

/* event.c */
int sg_event_create(struct sg_client *client, struct softgpu_event_create *a);
int sg_event_record(struct sg_client *client, struct softgpu_event *a);
int sg_event_query(struct sg_client *client, struct softgpu_event *a);
int sg_event_sync(struct sg_client *client, struct softgpu_event *a);
int sg_stream_wait(struct sg_client *client, struct softgpu_event *a);

/* copy.c */
int sg_copy(struct sg_client *client, struct softgpu_copy *a);
int sg_fill(struct sg_client *client, struct softgpu_fill *a);

/* watcher.c */
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

/* watch.c */
int sg_watch(struct sg_client *client, struct softgpu_watch *a);
int sg_flush(struct sg_client *client, u32 ctx);
/* An engine has written to VRAM there.  Emulated kernels see what the GPU itself writes. */
void sg_watch_written_locked(struct sg_gpu *gpu, const void *vram, u64 len);

/* value.c */
int sg_value(struct sg_client *client, struct softgpu_value *a);

/* freejob.c */
int sg_mem_free_async(struct sg_client *client, struct softgpu_mem_free_async *a);
/* Drops the lock.  Frees what the process's streams have come to. */
void sg_reap_locked(struct sg_proc *proc);
/* The same.  At the beginning and the end of some calls. */
void sg_reap(struct sg_client *client);

/* hostfunc.c */
int sg_host_func(struct sg_client *client, struct softgpu_host_func *a);
int sg_host_func_next(struct sg_client *client, struct softgpu_host_func *a);
int sg_host_func_done(struct sg_client *client, struct softgpu_host_func *a);
/* The caller of sg_host_func_next() did not get the answer: the call is handed out again. */
void sg_host_func_untake(struct sg_client *client, const struct softgpu_host_func *a);
/* Drops the lock.  The context has lost its handle: drops all calls, and ends all waits for one. */
void sg_funcs_end_locked(struct sg_ctx *ctx);

/* fetch.c */
/* ops->copy for a job; -EAGAIN: the job is to be given to sg_missing_locked().  Called without the lock. */
int sg_host_copy(const struct sg_client *client, struct sg_job *job, void *local, u64 va, u64 len, bool to_process);
/*
 * Drops the lock.  Takes over a running job that sg_host_copy() has returned -EAGAIN for, and
 * f, which is zeroed; or frees f, if that is not NULL, and returns an error.
 */
int sg_missing_locked(struct sg_job *job, struct sg_fetch *f);
/* The context is dead: drops its jobs of that sort. */
void sg_missing_drop_locked(struct sg_ctx *ctx);
/* The client, which has no job any more, is being closed.  True: a fetch is under way. */
bool sg_missing_close_locked(struct sg_client *client);

/* engine.c */
#define SG_BOUNCE_SIZE	((u64)1 << 16)

struct sg_engine {
	struct sg_gpu *gpu;
	struct sg_thread thread;
	void *bounce;		/* for copies within a process's memory, and for fill patterns */
};

int sg_engines_start(struct sg_gpu *gpu);
void sg_engines_stop(struct sg_gpu *gpu);

#endif
