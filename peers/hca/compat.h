/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * compat.h - differences between the kernels, and their rxe, that peerdma_hca builds for
 * (6.1 to 7.2).
 */
#ifndef PEERDMA_HCA_COMPAT_H
#define PEERDMA_HCA_COMPAT_H

#include <linux/version.h>

/* Since 6.3 the type is in struct ib_mr alone. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
#define hca_mr_type(mr)	((mr)->type)
#else
#define hca_mr_type(mr)	((mr)->ibmr.type)
#endif

/* Older versions of rxe do not limit the rate of messages that programs can cause. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
#undef pr_warn
#undef pr_err
#define pr_warn	pr_warn_ratelimited
#define pr_err	pr_err_ratelimited
#endif

/* Since 6.3 a mapping's flags are changed by functions; some releases of older kernels have them, too. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
#define vm_flags_set(vma, flags)	((vma)->vm_flags |= (flags))
#endif

/* Flushes, and the rights for them, came in 6.2. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define IB_ACCESS_FLUSH_PERSISTENT	0
#endif

/* Since 7.1 the callback that notifies importers has another name. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define invalidate_mappings	move_notify
#endif

/* Since 7.2 there is a separate function for user memory. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define ib_umem_get_va(device, addr, size, access)	ib_umem_get(device, addr, size, access)
#endif

/* Namespaces became strings in 6.13. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define HCA_IMPORT_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define HCA_IMPORT_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#endif

#endif
