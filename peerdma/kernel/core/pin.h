/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * pin.h - the states of a pin, who may change them, and the lock order.
 *
 *	NEW --get--> LIVE --memory is freed--> REVOKING --torn down--> REVOKED
 *	              |                            |                       |
 *	            unpin                        (wait)                  unpin
 *	              v                            |                       v
 *	            ENDING <-----------------------+---------------------ENDING
 *	              | torn down, last hold dropped
 *	              v
 *	            ENDED  (at once if nothing was made from the pin)
 *
 * Two threads may want to end a pin at once: the revoker, which frees the memory
 * (peerdma_revoke), and the unpinner (peerdma_pin_end).  The thread that moves the pin out
 * of LIVE tears down.  The other thread waits until nothing made from the pin is left: the
 * revoker because the memory is reused when it returns, the unpinner because it frees what
 * the revoker works on.
 *
 * The pin calls three tables of operations and knows nothing above them:
 *
 *	what was made from it	struct peerdma_object: mappings, CPU views, dma-bufs
 *	whose pin it is		struct peerdma_owner: an open file, a driver
 *	whose memory it is	struct peerdma_provider (provider.h)
 *
 * The reference count (kref) keeps this struct allocated.  `holds' counts users of the
 * pinned memory itself: the owner, and dma-buf importers that cannot release it on request.
 * The memory goes back to the provider when the last hold is dropped.
 *
 * Lock order, outermost first:
 *
 *	waiting for a user: faulting in user memory, a charge to the user's cgroup (charge.h;
 *	    to lockdep it is a lock)
 *	a lock that a provider holds around peerdma_revoke()
 *	a client's own locks
 *	the provider's group lock (group_lock.h), held for a whole get, put or `reach'; none where
 *	    `get' takes mmap_lock (provider.h)
 *	mmap_lock, dma_resv of an export or of an imported dma-buf
 *	peerdma_pin.lock (of an import; inside it, that of the pin that is exported; of a pin with a page view;
 *	    inside it, that of the pin that keeps the view's memory)
 *	locks that a provider's get and dma_map take (see provider.h: none of the outermost
 *	    where there is a reservation lock), those of the page tables
 *	names_lock (pin_table.c), in which the lock of its xarray is taken; peerdma_file.lock,
 *	    peerdma_file.maps.xa_lock; blocks_lock (memtype.c), in which the kernel's own locks
 *	    for memory types are taken
 *	held->lock, lane->lock and lanes_lock of tegra/: taken in MMU notifiers, so nothing is
 *	    allocated under them
 *
 * Reservation locks (dma_resv) are taken without a ww ticket, one at a time and while no
 * other one is held.  So a driver that holds some and waits for more never waits for a lock
 * of ours.
 *
 * Nothing is copied from or to user space under pin.lock.  No lock of ours is held while a
 * client's revoke, a provider's put or a foreign pin's move_notify runs.  Exception:
 * move_notify runs under the dma_resv of its own dma-buf, as the dma-buf interface demands,
 * and so does a client's revoke for a pin of an imported dma-buf.
 */
#ifndef PEERDMA_PIN_H
#define PEERDMA_PIN_H

#include "object.h"
#include "pin_table.h"

int peerdma_pin_start(struct peerdma_pin *pin);
/*
 * As peerdma_pin_start(), with a provider that the caller has chosen and holds; if this
 * succeeds, the pin has that hold. pin->priv may be set already: then
 * `put' and `release' are called on failure, too.
 */
int peerdma_pin_start_at(struct peerdma_pin *pin, struct peerdma_provider *provider);
/*
 * Ends a pin, and takes over the owner's reference.  May sleep.  -ENOENT: another thread has
 * ended it.  With `asked', for a program that can ask again: -EBUSY, an importer holds the
 * pin; -EINTR, this process was killed while it waited for a revocation.  Then nothing has
 * changed.
 */
int peerdma_pin_end(struct peerdma_pin *pin, bool asked);
/* Gives up one hold of the memory; no lock held. */
void peerdma_pin_drop_hold(struct peerdma_pin *pin);

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

/* ---- provider.c ---- */

/*
 * Keep the provider's module loaded, for each pin.  All holds together are one reference to
 * the module, since Linux shows every user how many references there are.  hold: false, if
 * the module is being unloaded. let_go: never the last one in the provider's own code.
 */
bool peerdma_provider_hold(struct peerdma_provider *provider);
void peerdma_provider_let_go(struct peerdma_provider *provider);
/*
 * Returns the provider after `prev' (NULL: the first) that may know a range with these
 * flags, held, and lets go of `prev'.
 */
struct peerdma_provider *peerdma_provider_next(struct peerdma_provider *prev, u32 flags);
/*
 * Returns a provider other than `own' that claims the pin's memory, held, or NULL.
 */
struct peerdma_provider *peerdma_provider_claiming(const struct peerdma_pin *pin,
						   const struct peerdma_provider *own);
/* The number of providers that have `claims'. */
extern u32 peerdma_claimers;
u32 peerdma_provider_count(void);
/* For a provider that is not in the list of providers: pins are started with it by name only. */
void peerdma_provider_init(struct peerdma_provider *provider);
/* Puts this provider at the end of the list. */
void peerdma_provider_enter_last(struct peerdma_provider *provider);

#endif
