/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * bar.h - the kernel's mappings of PCI BARs, which all regions share.
 *
 * No cgroup is charged for the page tables of a mapping.  If each region had a mapping of
 * its own, a program could exhaust the machine's memory by registering the same bytes again
 * and again.  So a BAR is mapped in parts, each at most once.
 *
 * All of this may sleep, unless it says otherwise.
 */
#ifndef PEERDMA_HCA_BAR_H
#define PEERDMA_HCA_BAR_H

#include <linux/sizes.h>
#include <linux/types.h>

/* One page-table entry of the second level maps that much. */
#define HCA_BAR_PART	SZ_2M

struct hca_bar_part;
struct pci_dev;

/* Whether one of the device's BARs contains all of these bytes. Any context. */
bool hca_in_bar_of(const struct pci_dev *pdev, phys_addr_t start, u64 length);

/*
 * Maps the aligned HCA_BAR_PART bytes around this physical address, write-combined, or
 * takes a reference to their mapping. -ENOENT: no BAR contains them all, or they cannot be
 * mapped as one: drivers have mapped some with one caching attribute, and some with another.
 * -ENOMEM.
 */
struct hca_bar_part *hca_bar_part_get(phys_addr_t phys);
/* The last one unmaps. */
void hca_bar_part_put(struct hca_bar_part *part);
/* The kernel's address of a byte of the part. */
void *hca_bar_part_address(const struct hca_bar_part *part, phys_addr_t phys);

#endif
