/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * p2p.h - between the files of the NVIDIA personality.
 *
 * nv-p2p.h says what each call does; here is how: a client's page table is the
 * first thing in a struct nvp2p_table, which also holds the core's pin.  The
 * core finds pins by address, so a pointer that a client gives is turned into
 * the pin's address by arithmetic and not looked at before the core knows it.
 *
 * Locks: the driver's lock (lock.c), where it is asked for, then table->lock, which
 * guards table->mappings, then the core's.  The driver's lock is the only one under
 * which a client's code runs.  A table is touched only by who holds its pin
 * (sg_pin_hold), by get_pages until table->filled, and by the pin's callbacks.
 */
#ifndef NVP2P_P2P_H
#define NVP2P_P2P_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include "../softgpu_kapi.h"
#include "nv-p2p.h"

struct module;

struct nvp2p_table {
	struct nvidia_p2p_page_table table;	/* the client's */
	struct sg_pin pin;
	void (*callback)(void *data);	/* NULL: persistent, or it must not be called any more */
	void *data;
	struct completion filled;	/* get_pages is done with all of this */
	u32 page_shift;			/* of the table and its mappings: 16, unless chaos has it otherwise */
	bool force_bar1;		/* fixed; for the CPU only: no peer is mapped */
	bool freed;			/* the client has called free_page_table in its callback */
	bool put;			/* under the driver's lock: put_pages came before the callback */
	struct list_head armed;		/* callback.c; of pins that are not persistent */
	struct mutex lock;
	struct list_head mappings;
	u8 uuid[NVIDIA_P2P_GPU_UUID_LEN];
	struct nvidia_p2p_page pages[];
};

/* The core's name for a client's table, which may be any value. */
static inline const void *nvp2p_key(const struct nvidia_p2p_page_table *table)
{
	return (const void *)((uintptr_t)table - offsetof(struct nvp2p_table, table) +
			      offsetof(struct nvp2p_table, pin));
}

/* NULL: no pin, or it is past its callback.  Ends with sg_pin_unhold(&t->pin). */
static inline struct nvp2p_table *nvp2p_hold(const struct nvidia_p2p_page_table *table)
{
	struct sg_pin *pin = sg_pin_hold(softgpu_core(), nvp2p_key(table));

	return pin ? container_of(pin, struct nvp2p_table, pin) : NULL;
}

/* The parameter: VRAM in system memory is a coherent platform's. */
bool nvp2p_coherent(void);

/* What the core calls things, in NVIDIA's words. */
int nvp2p_errno(int err);

/* rules.c: mistakes of clients; `code` is an address in the client's. */
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
	NVP2P_NO_LOCK,		/* none was asked for, or this thread has it */
	NVP2P_LOCKED,
	NVP2P_STUCK,		/* a deadlock: do without, and wait for no client */
};
void nvp2p_lock_init(void);
enum nvp2p_locked nvp2p_lock(const char *what, const void *code);
void nvp2p_unlock(enum nvp2p_locked locked);

/* callback.c */
int nvp2p_callback_init(void);
void nvp2p_callback_uninit(void);
void nvp2p_arm(struct nvp2p_table *t);
void nvp2p_disarm(struct nvp2p_table *t);
/* Runs it, unless nobody is to be called. */
void nvp2p_callback(struct nvp2p_table *t);
/* Whether this thread runs a client's. */
bool nvp2p_in_callback(void);

/* The beginning of every call that is not for callbacks; ends with nvp2p_unlock(). */
static inline enum nvp2p_locked nvp2p_call(const char *call, const void *caller)
{
	if (nvp2p_in_callback())
		nvp2p_mistake(NVP2P_IN_CALLBACK, caller, "%s in a free callback", call);
	return nvp2p_lock(call, caller);
}

/* chaos.c: pins that take their time; a client that is overtaken on its way into put_pages. */
void nvp2p_pin_delay(void);
void nvp2p_put_delay(void);
/* What new tables and mappings are like. */
u32 nvp2p_table_version(void);
u32 nvp2p_mapping_version(void);
u32 nvp2p_page_shift(void);
u32 nvp2p_page_size_type(u32 shift);
/* Whether such pages can make up a pin of that length. */
bool nvp2p_pages_fit(u64 length, u32 shift);
/* The addresses of a table whose pages are not the core's; false: VRAM is not as contiguous. */
bool nvp2p_fill_pages(struct nvp2p_table *t);

/* dma.c: no client can reach the table any more. */
void nvp2p_dma_sweep(struct nvp2p_table *t);

#endif
