/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * pin.h - the pin, the one object of peerdma, and its life.
 *
 *	NEW --get--> LIVE --memory goes away--> REVOKING --torn down--> REVOKED
 *	              |                            |                       |
 *	            unpin                        (wait)                  unpin
 *	              v                            |                       v
 *	            ENDING <-----------------------+---------------------ENDING
 *	              | torn down, last hold gone
 *	              v
 *	            ENDED  (at once when nothing was made from the pin)
 *
 * Two threads may want to end a pin at once: the one that frees the memory
 * (peerdma_revoke) and the one that unpins (peerdma_pin_end).  Whichever changes
 * LIVE first tears down; the other waits until nothing made from the pin is left.
 * The revoker must wait because the memory is reused when it returns; the
 * unpinner because it frees what the revoker works on.
 *
 * The pin knows three tables of operations and nothing above them:
 *
 *	what was made from it	struct peerdma_made: mappings, CPU views, dma-bufs
 *	whose pin it is		struct peerdma_owner: an open file, a driver
 *	whose memory it is	struct peerdma_provider (provider.h)
 *
 * Reference count: the memory of this struct (kref).  `holds' counts who needs
 * the pinned memory itself: the owner, and dma-buf importers that cannot let go.
 * The provider gets the memory back when the last hold goes.
 *
 * Lock order, outermost first:
 *
 *	a lock that a provider holds around peerdma_revoke()
 *	a client's own locks
 *	a turn at the provider (turns.h): all of a get, all of a put, a question (`reach')
 *	mmap_lock, dma_resv of an export or of an imported dma-buf
 *	peerdma_pin.lock (of an import; inside it, that of the pin that is exported)
 *	locks that a provider's get and dma_map take (see provider.h: none of the outermost
 *	    where there is a reservation lock), those of the page tables
 *	names_lock (object.c), peerdma_file.lock, peerdma_file.maps.xa_lock
 *
 * Reservation locks (dma_resv) are taken without a ww ticket, one at a time and while no
 * other one is held: a driver that holds some and waits for more waits for none of ours.
 *
 * Nothing is copied from or to user space under pin.lock.  No lock of ours is
 * held while a client's revoke, a provider's put or move_notify of a foreign
 * pin runs (move_notify: its own dma_resv, as dma-buf demands; and so a client's
 * revoke, when it is an import that its exporter takes away).
 */
#ifndef PEERDMA_PIN_H
#define PEERDMA_PIN_H

#include "made.h"
#include "object.h"

int peerdma_pin_start(struct peerdma_pin *pin);
/*
 * With a provider that is asked for by name; its module is held by the caller, and by the
 * pin if this succeeds.  pin->priv may be set already: `put' and `release' are then called
 * on failure, too.
 */
int peerdma_pin_start_at(struct peerdma_pin *pin, struct peerdma_provider *provider);
/*
 * Ends a pin; takes over the owner's reference.  False: another thread has.
 * With `busy', a pin that an importer holds is left alone and *busy set.
 */
bool peerdma_pin_end(struct peerdma_pin *pin, bool *busy);
/* Gives up one hold of the memory; no lock held. */
void peerdma_pin_drop_hold(struct peerdma_pin *pin);

/* ---- provider.c ---- */

/* The one after `prev' that may know a range with these flags, its module held; prev's is dropped. */
struct peerdma_provider *peerdma_provider_next(struct peerdma_provider *prev, u32 flags);
/* One other than `own' that says that the memory is its own, its module held; NULL: none. */
struct peerdma_provider *peerdma_provider_claiming(const struct peerdma_pin *pin,
						   const struct peerdma_provider *own);
/* How many there are that can say so. */
extern u32 peerdma_claimers;
u32 peerdma_provider_count(void);
/* One that no address is asked about. */
void peerdma_provider_init(struct peerdma_provider *provider);
/* The last one that is asked. */
void peerdma_provider_enter_last(struct peerdma_provider *provider);

#endif
