// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * protection.c - checks how a client driver has mapped the pages into a program.
 *
 * Memory that was allocated write-combined must be mapped write-combined
 * (pgprot_writecombine() of vm_page_prot), and other memory with vm_page_prot unchanged.
 * Anything else is undefined, and on a real Tegra it causes wrong data now and then.
 * Drivers map page frames (VM_PFNMAP, or VM_MIXEDMAP as the bridge does), so their VMAs can
 * be told from others.
 *
 * The checks are in the calls that come once a program has its mapping: dma_map_pages,
 * dma_unmap_pages, put_pages.  In these a client may hold a lock that its mmap takes under
 * mmap_lock, so we do not wait for mmap_lock.  If it is taken, this call checks nothing,
 * and a later one does.  No other thread waits for it on behalf of this one: the program
 * decides how long its mmap_lock is taken.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "../compat.h"
#include "tegra.h"

static bool is_write_combined(pgprot_t prot)
{
	return pgprot_val(prot) == pgprot_val(pgprot_writecombine(prot));
}

static bool is_ours(const struct table *t, unsigned long pfn)
{
	u32 i;

	for (i = 0; i < t->npages; i++)
		if (page_to_pfn(t->pages[i]) == pfn)
			return true;
	return false;
}

/*
 * Gets the page frame at a VMA's start; false: none is mapped.  Not by the kernel's own
 * functions: they refuse VM_MIXEDMAP.  mmap_lock keeps the tables.
 */
static bool first_pfn(const struct vm_area_struct *vma, unsigned long *pfn)
{
	pgd_t *pgd = pgd_offset(vma->vm_mm, vma->vm_start);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;
	pte_t pte;

	if (pgd_none(*pgd) || unlikely(pgd_bad(*pgd)))
		return false;
	p4d = p4d_offset(pgd, vma->vm_start);
	if (p4d_none(*p4d) || unlikely(p4d_bad(*p4d)))
		return false;
	pud = pud_offset(p4d, vma->vm_start);
	/* Large entries count as bad: the pages of a table are mapped one by one. */
	if (pud_none(*pud) || pud_bad(*pud))
		return false;
	pmd = pmd_offset(pud, vma->vm_start);
	if (pmd_none(*pmd) || pmd_bad(*pmd))
		return false;
	pte = READ_ONCE(*pte_offset_kernel(pmd, vma->vm_start));
	*pfn = pte_pfn(pte);
	return pte_present(pte);
}

/* Logs and returns -EINVAL for VMAs with the wrong protection. mmap_lock is held. */
static int look(struct mm_struct *mm, const struct table *t)
{
	struct vm_area_struct *vma;
	struct vma_iterator vmi;
	unsigned long pfn;
	int err = 0;

	vma_iter_init(&vmi, mm, 0);
	for_each_vma(vmi, vma) {
		if (!(vma->vm_flags & (VM_PFNMAP | VM_MIXEDMAP)) || !first_pfn(vma, &pfn) ||
		    !is_ours(t, pfn) ||
		    is_write_combined(vma->vm_page_prot) == t->write_combined)
			continue;
		pr_err_ratelimited("%s: pages of %#llx are allocated %s, but mapped %s at %#lx: undefined behaviour; a driver's mmap %s\n",
				   t->comm, t->vaddr,
				   t->write_combined ? "write-combined" : "cached",
				   t->write_combined ? "cached" : "write-combined", vma->vm_start,
				   t->write_combined ? "must use pgprot_writecombine()" :
						       "must leave vm_page_prot as it is");
		err = -EINVAL;
	}
	return err;
}

int protection_check(const struct table *t)
{
	struct mm_struct *mm = current->mm;
	int err;

	/* How other memory was allocated is not known. */
	if (!t->allocated || mm != t->mm || !mmap_read_trylock(mm))
		return 0;
	err = look(mm, t);
	mmap_read_unlock(mm);
	return err;
}
