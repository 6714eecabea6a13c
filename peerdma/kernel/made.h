/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* made.h - what is made from a pin: mappings, CPU views, dma-bufs. */
#ifndef PEERDMA_MADE_H
#define PEERDMA_MADE_H

#include "object.h"

/*
 * pin->lock, and before it what the provider needs, around whatever makes or unmakes a
 * mapping; of a pin that is not NEW.  dev: the device that a mapping is to be made for, NULL if none.  A negative
 * errno: it cannot be mapped, nothing is locked; never when dev is NULL.
 */
static inline int peerdma_maps_lock(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir)
{
	lockdep_assert(READ_ONCE(pin->state) != PIN_NEW);
	if (unlikely(pin->import))
		return pin->import->lock(pin, dev, dir);
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
 * Something is being made from a pin: is charged to the calling process's user, and refused
 * (-EDQUOT, -ENOMEM) or entered in its list.  pin->lock held, the pin usable.  The first reference is the list's.
 */
int peerdma_made_enter(struct peerdma_made *made, struct peerdma_pin *pin,
		       const struct peerdma_made_ops *ops);
/*
 * Its maker ends it: it is taken down, no device reaches the memory through it when this
 * returns (or, while the pin ends, when that returns), and it is freed.  pin->lock held.
 */
void peerdma_made_end(struct peerdma_made *made);
void peerdma_made_put(struct peerdma_made *made);
/* For `down': this device has lost its addresses, and may remember them until the flush. */
void peerdma_made_stale(struct peerdma_made *made, struct device *dev);
/* Takes one down before its end, with the flush.  pin->lock held. */
void peerdma_made_down(struct peerdma_made *made);

/* For the pin's end: tells all to let go and waits for that; no lock held. */
void peerdma_made_stop_all(struct peerdma_pin *pin, bool taken);
/* Takes all down, flushes, frees those that their makers have ended.  pin->lock held. */
void peerdma_made_down_all(struct peerdma_pin *pin);

#endif
