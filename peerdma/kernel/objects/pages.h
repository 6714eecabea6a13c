/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* pages.h - page views: files through which other parts of the kernel use the struct pages of a pin's memory. */
#ifndef PEERDMA_PAGES_H
#define PEERDMA_PAGES_H

#include "core/pin.h"

struct pci_dev;

struct peerdma_page_view_args {
	u64 offset;		/* in the pin; multiples of the CPU's page */
	u64 length;
	bool persistent;	/* the kind that lasts until it is idle: peerdma_ioctl.h */
	struct pci_dev *user;	/* a device that must reach the memory, or NULL */
};

int peerdma_pages_init(void);
/* No view is left, since each of them holds the module. */
void peerdma_pages_exit(void);
/*
 * Makes a file for the memory of a pin of the calling process: it is to be mapped.  No lock
 * held.  Returns 0 and *file, which is the caller's, or an errno of PEERDMA_PAGES.
 */
int peerdma_page_view(struct peerdma_pin *pin, const struct peerdma_page_view_args *args,
		      struct file **file);

#endif
