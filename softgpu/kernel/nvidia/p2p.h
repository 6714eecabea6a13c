/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * p2p.h - declarations shared by the files of the NVIDIA personality.
 *
 * nv-p2p.h says what each call does; this is how.  A client's page table is the first
 * member of a struct nvp2p_table, which also holds the core's pin.  The core looks up pins
 * by address.  So the address of the pin is computed from a client's pointer, which is not
 * dereferenced before the core has found the pin.
 *
 * Locks: the driver's lock (lock.c), if enabled, then table->lock, which guards
 * table->mappings, then the core's.  The driver's lock is the only one that is held while a
 * client's code runs.  A table is accessed only by threads that hold its pin (sg_pin_hold),
 * by get_pages until table->filled, and by the pin's callbacks.
 */
#ifndef NVP2P_P2P_H
#define NVP2P_P2P_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include "../softgpu_kapi.h"
#include "nv-p2p.h"

struct module;

struct nvp2p_table {
	struct nvidia_p2p_page_table table;	/* the client's */
	struct sg_pin pin;
	void (*callback)(void *data);	/* NULL: persistent, or must not be called any more */
	void *data;
	struct completion filled;	/* get_pages does not touch this any more */
	u32 page_shift;			/* of table and mappings: 16, unless chaos.c changes it */
	bool force_bar1;		/* fixed; for the CPU only, not mapped for peers */
	bool freed;			/* the client called free_page_table in its callback */
	bool put;			/* driver's lock: put_pages came before the callback */
	u32 late_ms;			/* callback_late_ms: the callback comes after the pin */
	struct delayed_work late;
	struct list_head armed;		/* callback.c; of pins that are not persistent */
	struct mutex lock;
	struct list_head mappings;
	u8 uuid[NVIDIA_P2P_GPU_UUID_LEN];
	struct nvidia_p2p_page pages[];
};

/* The core's key of a client's table, which may be any value. */
static inline const void *nvp2p_key(const struct nvidia_p2p_page_table *table)
{
	return (const void *)((uintptr_t)table - offsetof(struct nvp2p_table, table) +
			      offsetof(struct nvp2p_table, pin));
}

/*
 * Holds the pin of a client's table.  NULL: no such pin, or it is past its callback.
 * Undone by sg_pin_unhold(&t->pin).
 */
static inline struct nvp2p_table *nvp2p_hold(const struct nvidia_p2p_page_table *table)
{
	struct sg_pin *pin = sg_pin_hold(softgpu_core(), nvp2p_key(table));

	return pin ? container_of(pin, struct nvp2p_table, pin) : NULL;
}

/* The parameter `coherent': GPUs with VRAM in system memory emulate a coherent platform. */
bool nvp2p_coherent(void);

/* Converts the core's errno to NVIDIA's. */
int nvp2p_errno(int err);

/* rules.c: logs mistakes of clients; `code` is an address in the client's code. */
enum nvp2p_rule {
	NVP2P_UNALIGNED,
	NVP2P_IN_CALLBACK,
	NVP2P_PUT_ELSEWHERE,
	NVP2P_PUT_TOKEN,
	NVP2P_PUT_PERSISTENT,
	NVP2P_NOT_FREED,
	NVP2P_FREED_LIVE,
	NVP2P_FREED_NOTHING,
	NVP2P_SLOW,
	NVP2P_OTHER_PEER,
	NVP2P_UNLOADED,
	NVP2P_DEADLOCK,
};
__printf(3, 4)
void nvp2p_mistake(enum nvp2p_rule rule, const void *code, const char *fmt, ...);
void nvp2p_client_gone(const struct module *client);

/* lock.c: the driver's lock; `what` is static text. */
enum nvp2p_locked {
	NVP2P_NO_LOCK,		/* disabled, or this thread has it */
	NVP2P_LOCKED,
	NVP2P_STUCK,		/* a deadlock: go on without it, and wait for no client */
};
void nvp2p_lock_init(void);
enum nvp2p_locked nvp2p_lock(const char *what, const void *code);
void nvp2p_unlock(enum nvp2p_locked locked);

/* callback.c */
int nvp2p_callback_init(void);
void nvp2p_callback_uninit(void);
void nvp2p_arm(struct nvp2p_table *t);
void nvp2p_disarm(struct nvp2p_table *t);
/*
 * Runs the table's callback, if it is still to be called; or with callback_late_ms sets
 * t->late_ms, and nvp2p_callback_late() runs it, when the pin has gone and nothing else
 * refers to the table.
 */
void nvp2p_callback(struct nvp2p_table *t);
void nvp2p_callback_late(struct nvp2p_table *t);
/* Returns whether this thread is in a client's callback. */
bool nvp2p_in_callback(void);

/* Begins each call that is not allowed in callbacks; paired with nvp2p_unlock(). */
static inline enum nvp2p_locked nvp2p_call(const char *call, const void *caller)
{
	if (nvp2p_in_callback())
		nvp2p_mistake(NVP2P_IN_CALLBACK, caller, "%s in a free callback", call);
	return nvp2p_lock(call, caller);
}

/* chaos.c: faults of real drivers.  Is this get_pages the one that loses its race? */
bool nvp2p_get_races(void);
bool nvp2p_calls_twice(void);
/* 0: the callback comes at once. */
u32 nvp2p_late_ms(void);
bool nvp2p_is_unsupported(void);

/* chaos.c: delays of get_pages, and of put_pages before it does anything. */
void nvp2p_pin_delay(void);
void nvp2p_put_delay(void);
/* Properties of new tables and mappings. */
u32 nvp2p_table_version(void);
u32 nvp2p_mapping_version(void);
u32 nvp2p_page_shift(void);
u32 nvp2p_page_size_type(u32 shift);
/* Returns whether a pin of this length consists of whole pages of this size. */
bool nvp2p_pages_fit(u64 length, u32 shift);
/*
 * Fills in the addresses if the page size differs from the core's.  False: VRAM is not
 * contiguous enough.
 */
bool nvp2p_fill_pages(struct nvp2p_table *t);

/* dma.c: ends the mappings that a client has left; no client can reach the table any more. */
void nvp2p_dma_sweep(struct nvp2p_table *t);

/* ---- proc.c: /proc/driver/nvidia ---- */

/* What cannot be created is left out. */
void nvp2p_proc_init(void);
void nvp2p_proc_uninit(void);

#endif
