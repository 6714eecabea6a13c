// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * pages.c - gives VRAM in a BAR struct pages (parameter `pages'), so that other parts of the
 * kernel can use it as memory: file systems' O_DIRECT, network sockets, capture drivers.
 *
 * The pages are MEMORY_DEVICE_GENERIC, which every kernel has. The DMA layer takes them for
 * RAM: it asks nothing about the PCIe path between a device and the BAR. So they are for tests in
 * virtual machines. On a real GPU only the pages that its own driver makes are right
 * (PCI_P2PDMA).
 *
 * The kernel's own mapping, which is write-combined, is made first: the pages take over its
 * memory type.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/memremap.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include "softgpu.h"

/* Linux adds struct pages in sections of this size. */
#define SECTION		SZ_2M

static char *pages = "off";
module_param(pages, charp, 0444);
MODULE_PARM_DESC(pages, "Struct pages for VRAM in a BAR: off (default), or generic: peers take it for RAM; for tests");

static bool generic;

int softgpu_pages_init(void)
{
	generic = sysfs_streq(pages, "generic");
	if (generic || sysfs_streq(pages, "off"))
		return 0;
	pr_err("pages=%s: must be off or generic\n", pages);
	return -EINVAL;
}

int softgpu_pages_add(struct softgpu_device *device)
{
	u64 start = device->backing.start, size = round_down(device->backing.size, SECTION);
	struct dev_pagemap *pagemap;
	void *mapped;

	if (!generic)
		return 0;
	if (!IS_ALIGNED(start, SECTION) || size != device->backing.size) {
		pci_err(device->backing.pdev, "pages=generic: the BAR's size must be a multiple of 2 MiB\n");
		return -EINVAL;
	}
	pagemap = kzalloc(sizeof(*pagemap), GFP_KERNEL);
	if (!pagemap)
		return -ENOMEM;
	pagemap->type = MEMORY_DEVICE_GENERIC;
	pagemap->range.start = start;
	pagemap->range.end = start + size - 1;
	pagemap->nr_range = 1;
	mapped = memremap_pages(pagemap, dev_to_node(device->parent));
	if (IS_ERR(mapped)) {
		pci_err(device->backing.pdev, "pages=generic: the kernel makes no pages for the BAR (error %ld)\n",
			PTR_ERR(mapped));
		kfree(pagemap);
		return PTR_ERR(mapped);
	}
	device->pagemap = pagemap;
	pci_info(device->backing.pdev, "pages=generic: VRAM has struct pages, and peers take it for RAM: for tests only\n");
	return 0;
}

/* Waits until nothing holds the pages, as the kernel's users of a page map do. */
void softgpu_pages_remove(struct softgpu_device *device)
{
	if (!device->pagemap)
		return;
	memunmap_pages(device->pagemap);
	kfree(device->pagemap);
	device->pagemap = NULL;
}
