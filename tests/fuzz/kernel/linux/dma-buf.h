/* SPDX-License-Identifier: MIT */
#include "kernel.h"

struct dma_buf;

struct dma_buf *dma_buf_get(int fd);
void dma_buf_put(struct dma_buf *dmabuf);
