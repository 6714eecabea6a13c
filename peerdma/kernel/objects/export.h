/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* export.h - pins as dma-bufs. */
#ifndef PEERDMA_EXPORT_H
#define PEERDMA_EXPORT_H

#include "core/pin.h"

/*
 * Makes a dma-buf of [offset, offset + length) of the pin.  *file has the only
 * reference to it.  The errnos are EXPORT's of peerdma_ioctl.h.
 */
int peerdma_export(struct peerdma_pin *pin, u64 offset, u64 length, struct file **file);

#endif
