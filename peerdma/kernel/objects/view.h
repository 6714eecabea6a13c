/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* view.h - CPU views of pins. */
#ifndef PEERDMA_VIEW_H
#define PEERDMA_VIEW_H

#include <linux/fs.h>

#include "core/pin.h"

struct vm_fault;

int peerdma_view_init(void);
void peerdma_view_exit(void);
/* A new inode for the views of an owner's pins, or ERR_PTR(-ENOMEM); iput() ends it. */
struct inode *peerdma_view_inode(void);
/* The address_space of all views of the pin.  pin->lock held; the pin is usable, and its owner has views. */
struct address_space *peerdma_view_mapping(struct peerdma_pin *pin);
/*
 * Makes the page table for a fault, if there is none: it is charged to the process, so no lock
 * is held.  0, or -ENOMEM.
 */
int peerdma_view_table(const struct vm_fault *vmf);
/* Makes a CPU view that begins at byte `offset' of the pin. 0, or an errno of peerdma_ioctl.h. */
int peerdma_view_mmap(struct peerdma_pin *pin, struct vm_area_struct *vma, u64 offset);

#endif
