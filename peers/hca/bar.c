// SPDX-License-Identifier: MIT OR GPL-2.0
/* bar.c - the kernel's mappings of PCI BARs, which all regions share. */
#include <linux/align.h>
#include <linux/err.h>
#include <linux/io.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "bar.h"

struct hca_bar_part {
	phys_addr_t start;
	void *kernel;
	unsigned long users;	/* guarded by lock */
};

static DEFINE_MUTEX(lock);
static DEFINE_XARRAY(parts);	/* by number; guarded by lock */

static unsigned long number_of(phys_addr_t phys)
{
	return phys / HCA_BAR_PART;
}

bool hca_in_bar_of(const struct pci_dev *pdev, phys_addr_t start, u64 length)
{
	int i;

	for (i = 0; i < PCI_STD_NUM_BARS; i++) {
		const struct resource *bar = &pdev->resource[i];

		/* A BAR without an address has a range that begins at 0. */
		if (resource_type(bar) != IORESOURCE_MEM || bar->flags & IORESOURCE_UNSET)
			continue;
		if (bar->start <= start && start + length - 1 <= bar->end)
			return true;
	}
	return false;
}

/* A larger BAR is aligned to its size, so that it contains all of each of its parts. */
static bool in_a_bar(phys_addr_t start)
{
	struct pci_dev *pdev = NULL;

	for_each_pci_dev(pdev) {
		if (hca_in_bar_of(pdev, start, HCA_BAR_PART)) {
			pci_dev_put(pdev);
			return true;
		}
	}
	return false;
}

static struct hca_bar_part *create(phys_addr_t start)
{
	struct hca_bar_part *part;
	int err;

	if (!in_a_bar(start))
		return ERR_PTR(-ENOENT);
	part = kzalloc(sizeof(*part), GFP_KERNEL);
	if (!part)
		return ERR_PTR(-ENOMEM);
	part->start = start;
	part->kernel = memremap(start, HCA_BAR_PART, MEMREMAP_WC);
	err = part->kernel ? xa_err(xa_store(&parts, number_of(start), part, GFP_KERNEL)) : -ENOENT;
	if (!err)
		return part;
	if (part->kernel)
		memunmap(part->kernel);
	kfree(part);
	return ERR_PTR(err);
}

struct hca_bar_part *hca_bar_part_get(phys_addr_t phys)
{
	struct hca_bar_part *part;

	mutex_lock(&lock);
	part = xa_load(&parts, number_of(phys));
	if (!part)
		part = create(ALIGN_DOWN(phys, HCA_BAR_PART));
	if (!IS_ERR(part))
		part->users++;
	mutex_unlock(&lock);
	return part;
}

void hca_bar_part_put(struct hca_bar_part *part)
{
	mutex_lock(&lock);
	if (!--part->users) {
		xa_erase(&parts, number_of(part->start));
		memunmap(part->kernel);
		kfree(part);
	}
	mutex_unlock(&lock);
}

void *hca_bar_part_address(const struct hca_bar_part *part, phys_addr_t phys)
{
	return part->kernel + (phys - part->start);
}
