// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf_dynamic.c - device memory as a dma-buf, as AMD's driver exports it: a
 * dynamic exporter, whose memory has a fixed place only while somebody needs that.
 *
 * It keeps the VRAM (struct sg_keep).  As long as an importer has it mapped or
 * pinned it has a pin of the core, too, which takes room in the aperture, makes the
 * place known, and tells of the GPU's removal; what programs see of it is under the
 * same pin, and is taken from them with it, for they come back by a fault.
 *
 * A move tells importers, and fails if one has said that the memory must stay, or keeps
 * a mapping, or the kernel looks at it (vmap).  It goes to system memory for an importer
 * that cannot reach VRAM, when it maps or pins, and for a CPU that is about to read; and
 * on command (softgpu_dynamic_move), there or to another place in VRAM.  The original
 * moves when it runs short of either, too, and by itself takes back into VRAM what it uses.
 *
 * Locks: the reservation lock guards all of struct moving.  exports_lock comes
 * before it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/io.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "compat.h"
#include "dmabuf.h"
#include "softgpu.h"

static bool dmabuf_cpu_reads_move = true;
module_param(dmabuf_cpu_reads_move, bool, 0644);
MODULE_PARM_DESC(dmabuf_cpu_reads_move, "Where the CPU begins to read a dma-buf that can be moved, it is moved to system memory (default Y)");

struct moving {
	struct list_head node;		/* exports, under exports_lock */
	u64 number;
	struct dma_buf *dmabuf;
	struct sg_keep keep;
	bool in_bar;			/* fixed: the GPU's VRAM is in a BAR, without struct pages */
	bool has_place;			/* pieces[0] is a live pin, and pages[] are known */
	bool giving_up;			/* export->lock: that pin is ended by us */
	u32 users;			/* maps and pins of importers, and the kernel's view */
	u64 moves, evictions, busy;
};

/* Of one importer: dma_buf_attachment.priv. */
struct attached {
	u32 pins;
	u32 maps;
};

static LIST_HEAD(exports);
static DEFINE_MUTEX(exports_lock);
static u64 last_number;

/* ---- a place, and none ---- */

static void place_unmap(struct sg_pin *pin)
{
	struct export *x = container_of(pin, struct piece, pin)->export;
	bool removed;

	mutex_lock(&x->lock);
	removed = !x->moving->giving_up;
	mutex_unlock(&x->lock);
	if (removed)
		softgpu_export_gone(x);
}

static void place_free(struct sg_pin *pin)
{
}

static const struct sg_pin_ops place_ops = {
	.unmap = place_unmap,
	.free = place_free,
};

static int take_place(struct export *x)
{
	struct moving *mv = x->moving;
	struct piece *piece = &x->pieces[0];
	int err;

	if (mv->has_place)
		return 0;
	memset(&piece->pin, 0, sizeof(piece->pin));
	piece->export = x;
	mutex_lock(&x->lock);
	mv->giving_up = false;
	err = sg_keep_pin(&mv->keep, &piece->pin, &place_ops);
	if (!err) {
		x->on_pci = softgpu_pin_backing(&piece->pin)->pdev;
		sg_pin_pages(&piece->pin, x->pages, sizeof(*x->pages));
	}
	mutex_unlock(&x->lock);
	mv->has_place = !err;
	return err;
}

/* Nobody uses it; programs that look find it again. */
static void give_up_place(struct export *x)
{
	struct moving *mv = x->moving;

	if (!mv->has_place)
		return;
	if (x->inode)
		unmap_mapping_range(x->inode->i_mapping, 0, 0, 1);
	mutex_lock(&x->lock);
	mv->giving_up = true;
	mutex_unlock(&x->lock);
	SG_WARN_ON(sg_pin_put(softgpu_sg, &x->pieces[0].pin, true));
	mv->has_place = false;
}

static int user_get(struct export *x)
{
	int err;

	dma_resv_assert_held(x->moving->dmabuf->resv);
	err = take_place(x);
	if (!err)
		x->moving->users++;
	return err;
}

static void user_put(struct export *x)
{
	dma_resv_assert_held(x->moving->dmabuf->resv);
	if (!--x->moving->users)
		give_up_place(x);
}

/* ---- moves ---- */

/* Has this one said that the memory must stay? */
static bool insists(struct dma_buf_attachment *attach)
{
	const struct attached *a = attach->priv;

	if (!dma_buf_attach_revocable(attach))
		return a->pins || a->maps;
	return a->pins > (SOFTGPU_MAPS_PIN ? a->maps : 0);
}

static int move(struct export *x, enum sg_place to)
{
	struct moving *mv = x->moving;
	struct dma_buf_attachment *attach;
	int err;

	dma_resv_assert_held(mv->dmabuf->resv);
	list_for_each_entry(attach, &mv->dmabuf->attachments, node)
		if (insists(attach))
			return -EBUSY;
	dma_buf_invalidate_mappings(mv->dmabuf);
	if (dma_resv_wait_timeout(mv->dmabuf->resv, DMA_RESV_USAGE_BOOKKEEP, false, 10 * HZ) <= 0)
		return -EBUSY;
	/* Those who keep a mapping, or look, have it where it is. */
	if (mv->users)
		return -EBUSY;
	give_up_place(x);
	err = sg_keep_move(&mv->keep, to);
	if (!err && to == SG_IN_SYSTEM)
		mv->evictions++;
	else if (!err)
		mv->moves++;
	return err;
}

/* To where there are struct pages, unless it is there. */
static int make_pages(struct export *x)
{
	if (!x->moving->in_bar || sg_keep_place(&x->moving->keep) == SG_IN_SYSTEM)
		return 0;
	return move(x, SG_IN_SYSTEM);
}

static bool needs_pages(const struct dma_buf_attachment *attach)
{
	return !attach->importer_ops || !attach->peer2peer;
}

/* ---- importers ---- */

static int dynamic_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	attach->priv = kzalloc(sizeof(struct attached), GFP_KERNEL_ACCOUNT);
	return attach->priv ? 0 : -ENOMEM;
}

static void dynamic_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	kfree(attach->priv);
}

/* What is pinned stays: it is put where all of those can reach it who are there. */
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
		err = user_get(x);
	if (!err)
		a->pins++;
	return err;
}

static void dynamic_unpin(struct dma_buf_attachment *attach)
{
	struct attached *a = attach->priv;

	a->pins--;
	user_put(attach->dmabuf->priv);
}

static struct sg_table *dynamic_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	struct export *x = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	struct sg_table *table;
	int err = needs_pages(attach) ? make_pages(x) : 0;

	if (!err)
		err = user_get(x);
	if (err)
		return ERR_PTR(err);
	err = softgpu_export_map(x, attach->dev, dir, &table);
	if (err) {
		user_put(x);
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

	softgpu_export_unmap(x, table);
	a->maps--;
	user_put(x);
}

/* ---- programs ---- */

static vm_fault_t dynamic_fault(struct vm_fault *vmf)
{
	struct export *x = vmf->vma->vm_private_data;
	struct dma_resv *resv = x->moving->dmabuf->resv;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	dma_resv_lock(resv, NULL);
	if (!take_place(x))
		ret = softgpu_export_insert(x, vmf);
	dma_resv_unlock(resv);
	return ret;
}

static const struct vm_operations_struct dynamic_vm_ops = {
	.fault = dynamic_fault,
};

static int dynamic_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	/* Only what is in the dma-buf's own file can be taken away from there. */
	if (vma->vm_file != dmabuf->file)
		return -EOPNOTSUPP;
	return softgpu_export_view(dmabuf->priv, vma, &dynamic_vm_ops);
}

static int dynamic_begin(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct export *x = dmabuf->priv;
	int err = 0;

	/* What was written through a write-combined view leaves the CPU before devices read. */
	wmb();
	if (dir == DMA_TO_DEVICE || !READ_ONCE(dmabuf_cpu_reads_move))
		return 0;
	dma_resv_lock(dmabuf->resv, NULL);
	err = make_pages(x);
	dma_resv_unlock(dmabuf->resv);
	/* It can be read where it is; that is only slow. */
	return err == -EBUSY ? 0 : err;
}

static int dynamic_end(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	/* As in the beginning, before devices are told. */
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

/* With a place.  Of VRAM a mapping of its own, for the GPU's may go with the GPU. */
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

/* It stays where it is as long as somebody looks, for that cannot be taken from him. */
static int view_begin(struct export *x, struct iosys_map *map)
{
	int err = take_place(x);

	/* Nothing shows pieces of a BAR as one. */
	if (!err && x->on_pci && !in_one_piece(x))
		err = make_pages(x);
	/* Moved, it has no place any more. */
	if (!err)
		err = take_place(x);
	x->moving->users++;
	if (!err)
		err = view_make(x, map);
	if (err)
		user_put(x);
	return err;
}

static void view_end(struct export *x, struct iosys_map *map)
{
	if (map->is_iomem)
		iounmap(map->vaddr_iomem);
	else
		vunmap(map->vaddr);
	user_put(x);
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

	/* A move under way ends first. */
	mutex_lock(&exports_lock);
	list_del(&mv->node);
	mutex_unlock(&exports_lock);
	SG_WARN_ON(mv->users);
	give_up_place(x);
	sg_keep_put(&mv->keep);
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
	err = sg_keep_get(softgpu_sg, &mv->keep, &who, start, end - start);
	if (err)
		goto free;
	x->moving = mv;
	/* Where VRAM is, is known of a place. */
	err = take_place(x);
	if (err)
		goto put;
	mv->in_bar = softgpu_pin_gpu_has_bar(&x->pieces[0].pin);
	give_up_place(x);
	dmabuf = softgpu_export_publish(x, "drm", &dynamic_ops);
	err = PTR_ERR_OR_ZERO(dmabuf);
	if (err)
		goto put;
	mv->dmabuf = dmabuf;
	mutex_lock(&exports_lock);
	mv->number = ++last_number;
	list_add_tail(&mv->node, &exports);
	mutex_unlock(&exports_lock);
	return dmabuf;

put:
	sg_keep_put(&mv->keep);
free:
	kfree(mv);
	if (x)
		softgpu_export_free(x);
	return ERR_PTR(err);
}

/* ---- on command ---- */

int softgpu_dynamic_move(u64 number, enum sg_place to)
{
	struct moving *mv;
	int err = -ENOENT;

	/* Its release waits for this lock: the dma-buf stays. */
	mutex_lock(&exports_lock);
	list_for_each_entry(mv, &exports, node) {
		if (mv->number != number)
			continue;
		dma_resv_lock(mv->dmabuf->resv, NULL);
		err = move(mv->dmabuf->priv, to);
		mv->busy += err == -EBUSY;
		dma_resv_unlock(mv->dmabuf->resv);
		break;
	}
	mutex_unlock(&exports_lock);
	return err;
}

void softgpu_dynamic_show(struct seq_file *m)
{
	const struct moving *mv;

	seq_puts(m, "number\tlength\tusers\tplaced\tmoves\tbusy\tevictions\tin\n");
	mutex_lock(&exports_lock);
	list_for_each_entry(mv, &exports, node) {
		dma_resv_lock(mv->dmabuf->resv, NULL);
		seq_printf(m, "%llu\t%zu\t%u\t%u\t%llu\t%llu\t%llu\t%s\n", mv->number, mv->dmabuf->size,
			   mv->users, mv->has_place, mv->moves, mv->busy, mv->evictions,
			   sg_keep_place(&mv->keep) == SG_IN_SYSTEM ? "system" : "vram");
		dma_resv_unlock(mv->dmabuf->resv);
	}
	mutex_unlock(&exports_lock);
}
