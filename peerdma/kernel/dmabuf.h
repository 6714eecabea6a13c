/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* dmabuf.h - pins of imported dma-bufs. */
#ifndef PEERDMA_DMABUF_H
#define PEERDMA_DMABUF_H

#include "pin.h"

struct dma_buf;

void peerdma_dmabuf_init(void);
/*
 * As peerdma_pin_start(), of pin->addr as the offset in the dma-buf and pin->length, 0 for
 * all from there on; flags: 0 or PEERDMA_PIN_READONLY.  Takes a reference of its own.
 */
int peerdma_pin_start_dmabuf(struct peerdma_pin *pin, struct dma_buf *dmabuf);

#endif
