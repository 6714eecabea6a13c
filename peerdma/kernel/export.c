// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * export.c - pins as dma-bufs.
 *
 * The exporter is dynamic: it has pin and unpin, maps under the buffer's
 * reservation lock, and tells importers to let go (invalidate_mappings) when the
 * memory is revoked or unpinned.  They have a limited time for that: importers.c.
 *
 * An importer that cannot let go must not get memory that can be revoked.
 * There are two kinds:
 *
 * - those who cannot be told: static ones, which have no importer_ops, and since
 *   7.1 dynamic ones without that callback;
 * - before 7.1, dynamic ones that call dma_buf_pin().  From then on who has the
 *   callback promises to unmap soon after it, pinned or not.  Who has pinned keeps
 *   what nobody takes away: then our pin cannot be ended before.
 *
 * On an older kernel without CONFIG_DMABUF_MOVE_NOTIFY (Debian's) the core also
 * calls our pin for every mapping of a dynamic importer.  The two are told apart
 * by counting: there, the core's pins and maps come in pairs, so whoever has one
 * more pin than maps has pinned by himself, and gets no mapping.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "importers.h"
#include "pin.h"

PEERDMA_IMPORT_DMA_BUF;

struct peerdma_export {
	struct kref ref;
	struct peerdma_pin *pin;	/* a reference */
	struct list_head node;		/* pin->lock */
	bool told;			/* pin->lock: importers know that it is over */
	u64 offset;
	struct dma_resv resv;		/* outlives the dma_buf, so that revoking may lock it */
	struct dma_buf *dmabuf;		/* resv; NULL once it is being released */
	bool viewed;			/* pin->lock: counts in pin->holds, until the dma-buf's end */
	bool untranslated;		/* pin->lock: a device had it mapped that no IOMMU translates for */
};

/* What one attachment has: resv. */
struct attached {
	u32 pins;
	u32 maps;
	bool hold;			/* pin->lock: counts in pin->holds, until it is detached */
};

static void export_free(struct kref *ref)
{
	struct peerdma_export *ex = container_of(ref, struct peerdma_export, ref);

	dma_resv_fini(&ex->resv);
	peerdma_pin_put(ex->pin);
	kfree(ex);
}

/* Does this importer, having mapped, insist that the memory stays? */
static bool insists(struct dma_buf_attachment *attach, const struct peerdma_pin *pin)
{
	const struct attached *a = attach->priv;

	if (!dma_buf_attach_revocable(attach))
		return true;
	if (PEERDMA_IMPORTERS_PROMISE && peerdma_pin_revocable(pin))
		return false;
	return a->pins > (PEERDMA_MAPS_PIN ? a->maps : 0);
}

static int export_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct peerdma_export *ex = dmabuf->priv;
	struct peerdma_pin *pin = ex->pin;
	int err;

	if (peerdma_pin_revocable(pin) && !dma_buf_attach_revocable(attach))
		return -EOPNOTSUPP;
	if (attach->importer_ops && !attach->peer2peer && !(pin->flags & PEERDMA_PIN_HOST))
		return -EOPNOTSUPP;
	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	mutex_unlock(&pin->lock);
	if (err)
		return err;
	attach->priv = kzalloc(sizeof(struct attached), GFP_KERNEL);
	return attach->priv ? 0 : -ENOMEM;
}

/* No lock is held here, as the provider's put wants it; unmap has the reservation lock. */
static void export_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct peerdma_export *ex = dmabuf->priv;
	struct attached *a = attach->priv;

	if (a->hold)
		peerdma_pin_drop_hold(ex->pin);
	kfree(a);
}

static int export_pin(struct dma_buf_attachment *attach)
{
	struct peerdma_export *ex = attach->dmabuf->priv;
	struct attached *a = attach->priv;

	dma_resv_assert_held(&ex->resv);
	if (peerdma_pin_revocable(ex->pin) && !PEERDMA_IMPORTERS_PROMISE &&
	    (!PEERDMA_MAPS_PIN || a->pins > a->maps))
		return -EOPNOTSUPP;
	a->pins++;
	return 0;
}

static void export_unpin(struct dma_buf_attachment *attach)
{
	struct attached *a = attach->priv;

	a->pins--;
}

static struct sg_table *export_map(struct dma_buf_attachment *attach,
				   enum dma_data_direction dir)
{
	struct peerdma_export *ex = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	struct peerdma_pin *pin = ex->pin;
	struct peerdma_map *map;

	dma_resv_assert_held(&ex->resv);
	mutex_lock(&pin->lock);
	map = peerdma_map_create(pin, attach->dev, dir, ex->offset, attach->dmabuf->size);
	if (!IS_ERR(map)) {
		a->maps++;
		if (!a->hold && insists(attach, pin)) {
			a->hold = true;
			pin->holds++;
		}
		map->hold = a->hold;
		map->importer_holds = &a->hold;
		map->lent = !a->hold;
		pin->lent += map->lent;
		ex->untranslated |= !peerdma_translated(attach->dev);
	}
	mutex_unlock(&pin->lock);
	return IS_ERR(map) ? ERR_CAST(map) : &map->pub.sgt;
}

static void export_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			 enum dma_data_direction dir)
{
	struct peerdma_map *map = container_of(sgt, struct peerdma_map, pub.sgt);
	struct peerdma_export *ex = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	struct peerdma_pin *pin = ex->pin;

	/* Nested: the importer may be another pin, whose lock is held; none is imported from an import. */
	mutex_lock_nested(&pin->lock, SINGLE_DEPTH_NESTING);
	a->maps--;
	peerdma_map_destroy(map);
	mutex_unlock(&pin->lock);
}

/* RAM on a machine whose devices do not snoop caches. */
static int sync(struct dma_buf *dmabuf, enum dma_data_direction dir, bool for_cpu)
{
	struct peerdma_export *ex = dmabuf->priv;
	struct peerdma_pin *pin = ex->pin;
	struct peerdma_map *map;
	int err;

	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err && pin->flags & PEERDMA_PIN_HOST) {
		list_for_each_entry(map, &pin->maps, node) {
			if (!map->live)
				continue;
			if (for_cpu)
				dma_sync_sgtable_for_cpu(map->pub.dev, &map->pub.sgt, dir);
			else
				dma_sync_sgtable_for_device(map->pub.dev, &map->pub.sgt, dir);
		}
	}
	mutex_unlock(&pin->lock);
	return err;
}

static int export_begin_cpu(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	return sync(dmabuf, dir, true);
}

static int export_end_cpu(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	/* Write-combined stores leave the CPU before the device is told to read. */
	wmb();
	return sync(dmabuf, dir, false);
}

static int export_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct peerdma_export *ex = dmabuf->priv;

	/* Another driver may map us into an area of its file; that we could not zap. */
	if (vma->vm_file != dmabuf->file)
		return -EOPNOTSUPP;
	return peerdma_view_mmap(ex->pin, vma, ex->offset + ((u64)vma->vm_pgoff << PAGE_SHIFT));
}

static void *view_of_pages(struct peerdma_pin *pin, u64 offset, u64 length)
{
	struct page **pages = kvmalloc_array(length >> PAGE_SHIFT, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	u64 at, n, i, k = 0;
	phys_addr_t phys;
	void *view;

	lockdep_assert_held(&pin->lock);
	if (!pages)
		return NULL;
	for (at = 0; at < length; at += n) {
		n = peerdma_pin_run(pin, offset + at, length - at, &phys);
		for (i = 0; i < n; i += PAGE_SIZE)
			pages[k++] = pfn_to_page(PHYS_PFN(phys + i));
	}
	view = vmap(pages, k, VM_MAP, PAGE_KERNEL);
	kvfree(pages);
	return view;
}

/*
 * A driver's own view cannot be taken away: it is of host memory only, and holds the
 * pin.  It does so until the dma-buf ends, for vunmap comes with the reservation lock
 * held, as detach does not.  The others have no vmap at all: the kernel warns of one
 * that fails.
 */
static int export_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct peerdma_export *ex = dmabuf->priv;
	struct peerdma_pin *pin = ex->pin;
	void *view = NULL;
	int err;

	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err && !ex->viewed) {
		ex->viewed = true;
		pin->holds++;
	}
	if (!err)
		view = view_of_pages(pin, ex->offset, dmabuf->size);
	mutex_unlock(&pin->lock);
	if (err)
		return err;
	if (!view)
		return -ENOMEM;
	iosys_map_set_vaddr(map, view);
	return 0;
}

static void export_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	vunmap(map->vaddr);
}

static void export_release(struct dma_buf *dmabuf)
{
	struct peerdma_export *ex = dmabuf->priv;
	struct peerdma_pin *pin = ex->pin;

	/* From here on a revoker leaves the dma_buf alone. */
	dma_resv_lock(&ex->resv, NULL);
	ex->dmabuf = NULL;
	dma_resv_unlock(&ex->resv);

	mutex_lock(&pin->lock);
	list_del(&ex->node);
	pin->exports--;
	mutex_unlock(&pin->lock);
	if (ex->viewed)
		peerdma_pin_drop_hold(pin);
	kref_put(&ex->ref, export_free);
}

static const struct dma_buf_ops export_ops = {
	.attach = export_attach,
	.detach = export_detach,
	.pin = export_pin,
	.unpin = export_unpin,
	.map_dma_buf = export_map,
	.unmap_dma_buf = export_unmap,
	.begin_cpu_access = export_begin_cpu,
	.end_cpu_access = export_end_cpu,
	.mmap = export_mmap,
	.release = export_release,
};

static const struct dma_buf_ops export_ops_host = {
	.attach = export_attach,
	.detach = export_detach,
	.pin = export_pin,
	.unpin = export_unpin,
	.map_dma_buf = export_map,
	.unmap_dma_buf = export_unmap,
	.begin_cpu_access = export_begin_cpu,
	.end_cpu_access = export_end_cpu,
	.mmap = export_mmap,
	.vmap = export_vmap,
	.vunmap = export_vunmap,
	.release = export_release,
};

static bool has_kernel_view(const struct peerdma_pin *pin)
{
	return pin->flags & PEERDMA_PIN_HOST && !(pin->flags & PEERDMA_PIN_READONLY);
}

static struct peerdma_export *next_untold(struct peerdma_pin *pin)
{
	struct peerdma_export *ex;

	mutex_lock(&pin->lock);
	list_for_each_entry(ex, &pin->export_list, node) {
		if (ex->told)
			continue;
		ex->told = true;
		kref_get(&ex->ref);
		mutex_unlock(&pin->lock);
		return ex;
	}
	mutex_unlock(&pin->lock);
	return NULL;
}

/*
 * For work that importers had queued on the old addresses.  The lock is theirs
 * meanwhile: they may need it to unmap.  No new work comes, for nothing is mapped anew.
 */
static void wait_fences(struct peerdma_export *ex)
{
	if (dma_resv_wait_timeout(&ex->resv, DMA_RESV_USAGE_BOOKKEEP, false,
				  peerdma_importers_timeout()) > 0)
		return;
	atomic64_inc(&peerdma_stats.late);
	pr_warn("peerdma: a fence on a dma-buf of pin %u (%s, process %d) was not signalled in time\n",
		ex->pin->handle, ex->pin->provider->name, ex->pin->tgid);
	/* Otherwise what is still under way meets an IOMMU. */
	if (ex->untranslated)
		dma_resv_wait_timeout(&ex->resv, DMA_RESV_USAGE_BOOKKEEP, false,
				      MAX_SCHEDULE_TIMEOUT);
}

void peerdma_export_revoke(struct peerdma_pin *pin, bool taken)
{
	struct peerdma_overdue overdue;
	struct peerdma_export *ex;

	/* What importers do when they are told takes as long as they like. */
	peerdma_overdue_begin(&overdue, pin);
	while ((ex = next_untold(pin))) {
		dma_resv_lock(&ex->resv, NULL);
		if (ex->dmabuf)
			dma_buf_invalidate_mappings(ex->dmabuf);
		dma_resv_unlock(&ex->resv);
		wait_fences(ex);
		kref_put(&ex->ref, export_free);
	}
	peerdma_importers_wait(pin, taken);
	peerdma_overdue_end(&overdue);
}

/* On success *file is the dma-buf's, with the only reference to it. */
int peerdma_export(struct peerdma_pin *pin, struct peerdma_export_args *args, struct file **file)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	u64 mask = (1ULL << pin->page_shift) - 1;
	u64 length = args->length ?: pin->pinned_length;
	struct peerdma_export *ex;
	struct dma_buf *dmabuf;
	int err;

	/* There is one already, and its exporter tells its importers himself. */
	if (pin->source)
		return -EOPNOTSUPP;
	if ((args->offset | length) & mask || !args->length != !(args->offset | args->length) ||
	    args->offset > pin->pinned_length || length > pin->pinned_length - args->offset)
		return -EINVAL;

	ex = kzalloc(sizeof(*ex), GFP_KERNEL_ACCOUNT);
	if (!ex)
		return -ENOMEM;
	kref_init(&ex->ref);
	dma_resv_init(&ex->resv);
	ex->offset = args->offset;
	ex->pin = pin;
	kref_get(&pin->ref);

	info.exp_name = "peerdma";
	info.ops = has_kernel_view(pin) ? &export_ops_host : &export_ops;
	info.size = length;
	info.flags = pin->flags & PEERDMA_PIN_READONLY ? O_RDONLY : O_RDWR;
	info.resv = &ex->resv;
	info.priv = ex;

	/*
	 * On the list before the dma_buf exists, since its release takes it off;
	 * and the pin must be alive when it gets there.
	 */
	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err) {
		list_add_tail(&ex->node, &pin->export_list);
		pin->exports++;
	}
	mutex_unlock(&pin->lock);
	if (err)
		goto put;

	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		err = PTR_ERR(dmabuf);
		mutex_lock(&pin->lock);
		list_del(&ex->node);
		pin->exports--;
		mutex_unlock(&pin->lock);
		goto put;
	}
	/* Views of the dma-buf are views of the pin: view.c. */
	dmabuf->file->f_mapping = peerdma_view_mapping();
	dma_resv_lock(&ex->resv, NULL);
	ex->dmabuf = dmabuf;
	dma_resv_unlock(&ex->resv);
	atomic64_inc(&peerdma_stats.exports);
	*file = dmabuf->file;
	return 0;

put:
	kref_put(&ex->ref, export_free);
	return err;
}
