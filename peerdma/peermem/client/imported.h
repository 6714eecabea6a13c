/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* imported.h - memory that the current process has mapped from a dma-buf. */
#ifndef PEERDMA_PEERMEM_IMPORTED_H
#define PEERDMA_PEERMEM_IMPORTED_H

#include <linux/types.h>

struct peerdma_client_ops;
struct peerdma_pin;

/*
 * Pins [addr, addr + length) of the current process if one shared, writable mapping of a
 * dma-buf covers it.  ERR_PTR: -ENXIO: no such mapping; -EPERM: the mapping is read-only or
 * private; or an errno of peerdma_pin_dmabuf().  Takes mmap_lock.
 */
struct peerdma_pin *peermem_pin_imported(u64 addr, u64 length,
					 const struct peerdma_client_ops *ops, void *priv);

#endif
