// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf.c - device memory as a dma-buf, exported as NVIDIA's driver does it: by a static
 * exporter, which cannot ask its importers to unmap.
 *
 * An export keeps the VRAM (struct sg_movable) until the dma-buf ends, even if the memory is
 * freed or the process ends before.  Persistent pins of the core hold its part of the
 * aperture: while it is mapped, or with dmabuf_static=1, which emulates a GPU with all of
 * its memory in the aperture, from the export on.  An export has several keeps and pins,
 * since its range may extend over several adjacent allocations.
 *
 * In this file and dmabuf_dynamic.c an export "has a place" while these pins exist: then
 * its physical addresses are known and do not change.
 *
 * When the GPU is removed, all mappings are unmapped under their importers: their DMA then
 * faults in the IOMMU, or goes to an address where nothing is.
 *
 * AMD's memory is exported by dmabuf_dynamic.c, unless dmabuf_kind says otherwise.  Code
 * that both use is in export.c.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-buf.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include "../include/softgpu_uapi.h"
#include "compat.h"
#include "dmabuf.h"
#include "softgpu.h"

static bool dmabuf_mmap;
module_param(dmabuf_mmap, bool, 0644);
MODULE_PARM_DESC(dmabuf_mmap, "Programs may mmap dma-bufs of device memory, as since CUDA 13.3 (default N)");

static unsigned int dmabuf_kind;
module_param(dmabuf_kind, uint, 0644);
MODULE_PARM_DESC(dmabuf_kind, "Dma-bufs of device memory: 0 as its maker exports them (default), 1 static as NVIDIA's, 2 dynamic as AMD's");

static bool dmabuf_static;
module_param(dmabuf_static, bool, 0644);
MODULE_PARM_DESC(dmabuf_static, "Dma-bufs of device memory take BAR1 when they are exported, as where BAR1 shows all of VRAM; N: only while they are mapped (default N)");

/* ---- the place of a static export: its pins ---- */

static bool leaves(struct export *x)
{
	bool leaving;

	mutex_lock(&x->lock);
	leaving = x->leaving;
	mutex_unlock(&x->lock);
	return leaving;
}

/*
 * Called when the GPU is removed; also when we put the pins, and then nothing is mapped any
 * more.
 */
static void piece_unmap(struct sg_pin *pin)
{
	struct export *x = container_of(pin, struct piece, pin)->export;

	if (!leaves(x))
		softgpu_export_gone(x);
}

static void piece_free(struct sg_pin *pin)
{
}

/* Persistent: there is no callback. */
static const struct sg_pin_ops piece_ops = {
	.unmap = piece_unmap,
	.free = piece_free,
};

static void set_leaving(struct export *x, bool leaving)
{
	mutex_lock(&x->lock);
	x->leaving = leaving;
	mutex_unlock(&x->lock);
}

/*
 * Puts the pins of the first n pieces.  Called without x->lock, which a removal may be
 * waiting for.
 */
static void put_pins(struct export *x, u32 n)
{
	set_leaving(x, true);
	while (n)
		SG_WARN_ON(sg_pin_put(softgpu_sg, &x->pieces[--n].pin, true));
	set_leaving(x, false);
}

/* Pins all pieces.  A removal that comes meanwhile waits in piece_unmap() until this is done. */
static int take_pins(struct export *x, u32 *n)
{
	u64 *pages = x->pages;
	int err = 0;

	mutex_lock(&x->lock);
	for (*n = 0; *n < x->npieces; ++*n) {
		struct piece *piece = &x->pieces[*n];

		memset(&piece->pin, 0, sizeof(piece->pin));
		err = sg_movable_pin(&piece->vram, &piece->pin, &piece_ops);
		if (err)
			break;
		sg_pin_pages(&piece->pin, pages, sizeof(*pages));
		pages += piece->pin.npages;
	}
	mutex_unlock(&x->lock);
	return err;
}

static int place_get(struct export *x)
{
	int err = 0;
	u32 n;

	mutex_lock(&x->place);
	if (!x->users) {
		err = take_pins(x, &n);
		if (err)
			put_pins(x, n);
	}
	if (!err)
		x->users++;
	mutex_unlock(&x->place);
	return err;
}

static void place_put(struct export *x)
{
	mutex_lock(&x->place);
	if (!--x->users)
		put_pins(x, x->npieces);
	mutex_unlock(&x->place);
}

/* ---- importers ---- */

static int export_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	const struct export *x = dmabuf->priv;

	if (x->on_pci && softgpu_topology() == SOFTGPU_TOPO_DENY)
		return -ENOTSUPP;
	/*
	 * A dynamic importer declares whether it can do without struct pages (peer2peer); a
	 * static one is assumed to.
	 */
	return x->on_pci && attach->importer_ops && !attach->peer2peer ? -ENOTSUPP : 0;
}

static struct sg_table *export_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	struct export *x = attach->dmabuf->priv;
	struct sg_table *table;
	int err = place_get(x);

	if (!err) {
		err = softgpu_export_map(x, attach->dev, dir, &table);
		if (err)
			place_put(x);
	}
	if (!err)
		return table;
	/* NVIDIA's driver returns no other error to importers. */
	pr_notice_ratelimited("a dma-buf cannot be mapped for %s: error %d; the importer gets -ENOMEM\n",
			      dev_name(attach->dev), err);
	return ERR_PTR(-ENOMEM);
}

static void export_unmap(struct dma_buf_attachment *attach, struct sg_table *table,
			 enum dma_data_direction dir)
{
	struct export *x = attach->dmabuf->priv;

	softgpu_export_unmap(x, table);
	place_put(x);
}

/* ---- programs ---- */

static vm_fault_t export_fault(struct vm_fault *vmf)
{
	return softgpu_export_insert(vmf->vma->vm_private_data, vmf);
}

/* Another mapping of an export that has a place: this cannot fail. */
static void export_vm_open(struct vm_area_struct *vma)
{
	SG_WARN_ON(place_get(vma->vm_private_data));
}

static void export_vm_close(struct vm_area_struct *vma)
{
	place_put(vma->vm_private_data);
}

static const struct vm_operations_struct export_vm_ops = {
	.open = export_vm_open,
	.close = export_vm_close,
	.fault = export_fault,
};

static int export_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	int err;

	if (!READ_ONCE(dmabuf_mmap)) {
		pr_info_ratelimited("mmap of a dma-buf of device memory is not allowed: load softgpu.ko with dmabuf_mmap=1\n");
		return -ENOTSUPP;
	}
	err = place_get(dmabuf->priv);
	if (err)
		return err == -ENOSPC ? -ENOMEM : err;
	err = softgpu_export_view(dmabuf->priv, vma, &export_vm_ops);
	if (err)
		place_put(dmabuf->priv);
	return err;
}

/* ---- its end ---- */

static void export_destroy(struct export *x)
{
	u32 i;

	/*
	 * Views and mappings have ended before.  If there is still a user, it is that of
	 * dmabuf_static.
	 */
	if (x->users)
		place_put(x);
	for (i = 0; i < x->npieces; i++)
		sg_movable_put(&x->pieces[i].vram);
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

/*
 * Returns the end of the mapping that contains va, or `end' if that is lower or va is in a
 * hole, which sg_movable_get() refuses.
 */
static u64 piece_end(struct sg_client *client, u64 va, u64 end)
{
	u64 to = sg_mapping_end(softgpu_sg, sg_client_key(client), va);

	return to ? min(end, to) : end;
}

/* Keeps [va, end), which consists of at most n pieces. */
static int take_pieces(struct export *x, struct sg_client *client, u64 va, u64 end, u32 n)
{
	const struct sg_pin_who who = { .proc_key = sg_client_key(client) };
	const struct sg_movable *first = &x->pieces[0].vram;

	while (va < end) {
		u64 to = piece_end(client, va, end);
		struct piece *piece;
		int err;

		/* More pieces than counted: the memory was unmapped and mapped anew meanwhile. */
		if (x->npieces == n)
			return -EINVAL;
		piece = &x->pieces[x->npieces];
		piece->export = x;
		err = sg_movable_get(softgpu_sg, &piece->vram, &who, va, to - va);
		if (err)
			return err;
		x->npieces++;
		if (sg_movable_gpu_index(&piece->vram) != sg_movable_gpu_index(first))
			return -EINVAL;
		/* Some pieces were moved to system memory, and others not. */
		if (sg_movable_place(&piece->vram) != sg_movable_place(first))
			return -EINVAL;
		va = to;
	}
	/*
	 * The location is fixed from now on: a move needs a keep of its own, and memory
	 * with two keeps cannot be moved.
	 */
	x->on_pci = sg_movable_place(first) == SG_IN_VRAM &&
		    softgpu_gpu_has_bar(sg_movable_gpu_index(first));
	return 0;
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
	err = take_pieces(x, client, start, end, n);
	if (!err && READ_ONCE(dmabuf_static))
		err = place_get(x);
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
		return !sg_find(softgpu_sg, sg_client_key(client), va, &found) &&
		       found.memory == SG_MEMORY_HSA;
	}
}

/* Allocations of less than a page share it; the page counts as the start. */
static bool is_start(struct sg_client *client, u64 va)
{
	struct sg_found found;

	return !sg_find(softgpu_sg, sg_client_key(client), va, &found) &&
	       va == round_down(found.base, PAGE_SIZE);
}

/* Only with the fault on is the allocation looked up. */
static bool must_be_whole(struct sg_client *client, u64 va)
{
	return softgpu_fault_value(&softgpu_dmabuf_whole) && !is_start(client, va) &&
	       softgpu_fault_hits(&softgpu_dmabuf_whole);
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
	if (must_be_whole(client, a->va))
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
