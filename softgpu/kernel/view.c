// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * view.c - maps memory into a program at its GPU address, as HIP does if all of VRAM is in
 * a BAR.
 *
 * A fault maps a 64 KiB page under the core's lock. softgpu_file_hide() unmaps after the
 * core has removed the memory.  So a program never sees memory that was freed.  An offset
 * into the file is an address of the process.
 */
#include <linux/mm.h>
#include "compat.h"
#include "softgpu.h"
#include "view.h"

struct fault {
	struct vm_fault *vmf;
	vm_fault_t ret;
};

/* Maps from the faulting page to the end of its 64 KiB. */
static void insert(void *arg, u64 phys, bool on_pci)
{
	struct fault *fault = arg;
	struct vm_fault *vmf = fault->vmf;
	unsigned long addr = vmf->address & PAGE_MASK, at = (u64)vmf->pgoff << PAGE_SHIFT;

	at %= SG_PAGE_SIZE;
	do {
		fault->ret = vmf_insert_pfn_prot(vmf->vma, addr, PHYS_PFN(phys + at),
						 softgpu_view_prot(vmf->vma, on_pci));
		addr += PAGE_SIZE;
		at += PAGE_SIZE;
	} while (fault->ret == VM_FAULT_NOPAGE && at < SG_PAGE_SIZE && addr < vmf->vma->vm_end);
}

static vm_fault_t view_fault(struct vm_fault *vmf)
{
	struct fault fault = { .vmf = vmf };

	switch (sg_visible_page(vmf->vma->vm_private_data, (u64)vmf->pgoff << PAGE_SHIFT, insert,
				&fault)) {
	case 0:
		return fault.ret;
	case -EAGAIN:		/* the access is retried */
		cond_resched();
		return VM_FAULT_NOPAGE;
	default:
		return VM_FAULT_SIGBUS;
	}
}

static const struct vm_operations_struct view_ops = {
	.fault = view_fault,
};

/* Used if the protection is changed later; a fault chooses the type for each page. */
static void choose_type(void *arg, u64 phys, bool on_pci)
{
	struct vm_area_struct *vma = arg;

	vma->vm_page_prot = softgpu_view_prot(vma, on_pci);
}

int softgpu_view_mmap(struct sg_client *client, struct vm_area_struct *vma)
{
	int err;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC ||
	    vma->vm_pgoff != vma->vm_start >> PAGE_SHIFT)
		return -EINVAL;
	err = sg_visible_page(client, vma->vm_start, choose_type, vma);
	/*
	 * -EAGAIN: the memory is being moved.  Do not wait: copies that the move waits for
	 * may need mmap_lock.
	 */
	if (err && err != -EAGAIN)
		return -EINVAL;
	/* Not for forked children: an address space belongs to one process. */
	softgpu_vm_flags(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY,
			 VM_MAYEXEC);
	vma->vm_private_data = client;
	vma->vm_ops = &view_ops;
	return 0;
}
