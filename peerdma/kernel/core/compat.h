/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * compat.h - differences between the kernels that peerdma builds for (6.1 to 7.2), so that
 * no other file checks the version.
 */
#ifndef PEERDMA_COMPAT_H
#define PEERDMA_COMPAT_H

#include <linux/mm.h>
#include <linux/version.h>

#ifndef CONFIG_64BIT
#error "peerdma needs a 64-bit kernel: mmap offsets and callback cookies are 64 bits wide"
#endif
#ifndef CONFIG_ARCH_HAS_PTE_SPECIAL
#error "peerdma needs page tables that mark an entry without a struct page: see view.c"
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/*
 * Returns how many bytes from start on, at most length, can be pinned read-only with the same
 * flags of get_user_pages(): *flags.  0: the process may not read there.
 *
 * Later writes by the process must be seen in the pinned pages.  Since 6.2 the kernel breaks
 * copy-on-write for a long-term pin by itself; before that, only a forced write fault does
 * so, which is refused where nothing is copied on write.  A forced fault would also allocate
 * pages where the process has no read access, as at the addresses that CUDA reserves for GPU
 * memory.  If the process changes the mapping after this check, only its own pin is affected.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
static inline u64 peerdma_readonly_part(u64 start, u64 length, unsigned int *flags)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	u64 part = 0;

	mmap_read_lock(mm);
	vma = find_vma(mm, start);
	if (vma && vma->vm_start <= start && vma->vm_flags & VM_READ) {
		part = min(length, vma->vm_end - start);
		*flags = FOLL_LONGTERM;
		if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
			*flags |= FOLL_WRITE | FOLL_FORCE;
	}
	mmap_read_unlock(mm);
	return part;
}
#else
static inline u64 peerdma_readonly_part(u64 start, u64 length, unsigned int *flags)
{
	*flags = FOLL_LONGTERM;
	return length;
}
#endif

/*
 * A kernel that checks its page tables (page_table_check=on) stops if a program's own page
 * is writable at a second place, which a view of host memory is.
 */
#ifdef CONFIG_PAGE_TABLE_CHECK
#include <linux/page_table_check.h>
#define peerdma_page_tables_checked()	(!static_branch_likely(&page_table_check_disabled))
#else
#define peerdma_page_tables_checked()	false
#endif

/*
 * Inserts a page of a device's page map in a fault.  Before 6.17 the entry says that it is one
 * (pte_devmap), and takes no reference; since then it takes one, as an entry of any page does.
 */
#include <linux/memremap.h>
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#include <linux/pfn_t.h>
static inline vm_fault_t peerdma_insert_page(struct vm_area_struct *vma, unsigned long addr,
					     struct page *page)
{
	return vmf_insert_mixed(vma, addr, __pfn_to_pfn_t(page_to_pfn(page), PFN_DEV | PFN_MAP));
}
#else
static inline vm_fault_t peerdma_insert_page(struct vm_area_struct *vma, unsigned long addr,
					     struct page *page)
{
	int err = vm_insert_page(vma, addr, page);

	/* -EBUSY: another thread has inserted it. */
	if (!err || err == -EBUSY)
		return VM_FAULT_NOPAGE;
	return err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
}
#endif

/* Since 6.18 it has one parameter less. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
#define peerdma_get_pagemap(pfn)	get_dev_pagemap(pfn, NULL)
#else
#define peerdma_get_pagemap(pfn)	get_dev_pagemap(pfn)
#endif

/* The source name of a string field is given once since 6.10. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#define peerdma_assign_str(dst, src)	__assign_str(dst, src)
#else
#define peerdma_assign_str(dst, src)	__assign_str(dst)
#endif

/*
 * Since 7.1 the callback has another name, and an importer that has it promises to unmap
 * soon after it, even if it has pinned.  Before, all dynamic importers had the callback,
 * and one that pinned relied on the memory to stay.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define invalidate_mappings	move_notify
#define dma_buf_invalidate_mappings(dmabuf)	dma_buf_move_notify(dmabuf)
#define dma_buf_attach_revocable(attach)	(!!(attach)->importer_ops)
#define PEERDMA_IMPORTERS_PROMISE	0
/* Without this option the kernel also pins with each map of a dynamic importer. */
#define PEERDMA_MAPS_PIN	(!IS_ENABLED(CONFIG_DMABUF_MOVE_NOTIFY))
#else
#define PEERDMA_IMPORTERS_PROMISE	1
#define PEERDMA_MAPS_PIN	0
#endif

/* Since 6.2 the functions without _unlocked expect the caller to hold the reservation lock. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define dma_buf_map_attachment_unlocked(attach, dir)	dma_buf_map_attachment(attach, dir)
#define dma_buf_unmap_attachment_unlocked(attach, sgt, dir) \
	dma_buf_unmap_attachment(attach, sgt, dir)
#define dma_buf_vmap_unlocked(dmabuf, map)	dma_buf_vmap(dmabuf, map)
#define dma_buf_vunmap_unlocked(dmabuf, map)	dma_buf_vunmap(dmabuf, map)
#endif

/* For the page tables of an IOMMU.  Neither sleeps, nor waits for memory. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
#define peerdma_iommu_map_readable(domain, iova, phys, size) \
	iommu_map_atomic(domain, iova, phys, size, IOMMU_READ)
#else
#define peerdma_iommu_map_readable(domain, iova, phys, size) \
	iommu_map(domain, iova, phys, size, IOMMU_READ, GFP_ATOMIC | __GFP_NOWARN)
#endif

/* The list of page tables that a driver frees after a flush is a struct since 6.16. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#define peerdma_freelist(gather)	(&(gather)->freelist)
#else
#define peerdma_freelist(gather)	(&(gather)->freelist.pages)
#endif

/* Since 6.18 it has this name; the old name prints a warning. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
#define system_percpu_wq	system_wq
#endif

/* Namespaces became strings in 6.13. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define PEERDMA_IMPORT_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define PEERDMA_IMPORT_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#endif

/* Before 6.16, dma_buf_dynamic_attach() maps the memory of an exporter that cannot pin. */
#define PEERDMA_ATTACH_MAPS	(LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0))

#endif
