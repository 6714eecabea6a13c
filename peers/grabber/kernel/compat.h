/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* compat.h - differences between the kernels that the grabber builds for (6.1 to 7.2). */
#ifndef GRABBER_COMPAT_H
#define GRABBER_COMPAT_H

#include <linux/version.h>

/* 7.1: another name, and a promise: an importer that has it unmaps soon after it is called. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define invalidate_mappings	move_notify
#endif

/* Since 6.8 it has this name. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#define min_queued_buffers	min_buffers_needed
#endif

/* Since 6.14 videobuf2 releases the queue's lock by itself while it waits. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define GRABBER_WAIT_OPS \
	.wait_prepare = vb2_ops_wait_prepare, \
	.wait_finish = vb2_ops_wait_finish,
#else
#define GRABBER_WAIT_OPS
#endif

/* Namespaces became strings in 6.13. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define GRABBER_IMPORT_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define GRABBER_IMPORT_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#endif

#endif
