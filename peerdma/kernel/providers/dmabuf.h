/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* dmabuf.h - pins of imported dma-bufs. */
#ifndef PEERDMA_DMABUF_H
#define PEERDMA_DMABUF_H

#include "core/pin.h"

struct dma_buf;

void peerdma_dmabuf_init(void);
/*
 * As peerdma_pin_start(): pins [pin->addr, pin->addr + pin->length) of the dma-buf, where
 * pin->length 0 means up to its end. pin->flags: 0 or PEERDMA_PIN_READONLY.  Takes its own
 * reference to the dma-buf.
 */
int peerdma_pin_start_dmabuf(struct peerdma_pin *pin, struct dma_buf *dmabuf);

#endif
