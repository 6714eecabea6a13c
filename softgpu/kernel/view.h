/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* view.h - memory type of programs' mappings of device memory. */
#ifndef SOFTGPU_VIEW_H
#define SOFTGPU_VIEW_H

#include <linux/mm.h>

/*
 * Protection for a program's mapping of a page.  A page in a BAR is mapped as the kernel
 * maps it, since one range must have one memory type.  A page that was moved to system
 * memory is mapped cached, as other system memory.
 */
static inline pgprot_t softgpu_view_prot(const struct vm_area_struct *vma, bool in_bar)
{
	pgprot_t prot = vm_get_page_prot(vma->vm_flags);

	return in_bar ? pgprot_writecombine(prot) : prot;
}

#endif
