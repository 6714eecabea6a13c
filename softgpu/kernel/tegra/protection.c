// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * protection.c - how a driver has mapped the pages for a program.
 *
 * Memory that was allocated write-combined must be mapped write-combined
 * (pgprot_writecombine() of vm_page_prot), other memory with vm_page_prot as it is;
 * the rest is undefined, and on a real Tegra shows as data that is wrong at times.
 * Drivers map by page frames, which leaves areas that can be told from all others.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
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

	for (i = 0; i < t->pub.entries; i++)
		if (page_to_pfn(t->pub.pages[i]) == pfn)
			return true;
	return false;
}

int protection_check(struct table *t)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	unsigned long pfn;
	int err = 0;

	/* Who has it for writing is changing what is to be looked at: another time. */
	if (!mm || !mmap_read_trylock(mm))
		return 0;
	{
		VMA_ITERATOR(vmi, mm, 0);

		for_each_vma(vmi, vma) {
			if (!(vma->vm_flags & VM_PFNMAP) || softgpu_first_pfn(vma, &pfn) || !is_ours(t, pfn) ||
			    is_write_combined(vma->vm_page_prot) == t->write_combined)
				continue;
			pr_err_ratelimited("%s (%d) has pages of %#llx, allocated %s, mapped %s at %#lx: undefined; a driver's mmap %s\n",
					   current->comm, task_tgid_nr(current), t->pub.vaddr,
					   t->write_combined ? "write-combined" : "cached",
					   t->write_combined ? "cached" : "write-combined", vma->vm_start,
					   t->write_combined ? "must use pgprot_writecombine()" : "must leave vm_page_prot as it is");
			err = -EINVAL;
		}
	}
	mmap_read_unlock(mm);
	return err;
}
