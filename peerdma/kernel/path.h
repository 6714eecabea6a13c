/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* path.h - whether a device reaches memory by DMA, by the rules of ../path/rules.h. */
#ifndef PEERDMA_PATH_H
#define PEERDMA_PATH_H

#include <linux/device.h>
#include <linux/types.h>

#include "../path/rules.h"

/* Enough for any PCI address: "10000:e1:00.0". */
#define PEERDMA_PATH_NAME	24

struct peerdma_path {
	enum peerdma_path_verdict verdict;
	enum peerdma_path_reason reason;
	bool translated;	/* an IOMMU translates for the client: map, and use the IOVA */
	/*
	 * Otherwise the client addresses a byte of the BAR by its CPU physical address plus
	 * this (modulo 2^64); 0 for PEERDMA_PATH_MACHINE, which the DMA API maps.
	 */
	u64 offset;
	/* All of this holds for the CPU physical addresses from first to last, inclusive. */
	phys_addr_t first, last;
	char provider[PEERDMA_PATH_NAME];	/* PCI address of the BAR's owner; "" for MACHINE */
};

/**
 * peerdma_path_check() - can a device reach this memory?
 * @phys:	CPU physical address, in bytes
 * @length:	in bytes, not 0
 * @client:	the device that does the DMA; the caller holds a reference
 * @vouched:	the driver of the memory has said that the client reaches it: no rule refuses
 * @path:	filled in any case; the caller's memory, owns nothing
 *
 * Finds the PCI function whose BAR holds the memory, and the path between the two.  If there
 * is none, one message (rate limited) names both devices, the reason and the remedy.
 *
 * The answer is remembered until something happens on the PCI bus: then a call costs some
 * hundred instructions.
 *
 * May sleep.  Takes spinlocks of the driver core, and calls
 * nothing of peerdma: any lock of peerdma may be held.  Any number of threads.
 *
 * Return: 0, or -EOPNOTSUPP: @path->verdict is PEERDMA_PATH_NOT_SUPPORTED.
 */
int peerdma_path_check(phys_addr_t phys, u64 length, struct device *client,
		       bool vouched, struct peerdma_path *path);

/*
 * Is there a path that an earlier peerdma_path_check() found and remembered?  Then *path is it, as if found now.  Never
 * sleeps.
 */
bool peerdma_path_known(phys_addr_t phys, u64 length, struct device *client, struct peerdma_path *path);

/* Does an IOMMU translate for this device, that is: can it reach any address, and be kept from it? */
bool peerdma_translated(struct device *dev);

/* Does a path that was found for this client hold for [phys, phys + length), too? */
static inline bool peerdma_path_covers(const struct peerdma_path *path, phys_addr_t phys,
				       u64 length)
{
	return phys >= path->first && phys <= path->last && length - 1 <= path->last - phys;
}

/*
 * Follows the PCI bus, so that answers are remembered.  Without it each check looks anew.
 * Returns 0, or -errno of bus_register_notifier().  Exit: no check runs any more.
 */
int peerdma_path_init(void);
void peerdma_path_exit(void);

#endif
