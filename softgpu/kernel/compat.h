/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* compat.h - differences between the kernels that softgpu builds on, 6.1 to 7.2. */
#ifndef SOFTGPU_COMPAT_H
#define SOFTGPU_COMPAT_H

#include <linux/device/class.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/version.h>

/* 6.12: moved. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#include <asm/unaligned.h>
#else
#include <linux/unaligned.h>
#endif

/* 6.2: devnode's device became const. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define SOFTGPU_DEVNODE_CONST
#else
#define SOFTGPU_DEVNODE_CONST	const
#endif

/* 6.13: the namespace became a string. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define SOFTGPU_IMPORT_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define SOFTGPU_IMPORT_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#endif

/* 6.2: dma_buf_ops.vmap and vunmap are called with the reservation lock held. */
#define SOFTGPU_VMAP_LOCKED	(LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0))

/*
 * 7.1: the callback has another name, and an importer that has it promises to unmap soon
 * after it, even if it has pinned.  Before, all dynamic importers had it.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define dma_buf_invalidate_mappings(dmabuf)	dma_buf_move_notify(dmabuf)
#define dma_buf_attach_revocable(attach)	(!!(attach)->importer_ops)
#define SOFTGPU_IMPORTERS_PROMISE	0
/* Without this option the kernel also pins with each map of a dynamic importer. */
#define SOFTGPU_MAPS_PIN	(!IS_ENABLED(CONFIG_DMABUF_MOVE_NOTIFY))
#else
#define SOFTGPU_IMPORTERS_PROMISE	1
#define SOFTGPU_MAPS_PIN	0
#endif

/* 6.18: a new name, and a warning for the old one. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
#define system_percpu_wq	system_wq
#endif

/* 6.17: a new name; also supports files that prepare a VMA before it is made. */
static inline int softgpu_file_mmap(struct file *file, struct vm_area_struct *vma)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
	return call_mmap(file, vma);
#else
	return vfs_mmap(file, vma);
#endif
}

/* 7.0: VMA flags have a type of their own. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define SOFTGPU_NORESERVE	VM_NORESERVE
#else
#define SOFTGPU_NORESERVE	mk_vma_flags(VMA_NORESERVE_BIT)
#endif

/* 6.18: one parameter less. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
#define softgpu_get_pagemap(pfn)	get_dev_pagemap(pfn, NULL)
#else
#define softgpu_get_pagemap(pfn)	get_dev_pagemap(pfn)
#endif

/* 6.4: a class no longer names its module. */
static inline struct class *softgpu_class_create(const char *name)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
	return class_create(THIS_MODULE, name);
#else
	return class_create(name);
#endif
}

/* 6.5: no longer returns the VMAs.  The calling process's pages; mmap_lock is held. */
static inline long softgpu_get_user_pages(unsigned long start, unsigned long n, unsigned int flags,
					  struct page **pages)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	return get_user_pages(start, n, flags, pages, NULL);
#else
	return get_user_pages(start, n, flags, pages);
#endif
}

/* 6.4: a module has an array of memory areas. */
static inline bool softgpu_in_module_text(const void *p, const struct module *module)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
	const void *base = module->core_layout.base;

	return (uintptr_t)p - (uintptr_t)base < module->core_layout.text_size;
#else
	const struct module_memory *text = &module->mem[MOD_TEXT];

	return (uintptr_t)p - (uintptr_t)text->base < text->size;
#endif
}

/* 6.3: vm_flags are changed by functions. */
static inline void softgpu_vm_flags(struct vm_area_struct *vma, unsigned long set,
				    unsigned long clear)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#else
	vm_flags_mod(vma, set, clear);
#endif
}

#endif
