/* SPDX-License-Identifier: MIT */
/*
 * memory.h - the core's lowest layer: VRAM, address spaces, allocations, and pins with their
 * revocation.  The layers work (work.h) and clients (clients.h) use it, and it calls neither
 * directly.  It calls only the release operations that they set in struct sg_obj and sg_proc.
 *
 * Lock: sg->lock guards every field of every object of all three layers, except those marked
 * "fixed" (set before the object is published) and those of a job that an engine is running.
 * Functions ending in _locked are called with the lock held and return with it held.  Those
 * marked "drops the lock" release it in between, so the caller must then look up again
 * everything that it had found before.
 *
 * Waits.  A process can be killed at any time, and must then exit soon.  So each wait on
 * behalf of a process is of one of two kinds.  If you add a wait, list it here:
 *
 *    killable: sg_cond_wait_killable().  For the program's own work, which may take hours.
 *    The call fails with -EINTR and has done nothing but what it had queued.
 *      work/drain.c        STREAM_SYNC, CTX_SYNC, COPY and FILL that synchronize, and calls that
 *                          free memory: MEM_FREE, HOST_UNREGISTER, IPC_CLOSE
 *      work/event.c        EVENT_SYNC
 *      work/hostfunc.c     HOST_FUNC_NEXT, which a thread of the program waits in all the time
 *      memory/movable.c    a move waits for copies under way on its GPU
 *      clients/allocate.c  MEM_ALLOC with SOFTGPU_ALLOC_WAIT waits until a stream frees memory
 *
 *    bounded: sg_cond_wait(), for another thread's work that does not itself wait for the program.
 *    Teardown must complete, whether the process was killed or not.
 *      clients/ctx.c       sg_ctx_destroy_locked(): queued jobs are dropped, watches and waits for
 *                          values end at the next look, copies at the next piece (CHUNK of
 *                          copy.c), jobs whose memory is being fetched at once (fetch.c)
 *      memory/pin.c        a revocation or put waits for the client's callback, and for holds: a
 *                          personality's call
 *      clients/client.c    sg_client_close() waits for a context that another thread is destroying
 *      work/fetch.c        and for a thread that is in ops->fetch, which begins to fetch memory
 *      clients/machine.c   removal of a GPU, which an administrator does, waits for all of these
 *    Engines and the watcher wait for work: they are the core's own threads.  The lock itself
 *    is held for steps of the core only, the longest of which copies one allocation (movable.c).
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
 *    VRAM goes back to its GPU when the last reference to its mem is dropped.  References are
 *    held by ranges (including those of other processes' imports), handles, pins, struct
 *    sg_movable, and copies under way.
 */
#ifndef SG_MEMORY_H
#define SG_MEMORY_H

#include "../sg.h"
#include "../base/hash.h"
#include "../base/list.h"
#include "../base/object.h"
#include "../base/tree.h"
#include "space.h"

#define SG_SLOT_SIZE	512u	/* unit of small allocations */
#define SG_SMALL_MAX	(SG_PAGE_SIZE / 2)	/* longer allocations get pages of their own */
#define SG_BLOCK_SIZE	((u64)2 << 20)	/* desc.blocks: size of shared blocks */

struct sg_engine;
struct sg_mem_key;
struct sg_server;
struct sg_share;

/* ---- the machine, its GPUs, and processes: each layer has its fields in them ---- */

struct sg {
	struct sg_mutex lock;
	struct sg_cond ended;		/* broadcast when a pin, a hold, or a GPU's use has ended */
	struct sg_gpu *gpus[SOFTGPU_MAX_GPUS];
	struct sg_link procs;
	struct sg_hash pins;		/* by address */
	struct sg_tree shares;		/* by id */
	struct sg_tree mem_keys;	/* by id */
	u32 objects;			/* handles, allocations, reservations of all processes */
	u64 next_buffer_id;
	u64 next_share_id;
	u64 next_pin_serial;
	struct sg_chaos chaos;
	u32 pins_until_revoke;		/* countdown; 0: off */
	u64 random;			/* state of the generator, from chaos.seed */
	enum softgpu_platform platform;

	/* work */
	struct sg_link ctxs;		/* contexts with valid tokens */
	/* number of searches so far for work on memory that is being freed (drain.c) */
	u64 searches;
	u64 broken[SG_RULES];

	/* clients */
	struct sg_link servers;
};

struct sg_gpu {
	struct sg *sg;			/* fixed */
	u32 index;			/* fixed */
	struct sg_gpu_desc desc;	/* fixed; desc.vram: only between enter and leave */
	char name[SOFTGPU_NAME_LEN];	/* fixed */
	u32 refs;			/* clients, mems, and one while the GPU is present */
	u32 entered;			/* threads using VRAM now: sg_gpu_enter_locked() */
	u32 awaited;			/* threads waiting for `entered` to become 0 */
	bool removed;
	struct sg_space vram;
	u32 *page_pins;			/* per 64 KiB page: pins that hold it */
	u64 bar1_used;			/* bytes, without desc.bar1_reserved */
	struct sg_link pinned;		/* pins, the oldest first */
	struct sg_link orphans;		/* pins that outlived the GPU */
	u32 pins;
	u64 revocations;
	u32 watches;			/* running watches: memory does not move under them */
	bool revoke_due;		/* chaos: the next engine revokes a random pin */

	/* work */
	struct sg_cond work;		/* broadcast when an engine or the watcher may have work */
	struct sg_link runnable;	/* streams with queued jobs and none running */
	struct sg_engine *engines;
	bool stop;
	struct sg_link polled;		/* jobs that the watcher looks at, by job->in_poll */
	struct sg_thread watcher;
	bool has_watcher;		/* the watcher was started, by the first job for it */
	u64 copies, bytes_copied;

	/* clients */
	u32 clients, ctxs;
};

/* A process's address space, shared by its clients. */
struct sg_proc {
	struct sg *sg;			/* fixed */
	const void *key;		/* fixed */
	struct sg_link link;
	u32 refs;			/* clients, and ranges that are being ended */
	void (*release)(struct sg_proc *proc);	/* fixed; called before it is freed */
	bool has_window;
	u64 window_base, window_len;
	struct sg_space window;		/* its free parts */
	struct sg_tree bufs;		/* allocations of the program, by address */
	struct sg_tree ranges;		/* mappings of VRAM, by address */
	/* device pointers that differ from host pointers (alias.c) */
	struct sg_tree aliases;
	struct sg_tree copies;		/* strict: VRAM copies of managed memory, by address */
	struct sg_tree reservations;	/* of cuMemAddressReserve, by address */
	struct sg_handles handles;

	/* work */
	u32 streams;			/* default streams included; at most SOFTGPU_MAX_STREAMS */
	u64 held;			/* strict: held jobs that are not done */
	struct sg_link freed;		/* bufs freed by a stream; the next call releases them */
	bool has_freed;			/* there are some; atomic, read without the lock */
	u32 contextless_frees;		/* queued FREE jobs of memory that belongs to no context */

	/* clients */
	struct sg_server *server;	/* fixed with the window; NULL: none */
};

/* ---- memory and where it is mapped ---- */

/*
 * Memory of one allocation: whole 64 KiB pages of VRAM, not necessarily contiguous, or
 * system memory that it was moved to.  Its location changes only while all users of the mem
 * are threads that look it up anew for each access: movable.c.
 */
struct sg_mem {
	struct sg_gpu *gpu;		/* fixed */
	u64 size;			/* fixed */
	struct sg_extent *first;	/* extents of gpu->vram; NULL: in system memory */
	void *system;
	u32 refs;
	u32 imports;			/* ranges of other processes, by IPC */
	u32 movables;			/* struct sg_movable that refer to it */
	bool moving;
	bool no_rdma;			/* fixed; no personality may pin it */
	struct sg_mem_key *key;		/* opens it in other processes; NULL until requested */
};

/* The memory of a context, or of a client without a context. */
struct sg_heap {
	struct sg_obj *obj;		/* fixed; the context; NULL: none */
	struct sg_gpu *gpu;		/* fixed */
	bool visible;			/* fixed; the CPU can see its memory */
	bool system;			/* fixed; its memory is system memory */
	struct sg_link bufs;
	struct sg_link slabs;		/* ranges shared by small allocations */
};

/* An address range mapped to one mem: the unit of pinning. */
struct sg_range {
	struct sg_node node;		/* in *tree: va, length */
	struct sg_tree *tree;		/* fixed; &proc->ranges or &proc->copies */
	struct sg_link in_slabs;	/* heap->slabs */
	struct sg_link pins, persistent;	/* pins that a free revokes; pins that it leaves */
	struct sg_proc *proc;		/* fixed */
	struct sg_heap *heap;		/* fixed; a reference to its context; NULL: none */
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

/* One allocation as the program knows it. */
struct sg_buf {
	struct sg_node node;		/* in proc->bufs: va, length asked for */
	struct sg_link in_owner;	/* heap->bufs, or client->bufs when it has no heap */
	struct sg_proc *proc;		/* fixed */
	struct sg_heap *heap;		/* fixed; NULL: mapped without a context */
	struct sg_range *range;		/* NULL: host memory */
	struct sg_obj *phys;		/* VMM: a reference; queries return its handle */
	/* the device pointer, if it differs from the host pointer; or NULL */
	struct sg_alias *alias;
	u64 buffer_id;			/* fixed */
	struct sg_share *share;		/* opened by its IPC key; NULL until requested */
	struct sg_link in_share;	/* IPC: share->imports, while the share exists */
	u32 opens;			/* IPC: opens minus closes */
	/* calls waiting to free it; for memory without a context: queued frees */
	u32 freeing;
	u32 queued_frees;		/* FREE jobs that are not done */
	struct sg_link in_freed;	/* proc->freed */
	u32 late_writes;		/* SOFTGPU_VALUE_WRITEs that were queued on it, ever */
	u32 kind;			/* fixed; enum softgpu_kind */
	u32 host_flags;
	bool sync_memops;
};

struct sg_alias {
	struct sg_node node;		/* in proc->aliases: device pointer, length of the buf */
	struct sg_buf *buf;
	struct sg_extent *window;
};

/* ---- what is at an address ---- */

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

/* The buf that begins at va, if it has this buffer_id. */
static inline struct sg_buf *sg_buf_same_locked(const struct sg_proc *proc, u64 va, u64 id)
{
	struct sg_buf *buf = SG_NODE_OF(sg_tree_find(&proc->bufs, va), struct sg_buf);

	return buf && buf->buffer_id == id ? buf : NULL;
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
 * Returns whether va is in memory that a call is about to free, or in memory of no context
 * that a stream will free.  The call waits only for work that was queued before it, so no more
 * work may be queued on that memory.  The exception is SOFTGPU_VALUE_WRITE: the call may be
 * waiting for a job that waits for that write.  Registered memory stays the program's, so it
 * never counts.
 */
static inline bool sg_is_being_freed(const struct sg_proc *proc, u64 va)
{
	const struct sg_buf *buf = sg_buf_at(proc, va);

	return buf && buf->freeing && buf->freeing >= buf->opens &&
	       buf->kind != SOFTGPU_KIND_REGISTERED;
}

/*
 * As sg_buf_at(), but returns NULL for memory that belongs to no context and that a stream will
 * free: for the program it no longer exists.
 */
static inline struct sg_buf *sg_buf_known_at(const struct sg_proc *proc, u64 va)
{
	struct sg_buf *buf = sg_buf_at(proc, va);

	return buf && sg_is_contextless(buf) && sg_is_being_freed(proc, va) ? NULL : buf;
}

/* Returns whether va is in the window, but in no range and no buf: nothing is mapped there. */
static inline bool sg_is_hole(const struct sg_proc *proc, u64 va)
{
	return sg_in_window(proc, va) && !sg_range_at(proc, va) && !sg_buf_at(proc, va);
}

/* ---- gpu.c ---- */

/* Makes a GPU with one reference, which is in no list.  sg_gpu_free() undoes that. */
int sg_gpu_new(struct sg *sg, const struct sg_gpu_desc *desc, struct sg_gpu **out);
void sg_gpu_free(struct sg_gpu *gpu);
void sg_gpu_get_locked(struct sg_gpu *gpu);
void sg_gpu_put_locked(struct sg_gpu *gpu);
/* desc.vram may be accessed between these two calls.  False: the GPU was removed. */
bool sg_gpu_enter_locked(struct sg_gpu *gpu);
void sg_gpu_leave_locked(struct sg_gpu *gpu);

/* ---- mem.c ---- */

/* Allocates zeroed VRAM, with one reference.  Called without the lock. */
int sg_mem_create(struct sg_gpu *gpu, u64 size, struct sg_mem **out);
/* The same for system memory, not zeroed. */
int sg_mem_create_system(struct sg_gpu *gpu, u64 size, struct sg_mem **out);
void sg_mem_get_locked(struct sg_mem *mem);
void sg_mem_put_locked(struct sg_mem *mem);
/*
 * Returns the CPU address of `offset`, to be used between sg_gpu_enter_locked() and leave;
 * *run is the number of bytes that are contiguous there.
 */
void *sg_mem_at(const struct sg_mem *mem, u64 offset, u64 *run);
/* Returns where `offset` of a mem in VRAM is in VRAM. */
u64 sg_mem_vram_at(const struct sg_mem *mem, u64 offset, u64 *run);
/*
 * Returns the physical address of `offset`. _pages: writes that of each 64 KiB page of
 * [offset, offset + len), one every `stride` bytes from `to` on.
 */
u64 sg_mem_phys(const struct sg_mem *mem, u64 offset);
void sg_mem_phys_pages(const struct sg_mem *mem, u64 offset, u64 len, u64 *to, size_t stride);

/* ---- bar1.c ---- */

/*
 * Charges the pages of [offset, offset + len) to the aperture if they are in VRAM, or
 * charges none and returns -ENOSPC.
 */
int sg_bar1_take_locked(struct sg_mem *mem, u64 offset, u64 len);
void sg_bar1_give_locked(struct sg_mem *mem, u64 offset, u64 len);

/* ---- key.c ---- */

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

struct sg_mem_key {
	struct sg_node node;		/* in sg->mem_keys, by id */
	struct sg_mem *mem;		/* fixed; no reference: the key is freed with mem */
	u64 key[2];			/* fixed */
};

struct sg_mem_key *sg_mem_key_new(void);
/* Returns the key of this memory.  The first call takes *fresh for it, and sets that to NULL. */
const struct sg_mem_key *sg_mem_key_locked(struct sg_mem *mem, struct sg_mem_key **fresh);
/* Returns the memory that this key opens, or NULL. */
struct sg_mem *sg_mem_by_key_locked(struct sg *sg, u64 id, const u64 key[2]);
void sg_mem_key_end_locked(struct sg_mem *mem);

/* ---- proc.c ---- */

/* Returns the process with this key, or NULL. */
struct sg_proc *sg_proc_by_key_locked(struct sg *sg, const void *key);
void sg_proc_put_locked(struct sg_proc *proc);

/* ---- slab.c ---- */

enum sg_slot { SG_SLOT_FREE, SG_SLOT_USED, SG_SLOT_LIMBO };

void sg_slots_set(struct sg_range *slab, u32 first, u32 count, enum sg_slot state);
u32 sg_slots_of(const struct sg_range *slab);
u32 sg_slots_for(u64 len);
/* Returns the first of `count` free slots in a row; sg_slots_of(slab): there are none. */
u32 sg_slots_find(const struct sg_range *slab, u32 count);
/* May a device or another process still write to slots that are freed in this slab? */
bool sg_slab_in_use_elsewhere(const struct sg_range *slab);
/* Makes freed slots of a slab available again, if its last pin, import and sg_movable are gone. */
void sg_slab_unpinned_locked(struct sg_range *range);

/* ---- pin.c ---- */

/* Makes a live pin of [offset, offset + length) of mem.  The pin belongs to no range yet. */
int sg_pin_take_locked(struct sg_pin *pin, const struct sg_pin_ops *ops, struct sg_mem *mem,
		       u64 offset, u64 va, u64 length, bool persistent);
void sg_pin_attach_locked(struct sg_pin *pin, struct sg_range *range);
/*
 * Returns the live pin at this address, if it has this serial; 0 stands for any serial.  NULL:
 * there is no such pin.
 */
struct sg_pin *sg_pin_live_at_locked(struct sg *sg, const void *key, u64 serial);
/* May drop the lock.  As sg_pin_put_by(), for any owner of the memory. */
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

/* ---- range.c ---- */

/* On success, the caller's reference to mem is the range's. */
struct sg_range *sg_range_new(struct sg_proc *proc, struct sg_heap *heap, struct sg_mem *mem);
void sg_range_publish_locked(struct sg_range *range, u64 va);
/* Gives a new range addresses in its process's window, and publishes it. */
int sg_range_place_locked(struct sg_range *range);
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

/* ---- alias.c ---- */

/* Gives a buf a device pointer of its own, before it is published at va. */
int sg_alias_new_locked(struct sg_buf *buf, u64 va, u64 len);
void sg_alias_end_locked(struct sg_buf *buf);
struct sg_alias *sg_alias_at(const struct sg_proc *proc, u64 va);
/*
 * Replaces a device pointer that is an alias by the host address; other addresses stay.
 * False: the span is not all inside the alias.
 */
bool sg_alias_resolve_locked(const struct sg_proc *proc, u64 *va, u64 span);

/* ---- share.c ---- */

struct sg_share {
	struct sg_node node;		/* in sg->shares, by id */
	struct sg_buf *buf;		/* fixed */
	u64 key[2];			/* fixed */
	struct sg_link imports;		/* bufs, by in_share */
};

struct sg_share *sg_share_new(void);
/*
 * Returns the share of this allocation.  The first call takes *fresh for it, and sets that to
 * NULL.
 */
const struct sg_share *sg_share_locked(struct sg_buf *buf, struct sg_share **fresh);
/* Returns the share that this key opens, or NULL. */
struct sg_share *sg_share_by_key_locked(struct sg *sg, u64 id, const u64 key[2]);
/* The allocation is being freed: its key no longer opens anything. */
void sg_share_end_locked(struct sg_buf *buf);

/* ---- buf.c ---- */

void sg_heap_init(struct sg_heap *heap, struct sg_obj *obj, struct sg_gpu *gpu);
struct sg_buf *sg_buf_new(struct sg_proc *proc, struct sg_heap *heap, u32 kind);
void sg_buf_publish_locked(struct sg_buf *buf, u64 va, u64 len, struct sg_link *owner);
/* Drops the lock.  Frees a buf.  If it was its range's last, the range's pins are revoked. */
void sg_buf_release_locked(struct sg_buf *buf);

/* ---- place.c ---- */

/*
 * May drop the lock.  Gives a new buf of buf->heap its range and address.  -ENOSPC, -ENOMEM;
 * -ENOENT: the context was destroyed meanwhile; -ENODEV.
 */
int sg_buf_place_locked(struct sg_buf *buf, u64 len, u64 *va);

/* ---- managed.c ---- */

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

/* ---- movable.c ---- */

/* Returns the mapping of the memory, if the process still has it. */
struct sg_range *sg_movable_range_locked(const struct sg_movable *movable);

/* ---- chaos.c ---- */

/* Counts down; returns whether this operation is the one to fail. */
bool sg_chaos_hits_locked(u32 *countdown);
u64 sg_chaos_random_locked(struct sg *sg);
/* To be called after each pin: schedules a revocation if one is due. */
void sg_chaos_pinned_locked(struct sg_gpu *gpu);

#endif
