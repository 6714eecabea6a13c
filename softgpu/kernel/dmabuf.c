// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf.c - device memory as a dma-buf, as NVIDIA's driver exports it: a static
 * exporter, which cannot ask its importers to let go.
 *
 * An export is made of persistent pins of the core: they keep the VRAM and its
 * part of the aperture past the free of the memory and the end of the process,
 * and end when the dma-buf does.  Several, because a range may go over several
 * mappings of cuMemMap.
 *
 * When the GPU is taken away, what was mapped is unmapped under its importers:
 * their DMA then faults in the IOMMU, or goes to an address where nothing is.
 *
 * Memory of AMD's is exported by dmabuf_dynamic.c, unless dmabuf_kind says otherwise;
 * what both share is here.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include "../include/softgpu_uapi.h"
#include "compat.h"
#include "dmabuf.h"
#include "peer.h"
#include "softgpu.h"
#include "view.h"

static bool dmabuf_mmap;
module_param(dmabuf_mmap, bool, 0644);
MODULE_PARM_DESC(dmabuf_mmap, "Programs may mmap dma-bufs of device memory, as since CUDA 13.3 (default N)");

static unsigned int dmabuf_kind;
module_param(dmabuf_kind, uint, 0644);
MODULE_PARM_DESC(dmabuf_kind, "Dma-bufs of device memory: 0 as its maker exports them (default), 1 static as NVIDIA's, 2 dynamic as AMD's");

/* The physical address of byte `at`, and in *run how many follow it without a gap. */
static u64 phys_at(const struct export *x, u64 at, u64 *run)
{
	u64 in_page = (x->offset + at) % SG_PAGE_SIZE, n = SG_PAGE_SIZE - in_page;
	const u64 *page = &x->pages[(x->offset + at) >> SG_PAGE_SHIFT];
	u64 phys = *page + in_page;

	/* Neighbours in system memory are so by chance, and are blocks of their own. */
	while (x->on_pci && at + n < x->length && page[1] == page[0] + SG_PAGE_SIZE) {
		page++;
		n += SG_PAGE_SIZE;
	}
	*run = min(n, x->length - at);
	return phys;
}

/* ---- importers ---- */

static int export_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	const struct export *x = dmabuf->priv;

	/* One that could let go says whether it can do without struct pages; a static one must. */
	return x->on_pci && attach->importer_ops && !attach->peer2peer ? -ENOTSUPP : 0;
}

static void mapping_unmap(struct mapping *m)
{
	while (m->nruns) {
		m->nruns--;
		softgpu_peer_unmap(m->dev, m->runs[m->nruns].addr, m->runs[m->nruns].length, m->dir,
				   m->resource);
	}
}

static void mapping_free(struct mapping *m)
{
	mapping_unmap(m);
	sg_free_table(&m->table);
	kvfree(m);
}

static int map_run(struct mapping *m, u64 phys, u64 length, u64 last)
{
	dma_addr_t addr;

	if (phys + length - 1 > last) {
		pr_err_ratelimited("%s cannot address GPU memory at %#llx: its DMA mask is %#llx\n",
				   dev_name(m->dev), phys, last);
		return -EIO;
	}
	addr = softgpu_peer_map(m->dev, phys, length, m->dir, m->resource);
	if (dma_mapping_error(m->dev, addr))
		return -EIO;
	m->runs[m->nruns].addr = addr;
	m->runs[m->nruns++].length = length;
	return 0;
}

/* Segments are no longer than the device takes; addresses run on from one to the next. */
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
	m = kvzalloc(struct_size(m, runs, nruns), GFP_KERNEL_ACCOUNT);
	if (!m)
		return -ENOMEM;
	m->dev = dev;
	m->dir = dir;
	m->resource = x->on_pci;
	err = sg_alloc_table(&m->table, nsegments, GFP_KERNEL);
	if (err) {
		kvfree(m);
		return err;
	}
	sg = m->table.sgl;
	for (at = 0; at < x->length; at += run) {
		u64 phys = phys_at(x, at, &run);

		err = map_run(m, phys, run, last);
		if (err) {
			mapping_free(m);
			return err;
		}
		sg = fill_segments(m, sg, phys, segment_max);
	}
	*out = m;
	return 0;
}

int softgpu_export_map(struct export *x, struct device *dev, enum dma_data_direction dir, struct sg_table **out)
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

static struct sg_table *export_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	struct sg_table *table;
	int err = softgpu_export_map(attach->dmabuf->priv, attach->dev, dir, &table);

	return err ? ERR_PTR(err) : table;
}

static void export_unmap(struct dma_buf_attachment *attach, struct sg_table *table,
			 enum dma_data_direction dir)
{
	softgpu_export_unmap(attach->dmabuf->priv, table);
}

/* ---- programs ---- */

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

static vm_fault_t export_fault(struct vm_fault *vmf)
{
	return softgpu_export_insert(vmf->vma->vm_private_data, vmf);
}

static const struct vm_operations_struct export_vm_ops = {
	.fault = export_fault,
};

/* dma-buf has seen to it that the range lies inside. */
int softgpu_export_view(struct export *x, struct vm_area_struct *vma, const struct vm_operations_struct *ops)
{
	/* A private mapping would be copied on write. */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	/* For whoever changes the protection later; a fault chooses for each page. */
	vma->vm_page_prot = softgpu_view_prot(vma, x->on_pci);
	softgpu_vm_flags(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP, 0);
	vma->vm_private_data = x;
	vma->vm_ops = ops;
	return 0;
}

static int export_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	if (!READ_ONCE(dmabuf_mmap)) {
		pr_info_ratelimited("mmap of a dma-buf of device memory is not allowed: load softgpu.ko with dmabuf_mmap=1\n");
		return -ENOTSUPP;
	}
	return softgpu_export_view(dmabuf->priv, vma, &export_vm_ops);
}

/* ---- its end ---- */

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

/* By the GPU's removal, or by the export's own end, when nothing is mapped any more. */
static void piece_unmap(struct sg_pin *pin)
{
	softgpu_export_gone(container_of(pin, struct piece, pin)->export);
}

static void piece_free(struct sg_pin *pin)
{
}

/* Persistent: there is no callback. */
static const struct sg_pin_ops piece_ops = {
	.unmap = piece_unmap,
	.free = piece_free,
};

void softgpu_export_free(struct export *x)
{
	if (x->inode)
		iput(x->inode);
	kvfree(x->pages);
	kvfree(x);
}

static void export_destroy(struct export *x)
{
	u32 i;

	for (i = 0; i < x->npieces; i++)
		SG_WARN_ON(sg_pin_put(softgpu_sg, &x->pieces[i].pin, true));
	softgpu_export_free(x);
}

static void export_release(struct dma_buf *dmabuf)
{
	export_destroy(dmabuf->priv);
}

static const struct dma_buf_ops export_ops = {
	.attach = export_attach,
	.map_dma_buf = export_map,
	.unmap_dma_buf = export_unmap,
	.release = export_release,
	.mmap = export_mmap,
};

/* ---- its beginning ---- */

/* Where the mapping that holds va ends; other memory must all be one allocation, or is refused. */
static u64 piece_end(struct sg_client *client, u64 va, u64 end)
{
	struct softgpu_query q = { .size = sizeof(q), .va = va };

	if (!sg_call(client, _IOC_NR(SOFTGPU_QUERY), &q, sizeof(q)) && q.kind == SOFTGPU_KIND_VMM)
		return min(end, q.base + q.length);
	return end;
}

/* Pins [va, end), which is made of at most n pieces. */
static int take_pieces(struct export *x, struct sg_client *client, u64 va, u64 end, u32 n)
{
	const struct sg_pin_who who = { .proc_key = sg_client_key(client) };
	u64 *pages = x->pages;

	while (va < end) {
		u64 to = piece_end(client, va, end);
		struct piece *piece;
		int err;

		/* It was unmapped and mapped anew meanwhile. */
		if (x->npieces == n)
			return -EINVAL;
		piece = &x->pieces[x->npieces];
		piece->export = x;
		err = sg_pin_get(softgpu_sg, &piece->pin, &piece_ops, &who, va, to - va, true);
		if (err)
			return err;
		x->npieces++;
		if (sg_pin_gpu_index(&piece->pin) != sg_pin_gpu_index(&x->pieces[0].pin))
			return -EINVAL;
		/* One was moved to system memory, and others were not. */
		if (sg_pin_in_system(&piece->pin) != sg_pin_in_system(&x->pieces[0].pin))
			return -EINVAL;
		x->on_pci = softgpu_pin_backing(&piece->pin)->pdev;
		sg_pin_pages(&piece->pin, pages, sizeof(*pages));
		pages += piece->pin.npages;
		va = to;
	}
	return 0;
}

struct export *softgpu_export_alloc(u64 va, u64 length, u32 n)
{
	u64 start = round_down(va, SG_PAGE_SIZE), end = round_up(va + length, SG_PAGE_SIZE);
	struct export *x = kvzalloc(struct_size(x, pieces, n), GFP_KERNEL_ACCOUNT);

	if (!x)
		return NULL;
	mutex_init(&x->lock);
	INIT_LIST_HEAD(&x->mappings);
	x->offset = va - start;
	x->length = length;
	x->pages = kvmalloc_array((end - start) >> SG_PAGE_SHIFT, sizeof(*x->pages), GFP_KERNEL_ACCOUNT);
	if (!x->pages) {
		kvfree(x);
		return NULL;
	}
	return x;
}

struct dma_buf *softgpu_export_publish(struct export *x, const char *name, const struct dma_buf_ops *ops)
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
		/* Nobody has it mapped before the file is somebody's. */
		x->inode = file_inode(dmabuf->file);
		ihold(x->inode);
	}
	return dmabuf;
}

static struct dma_buf *static_export(struct sg_client *client, u64 va, u64 length)
{
	u64 start = round_down(va, SG_PAGE_SIZE), end = round_up(va + length, SG_PAGE_SIZE), at;
	struct dma_buf *dmabuf;
	struct export *x;
	u32 n = 0;
	int err;

	for (at = start; at < end; at = piece_end(client, at, end))
		n++;
	x = softgpu_export_alloc(va, length, n);
	if (!x)
		return ERR_PTR(-ENOMEM);
	/* A removal that comes meanwhile waits in piece_unmap() for what it ends to be whole. */
	mutex_lock(&x->lock);
	err = take_pieces(x, client, start, end, n);
	mutex_unlock(&x->lock);
	dmabuf = err ? ERR_PTR(err) : softgpu_export_publish(x, "nv_dmabuf", &export_ops);
	if (IS_ERR(dmabuf))
		export_destroy(x);
	return dmabuf;
}

static bool is_dynamic(struct sg_client *client, u64 va)
{
	struct sg_found found;

	switch (READ_ONCE(dmabuf_kind)) {
	case 1:
		return false;
	case 2:
		return true;
	default:
		return !sg_find(softgpu_sg, sg_client_key(client), va, &found) && found.memory == SG_MEMORY_HSA;
	}
}

int softgpu_dmabuf_call(struct sg_client *client, const struct softgpu_dmabuf *a, s32 __user *ufd)
{
	u64 end = a->va + a->length;
	struct dma_buf *dmabuf;
	int fd, err;

	if (a->flags || a->reserved)
		return -EINVAL;
	if (!a->length || end < a->va || end > round_down(U64_MAX, SG_PAGE_SIZE) ||
	    !PAGE_ALIGNED(a->va | a->length) || a->length > softgpu_max_vram())
		return -EINVAL;
	dmabuf = is_dynamic(client, a->va) ? softgpu_dynamic_export(client, a->va, a->length) :
		static_export(client, a->va, a->length);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	fd = get_unused_fd_flags(O_CLOEXEC);
	err = fd < 0 ? fd : put_user(fd, ufd);
	if (err) {
		if (fd >= 0)
			put_unused_fd(fd);
		dma_buf_put(dmabuf);
		return err;
	}
	fd_install(fd, dmabuf->file);
	return 0;
}

SOFTGPU_IMPORT_DMA_BUF;
