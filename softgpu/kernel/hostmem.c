// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * hostmem.c - write-combined memory of cudaHostAlloc(), as on Tegra: the VMA says that it
 * is write-combined.  The interface's page table does not, so a driver that pins such
 * memory can learn it only from the VMA (vm_page_prot).
 *
 * The pages themselves are mapped cached: the kernel has them mapped so, and two memory
 * types for one page are an error on most machines.
 *
 * The VMA has a file of its own, since a forked child may keep the VMA, and must not keep
 * the parent's /dev/softgpuN open by it.
 *
 * This file also makes managed memory: a shmem file with the name of NVIDIA's device.
 * Programs such as UCX look in /proc/self/maps for memory that was allocated before they
 * began.
 */
#include <linux/anon_inodes.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/shmem_fs.h>
#include "compat.h"
#include "softgpu.h"

static const struct file_operations hostmem_ops = {
	.owner = THIS_MODULE,
};

static int insert_page(struct vm_area_struct *vma, unsigned long addr)
{
	struct page *page = alloc_page(GFP_HIGHUSER | __GFP_ZERO | __GFP_ACCOUNT | __GFP_NOWARN);
	int err;

	if (!page)
		return -ENOMEM;
	err = vm_insert_page(vma, addr, page);
	/* The VMA has its own reference, as has a driver that pins the page. */
	put_page(page);
	return err;
}

int softgpu_hostmem_mmap(struct vm_area_struct *vma)
{
	unsigned long addr;
	struct file *file;
	int err = 0;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EINVAL;
	file = anon_inode_getfile("[softgpu-host]", &hostmem_ops, NULL, O_RDWR);
	if (IS_ERR(file))
		return PTR_ERR(file);
	vma_set_file(vma, file);
	fput(file);
	softgpu_vm_flags(vma, VM_DONTEXPAND, VM_MAYEXEC);
	for (addr = vma->vm_start; !err && addr < vma->vm_end; addr += PAGE_SIZE) {
		err = fatal_signal_pending(current) ? -EINTR : insert_page(vma, addr);
		cond_resched();
	}
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	return err;
}

int softgpu_managed_mmap(struct vm_area_struct *vma)
{
	struct file *file;
	int err;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EINVAL;
	file = shmem_file_setup("dev/nvidia-uvm", vma->vm_end - vma->vm_start, SOFTGPU_NORESERVE);
	if (IS_ERR(file))
		return PTR_ERR(file);
	vma_set_file(vma, file);
	vma->vm_pgoff = 0;
	softgpu_vm_flags(vma, VM_DONTEXPAND, VM_MAYEXEC);
	err = softgpu_file_mmap(file, vma);
	/* The VMA has its own reference. */
	fput(file);
	return err;
}
