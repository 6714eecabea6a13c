/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * provider.h - what peerdma needs from an owner of memory, and what it offers
 * to the thin module that speaks the owner's interface.
 *
 * A provider fills this table and registers it; peerdma asks one after the other,
 * host memory last.  What a second one claims as well is refused.
 */
#ifndef PEERDMA_PROVIDER_H
#define PEERDMA_PROVIDER_H

#include <linux/module.h>
#include <linux/pfn.h>
#include <linux/types.h>

#include "turns.h"

struct peerdma_pin;
struct peerdma_map;

/* Where a pin's memory is, and so how the CPU must map it. */
enum peerdma_memory {
	MEMORY_BAR,		/* of a device, or unknown: the kernel knows how that is mapped */
	MEMORY_CACHED,		/* the machine's, or coherent with it: no device's bus address */
	MEMORY_COMBINED,	/* the machine's, and its owner has it write-combined */
};

struct peerdma_provider {
	const char *name;	/* shorter than PEERDMA_PROVIDER_NAME */
	struct module *owner;	/* held by every pin */
	bool host;		/* the memory has struct pages: RAM, cached */
	bool can_persist;
	bool aperture;		/* pins take room in a device's aperture, of which there is little */
	/*
	 * `get' takes mmap_lock, which comes before pin->lock: so that is not held
	 * around it.  A pin that is revoked meanwhile is none, and it is `get' that
	 * must not look at what the provider has taken apart by then.
	 */
	bool takes_mmap_lock;
	u8 page_shift;		/* ranges are widened to this */

	/*
	 * Pins [pin->start, pin->start + pin->pinned_length) and sets
	 * pin->priv, in the process that the memory belongs to.  pin->lock is
	 * held (not for the host's), and peerdma_revoke() waits for it.  So
	 * from when the provider can revoke the pin, which it does by
	 * peerdma_revoke(pin->cookie), until it returns, `get' must not wait
	 * for a lock that is held around that.  -ENXIO: not my memory.  When
	 * it fails after it has set pin->priv, `put' is called for it.
	 */
	int (*get)(struct peerdma_pin *pin);

	/*
	 * Is [pin->addr, ...) in this process memory of mine, as `get' would find?  No
	 * lock of ours held.  NULL: only a pin tells.  Such providers are asked
	 * for memory first, so that whoever else claims an address is found out.
	 */
	bool (*claims)(const struct peerdma_pin *pin);

	/*
	 * Gives the memory back.  Any process, may sleep, no lock held, cannot
	 * fail.  Not called for a pin whose peerdma_revoke() has returned; one
	 * may begin and return while this runs, and then there is nothing to
	 * give.  No `get' runs meanwhile: what names the pin names no other.
	 */
	void (*put)(struct peerdma_pin *pin);

	/*
	 * The pin is over, put or revoked: what pin->priv points to may go.  NULL:
	 * there is nothing of the provider's own.
	 */
	void (*release)(struct peerdma_pin *pin);

	/* CPU physical address of the i-th page.  pin->lock held, pin alive.  NULL: an import, whose memory has none. */
	phys_addr_t (*page)(const struct peerdma_pin *pin, u32 i);

	/*
	 * Fills map->segs with the device's addresses for [map->offset,
	 * map->offset + map->length), neighbours merged.  NULL:
	 * peerdma_map_resource().  pin->lock is held, for an importer reservation locks,
	 * too: nothing here may wait for a lock that is held around peerdma_revoke()
	 * (dmabuf.c has it by then), except for pins that are never revoked, which `reach'
	 * refuses to importers.
	 */
	int (*dma_map)(struct peerdma_map *map);
	void (*dma_unmap)(struct peerdma_map *map);

	/*
	 * Would this provider map the pin's memory for the device?  importer: of a dma-buf,
	 * with reservation locks held.  Asked before each mapping and attachment, with no lock
	 * of ours held, in any process; may call the provider, and take pin->lock.  No `put'
	 * runs meanwhile.  0: yes, or who can know; -EOPNOTSUPP.  NULL: dma_map says so.
	 */
	int (*reach)(struct peerdma_pin *pin, struct device *dev, bool importer);
	/* Has the provider said that it would?  Then the kernel's rules (path.h) do not refuse.  pin->lock held. */
	bool (*vouches)(const struct peerdma_pin *pin, struct device *dev);

	/* The same for all of a pin's pages.  pin->lock held, pin alive.  NULL: host, or MEMORY_BAR. */
	enum peerdma_memory (*memory)(const struct peerdma_pin *pin);

	/* Private to provider.c. */
	u32 index;		/* place in the order of asking */
	u32 refuses;		/* PEERDMA_PIN_* that it is not asked about */
	u32 claimer;		/* 1: has `claims' */
	struct peerdma_turns turns;	/* of its gets and puts; not for the host's */
};

/* Contiguous pages, from page `first' of the pin to where the next run begins. */
struct peerdma_run {
	phys_addr_t phys;
	u32 first;
};

/* Where the i-th page is. */
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
 * From the module's exit function: no pin is left, since pins hold the module.  Waits for
 * callbacks that have left peerdma_revoke() and are on their way out of the module: they
 * may not sleep there.
 */
void peerdma_unregister_provider(struct peerdma_provider *provider);

/*
 * The memory goes away: called by the provider in the thread that frees it.
 * When this returns nothing made from the pin reaches the memory.  The cookie
 * names a pin without keeping it: one that is gone by now is ignored, so a
 * provider need not know whether its own `put' disarmed the callback.
 *
 * The caller holds no dma-buf's reservation lock: those of exports are taken here, without a
 * ww ticket.  dmabuf.c does, and may: nothing is exported from an import.
 *
 * Returns what pin->priv was, for interfaces whose client frees that in the callback;
 * NULL if the pin was gone.  From then on the caller must not sleep.
 */
void *peerdma_revoke(u64 cookie);

/* dma_map for memory that is nothing but bus addresses, and its undoing. */
int peerdma_map_resource(struct peerdma_map *map);
void peerdma_unmap_resource(struct peerdma_map *map);

/* Adds [addr, addr + length) to map->segs, merged with the last one if adjacent. */
int peerdma_map_add(struct peerdma_map *map, u64 addr, u64 length);

#endif
