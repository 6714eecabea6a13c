// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * p2pdma.c - gives VRAM in a BAR the struct pages of Linux's p2pdma (pages=p2pdma), as NVIDIA's
 * driver does with a static BAR1.  For these the DMA layer asks whether the path between a
 * device and the BAR is known to work, and it refuses transfers where it is not.
 *
 * p2pdma has a pool, from which it hands out the pages, and takes a page back when its last
 * reference goes.  Neither must happen to VRAM, which the core hands out:
 *
 *	- All of the pool is allocated at once.  Nothing else gets a page of it, neither a
 *	  program by p2pmem/allocate in sysfs, nor a driver.
 *	- Each page has a reference of this driver, for as long as there are pages.  So the
 *	  last one never goes, and the page map needs no function for that.  That it has none
 *	  says to peerdma that the pages can be handed out by others.
 */
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/pci-p2pdma.h>
#include <linux/pci.h>
#include <linux/sched.h>
#include "compat.h"
#include "softgpu.h"

#define AT_ONCE	4096	/* pages, without giving up the processor */

/* From 6.14 or so on, p2pdma's pages begin without a reference. */
static void take_references(u64 start, u64 size)
{
	unsigned long pfn = PHYS_PFN(start), end = PHYS_PFN(start + size);

	for (; pfn < end; pfn++) {
		if (!page_ref_count(pfn_to_page(pfn)))
			set_page_count(pfn_to_page(pfn), 1);
		if (!(pfn % AT_ONCE))
			cond_resched();
	}
}

static int take_pages(struct softgpu_device *device)
{
	struct softgpu_backing *backing = &device->backing;
	struct dev_pagemap *pagemap;

	device->p2pmem = pci_alloc_p2pmem(backing->pdev, backing->size);
	if (!device->p2pmem)
		return -EBUSY;
	pagemap = softgpu_get_pagemap(PHYS_PFN(backing->start));
	if (WARN_ON(!pagemap)) {
		pci_free_p2pmem(backing->pdev, device->p2pmem, backing->size);
		device->p2pmem = NULL;
		return -ENODEV;
	}
	pagemap->ops = NULL;
	put_dev_pagemap(pagemap);
	take_references(backing->start, backing->size);
	return 0;
}

int softgpu_p2pdma_add(struct softgpu_device *device, int bar)
{
	struct pci_dev *pdev = device->backing.pdev;
	int err;

	/* p2pdma's functions undo themselves when the driver has left the device: too late here. */
	if (!devres_open_group(&pdev->dev, device, GFP_KERNEL))
		return -ENOMEM;
	err = pci_p2pdma_add_resource(pdev, bar, device->backing.size, 0);
	devres_close_group(&pdev->dev, device);
	err = err ?: take_pages(device);
	if (err)
		devres_release_group(&pdev->dev, device);
	return err;
}

void softgpu_p2pdma_remove(struct softgpu_device *device)
{
	struct pci_dev *pdev = device->backing.pdev;

	pci_free_p2pmem(pdev, device->p2pmem, device->backing.size);
	device->p2pmem = NULL;
	devres_release_group(&pdev->dev, device);
}
