/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * provider.h - what peerdma needs from an owner of memory, and what it offers to the thin
 * module that speaks that owner's interface.
 *
 * A provider fills this table and registers it.  To pin an address, peerdma asks one
 * provider after the other, host memory last.  Memory that a second provider claims as well
 * is refused.
 */
#ifndef PEERDMA_PROVIDER_H
#define PEERDMA_PROVIDER_H

#include <linux/module.h>
#include <linux/pfn.h>
#include <linux/types.h>

#include "group_lock.h"

struct peerdma_pin;
struct peerdma_map;

/* Where a pin's memory is.  This decides how the CPU maps it. */
enum peerdma_memory {
	MEMORY_BAR,		/* in a device's BAR, or unknown: the kernel knows its cache mode */
	MEMORY_CACHED,		/* system memory or coherent with it, in no BAR */
	MEMORY_COMBINED,	/* system memory that its owner maps write-combined */
};

struct peerdma_provider {
	const char *name;	/* shorter than PEERDMA_PROVIDER_NAME */
	struct module *owner;	/* held by every pin */
	bool host;		/* the memory has struct pages: RAM, cached */
	bool can_persist;
	bool aperture;		/* pins use up a device's limited aperture */
	/*
	 * `get' takes mmap_lock and faults pages in: user code decides how long that takes.
	 * So no lock of ours and no group lock is held around `get' and `put', and:
	 *
	 * - The provider keeps what `get' reads, and its identifier of the pin, until
	 *   it ends the pin itself, whether that was put or revoked.  So no other pin can
	 *   have that identifier, which the group lock would ensure otherwise (group_lock.h).
	 * - peerdma_revoke() may come before `get' has returned; then the pin fails to
	 *   start.  `put' may run at the same time as peerdma_revoke() and after it has
	 *   returned: the provider decides which of the two ends the pin.
	 * - There is no `reach'.
	 */
	bool takes_mmap_lock;
	u8 page_shift;		/* ranges are widened to this */

	/*
	 * Pins [pin->start, pin->start + pin->pinned_length) and sets pin->priv, in the
	 * process that owns the memory. pin->lock is held (except for host memory), and
	 * peerdma_revoke() waits for pin->lock.  So from the moment when the provider can
	 * call peerdma_revoke(pin->cookie) until `get' returns, `get' must not wait for a
	 * lock that is held around peerdma_revoke().  -ENXIO: not my memory.  If it fails
	 * after it has set pin->priv, `put' is called for it.
	 */
	int (*get)(struct peerdma_pin *pin);

	/*
	 * The second half of `get', for what needs memory that is charged: `get' allocates
	 * none, since other users wait for the group lock.  No lock held.  The memory may be
	 * revoked before and during this call: what belongs to the provider is read with pin->lock
	 * held, and only if pin->revoked is false.  If it fails, `put' is called.  NULL:
	 * nothing to do.
	 */
	int (*read)(struct peerdma_pin *pin);

	/*
	 * Returns whether this provider owns the memory at pin->addr in this process, as
	 * `get' would find.  No lock of ours held.  NULL: only a pin can answer that.
	 * Providers without `claims' are asked to pin first, so that a second provider's
	 * claim of the address is noticed.
	 */
	bool (*claims)(const struct peerdma_pin *pin);

	/*
	 * Gives the memory back.  Any process, may sleep, no lock held, cannot fail.  Not
	 * called for a pin whose peerdma_revoke() has returned.  A peerdma_revoke() may
	 * begin and return while this runs; then there is nothing to give back.  No `get'
	 * runs meanwhile, so the provider's identifier of this pin cannot be reused for
	 * another pin yet (except with takes_mmap_lock).
	 */
	void (*put)(struct peerdma_pin *pin);

	/* The pin was put or revoked: frees what pin->priv points to.  NULL: nothing to free. */
	void (*release)(struct peerdma_pin *pin);

	/*
	 * CPU physical address of the i-th page. pin->lock held, pin alive.  NULL: an
	 * imported dma-buf, whose memory has no CPU addresses.
	 */
	phys_addr_t (*page)(const struct peerdma_pin *pin, u32 i);

	/*
	 * Fills map->segs with the device's addresses for [map->offset, map->offset +
	 * map->length), adjacent ones merged.  NULL: peerdma_map_resource(). pin->lock is
	 * held, and for an importer reservation locks, too.  So this must not wait for a
	 * lock that is held around peerdma_revoke().  (dmabuf.c may: it holds that lock,
	 * the reservation lock, already.) Pins that are never revoked are exempt, if
	 * `reach' refuses them to importers.
	 */
	int (*dma_map)(struct peerdma_map *map);
	void (*dma_unmap)(struct peerdma_map *map);

	/*
	 * Returns whether this provider would map the pin's memory for the device: 0 if it
	 * would or cannot know, else -EOPNOTSUPP. importer: for a dma-buf importer, which
	 * holds reservation locks.  Asked before each mapping and attachment, with no lock
	 * of ours held, in any process.  May call the provider and take pin->lock.  No
	 * `put' runs meanwhile.  NULL: dma_map decides.
	 */
	int (*reach)(struct peerdma_pin *pin, struct device *dev, bool importer);
	/*
	 * Has `reach' already found that the provider would map it? Then the kernel's rules
	 * (path.h) do not refuse. pin->lock held.
	 */
	bool (*vouches)(const struct peerdma_pin *pin, struct device *dev);

	/*
	 * The kind of memory, the same for all pages of a pin. pin->lock held, pin alive.
	 * NULL: host memory, or MEMORY_BAR.
	 */
	enum peerdma_memory (*memory)(const struct peerdma_pin *pin);

	/* Private to provider.c. */
	u32 index;		/* position in the order in which providers are asked */
	u32 refuses;		/* requests with one of these PEERDMA_PIN_* skip it */
	u32 claimer;		/* 1: has `claims' */
	atomic_t holds;		/* peerdma_provider_hold(); above zero: one reference to `owner' */
	struct peerdma_group_lock group_lock;	/* of its gets and puts; not used for host memory */
};

/* Contiguous pages, from page `first' of the pin to where the next run begins. */
struct peerdma_run {
	phys_addr_t phys;
	u32 first;
};

/* Physical address of the i-th page. */
static inline phys_addr_t peerdma_run_page(const struct peerdma_run *runs, u32 nruns, u32 i)
{
	u32 low = 0, high = nruns;

	while (high - low > 1) {
		u32 mid = low + (high - low) / 2;

		if (runs[mid].first <= i)
			low = mid;
		else
			high = mid;
	}
	return runs[low].phys + PFN_PHYS(i - runs[low].first);
}

int peerdma_register_provider(struct peerdma_provider *provider);
/*
 * Called from the module's exit function.  No pin is left, since pins hold the module.
 * Waits for callbacks that have returned from peerdma_revoke() but still run code of the
 * module; they may not sleep there.
 */
void peerdma_unregister_provider(struct peerdma_provider *provider);

/*
 * The provider calls this when the memory is being freed, in the thread that frees it; or
 * later, if it keeps the memory from being used for anything else until this has returned.
 * When it returns, nothing made from the pin reaches the memory.  A cookie holds no
 * reference: if the pin has ended, the call does nothing, so a provider need not know
 * whether its own `put' disarmed the callback.
 *
 * The caller holds no reservation lock of a dma-buf, since those of exports are taken here,
 * without a ww ticket.  Exception: dmabuf.c holds one, and may, since an import cannot be
 * exported.
 *
 * Returns the old pin->priv, for interfaces whose client frees that in the callback, or
 * NULL if the pin was gone.  After this call the caller must not sleep.
 */
void *peerdma_revoke(u64 cookie);

/*
 * dma_map for memory that has bus addresses only, and its counterpart.  After a revocation
 * reserve.c keeps the addresses of such a mapping, and dma_unmap is not called for it.
 */
int peerdma_map_resource(struct peerdma_map *map);
void peerdma_unmap_resource(struct peerdma_map *map);

/* Adds [addr, addr + length) to map->segs, merged with the last segment if adjacent. */
int peerdma_map_add(struct peerdma_map *map, u64 addr, u64 length);

#endif
