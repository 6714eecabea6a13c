/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* path.h - can a device reach memory by DMA, by the rules of ../path/rules.h? */
#ifndef PEERDMA_PATH_H
#define PEERDMA_PATH_H

#include <linux/device.h>
#include <linux/types.h>

#include "../../path/rules.h"

/* Enough for any PCI address: "10000:e1:00.0". */
#define PEERDMA_PATH_NAME	24

struct peerdma_path {
	enum peerdma_path_verdict verdict;
	enum peerdma_path_reason reason;
	bool translated;	/* an IOMMU translates for the client: map, use the IOVA */
	/*
	 * If not translated: what the client adds to a CPU physical address of the BAR to
	 * reach that byte (modulo 2^64). 0 for PEERDMA_PATH_MACHINE, which the DMA API
	 * maps.
	 */
	u64 offset;
	/* The fields above hold for CPU physical addresses from first to last, inclusive. */
	phys_addr_t first, last;
	char provider[PEERDMA_PATH_NAME];	/* PCI address of the BAR's owner; "" for MACHINE */
};

/**
 * peerdma_path_check() - can a device reach this memory?
 * @phys:	CPU physical address, in bytes
 * @length:	in bytes, not 0
 * @client:	the device that does the DMA; the caller holds a reference
 * @vouched:	the memory's driver has said that the client reaches it: no rule refuses
 * @path:	filled in any case; holds no references
 *
 * Finds the PCI function whose BAR holds the memory, and the path between the two.  If
 * there is none, one message (rate limited) names both devices, the reason and the remedy.
 *
 * A positive answer is remembered until a PCI device or driver comes or goes; a remembered
 * answer costs some hundred instructions.
 *
 * May sleep.  Takes spinlocks of the driver core and no lock of other files of peerdma, so
 * the caller may hold any of these.  Any number of threads may call it.
 *
 * Return: 0, or -EOPNOTSUPP: @path->verdict is PEERDMA_PATH_NOT_SUPPORTED.
 */
int peerdma_path_check(phys_addr_t phys, u64 length, struct device *client,
		       bool vouched, struct peerdma_path *path);

/*
 * The same for memory with struct pages of p2pdma, which the kernel maps by rules of its own:
 * path_override and the memory's driver have no say.  Nothing is remembered.
 */
int peerdma_path_check_pages(phys_addr_t phys, u64 length, struct device *client);

/*
 * Did an earlier peerdma_path_check() find and remember a path? If so, fills *path as that
 * call would.  Never sleeps.
 */
bool peerdma_path_known(phys_addr_t phys, u64 length, struct device *client,
			struct peerdma_path *path);

/*
 * Does an IOMMU translate for this device? Then it can reach any address, and can be kept
 * from it.
 */
bool peerdma_translated(struct device *dev);

/* Does a path that was found for this client hold for [phys, phys + length), too? */
static inline bool peerdma_path_covers(const struct peerdma_path *path, phys_addr_t phys,
				       u64 length)
{
	return phys >= path->first && phys <= path->last && length - 1 <= path->last - phys;
}

/*
 * init: listens to events of the PCI bus, so that answers can be remembered; without it
 * each check looks anew.  Returns 0, or -errno of bus_register_notifier(). exit: no check
 * may run any more.
 */
int peerdma_path_init(void);
void peerdma_path_exit(void);

#endif
