/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* object.h - what is made from a pin: mappings, CPU views, dma-bufs. */
#ifndef PEERDMA_OBJECT_H
#define PEERDMA_OBJECT_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/types.h>

#include "account.h"

struct device;
struct peerdma_object;
struct peerdma_pin;

/*
 * Operations of one object made from a pin through which its memory can be reached: a
 * mapping, a CPU view or a dma-buf.  When the pin ends, first all its objects are stopped,
 * then all are waited for, then all are taken down.  Then one flush for each IOMMU domain
 * makes devices lose the addresses that the IOMMU still caches.
 */
struct peerdma_object_ops {
	enum peerdma_charge charge;
	bool runs_only;			/* of a mapping: without an sg_table */
	/*
	 * Both: no lock held.  The pin is no longer LIVE, and no new object is made from
	 * it. stop: begin to release the memory. settle: wait until it is released. taken:
	 * the memory may be used for something else as soon as the pin's end returns, so
	 * users that are late must be cut off.  NULL for both: there is nothing to wait
	 * for.
	 */
	void (*stop)(struct peerdma_object *object);
	void (*settle)(struct peerdma_object *object, bool taken);
	/*
	 * pin->lock held.  Cannot fail.  May be called again when nothing is left to do.
	 * NULL: stop was enough.
	 */
	void (*down)(struct peerdma_object *object);
	/*
	 * As `down', and gives back what that has kept for the maker: the maker ends the
	 * object, or loses the device.  NULL: `down' keeps nothing.
	 */
	void (*let_go)(struct peerdma_object *object);
	void (*free)(struct peerdma_object *object);
};

struct peerdma_object {
	struct peerdma_pin *pin;	/* a reference */
	struct peerdma_account *account;	/* of the user who made it */
	const struct peerdma_object_ops *ops;
	struct kref ref;		/* the list has one of them */
	struct list_head node;		/* pin->lock: pin->objects */
	struct device *stale;		/* IOMMU not flushed yet for this device; a reference */
	struct list_head tables;	/* page tables of the IOMMU, which the flush frees */
	u32 pass;			/* number of the last pass that visited it */
	bool gone;			/* its maker has ended it; the pin's end frees it */
};

/*
 * Charges a new object to the account and enters it in the pin's list, or refuses it
 * (-EDQUOT). pin->lock held, the pin usable.  The list has the first reference.
 */
int peerdma_object_enter(struct peerdma_object *object, struct peerdma_pin *pin,
			 const struct peerdma_object_ops *ops, struct peerdma_account *account);
/*
 * The maker of the object ends it: takes it down and frees it.  When this returns, no
 * device reaches the memory through it; if the pin is ending, that holds when the pin's end
 * returns. pin->lock held.
 */
void peerdma_object_end(struct peerdma_object *object);
void peerdma_object_put(struct peerdma_object *object);
/*
 * For `down': records that this device's addresses are unmapped, but the IOMMU may cache
 * them until the flush.
 */
void peerdma_object_stale(struct peerdma_object *object, struct device *dev);
/* Takes an object down, or lets go of it, before its end, and flushes. pin->lock held. */
void peerdma_object_down(struct peerdma_object *object);
void peerdma_object_let_go(struct peerdma_object *object);

/* For the pin's end: stops all objects, then waits for all of them.  No lock held. */
void peerdma_object_stop_all(struct peerdma_pin *pin, bool taken);
/* Takes all objects down, flushes, and frees those that their makers have ended. pin->lock held. */
void peerdma_object_down_all(struct peerdma_pin *pin);

#endif
