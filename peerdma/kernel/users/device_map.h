/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* device_map.h - mappings for PCI devices that programs make and name by a handle. */
#ifndef PEERDMA_DEVICE_MAP_H
#define PEERDMA_DEVICE_MAP_H

#include <linux/dma-direction.h>

#include "file.h"

struct pci_dev;

/*
 * One MAP: what is allocated and looked up before the device is locked, and what becomes of
 * it.
 */
struct peerdma_device_map {
	/* Set by the caller, which has references to pin and pdev. */
	struct peerdma_file *file;
	struct peerdma_pin *pin;
	struct pci_dev *pdev;
	enum dma_data_direction dir;
	/* Set by peerdma_device_map(). */
	u32 handle;			/* reserved in file->maps, or 0 */
	struct peerdma_map *map;	/* if 0 was returned: NULL, or the mapping */
	u32 nsegs;			/* of the mapping, not merged */
	struct peerdma_segment *segs;	/* a merged copy; the caller frees it */
	u32 count;			/* of segs */
};

/*
 * May programs name this device as one that is to reach memory? -EOPNOTSUPP: its driver manages its own
 * DMA; -ENODEV: its DMA may change at any time (no driver), or it was removed.  May sleep; no lock held.
 */
int peerdma_device_check(struct pci_dev *pdev);
/*
 * Maps the whole pin for the device.  If its segments, merged, are more than `space', it is not
 * mapped: 0 is returned, `map' is NULL, and `count' says how many they are.  May sleep; no lock
 * held.  A failure leaves `handle' reserved, which the caller erases.
 */
int peerdma_device_map(struct peerdma_device_map *m, u32 space);
/* Ends a mapping.  -ENOENT: the file has no such handle. */
int peerdma_device_unmap(struct peerdma_file *file, u32 handle);

#endif
