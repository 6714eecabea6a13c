/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* compat.h - differences between kernels for a dma-buf importer. */
#include <linux/version.h>

/* 7.1: another name, and a promise: an importer that has it unmaps soon after it is called. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define invalidate_mappings	move_notify
#endif

/* 6.13: the namespace became a string. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define IMPORT_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define IMPORT_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#endif
