/* SPDX-License-Identifier: MIT */
/*
 * sg.h - softgpu's core: the software GPU without an operating system.
 *
 * It holds VRAM and its pages, each process's address space, allocations and
 * their buffer ids, contexts and their tokens, streams and copy engines, the
 * BAR1 aperture, and pins with their revocation.  Around it stand a driver
 * (softgpu/kernel), or a process that wants a GPU inside itself, and on top of
 * it the personalities that offer a vendor's interface.
 *
 * Locks: one mutex, struct sg's, is taken and dropped inside each call here.
 * It is never held while a callback of sg_pin_ops or sg_gpu_desc runs, so these
 * may call back in, except where said.  Every call may sleep.  Callers may hold
 * locks of their own across any call.
 *
 * Return values: 0 or a negative errno, as softgpu_uapi.h defines them.
 */
#ifndef SG_H
#define SG_H

#include "sg_os.h"
#include "sg_hash.h"
#include "sg_list.h"
#include "sg_tree.h"
#include "../include/softgpu_uapi.h"

struct sg;
struct sg_gpu;
struct sg_proc;
struct sg_client;
struct sg_mem;
struct sg_range;

/* ---- the machine ---- */

int sg_create(struct sg **out);
/* Everything must be gone: clients, pins, GPUs. */
void sg_destroy(struct sg *sg);

/* As much as an idle H200's driver uses, 1 MiB; of a small aperture no more than a sixteenth. */
#define SG_BAR1_RESERVED_DEFAULT	(~(u64)0)

/* A GPU as the embedder offers it.  Strings are copied; priv stays the embedder's. */
struct sg_gpu_desc {
	u8 uuid[16];
	const char *name;
	u64 vram_size;		/* multiple of 64 KiB */
	u64 bar1_size;		/* the aperture: 0 means as large as VRAM */
	u64 bar1_reserved;	/* of it, used by the driver itself; SG_BAR1_RESERVED_DEFAULT */
	bool bar1_per_pin;	/* as before CUDA 7: every pin takes space anew */
	/*
	 * As NVIDIA's driver: a context's allocations of less than 2 MiB share blocks of that
	 * size, longer ones are multiples of it.  Else of 64 KiB, shared by those up to 32 KiB.
	 */
	bool blocks;
	u32 compute_mode;	/* enum softgpu_compute_mode */
	bool on_pci;
	u32 pci_domain, pci_bus, pci_device, pci_function;
	u32 engines;		/* copy engines, at least 1 */
	void *vram;		/* the CPU's view of VRAM, all of it */
	void *priv;
	/* The CPU physical address of VRAM at offset, contiguous for 64 KiB. */
	u64 (*phys)(void *priv, u64 offset);
	/*
	 * Memory that sg_visible_page() has shown ends: what the CPU sees of [va, va +
	 * length) in this process must go before this returns.  No lock is held.  NULL:
	 * there are no contexts with memory that the CPU sees.
	 */
	void (*hide)(void *priv, const void *proc_key, u64 va, u64 length);
	/*
	 * System memory, for what is moved out of VRAM: the CPU's view of it, or NULL;
	 * every 64 KiB of it are contiguous.  system_free runs under the core's lock, and
	 * perhaps after the GPU was removed.  All NULL: nothing is moved there.
	 */
	void *(*system_alloc)(u64 length);
	void (*system_free)(void *memory, u64 length);
	u64 (*system_phys)(const void *memory, u64 offset);
};

/* Adds a GPU; *index is the N of /dev/softgpuN.  Starts its engines. */
int sg_gpu_add(struct sg *sg, const struct sg_gpu_desc *desc, u32 *index);

/*
 * Takes a GPU away, pins and all: every call on it fails with ENODEV from now
 * on, its allocations are freed and their pins revoked; persistent pins are
 * unmapped and stay to be put.  When it returns nothing touches desc->vram.
 * The index is free again once its last client has closed.
 */
void sg_gpu_remove(struct sg *sg, u32 index);

/* What SOFTGPU_INFO reports as `platform` from now on, for all GPUs whose memory is system memory. */
void sg_set_platform(struct sg *sg, enum softgpu_platform platform);

struct sg_gpu_stats {
	u64 vram_total, vram_free;
	u64 bar1_total, bar1_used, bar1_reserved;
	u32 pins, clients;
	u32 objects;		/* handles, allocations and reservations: of all GPUs */
	u64 revocations;	/* callbacks run, ever */
	u64 copies, bytes_copied;	/* by the engines, ever */
};
int sg_gpu_stats(struct sg *sg, u32 index, struct sg_gpu_stats *out);

/* ---- chaos and strictness: what a real GPU may do, on demand ---- */

struct sg_chaos {
	/* Countdowns: the nth from now fails (1: the next one), then 0, which is off. */
	u32 fail_pin;		/* sg_pin_get(): -ENOMEM */
	u32 fail_map;		/* what personalities ask by sg_chaos_map() */
	u32 fail_alloc;		/* VRAM: -ENOSPC */
	u32 callback_delay_ms;	/* before each free callback */
	u64 bar1_limit;		/* shrinks every GPU's aperture; 0: as it is */
	/*
	 * After about this many pins a live one is revoked at random, in a
	 * thread of the core's, its memory staying allocated.  0: never.
	 */
	u32 revoke_every;
	u64 seed;		/* of that choice; a change of these two begins the sequence anew */
	/*
	 * Device-to-device copies and fills are held back until a call that CUDA
	 * documents as synchronizing, unless SYNC_MEMOPS is set at either end;
	 * and what runs on the GPU does not see what a device writes meanwhile.
	 * Managed memory can be pinned, but what is pinned is a copy.  A program
	 * that relies on any of these is wrong every time.
	 */
	bool strict;
	/*
	 * Not a failure but another GPU: host memory that it is told of from now on has
	 * device pointers that are others than the host's.
	 */
	bool device_pointers;
};

void sg_chaos_set(struct sg *sg, const struct sg_chaos *chaos);
void sg_chaos_get(struct sg *sg, struct sg_chaos *chaos);

/* The numbers above by name, for files and options: NULL after the last one. */
struct sg_chaos_knob {
	const char *name;
	u64 max;		/* the largest value that makes sense */
};
const struct sg_chaos_knob *sg_chaos_knob(u32 index);
u64 sg_chaos_value(const struct sg_chaos *chaos, u32 index);
void sg_chaos_change(struct sg_chaos *chaos, u32 index, u64 value);

/* For personalities: 0, or -ENOMEM when this mapping is the one to fail. */
int sg_chaos_map(struct sg *sg);

/*
 * For those with pins of their own, beside the core's: what fail_pin and revoke_every make
 * of one.  sg_chaos_pin(): 0, or -ENOMEM when it is the one to fail.  sg_chaos_pinned(),
 * once it was made: whether it is time to revoke some pin, and in *random which.
 * callback_delay_ms is theirs to wait for.
 */
int sg_chaos_pin(struct sg *sg);
bool sg_chaos_pinned(struct sg *sg, u64 *random);

/*
 * Revokes a live pin by its serial, as a driver may that needs its aperture: the
 * callback runs in this thread.  -ENOENT: none, or persistent.
 */
int sg_pin_revoke(struct sg *sg, u64 serial);

/* The same for all live pins over an address, whosever: how many they were. */
u32 sg_pins_revoke_at(struct sg *sg, u64 va);

/*
 * The ordering rules that strict mode sees broken, each counted.  The core sees
 * pins, not what devices do with them, so the first is a strong hint: a program
 * that synchronizes between its work and the DMA is right all the same.
 */
enum sg_rule {
	/* work on pinned memory that has no SYNC_MEMOPS was held back */
	SG_RULE_SYNC_MEMOPS,
	/* a kernel or a copy that was launched already looked for data that arrived later */
	SG_RULE_LAUNCH_AFTER_DMA,
	/* managed memory was pinned: that is a copy, which the program's own accesses do not reach */
	SG_RULE_MANAGED,
	SG_RULES
};
u64 sg_rule_broken(struct sg *sg, enum sg_rule rule);
const char *sg_rule_text(enum sg_rule rule);

/* ---- clients: open files of /dev/softgpuN ---- */

/*
 * How the engines reach the memory of the process behind a client.  copy moves
 * len bytes between `local` (the engine's side) and the process's address;
 * 0 or -EFAULT.  Called from engine threads with no lock held; it must come to an end,
 * for who frees memory or closes a client waits for it, and all processes share engines.
 */
struct sg_host_ops {
	int (*copy)(void *cookie, void *local, u64 addr, u64 len, bool to_process);
};

/*
 * proc_key says which process opens: clients with equal keys share one address
 * space.  The embedder guarantees that a key is not reused while a client or
 * token of it is alive.  cookie must outlive the client.
 */
int sg_client_open(struct sg *sg, u32 gpu, const void *proc_key, const struct sg_host_ops *ops,
		   void *cookie, struct sg_client **out);

/* Whose process it is; said before its first call.  The clients of a server are one user's. */
void sg_client_set_user(struct sg_client *client, u64 user);

/*
 * Frees all that was made through this client: pins are revoked in the calling
 * thread, queued work is finished or dropped first.
 */
void sg_client_close(struct sg_client *client);

const void *sg_client_key(const struct sg_client *client);

/*
 * One call of softgpu_uapi.h on behalf of a client.  nr is the number
 * (_IOC_NR), arg the caller's struct, already copied in, of `size` bytes, where
 * size is what its first field says.  The answer is written to arg.
 */
int sg_call(struct sg_client *client, u32 nr, void *arg, u32 size);

/* How long the struct of a call is here; 0: no such call.  *min is the first release's. */
u32 sg_call_size(u32 nr, u32 *min);

/*
 * Whether a call writes to its struct; and the end of what one has made whose
 * answer does not reach its caller.  `arg` as sg_call() left it.
 */
bool sg_call_answers(u32 nr);
void sg_call_undo(struct sg_client *client, u32 nr, const void *arg);

/*
 * For the CPU's own view of a client's memory: calls fn with the CPU physical address
 * of the 64 KiB page that holds va, under the core's lock, so that desc->hide comes
 * after whatever fn makes of it.  fn must not call back in.  -ENOENT: the CPU is not
 * to see what stands there, if anything does.  -EAGAIN: it is being moved.
 */
int sg_visible_page(struct sg_client *client, u64 va,
		    void (*fn)(void *arg, u64 phys, bool on_pci), void *arg);

/* ---- pins: what personalities build on ---- */

#define SG_PAGE_SHIFT	16
#define SG_PAGE_SIZE	((u64)1 << SG_PAGE_SHIFT)

struct sg_pin;

struct sg_pin_ops {
	/*
	 * Revocation, in the thread that frees the memory, once, for pins that
	 * are not persistent.  VRAM and BAR1 are still held.
	 */
	void (*callback)(struct sg_pin *pin);
	/*
	 * The pin has ended, by put or after callback: stop everything made from
	 * it from reaching the memory.  Runs before VRAM or BAR1 is given up.
	 * No sg_pin_hold() is alive, and none succeeds any more.
	 */
	void (*unmap)(struct sg_pin *pin);
	/* Last touch: the storage is the caller's again. */
	void (*free)(struct sg_pin *pin);
};

/* The caller's storage; embed it.  Fields are the core's, read-only outside, fixed while the pin lives. */
struct sg_pin {
	struct sg_hash_node node;	/* in sg->pins, by address of this struct */
	struct sg_link link;		/* in range->pins, or range->kept */
	struct sg_link in_gpu;		/* gpu->pinned, or gpu->orphans */
	struct sg *sg;
	struct sg_gpu *gpu;
	struct sg_mem *mem;
	struct sg_range *range;		/* NULL once the range is gone (persistent) */
	const struct sg_pin_ops *ops;
	u64 va, length;
	u64 mem_offset;			/* of va in mem */
	u64 serial;			/* tells reuse of the storage */
	u64 callback_thread;		/* while the callback runs */
	u32 npages;
	u32 holds;
	u8 state;			/* enum sg_pin_state, pin.c */
	bool persistent;
};

/* Who pins: the tokens of a context, or (both 0) the process with this key. */
struct sg_pin_who {
	const void *proc_key;
	u64 p2p_token;
	u32 va_space_token;
	bool managed;		/* strict: managed memory too, as it misleads; else it is refused */
	u32 memory;		/* SG_MEMORY_*: whose it must be; 0: anybody's */
};

/* Each personality knows its own user side's memory only. */
#define SG_MEMORY_CUDA	1u
#define SG_MEMORY_HSA	2u	/* of contexts whose memory the CPU sees */

/*
 * Pins [va, va + length), multiples of 64 KiB and length > 0, all within one
 * allocation's pages.  *pin is the caller's zeroed storage with ops set by this
 * call.  After success, and until put or free, pin->npages and sg_pin_page()
 * are valid.  The callback may run before this call has returned to its caller
 * if another thread frees the memory at once.
 *
 * -EINVAL  not VRAM of that process or token, or unmapped, or spans allocations
 * -EIO     p2p_token given without va_space_token
 * -ENOSPC  BAR1 is exhausted; strict: or VRAM, for a copy of managed memory
 * -ENODEV  the GPU was removed
 */
int sg_pin_get(struct sg *sg, struct sg_pin *pin, const struct sg_pin_ops *ops,
	       const struct sg_pin_who *who, u64 va, u64 length, bool persistent);

/*
 * VRAM that is kept whatever becomes of its allocation, as by a persistent pin, but
 * has no place of its own: it may be moved, and takes no room in the aperture.
 * The caller's storage; fields are the core's.
 */
struct sg_keep {
	struct sg *sg;
	struct sg_mem *mem;
	const void *proc_key;		/* to be compared only */
	u64 va, length;
	u64 offset;			/* of va in mem */
};

/* The end of the mapping that va is in; 0: none.  It may be gone when this returns: sg_keep_get() decides. */
u64 sg_mapping_end(struct sg *sg, const void *proc_key, u64 va);
/* Of [va, va + length), as sg_pin_get() takes it; the same errnos, but for ENOMEM and ENOSPC. */
int sg_keep_get(struct sg *sg, struct sg_keep *keep, const struct sg_pin_who *who, u64 va, u64 length);
void sg_keep_put(struct sg_keep *keep);
/* A persistent pin of what is kept, as sg_pin_get() makes one; sg_pin_put() ends it. */
int sg_keep_pin(struct sg_keep *keep, struct sg_pin *pin, const struct sg_pin_ops *ops);
enum sg_place {
	SG_IN_VRAM,
	SG_IN_SYSTEM,		/* it takes no VRAM there, and its pins no aperture; the GPU reaches it as before */
};

/*
 * Moves all of the allocation to another place in its GPU's VRAM, or to system memory,
 * unless it is there already.
 *
 * -EBUSY   it is pinned, exported or open elsewhere, or kept twice; or strict mode, or
 *          a watch on this GPU, needs what it has seen to stay where it is
 * -ENOSPC  there is no room in VRAM         -ENODEV  the GPU was removed
 * -ENOMEM  nor in system memory             -EOPNOTSUPP  the embedder has none to give
 * -EINTR   the calling process was killed; nothing was moved
 */
int sg_keep_move(struct sg_keep *keep, enum sg_place to);
u32 sg_keep_gpu_index(const struct sg_keep *keep);
/* Where it is now; until the next move. */
enum sg_place sg_keep_place(const struct sg_keep *keep);

/* An allocation of VRAM that a process has. */
struct sg_found {
	u64 base, length;
	u32 memory;		/* SG_MEMORY_* */
};

/* What stands at va in the process with this key.  -ESRCH: no such process; -ENOENT: no VRAM there. */
int sg_find(struct sg *sg, const void *proc_key, u64 va, struct sg_found *out);

/* Host memory that a process's GPUs know. */
struct sg_found_host {
	u64 base, length;	/* as seen from va */
	u64 host_va, device_va;	/* the pointers to the byte at va: one of them, or both, is va */
	u64 buffer_id;
	u32 kind;		/* enum softgpu_kind */
	u32 host_flags;		/* as registered */
};

/* As sg_find(), of host memory, by either of its pointers. */
int sg_find_host(struct sg *sg, const void *proc_key, u64 va, struct sg_found_host *out);

/*
 * Ends a pin.  `pin` is a key, not dereferenced before it is found, so any
 * value is safe.  Waits for a callback in flight on it.
 *
 * 0         ended here: unmap and free have run
 * -ENOENT   no such pin, or its callback ended it
 * -EDEADLK  called from that pin's own callback: a client's bug; nothing done
 * -EINVAL   persistent does not match how it was pinned
 */
int sg_pin_put(struct sg *sg, const void *pin, bool persistent);

/* Which pin a put means, where a driver does not take every caller's word. */
struct sg_pin_claim {
	const struct sg_pin_who *who;	/* NULL: anybody; else the pinned memory's owner, or (p2p_token alone) its context */
	u64 serial;			/* of the pin; 0: whichever has that key */
	bool no_wait;			/* not for a callback that runs */
};

/*
 * As sg_pin_put(), of a pin that is not persistent.
 *
 * -EACCES   the pin is live, and not of who's memory: it stays
 * -EBUSY    no_wait, and the pin is ending
 */
int sg_pin_put_by(struct sg *sg, const void *pin, const struct sg_pin_claim *claim);
/* Whether sg_pin_put_by() would end it for who.  For a pin that is held. */
bool sg_pin_is_of(const struct sg_pin *pin, const struct sg_pin_who *who);

/*
 * Keeps a pin from reaching unmap until sg_pin_unhold(): it is live, or its
 * callback runs (sg_pin_live() tells which).  NULL when it is not found or is
 * past that.  `pin` is a key, as for put.  Hold briefly, never across a wait for
 * a client's lock.
 */
struct sg_pin *sg_pin_hold(struct sg *sg, const void *pin);
void sg_pin_unhold(struct sg_pin *pin);
/* False once revocation has begun.  For a pin that is held. */
bool sg_pin_live(const struct sg_pin *pin);

/* CPU physical address of a pinned page, index < npages; the pin is live, in callback, or held. */
u64 sg_pin_page(const struct sg_pin *pin, u32 index);
/* All of them at once: the first goes to *to, each further one `stride` bytes on. */
void sg_pin_pages(const struct sg_pin *pin, u64 *to, size_t stride);
void sg_pin_uuid(const struct sg_pin *pin, u8 uuid[16]);
u32 sg_pin_gpu_index(const struct sg_pin *pin);
/* Whether those pages are system memory, to which the allocation was moved: sg_keep_move(). */
bool sg_pin_in_system(const struct sg_pin *pin);

/* Live pins, for diagnosis: calls fn for each under the core's lock; fn must not call back in. */
void sg_pins_for_each(struct sg *sg, void (*fn)(void *arg, const struct sg_pin *pin), void *arg);

#endif
