// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf_dynamic.c - device memory as a dma-buf, exported as AMD's driver does it: by a
 * dynamic exporter, whose memory has a fixed place only while an importer needs that.
 *
 * It keeps the VRAM (struct sg_movable).  While an importer has it mapped or pinned, the
 * export also has a pin of the core.  The pin takes aperture space, fixes the physical
 * addresses, and gets a callback when the GPU is removed.  Programs' mappings use the same
 * pin.  They are removed together with it, and come back by a fault.
 *
 * dmabuf_move.c pins and moves the memory.  It is moved to system memory when an importer
 * that cannot reach VRAM maps or pins it, and when a CPU is about to read it.  On command
 * it is moved there or to other pages of VRAM.  AMD's driver also moves memory when it runs
 * short of VRAM, and moves memory that it uses back to VRAM.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/io.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "compat.h"
#include "dmabuf_move.h"
#include "softgpu.h"

static bool dmabuf_cpu_reads_move = true;
module_param(dmabuf_cpu_reads_move, bool, 0644);
MODULE_PARM_DESC(dmabuf_cpu_reads_move, "Where the CPU begins to read a dma-buf that can be moved, it is moved to system memory (default Y)");

/* ---- importers ---- */

/* Moves the memory to system memory, which has struct pages, unless it is there. */
static int make_pages(struct export *x)
{
	if (!x->moving->in_bar || sg_movable_place(&x->moving->vram) == SG_IN_SYSTEM)
		return 0;
	return softgpu_export_move(x, SG_IN_SYSTEM);
}

static bool needs_pages(const struct dma_buf_attachment *attach)
{
	return !attach->importer_ops || !attach->peer2peer;
}

static int dynamic_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	attach->priv = kzalloc(sizeof(struct attached), GFP_KERNEL_ACCOUNT);
	return attach->priv ? 0 : -ENOMEM;
}

static void dynamic_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	kfree(attach->priv);
}

/* Pinned memory must not move later, so move it to where all attached importers can reach it. */
static int make_reachable(struct export *x)
{
	const struct dma_buf_attachment *attach;

	list_for_each_entry(attach, &x->moving->dmabuf->attachments, node)
		if (needs_pages(attach))
			return make_pages(x);
	return 0;
}

static int dynamic_pin(struct dma_buf_attachment *attach)
{
	struct export *x = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	int err = make_reachable(x);

	if (!err)
		err = softgpu_place_user_get(x);
	if (!err)
		a->pins++;
	/* AMD's driver returns EINVAL, too; since 7.1 the kernel warns of EBUSY. */
	return err == -EBUSY ? -EINVAL : err;
}

static void dynamic_unpin(struct dma_buf_attachment *attach)
{
	struct attached *a = attach->priv;

	a->pins--;
	softgpu_place_user_put(attach->dmabuf->priv);
}

static struct sg_table *dynamic_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	struct export *x = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	struct sg_table *table;
	int err = needs_pages(attach) ? make_pages(x) : 0;

	if (!err)
		err = softgpu_place_user_get(x);
	if (err)
		return ERR_PTR(err);
	err = softgpu_export_map(x, attach->dev, dir, &table);
	if (err) {
		softgpu_place_user_put(x);
		return ERR_PTR(err);
	}
	a->maps++;
	return table;
}

static void dynamic_unmap(struct dma_buf_attachment *attach, struct sg_table *table,
			  enum dma_data_direction dir)
{
	struct export *x = attach->dmabuf->priv;
	struct attached *a = attach->priv;

	softgpu_export_let_go(x, table);
	softgpu_export_unmap(x, table);
	a->maps--;
	softgpu_place_user_put(x);
}

/* ---- programs ---- */

/*
 * Takes the reservation lock in a fault, without waiting for it under mmap_lock: a move
 * holds it while it waits for copies, which may need mmap_lock.  Not 0: the lock was not
 * taken, and the access will be retried.
 */
static vm_fault_t fault_lock(struct vm_fault *vmf, struct dma_buf *dmabuf)
{
	if (dma_resv_trylock(dmabuf->resv))
		return 0;
	if (!fault_flag_allow_retry_first(vmf->flags)) {
		cond_resched();
		return VM_FAULT_NOPAGE;
	}
	if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
		return VM_FAULT_RETRY;
	/* Once unlocked, the VMA may be removed, and the dma-buf with it. */
	get_dma_buf(dmabuf);
	mmap_read_unlock(vmf->vma->vm_mm);
	if (!dma_resv_lock_interruptible(dmabuf->resv, NULL))
		dma_resv_unlock(dmabuf->resv);
	dma_buf_put(dmabuf);
	return VM_FAULT_RETRY;
}

static vm_fault_t dynamic_fault(struct vm_fault *vmf)
{
	struct export *x = vmf->vma->vm_private_data;
	struct dma_buf *dmabuf = x->moving->dmabuf;
	vm_fault_t ret = fault_lock(vmf, dmabuf);

	if (ret)
		return ret;
	ret = VM_FAULT_SIGBUS;
	if (!softgpu_place_take(x))
		ret = softgpu_export_insert(x, vmf);
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

static const struct vm_operations_struct dynamic_vm_ops = {
	.fault = dynamic_fault,
};

static int dynamic_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	/* We can unmap only mappings of the dma-buf's own file. */
	if (vma->vm_file != dmabuf->file)
		return -EOPNOTSUPP;
	return softgpu_export_view(dmabuf->priv, vma, &dynamic_vm_ops);
}

static int dynamic_begin(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct export *x = dmabuf->priv;
	int err = 0;

	/* Data written through a write-combined mapping leaves the CPU before devices read it. */
	wmb();
	if (dir == DMA_TO_DEVICE || !READ_ONCE(dmabuf_cpu_reads_move))
		return 0;
	dma_resv_lock(dmabuf->resv, NULL);
	err = make_pages(x);
	dma_resv_unlock(dmabuf->resv);
	/* It can be read where it is, only slowly. */
	return err == -EBUSY ? 0 : err;
}

static int dynamic_end(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	/* As in dynamic_begin(). */
	wmb();
	return 0;
}

/* ---- the kernel ---- */

static void *view_of_pages(const struct export *x)
{
	u64 npages = x->length >> PAGE_SHIFT, i;
	struct page **pages = kvmalloc_array(npages, sizeof(*pages), GFP_KERNEL);
	void *view;

	if (!pages)
		return NULL;
	for (i = 0; i < npages; i++) {
		u64 at = x->offset + (i << PAGE_SHIFT);

		pages[i] = pfn_to_page(PHYS_PFN(x->pages[at >> SG_PAGE_SHIFT] + at % SG_PAGE_SIZE));
	}
	view = vmap(pages, npages, VM_MAP, PAGE_KERNEL);
	kvfree(pages);
	return view;
}

/*
 * Called when the export has a place.  VRAM gets a mapping of its own, since the GPU's
 * mapping may be removed with the GPU.
 */
static int view_make(const struct export *x, struct iosys_map *map)
{
	if (x->on_pci)
		iosys_map_set_vaddr_iomem(map, ioremap_wc(x->pages[0] + x->offset, x->length));
	else
		iosys_map_set_vaddr(map, view_of_pages(x));
	return iosys_map_is_null(map) ? -ENOMEM : 0;
}

static bool in_one_piece(const struct export *x)
{
	u64 n = round_up(x->offset + x->length, SG_PAGE_SIZE) >> SG_PAGE_SHIFT, i;

	for (i = 1; i < n; i++)
		if (x->pages[i] != x->pages[0] + (i << SG_PAGE_SHIFT))
			return false;
	return true;
}

/*
 * The memory must not move while the kernel has it mapped by vmap, since that mapping
 * cannot be taken back.
 */
static int view_begin(struct export *x, struct iosys_map *map)
{
	int err = softgpu_place_take(x);

	/* Discontiguous parts of a BAR cannot be mapped contiguously. */
	if (!err && x->on_pci && !in_one_piece(x))
		err = make_pages(x);
	/* A move has unpinned it. */
	if (!err)
		err = softgpu_place_take(x);
	x->moving->users++;
	if (!err)
		err = view_make(x, map);
	if (err)
		softgpu_place_user_put(x);
	else
		x->moving->viewed = true;
	return err;
}

static void view_end(struct export *x, struct iosys_map *map)
{
	if (map->is_iomem)
		iounmap(map->vaddr_iomem);
	else
		vunmap(map->vaddr);
	x->moving->viewed = false;
	softgpu_place_user_put(x);
}

static int dynamic_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	int err;

	if (!SOFTGPU_VMAP_LOCKED)
		dma_resv_lock(dmabuf->resv, NULL);
	err = view_begin(dmabuf->priv, map);
	if (!SOFTGPU_VMAP_LOCKED)
		dma_resv_unlock(dmabuf->resv);
	return err;
}

static void dynamic_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	if (!SOFTGPU_VMAP_LOCKED)
		dma_resv_lock(dmabuf->resv, NULL);
	view_end(dmabuf->priv, map);
	if (!SOFTGPU_VMAP_LOCKED)
		dma_resv_unlock(dmabuf->resv);
}

/* ---- its end ---- */

static void dynamic_release(struct dma_buf *dmabuf)
{
	struct export *x = dmabuf->priv;
	struct moving *mv = x->moving;

	softgpu_moving_end(mv);
	SG_WARN_ON(mv->users);
	softgpu_place_give_up(x);
	sg_movable_put(&mv->vram);
	kfree(mv);
	softgpu_export_free(x);
}

static const struct dma_buf_ops dynamic_ops = {
	.attach = dynamic_attach,
	.detach = dynamic_detach,
	.pin = dynamic_pin,
	.unpin = dynamic_unpin,
	.map_dma_buf = dynamic_map,
	.unmap_dma_buf = dynamic_unmap,
	.begin_cpu_access = dynamic_begin,
	.end_cpu_access = dynamic_end,
	.mmap = dynamic_mmap,
	.vmap = dynamic_vmap,
	.vunmap = dynamic_vunmap,
	.release = dynamic_release,
};

/* ---- its beginning ---- */

struct dma_buf *softgpu_dynamic_export(struct sg_client *client, u64 va, u64 length)
{
	u64 start = round_down(va, SG_PAGE_SIZE), end = round_up(va + length, SG_PAGE_SIZE);
	const struct sg_pin_who who = { .proc_key = sg_client_key(client) };
	struct export *x = softgpu_export_alloc(va, length, 1);
	struct moving *mv = kzalloc(sizeof(*mv), GFP_KERNEL_ACCOUNT);
	struct dma_buf *dmabuf;
	int err = -ENOMEM;

	if (!x || !mv)
		goto free;
	err = sg_movable_get(softgpu_sg, &mv->vram, &who, start, end - start);
	if (err)
		goto free;
	x->moving = mv;
	mv->in_bar = softgpu_gpu_has_bar(sg_movable_gpu_index(&mv->vram));
	dmabuf = softgpu_export_publish(x, "drm", &dynamic_ops);
	err = PTR_ERR_OR_ZERO(dmabuf);
	if (err)
		goto put;
	mv->dmabuf = dmabuf;
	softgpu_moving_begin(mv);
	return dmabuf;

put:
	sg_movable_put(&mv->vram);
free:
	kfree(mv);
	if (x)
		softgpu_export_free(x);
	return ERR_PTR(err);
}
