// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * pages.c - gives VRAM in a BAR struct pages (parameter `pages'), so that other parts of the
 * kernel can use it as memory: file systems' O_DIRECT, network sockets, capture drivers.
 *
 *	generic		MEMORY_DEVICE_GENERIC, which every kernel has.  The DMA layer takes such
 *			pages for RAM: it asks nothing about the PCIe path between a device and the
 *			BAR.  So they are for tests in virtual machines, and never right on a real GPU.
 *	p2pdma		PCI_P2PDMA, as real drivers make them: p2pdma.c.
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
MODULE_PARM_DESC(pages, "Struct pages for VRAM in a BAR: off (default); generic: peers take it for RAM, for tests; p2pdma: as real drivers make them, on kernels that have PCI_P2PDMA");

static enum { OFF, GENERIC, P2PDMA } kind;
static const char *const kinds[] = { "off", "generic", "p2pdma" };

int softgpu_pages_init(void)
{
	int found = sysfs_match_string(kinds, pages);

	if (found < 0) {
		pr_err("pages=%s: must be off, generic or p2pdma\n", pages);
		return -EINVAL;
	}
	if (found == P2PDMA && !IS_ENABLED(CONFIG_PCI_P2PDMA)) {
		pr_err("pages=p2pdma: this kernel is built without PCI_P2PDMA; use pages=generic, or a kernel that has it, such as Debian's 7.2\n");
		return -EOPNOTSUPP;
	}
	kind = found;
	return 0;
}

static int add_generic(struct softgpu_device *device)
{
	struct dev_pagemap *pagemap = kzalloc(sizeof(*pagemap), GFP_KERNEL);
	void *mapped;

	if (!pagemap)
		return -ENOMEM;
	pagemap->type = MEMORY_DEVICE_GENERIC;
	pagemap->range.start = device->backing.start;
	pagemap->range.end = device->backing.start + device->backing.size - 1;
	pagemap->nr_range = 1;
	mapped = memremap_pages(pagemap, dev_to_node(device->parent));
	if (IS_ERR(mapped)) {
		kfree(pagemap);
		return PTR_ERR(mapped);
	}
	device->pagemap = pagemap;
	return 0;
}

int softgpu_pages_add(struct softgpu_device *device, int bar)
{
	struct pci_dev *pdev = device->backing.pdev;
	int err;

	if (kind == OFF)
		return 0;
	if (!IS_ALIGNED(device->backing.start | device->backing.size, SECTION)) {
		pci_err(pdev, "pages=%s: the BAR's size must be a multiple of 2 MiB\n", kinds[kind]);
		return -EINVAL;
	}
	err = kind == GENERIC ? add_generic(device) : softgpu_p2pdma_add(device, bar);
	if (err)
		pci_err(pdev, "pages=%s: the kernel makes no pages for the BAR (error %d)\n", kinds[kind], err);
	else if (kind == GENERIC)
		pci_info(pdev, "pages=generic: VRAM has struct pages, and peers take it for RAM: for tests only\n");
	else
		pci_info(pdev, "pages=p2pdma: VRAM has struct pages, and the kernel decides which peers reach it\n");
	return err;
}

/* Waits until nothing holds the pages, as the kernel's users of a page map do. */
void softgpu_pages_remove(struct softgpu_device *device)
{
	if (device->p2pmem)
		softgpu_p2pdma_remove(device);
	if (!device->pagemap)
		return;
	memunmap_pages(device->pagemap);
	kfree(device->pagemap);
	device->pagemap = NULL;
}
