// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * export.c - what both exporters of device memory share: an export's pages, its mappings for
 * importers, its views for programs.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include "charge.h"
#include "compat.h"
#include "dmabuf.h"
#include "peer.h"
#include "softgpu.h"
#include "view.h"

/*
 * Returns the physical address of byte `at`; *run is the number of bytes that are
 * contiguous there.
 */
static u64 phys_at(const struct export *x, u64 at, u64 *run)
{
	u64 in_page = (x->offset + at) % SG_PAGE_SIZE, n = SG_PAGE_SIZE - in_page;
	const u64 *page = &x->pages[(x->offset + at) >> SG_PAGE_SHIFT];
	u64 phys = *page + in_page;

	/* Adjacent blocks of system memory are so by chance, and are treated as separate. */
	while (x->on_pci && at + n < x->length && page[1] == page[0] + SG_PAGE_SIZE) {
		page++;
		n += SG_PAGE_SIZE;
	}
	*run = min(n, x->length - at);
	return phys;
}

/* chaos.c has a file for each. */
struct softgpu_fault softgpu_dmabuf_raw = {
	.name = "dmabuf_raw",
	.what = "importers behind an IOMMU get addresses in the BAR that are not mapped for them",
	.max = 1,
};

struct softgpu_fault softgpu_dmabuf_whole = {
	.name = "dmabuf_whole",
	.what = "memory is exported only from the start of an allocation on",
	.max = 1,
};

static void mapping_unmap(struct mapping *m)
{
	bool mapped = m->nruns && !m->raw;

	if (m->raw)
		m->nruns = 0;
	while (m->nruns) {
		m->nruns--;
		softgpu_peer_unmap(m->dev, m->runs[m->nruns].addr, m->runs[m->nruns].length, m->dir,
				   m->resource);
	}
	if (mapped)
		softgpu_peer_forget(m->dev);
}

static void mapping_free(struct mapping *m)
{
	mapping_unmap(m);
	sg_free_table(&m->table);
	kvfree(m);
}

/* NVIDIA's driver treats a BAR's last byte as outside of the BAR. */
static bool ends_bar(const struct export *x, u64 phys, u64 length)
{
	const struct softgpu_backing *backing;

	if (x->moving || !x->on_pci)
		return false;
	backing = softgpu_pin_backing(&x->pieces[0].pin);
	return phys + length >= backing->start + backing->size;
}

static int map_run(struct mapping *m, u64 phys, u64 length, u64 last)
{
	dma_addr_t addr;

	if (phys + length - 1 > last) {
		pr_err_ratelimited("%s cannot address GPU memory at %#llx: its DMA mask is %#llx\n",
				   dev_name(m->dev), phys, last);
		return -EIO;
	}
	addr = m->raw ? phys : softgpu_peer_map(m->dev, phys, length, m->dir, m->resource);
	if (dma_mapping_error(m->dev, addr))
		return -EIO;
	m->runs[m->nruns].addr = addr;
	m->runs[m->nruns++].length = length;
	return 0;
}

/* Splits the last run into segments that the device can take, with consecutive addresses. */
static struct scatterlist *fill_segments(struct mapping *m, struct scatterlist *sg, u64 phys,
					 u64 segment_max)
{
	dma_addr_t addr = m->runs[m->nruns - 1].addr;
	u64 left = m->runs[m->nruns - 1].length;

	while (left) {
		u64 n = min(left, segment_max);

		sg_set_page(sg, m->resource ? NULL : pfn_to_page(PHYS_PFN(phys)), n,
			    offset_in_page(phys));
		sg_dma_address(sg) = addr;
		sg_dma_len(sg) = n;
		sg = sg_next(sg);
		addr += n;
		phys += n;
		left -= n;
	}
	return sg;
}

static int mapping_create(const struct export *x, struct device *dev, enum dma_data_direction dir,
			  struct mapping **out)
{
	u64 segment_max = max_t(u64, round_down(dma_get_max_seg_size(dev), PAGE_SIZE), PAGE_SIZE);
	u64 at, run, last = softgpu_last_address(dev);
	u32 nruns = 0, nsegments = 0;
	struct scatterlist *sg;
	struct mapping *m;
	int err;

	for (at = 0; at < x->length; at += run) {
		phys_at(x, at, &run);
		nruns++;
		nsegments += DIV_ROUND_UP_ULL(run, segment_max);
	}
	m = softgpu_kvzalloc(struct_size(m, runs, nruns));
	if (!m)
		return -ENOMEM;
	m->dev = dev;
	m->dir = dir;
	m->resource = x->on_pci;
	m->raw = x->on_pci && softgpu_is_translated(dev) &&
		 softgpu_fault_hits(&softgpu_dmabuf_raw);
	err = softgpu_sg_alloc(&m->table, nsegments);
	if (err) {
		kvfree(m);
		return err;
	}
	sg = m->table.sgl;
	for (at = 0; at < x->length; at += run) {
		u64 phys = phys_at(x, at, &run);

		err = ends_bar(x, phys, run) ? -EIO : map_run(m, phys, run, last);
		if (err) {
			mapping_free(m);
			return err;
		}
		sg = fill_segments(m, sg, phys, segment_max);
	}
	*out = m;
	return 0;
}

int softgpu_export_map(struct export *x, struct device *dev, enum dma_data_direction dir,
		       struct sg_table **out)
{
	struct mapping *m;
	int err;

	err = sg_chaos_map(softgpu_sg);
	if (err)
		return err;
	mutex_lock(&x->lock);
	err = x->gone ? -ENODEV : mapping_create(x, dev, dir, &m);
	if (!err) {
		list_add(&m->node, &x->mappings);
		*out = &m->table;
	}
	mutex_unlock(&x->lock);
	return err;
}

void softgpu_export_unmap(struct export *x, struct sg_table *table)
{
	struct mapping *m = container_of(table, struct mapping, table);

	mutex_lock(&x->lock);
	list_del(&m->node);
	mutex_unlock(&x->lock);
	mapping_free(m);
}

vm_fault_t softgpu_export_insert(struct export *x, struct vm_fault *vmf)
{
	vm_fault_t ret = VM_FAULT_SIGBUS;
	u64 run;

	mutex_lock(&x->lock);
	if (!x->gone)
		ret = vmf_insert_pfn_prot(vmf->vma, vmf->address,
					  PHYS_PFN(phys_at(x, (u64)vmf->pgoff << PAGE_SHIFT, &run)),
					  softgpu_view_prot(vmf->vma, x->on_pci));
	mutex_unlock(&x->lock);
	return ret;
}

/* The dma-buf core has checked that the range lies inside. */
int softgpu_export_view(struct export *x, struct vm_area_struct *vma,
			const struct vm_operations_struct *ops)
{
	/* A private mapping would be copied on write. */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	/* Used if the protection is changed later; a fault chooses the type for each page. */
	vma->vm_page_prot = softgpu_view_prot(vma, x->on_pci);
	softgpu_vm_flags(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP, 0);
	vma->vm_private_data = x;
	vma->vm_ops = ops;
	return 0;
}

void softgpu_export_gone(struct export *x)
{
	struct mapping *m;

	mutex_lock(&x->lock);
	x->gone = true;
	list_for_each_entry(m, &x->mappings, node)
		mapping_unmap(m);
	mutex_unlock(&x->lock);
	if (x->inode)
		unmap_mapping_range(x->inode->i_mapping, 0, 0, 1);
}

void softgpu_export_free(struct export *x)
{
	if (x->inode)
		iput(x->inode);
	kvfree(x->pages);
	kvfree(x);
}

struct export *softgpu_export_alloc(u64 va, u64 length, u32 n)
{
	u64 start = round_down(va, SG_PAGE_SIZE), end = round_up(va + length, SG_PAGE_SIZE);
	struct export *x = kvzalloc(struct_size(x, pieces, n), GFP_KERNEL_ACCOUNT);

	if (!x)
		return NULL;
	mutex_init(&x->lock);
	mutex_init(&x->place);
	INIT_LIST_HEAD(&x->mappings);
	x->offset = va - start;
	x->length = length;
	x->pages = kvmalloc_array((end - start) >> SG_PAGE_SHIFT, sizeof(*x->pages),
				  GFP_KERNEL_ACCOUNT);
	if (!x->pages) {
		kvfree(x);
		return NULL;
	}
	return x;
}

struct dma_buf *softgpu_export_publish(struct export *x, const char *name,
				       const struct dma_buf_ops *ops)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;

	info.exp_name = name;
	info.ops = ops;
	info.size = x->length;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = x;
	dmabuf = dma_buf_export(&info);
	if (!IS_ERR(dmabuf)) {
		/* It cannot be mapped before its file is installed. */
		x->inode = file_inode(dmabuf->file);
		ihold(x->inode);
	}
	return dmabuf;
}
