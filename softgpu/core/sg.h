/* SPDX-License-Identifier: MIT */
/*
 * sg.h - softgpu's core: the software GPU without an operating system.
 *
 * It holds VRAM and its pages, each process's address space, allocations and their buffer
 * ids, contexts and their tokens, streams and copy engines, the BAR1 aperture, and pins
 * with their revocation.  It is embedded in a driver (softgpu/kernel) or in a process (an
 * in-process GPU): the embedder.  Personalities on top of it offer a vendor's interface.
 *
 * Locks: each call here takes and drops one mutex, that of struct sg.  The mutex is not
 * held while a callback of sg_pin_ops or sg_gpu_desc runs, so these may call back in,
 * except where noted.  Every call may sleep.  Callers may hold locks of their own across
 * any call.
 *
 * Return values: 0 or a negative errno, as softgpu_uapi.h defines them.
 */
#ifndef SG_H
#define SG_H

#include "sg_os.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/release.h"
#include "base/tree.h"
#include "../include/softgpu_uapi.h"

struct sg;
struct sg_gpu;
struct sg_proc;
struct sg_client;
struct sg_mem;
struct sg_range;

/* ---- the machine ---- */

int sg_create(struct sg **out);
/* All clients, pins and GPUs must be gone. */
void sg_destroy(struct sg *sg);

/* 1 MiB, as an idle H200's driver uses, but at most a sixteenth of the aperture. */
#define SG_BAR1_RESERVED_DEFAULT	(~(u64)0)

/* A GPU as the embedder describes it.  Strings are copied; priv belongs to the embedder. */
struct sg_gpu_desc {
	u8 uuid[16];
	const char *name;
	u64 vram_size;		/* multiple of 64 KiB */
	u64 bar1_size;		/* the aperture: 0 means as large as VRAM */
	u64 bar1_reserved;	/* used by the driver itself; or SG_BAR1_RESERVED_DEFAULT */
	bool bar1_per_pin;	/* as before CUDA 7: overlapping pins do not share space */
	/*
	 * True, as in NVIDIA's driver: a context's allocations of less than 2 MiB share
	 * blocks of that size, and longer ones are rounded up to a multiple of it.  False:
	 * 64 KiB instead of 2 MiB, and only allocations of up to 32 KiB share.
	 */
	bool blocks;
	u32 compute_mode;	/* enum softgpu_compute_mode */
	u32 driver;		/* struct sg_release's branch; 0: the newest */
	bool on_pci;
	u32 pci_domain, pci_bus, pci_device, pci_function;
	u32 engines;		/* copy engines, at least 1 */
	void *vram;		/* CPU mapping of all of VRAM */
	void *priv;
	/* The CPU physical address of VRAM at offset, contiguous for 64 KiB. */
	u64 (*phys)(void *priv, u64 offset);
	/*
	 * [va, va + length) of this process, which sg_visible_page() has shown, ends, moves, or
	 * allows no access any more: the embedder unmaps it from the CPU before it returns.
	 * No lock is held.  NULL: no context may have memory that the CPU sees.
	 */
	void (*hide)(void *priv, const void *proc_key, u64 va, u64 length);
	/*
	 * System memory, for allocations moved out of VRAM, and for contexts of system
	 * memory. system_alloc returns its CPU address, or NULL; each 64 KiB of it is
	 * physically contiguous. system_free runs under the core's lock, perhaps after the
	 * GPU was removed.  All NULL: system memory is not available.
	 */
	void *(*system_alloc)(u64 length);
	void (*system_free)(void *memory, u64 length);
	u64 (*system_phys)(const void *memory, u64 offset);
};

/* Adds a GPU; *index is the N of /dev/softgpuN.  Starts its engines. */
int sg_gpu_add(struct sg *sg, const struct sg_gpu_desc *desc, u32 *index);

/*
 * Removes a GPU with its pins.  From now on every call on it fails with ENODEV.  Its
 * allocations are freed and their pins revoked.  Persistent pins are unmapped, and remain
 * to be put.  When this returns nothing touches desc->vram.  The index is free again once
 * its last client has closed.
 */
void sg_gpu_remove(struct sg *sg, u32 index);

/*
 * Sets what SOFTGPU_INFO reports as `platform` from now on, for all GPUs whose memory is
 * system memory.
 */
void sg_set_platform(struct sg *sg, enum softgpu_platform platform);

struct sg_gpu_stats {
	u64 vram_total, vram_free;
	u64 bar1_total, bar1_used, bar1_reserved;
	u32 pins, clients;
	u32 objects;		/* handles, allocations and reservations of all GPUs */
	u64 revocations;	/* callbacks run, ever */
	u64 copies, bytes_copied;	/* by the engines, ever */
};
int sg_gpu_stats(struct sg *sg, u32 index, struct sg_gpu_stats *out);

/* ---- chaos and strict mode: behaviour that a real GPU may show, on demand ---- */

struct sg_chaos {
	/* Countdowns: with n, the nth operation from now fails (1: the next one).  0: off. */
	u32 fail_pin;		/* sg_pin_get(): -ENOMEM */
	u32 fail_map;		/* mappings of personalities: sg_chaos_map() */
	u32 fail_alloc;		/* VRAM: -ENOSPC */
	u32 callback_delay_ms;	/* before each free callback */
	u64 bar1_limit;		/* shrinks every GPU's aperture; 0: full size */
	/*
	 * After about this many pins a random live one is revoked, in a thread of the core,
	 * while its memory stays allocated. 0: never.
	 */
	u32 revoke_every;
	u64 seed;		/* seed of that choice; a change of either restarts it */
	/*
	 * Device-to-device copies and fills are held back until a call that CUDA documents
	 * as synchronizing, unless SYNC_MEMOPS is set at either end.  Work that runs on the
	 * GPU does not see what a device writes meanwhile.  Managed memory can be pinned,
	 * but the pin gets a copy of it.  A program that relies on the opposite of any of
	 * these fails every time.
	 */
	bool strict;
	/*
	 * Emulates another kind of GPU: host memory that is registered from now on has
	 * device pointers that differ from its host pointers.
	 */
	bool device_pointers;
};

void sg_chaos_set(struct sg *sg, const struct sg_chaos *chaos);
void sg_chaos_get(struct sg *sg, struct sg_chaos *chaos);

/* The fields above by name, for debugfs files and options.  NULL: index is past the last one. */
struct sg_chaos_knob {
	const char *name;
	u64 max;		/* the largest value that makes sense */
};
const struct sg_chaos_knob *sg_chaos_knob(u32 index);
u64 sg_chaos_value(const struct sg_chaos *chaos, u32 index);
void sg_chaos_change(struct sg_chaos *chaos, u32 index, u64 value);

/*
 * For personalities, before they map: 0, or -ENOMEM when fail_map says that this mapping
 * must fail.
 */
int sg_chaos_map(struct sg *sg);

/*
 * For personalities with pins that are not the core's: apply fail_pin and revoke_every to
 * them. sg_chaos_pin(), before a pin: 0, or -ENOMEM when it must fail. sg_chaos_pinned(),
 * after a pin: returns whether some pin is to be revoked now; *random is a number to choose
 * it by.  The personality itself waits for callback_delay_ms.
 */
int sg_chaos_pin(struct sg *sg);
bool sg_chaos_pinned(struct sg *sg, u64 *random);

/*
 * Revokes a live pin by its serial number, as a driver may that needs aperture space.  The
 * callback runs in this thread.  -ENOENT: no such pin, or it is persistent.
 */
int sg_pin_revoke(struct sg *sg, u64 serial);

/* Revokes all live pins that contain this address, of any process.  Returns their number. */
u32 sg_pins_revoke_at(struct sg *sg, u64 va);

/*
 * Ordering rules; strict mode counts how often each is broken.  The core sees pins, but not
 * what devices do with them, so the first rule gives only a strong hint: a program that
 * synchronizes between its work and the DMA is correct all the same.
 */
enum sg_rule {
	/* work on pinned memory without SYNC_MEMOPS was held back */
	SG_RULE_SYNC_MEMOPS,
	/* a kernel or copy read data that a device wrote after the launch */
	SG_RULE_LAUNCH_AFTER_DMA,
	/* managed memory was pinned: the pin gets a copy, which the program does not access */
	SG_RULE_MANAGED,
	SG_RULES
};
u64 sg_rule_broken(struct sg *sg, enum sg_rule rule);
const char *sg_rule_text(enum sg_rule rule);

/* ---- clients: open files of /dev/softgpuN ---- */

/* A request to bring memory of a process in.  The embedder uses only va, len and write. */
struct sg_fetch {
	struct sg *sg;
	struct sg_client *client;	/* NULL: closed meanwhile */
	struct sg_job *job;		/* NULL: dropped meanwhile */
	u64 va, len;
	bool write;
};

/*
 * How the engines access the memory of the process behind a client.  Called with no lock held.
 *
 * copy moves len bytes between `local` (the engine's buffer) and the process's address; 0,
 * -EFAULT, or -EAGAIN: some of the memory is not there.  All processes share the engines, and
 * threads that free memory or close a client wait for copy.  So copy must not wait for a page.
 *
 * fetch begins to bring [va, va + len) in, and returns 0 or -errno.  Once the memory is there,
 * or cannot be brought in, the embedder calls sg_fetched(), once, with 0 or -errno.  There is no
 * time limit: the core waits only until fetch returns.  The cookie is valid until fetch returns.
 * fetch may be NULL if copy never returns -EAGAIN.
 */
struct sg_host_ops {
	int (*copy)(void *cookie, void *local, u64 addr, u64 len, bool to_process);
	int (*fetch)(void *cookie, struct sg_fetch *f);
};

/* Ends a fetch and frees f.  Returns false if the client has been closed meanwhile. */
bool sg_fetched(struct sg_fetch *f, int err);

/*
 * Opens a client. proc_key identifies the process: clients with equal keys share one
 * address space.  The embedder guarantees that a key is not reused while a client or token
 * of it is alive. cookie must outlive the client.
 */
int sg_client_open(struct sg *sg, u32 gpu, const void *proc_key, const struct sg_host_ops *ops,
		   void *cookie, struct sg_client **out);

/*
 * Sets the user who owns the process, before the client's first call.  All clients of a
 * server (server.c) belong to one user.
 */
void sg_client_set_user(struct sg_client *client, u64 user);

/*
 * Closes a client: finishes or drops its queued work, and frees everything made through it.
 * Pins are revoked in the calling thread.  Returns whether a fetch of its process's memory is
 * still under way.  It has references of its own and does not use the client any more, so only
 * tests look at that.
 */
bool sg_client_close(struct sg_client *client);

const void *sg_client_key(const struct sg_client *client);

/*
 * Makes one call of softgpu_uapi.h for a client. nr is the number (_IOC_NR). arg is the
 * caller's struct, already copied in, of `size` bytes, as its first field says.  Results
 * are written to arg.
 */
int sg_call(struct sg_client *client, u32 nr, void *arg, u32 size);

/*
 * Returns the current size of a call's struct, or 0 if there is no such call; *min is its
 * size in the first release.
 */
u32 sg_call_size(u32 nr, u32 *min);

/*
 * sg_call_answers() returns whether a call writes to its struct. sg_call_undo() undoes a
 * successful call whose results could not be copied back to the caller; `arg` is as
 * sg_call() left it.
 */
bool sg_call_answers(u32 nr);
void sg_call_undo(struct sg_client *client, u32 nr, const void *arg);

/*
 * For CPU mappings of a client's memory: calls fn with the CPU physical address of the 64
 * KiB page that contains va, under the core's lock, so that a later desc->hide covers the
 * mapping that fn makes. fn must not call back in.  -ENOENT: there is no memory at va that
 * the CPU may see.  -EAGAIN: the memory is being moved.
 */
int sg_visible_page(struct sg_client *client, u64 va,
		    void (*fn)(void *arg, u64 phys, bool on_pci), void *arg);

/* ---- pins: the basis of personalities ---- */

#define SG_PAGE_SHIFT	16
#define SG_PAGE_SIZE	((u64)1 << SG_PAGE_SHIFT)

struct sg_pin;

struct sg_pin_ops {
	/*
	 * Revocation.  Called once, in the thread that frees the memory, for pins that are
	 * not persistent.  VRAM and BAR1 are still held.
	 */
	void (*callback)(struct sg_pin *pin);
	/*
	 * The pin has ended, by put or after callback: nothing made from it may reach the
	 * memory when this returns.  Called before VRAM or BAR1 is released.  No
	 * sg_pin_hold() is active, and none succeeds any more.
	 */
	void (*unmap)(struct sg_pin *pin);
	/* The core does not use the storage after this call. */
	void (*free)(struct sg_pin *pin);
};

/*
 * Storage of the caller, to be embedded.  The core sets the fields; others only read them,
 * and they do not change while the pin lives.
 */
struct sg_pin {
	struct sg_hash_node node;	/* in sg->pins, by address of this struct */
	struct sg_link link;		/* in range->pins, or range->persistent */
	struct sg_link in_gpu;		/* gpu->pinned, or gpu->orphans */
	struct sg *sg;
	struct sg_gpu *gpu;
	struct sg_mem *mem;
	struct sg_range *range;		/* NULL after a persistent pin's range is gone */
	const struct sg_pin_ops *ops;
	u64 va, length;
	u64 mem_offset;			/* of va in mem */
	u64 serial;			/* differs when the storage is reused */
	u64 callback_thread;		/* the thread that runs the callback; else 0 */
	u32 npages;
	u32 holds;
	u8 state;			/* enum sg_pin_state, pin.c */
	bool persistent;
};

/* Who pins: the context with these tokens, or (both 0) the process with this key. */
struct sg_pin_who {
	const void *proc_key;
	u64 p2p_token;
	u32 va_space_token;
	bool managed;		/* strict mode: pin a copy of managed memory; else refuse */
	u32 memory;		/* SG_MEMORY_*: the kind required; 0: any kind */
};

/* Each personality pins only the memory of its own user-space libraries. */
#define SG_MEMORY_CUDA	1u
#define SG_MEMORY_HSA	2u	/* of contexts whose memory the CPU can see */

/*
 * Pins [va, va + length): multiples of 64 KiB, length > 0, within one allocation's pages.
 * *pin is the caller's zeroed storage; this call sets ops.  After success,
 * and until put or free, pin->npages and sg_pin_page() are valid.  If another thread frees
 * the memory at once, the callback may run before this call returns.
 *
 * -EINVAL  not VRAM of that process or token, or unmapped, or spans allocations
 * -EACCES  made with SOFTGPU_PHYS_NO_RDMA; a struct sg_movable of it may be taken and pinned
 * -EIO     p2p_token given without va_space_token
 * -ENOSPC  BAR1 is exhausted; strict: or VRAM, for a copy of managed memory
 * -ENODEV  the GPU was removed
 */
int sg_pin_get(struct sg *sg, struct sg_pin *pin, const struct sg_pin_ops *ops,
	       const struct sg_pin_who *who, u64 va, u64 length, bool persistent);

/*
 * Movable memory: a reference to an allocation's memory, which stays allocated even after the
 * program frees the allocation.  Unlike a pin the reference does not fix the location of the
 * memory: it may be moved, and takes no aperture space.  The caller provides the storage; the
 * core sets the fields.
 */
struct sg_movable {
	struct sg *sg;
	struct sg_mem *mem;
	const void *proc_key;		/* only compared, never dereferenced */
	u64 va, length;
	u64 offset;			/* of va in mem */
};

/*
 * Returns the end address of the mapping that contains va, or 0 if there is none.  The
 * mapping may be gone when this returns: only sg_movable_get() decides.
 */
u64 sg_mapping_end(struct sg *sg, const void *proc_key, u64 va);
/*
 * Takes a reference to [va, va + length), with the same rules and errnos as sg_pin_get(),
 * except EACCES, ENOMEM and ENOSPC.
 */
int sg_movable_get(struct sg *sg, struct sg_movable *movable, const struct sg_pin_who *who, u64 va,
		   u64 length);
void sg_movable_put(struct sg_movable *movable);
/* Makes a persistent pin of this memory, as sg_pin_get() does; sg_pin_put() ends it. */
int sg_movable_pin(struct sg_movable *movable, struct sg_pin *pin, const struct sg_pin_ops *ops);
enum sg_place {
	SG_IN_VRAM,
	SG_IN_SYSTEM,		/* no VRAM or aperture used; the GPU still reaches it */
};

/*
 * Moves the whole allocation to other pages of its GPU's VRAM, or to system memory unless
 * it is there already.
 *
 * -EBUSY   it is pinned, exported or open in another process, has a handle of PHYS_CREATE, or
 *          has a second sg_movable; or strict mode is on or a watch runs on this GPU, which
 *          rely on locations
 * -ENOSPC  there is no room in VRAM         -ENODEV  the GPU was removed
 * -ENOMEM  nor in system memory             -EOPNOTSUPP  the embedder has none to give
 * -EINTR   the calling process was killed; nothing was moved
 */
int sg_movable_move(struct sg_movable *movable, enum sg_place to);
u32 sg_movable_gpu_index(const struct sg_movable *movable);
/* The memory's current location, until the next move. */
enum sg_place sg_movable_place(const struct sg_movable *movable);

/* An allocation of VRAM in a process's address space. */
struct sg_found {
	u64 base, length;
	u32 memory;		/* SG_MEMORY_* */
};

/*
 * Finds the VRAM allocation at va in the process with this key.  -ESRCH: no such process;
 * -ENOENT: no VRAM there.
 */
int sg_find(struct sg *sg, const void *proc_key, u64 va, struct sg_found *out);

/* Host memory registered with a process's GPUs. */
struct sg_found_host {
	u64 base, length;	/* in the address space of va: host or device pointers */
	u64 host_va, device_va;	/* both pointers to the byte at va; they may be equal */
	u64 buffer_id;
	u32 kind;		/* enum softgpu_kind */
	u32 host_flags;		/* as registered */
};

/* As sg_find(), for host memory, by its host or device pointer. */
int sg_find_host(struct sg *sg, const void *proc_key, u64 va, struct sg_found_host *out);

/*
 * Ends a pin.  `pin` is looked up before it is dereferenced, so any value is safe.  Waits
 * for a callback in flight on it.
 *
 * 0         ended here: unmap and free have run
 * -ENOENT   no such pin, or its callback ended it
 * -EDEADLK called from that pin's own callback, a bug of the client; nothing was done
 * -EINVAL   persistent does not match how it was pinned
 */
int sg_pin_put(struct sg *sg, const void *pin, bool persistent);

/* Restricts which pin a put may end, for drivers that check the caller. */
struct sg_pin_claim {
	const struct sg_pin_who *who;	/* owner or (p2p_token alone) context needed; NULL: any */
	u64 serial;			/* the pin's serial; 0: any pin at that address */
	bool no_wait;			/* do not wait for a callback in flight: -EBUSY */
};

/*
 * As sg_pin_put(), of a pin that is not persistent.
 *
 * -EACCES   the pin is live, and `who' does not own its memory; the pin stays
 * -EBUSY    no_wait, and the pin is ending
 */
int sg_pin_put_by(struct sg *sg, const void *pin, const struct sg_pin_claim *claim);
/* Returns whether sg_pin_put_by() would end this pin for `who`.  The caller holds the pin. */
bool sg_pin_is_of(const struct sg_pin *pin, const struct sg_pin_who *who);

/*
 * Delays a pin's unmap until sg_pin_unhold().  The pin is live, or its callback runs;
 * sg_pin_live() returns which.  Returns NULL if there is no such pin, or its unmap has begun.
 * `pin` is looked up before it is dereferenced, as for put.  Hold it briefly, and never while
 * waiting for a client's lock.
 */
struct sg_pin *sg_pin_hold(struct sg *sg, const void *pin);
void sg_pin_unhold(struct sg_pin *pin);
/* Returns false once revocation has begun.  The caller holds the pin. */
bool sg_pin_live(const struct sg_pin *pin);

/*
 * CPU physical address of a pinned page, index < npages; the pin is live, in its callback,
 * or held.
 */
u64 sg_pin_page(const struct sg_pin *pin, u32 index);
/* Writes the addresses of all pages: the first to *to, each further one `stride` bytes later. */
void sg_pin_pages(const struct sg_pin *pin, u64 *to, size_t stride);
void sg_pin_uuid(const struct sg_pin *pin, u8 uuid[16]);
u32 sg_pin_gpu_index(const struct sg_pin *pin);
/*
 * Returns whether those pages are system memory, to which sg_movable_move() has moved the
 * allocation.
 */
bool sg_pin_in_system(const struct sg_pin *pin);

/* For diagnosis: calls fn for each pin under the core's lock. fn must not call back in. */
void sg_pins_for_each(struct sg *sg, void (*fn)(void *arg, const struct sg_pin *pin), void *arg);

#endif
