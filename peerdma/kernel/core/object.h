/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* object.h - what is made from a pin: mappings, CPU views, dma-bufs. */
#ifndef PEERDMA_OBJECT_H
#define PEERDMA_OBJECT_H

#include "pin_table.h"

/*
 * Takes the provider's lock, if it needs one, and pin->lock, around every call that makes
 * or unmakes a mapping.  The pin must not be NEW. room: that of a mapping that is to be made
 * (peerdma_map_prepare()), or NULL.  Returns 0, or a negative errno if the pin cannot be
 * mapped: then nothing is locked.  Never fails if room is NULL.
 */
static inline int peerdma_maps_lock(struct peerdma_pin *pin, struct peerdma_room *room)
{
	lockdep_assert(READ_ONCE(pin->state) != PIN_NEW);
	if (unlikely(pin->import))
		return pin->import->lock(pin, room);
	mutex_lock_nested(&pin->lock, peerdma_pin_revocable(pin) ? 0 : PIN_LOCK_LASTING);
	return 0;
}

static inline void peerdma_maps_unlock(struct peerdma_pin *pin)
{
	if (unlikely(pin->import))
		pin->import->unlock(pin);
	else
		mutex_unlock(&pin->lock);
}

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
