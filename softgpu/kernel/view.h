/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* view.h - how programs see device memory, by whichever file. */
#ifndef SOFTGPU_VIEW_H
#define SOFTGPU_VIEW_H

#include <linux/mm.h>

/*
 * How a program sees a page.  What is in a BAR it sees as the kernel does, for one
 * range must have one memory type; what was moved to system memory, as all of that.
 */
static inline pgprot_t softgpu_view_prot(const struct vm_area_struct *vma, bool in_bar)
{
	pgprot_t prot = vm_get_page_prot(vma->vm_flags);

	return in_bar ? pgprot_writecombine(prot) : prot;
}

#endif
