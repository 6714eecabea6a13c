/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * p2p.h - between the files of the NVIDIA personality.
 *
 * nv-p2p.h says what each call does; here is how: a client's page table is the
 * first thing in a struct nvp2p_table, which also holds the core's pin.  The
 * core finds pins by address, so a pointer that a client gives is turned into
 * the pin's address by arithmetic and not looked at before the core knows it.
 *
 * Locks: table->lock guards table->mappings.  Nothing is taken inside it, and no
 * client's code runs under it.  A table is touched only by who holds its pin
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

struct nvp2p_table {
	struct nvidia_p2p_page_table table;	/* the client's */
	struct sg_pin pin;
	void (*callback)(void *data);
	void *data;
	struct completion filled;	/* get_pages is done with all of this */
	u32 page_shift;			/* of the table and its mappings: 16, unless chaos has it otherwise */
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

/* What the core calls things, in NVIDIA's words. */
int nvp2p_errno(int err);

/* chaos.c: a client that is overtaken on its way into put_pages. */
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
