// SPDX-License-Identifier: MIT OR GPL-2.0
/* imported.c - see imported.h. */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>

#include <peerdma_kapi.h>

#include "imported.h"

/* All dma-buf files, and no others, are on this file system. */
static bool is_dma_buf(const struct file *file)
{
	return file && file_inode(file)->i_sb->s_magic == DMA_BUF_MAGIC;
}

/*
 * A vm_pgoff from here on may be a fake offset that DRM's exporters add to tell their
 * mappings apart: then it does not say where in the dma-buf a mapping begins.
 */
#define FAKE_OFFSETS	((0xFFFFFFFFUL >> PAGE_SHIFT) + 1)

/* Returns the dma-buf with a reference, and the offset in it at which the range begins. */
static struct dma_buf *find(u64 addr, u64 length, u64 *offset)
{
	struct dma_buf *dmabuf = ERR_PTR(-ENXIO);
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	if (vma && is_dma_buf(vma->vm_file)) {
		/*
		 * An adapter may write to registered memory: the core does not tell us that
		 * it only reads.
		 */
		if ((vma->vm_flags & (VM_SHARED | VM_WRITE)) != (VM_SHARED | VM_WRITE)) {
			dmabuf = ERR_PTR(-EPERM);
		} else if (length <= vma->vm_end - addr && vma->vm_pgoff < FAKE_OFFSETS) {
			dmabuf = vma->vm_file->private_data;
			get_file(dmabuf->file);
			*offset = ((u64)vma->vm_pgoff << PAGE_SHIFT) + addr - vma->vm_start;
		}
	}
	mmap_read_unlock(mm);
	return dmabuf;
}

struct peerdma_pin *peermem_pin_imported(u64 addr, u64 length,
					 const struct peerdma_client_ops *ops, void *priv)
{
	struct peerdma_pin *pin;
	struct dma_buf *dmabuf;
	u64 offset = 0;

	dmabuf = find(addr, length, &offset);
	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	pin = peerdma_pin_dmabuf(dmabuf, offset, length, 0, ops, priv);
	fput(dmabuf->file);
	return pin;
}
