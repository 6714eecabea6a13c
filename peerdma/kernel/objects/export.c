// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * export.c - pins as dma-bufs.
 *
 * The exporter is dynamic: it has pin and unpin, maps under the buffer's reservation lock,
 * and asks importers to unmap (invalidate_mappings) when the memory is revoked or unpinned.
 * importers.c limits the time that they have for it.
 *
 * An importer that cannot unmap on request must not get memory that can be revoked.  There
 * are two kinds of them:
 *
 * - Importers that cannot be notified: static ones, which have no importer_ops, and since
 *   7.1 dynamic ones without that callback.
 * - Before 7.1: dynamic importers that call dma_buf_pin().  Since 7.1, an importer that has
 *   the callback promises to unmap soon after it, pinned or not.  If it has pinned memory
 *   that cannot be revoked, it keeps that memory, and our pin cannot be ended before it
 *   lets go.
 *
 * An older kernel without CONFIG_DMABUF_MOVE_NOTIFY (Debian's) also calls our pin for every
 * mapping of a dynamic importer.  There, we count pins and maps to tell these calls from
 * the importer's own: the kernel's come in pairs, so an importer that has one pin more than
 * maps has called dma_buf_pin() itself, and gets no mapping.
 *
 * There is no vmap, since we could not take a kernel mapping back.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>

#include "core/charge.h"
#include "core/compat.h"
#include "core/path.h"
#include "export.h"
#include "importers.h"
#include "view.h"

PEERDMA_IMPORT_DMA_BUF;

/*
 * Has the importer itself called dma_buf_pin()? On older kernels, one pin for each mapping
 * is the kernel's.
 */
static bool has_pinned(const struct attached *a)
{
	return a->pins > (PEERDMA_MAPS_PIN ? a->maps : 0);
}

/* Must the memory stay for this importer as long as it has it mapped? */
static bool insists(struct dma_buf_attachment *attach, const struct peerdma_pin *pin)
{
	const struct attached *a = attach->priv;

	if (!dma_buf_attach_revocable(attach))
		return true;
	if (PEERDMA_IMPORTERS_PROMISE && peerdma_pin_revocable(pin))
		return false;
	return has_pinned(a);
}

static void free_attached(struct attached *a)
{
	peerdma_room_free(&a->room);
	kfree(a);
}

/*
 * An importer maps with the reservation lock held, which a revocation takes.  So the memory
 * for a mapping is allocated here, where no lock is held.
 */
static int export_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct peerdma_export *ex = dmabuf->priv;
	struct peerdma_pin *pin = ex->object.pin;
	struct attached *a;
	int err;

	if (peerdma_pin_revocable(pin) && !dma_buf_attach_revocable(attach))
		return -EOPNOTSUPP;
	if (attach->importer_ops && !attach->peer2peer && !(pin->flags & PEERDMA_PIN_HOST))
		return -EOPNOTSUPP;
	err = peerdma_map_reach(pin, attach->dev, true);
	if (err)
		return err;
	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin) ?: peerdma_map_path(pin, attach->dev);
	mutex_unlock(&pin->lock);
	if (err)
		return err;
	a = peerdma_zalloc(sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->ex = ex;
	a->room.wants_map = true;
	peerdma_map_want(pin, attach->dev, ex->offset, dmabuf->size, &a->room);
	err = peerdma_room_make(&a->room);
	if (err) {
		free_attached(a);
		return err;
	}
	attach->priv = a;
	return 0;
}

/*
 * The hold is dropped here and not in unmap, since here no lock is held: the provider's put
 * requires that. unmap has the reservation lock.
 */
static void export_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct peerdma_export *ex = dmabuf->priv;
	struct attached *a = attach->priv;

	if (a->hold)
		peerdma_pin_drop_hold(ex->object.pin);
	free_attached(a);
}

/* dma_buf_pin() promises that the memory stays, mapped or not: takes a hold of the pin. */
static int hold(struct attached *a)
{
	struct peerdma_pin *pin = a->ex->object.pin;
	int err;

	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err && !a->hold) {
		a->hold = true;
		a->unmapped = true;
		pin->holds++;
	}
	mutex_unlock(&pin->lock);
	return err;
}

/* While the pin is LIVE the owner has a hold, so this is not the last one. */
static void unhold(struct attached *a)
{
	struct peerdma_pin *pin = a->ex->object.pin;

	lockdep_assert_held(&pin->lock);
	if (!a->unmapped || pin->state != PIN_LIVE)
		return;
	a->hold = false;
	a->unmapped = false;
	pin->holds--;
}

static int export_pin(struct dma_buf_attachment *attach)
{
	struct peerdma_export *ex = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	int err = 0;

	dma_resv_assert_held(&ex->resv);
	if (!peerdma_pin_revocable(ex->object.pin))
		err = hold(a);
	else if (!PEERDMA_IMPORTERS_PROMISE && (!PEERDMA_MAPS_PIN || a->pins > a->maps))
		err = -EOPNOTSUPP;
	if (!err)
		a->pins++;
	return err;
}

static void export_unpin(struct dma_buf_attachment *attach)
{
	struct attached *a = attach->priv;
	struct peerdma_pin *pin = a->ex->object.pin;

	/* Nested: as in export_unmap(). */
	mutex_lock_nested(&pin->lock, PIN_LOCK_EXPORTED);
	a->pins--;
	if (!has_pinned(a))
		unhold(a);
	mutex_unlock(&pin->lock);
}

/* At the pin's end, unmaps for importers that do not hold the memory. */
static void importer_down(struct peerdma_object *object)
{
	struct peerdma_map *map = container_of(object, struct peerdma_map, object);

	/*
	 * A map that is not live was never mapped, or its importer has unmapped it and may
	 * have detached: then `attached' is gone.
	 */
	if (map->live && !map->attached->hold)
		peerdma_importer_down(map);
}

static void importer_let_go(struct peerdma_object *object)
{
	peerdma_importer_let_go(container_of(object, struct peerdma_map, object));
}

static const struct peerdma_object_ops importer_ops = {
	.charge = CHARGE_MAPPINGS,
	.down = importer_down,
	.let_go = importer_let_go,
	.free = peerdma_map_free,
};

static void count_map(struct dma_buf_attachment *attach, struct peerdma_map *map)
{
	struct attached *a = attach->priv;
	struct peerdma_export *ex = a->ex;
	struct peerdma_pin *pin = ex->object.pin;
	bool insisted;

	a->maps++;
	insisted = insists(attach, pin);
	if (!insisted)
		unhold(a);
	else if (!a->hold)
		pin->holds++;
	a->hold |= insisted;
	a->unmapped = false;
	map->attached = a;
	map->outstanding = !a->hold;
	ex->outstanding += map->outstanding;
	ex->mapped = true;
	ex->untranslated |= !peerdma_translated(attach->dev);
}

static struct peerdma_map *try_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	struct peerdma_export *ex = attach->dmabuf->priv;
	struct attached *a = attach->priv;

	return peerdma_map_create(ex->object.pin, attach->dev, dir, ex->offset,
				  attach->dmabuf->size, &importer_ops, &a->room);
}

static struct sg_table *export_map(struct dma_buf_attachment *attach,
				   enum dma_data_direction dir)
{
	struct peerdma_export *ex = attach->dmabuf->priv;
	struct peerdma_pin *pin = ex->object.pin;
	struct attached *a = attach->priv;
	struct peerdma_map *map;
	int err;

	dma_resv_assert_held(&ex->resv);
	mutex_lock(&pin->lock);
	a->room.attempts = 0;
	map = try_map(attach, dir);
	/* The attachment has a mapping already, which has the room, or the device's limits changed. */
	while (map == ERR_PTR(-EAGAIN)) {
		err = peerdma_room_make_now(&a->room);
		map = err ? ERR_PTR(err) : try_map(attach, dir);
	}
	if (!IS_ERR(map))
		count_map(attach, map);
	mutex_unlock(&pin->lock);
	return IS_ERR(map) ? ERR_CAST(map) : &map->pub.sgt;
}

static void export_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			 enum dma_data_direction dir)
{
	struct peerdma_map *map = container_of(sgt, struct peerdma_map, pub.sgt);
	struct attached *a = attach->priv;
	struct peerdma_pin *pin = a->ex->object.pin;

	/*
	 * Nested: the importer may be another pin of ours, whose lock is held.  An import
	 * cannot be exported, so there are never more than two.
	 */
	mutex_lock_nested(&pin->lock, PIN_LOCK_EXPORTED);
	a->maps--;
	peerdma_importer_let_go(map);
	peerdma_map_return_room(map, &a->room);
	peerdma_object_end(&map->object);
	mutex_unlock(&pin->lock);
}

/* Syncs CPU caches of host memory, on a machine whose devices do not snoop them. */
static int sync(struct dma_buf *dmabuf, bool for_cpu)
{
	struct peerdma_export *ex = dmabuf->priv;
	struct peerdma_pin *pin = ex->object.pin;
	struct peerdma_object *object;
	int err;

	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err && pin->flags & PEERDMA_PIN_HOST) {
		list_for_each_entry(object, &pin->objects, node) {
			struct peerdma_map *map = peerdma_map_of(object);

			if (!map || !map->live)
				continue;
			/* The direction must be the mapping's; the caller may give any. */
			if (for_cpu)
				dma_sync_sgtable_for_cpu(map->pub.dev, &map->pub.sgt, map->pub.dir);
			else
				dma_sync_sgtable_for_device(map->pub.dev, &map->pub.sgt,
							    map->pub.dir);
		}
	}
	mutex_unlock(&pin->lock);
	return err;
}

static int export_begin_cpu(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	return sync(dmabuf, true);
}

static int export_end_cpu(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	/* Write-combined stores leave the CPU before the device is made to read. */
	wmb();
	return sync(dmabuf, false);
}

static int export_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct peerdma_export *ex = dmabuf->priv;

	/*
	 * Another driver may map this dma-buf into an area of its own file, which we could
	 * not zap.
	 */
	if (vma->vm_file != dmabuf->file)
		return -EOPNOTSUPP;
	return peerdma_view_mmap(ex->object.pin, vma,
				 ex->offset + ((u64)vma->vm_pgoff << PAGE_SHIFT));
}

static void export_release(struct dma_buf *dmabuf)
{
	struct peerdma_export *ex = dmabuf->priv;
	struct peerdma_pin *pin = ex->object.pin;

	/* From here on a revoker leaves the dma_buf alone. */
	dma_resv_lock(&ex->resv, NULL);
	ex->dmabuf = NULL;
	dma_resv_unlock(&ex->resv);

	/* peerdma_object_end() may free ex and drop its reference to the pin. */
	kref_get(&pin->ref);
	mutex_lock(&pin->lock);
	peerdma_object_end(&ex->object);
	mutex_unlock(&pin->lock);
	peerdma_pin_put(pin);
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

/* ---- the pin's end ---- */

static struct peerdma_export *export_of(struct peerdma_object *object)
{
	return container_of(object, struct peerdma_export, object);
}

static void export_stop(struct peerdma_object *object)
{
	struct peerdma_export *ex = export_of(object);
	struct peerdma_overdue overdue;

	/*
	 * Importers are notified once, but may be waited for twice: at the unpin, then when
	 * the memory is taken back.
	 */
	if (ex->notified)
		return;
	ex->notified = true;
	ex->deadline = jiffies + peerdma_importers_timeout();
	/* An importer's callback may take any time; meanwhile `overdue' reports late importers. */
	peerdma_overdue_begin(&overdue, ex);
	dma_resv_lock(&ex->resv, NULL);
	if (ex->dmabuf)
		dma_buf_invalidate_mappings(ex->dmabuf);
	dma_resv_unlock(&ex->resv);
	peerdma_overdue_end(&overdue);
}

/*
 * Waits for work that importers had queued on the old addresses.  The reservation lock is
 * not held meanwhile: importers may need it to unmap.  No new work comes, since nothing is
 * mapped anew.
 */
static void wait_fences(struct peerdma_export *ex)
{
	struct peerdma_pin *pin = ex->object.pin;

	/*
	 * Any holder of the dma-buf can attach fences.  If no importer ever mapped it, no
	 * fence concerns this memory.
	 */
	if (!READ_ONCE(ex->mapped))
		return;
	if (dma_resv_wait_timeout(&ex->resv, DMA_RESV_USAGE_BOOKKEEP, false,
				  peerdma_export_left(ex)) > 0)
		return;
	atomic64_inc(&peerdma_stats.late);
	pr_warn("peerdma: a fence on a dma-buf of pin %u (%s, process %d) was not signalled in time\n",
		pin->id, pin->provider->name, pin->tgid);
	/* If all devices are behind an IOMMU, it stops what is still under way. */
	if (ex->untranslated)
		dma_resv_wait_timeout(&ex->resv, DMA_RESV_USAGE_BOOKKEEP, false,
				      MAX_SCHEDULE_TIMEOUT);
}

static void export_settle(struct peerdma_object *object, bool taken)
{
	struct peerdma_export *ex = export_of(object);
	struct peerdma_overdue overdue;

	peerdma_overdue_begin(&overdue, ex);
	wait_fences(ex);
	peerdma_overdue_end(&overdue);
	peerdma_importers_wait(ex, taken);
}

static void export_free(struct peerdma_object *object)
{
	struct peerdma_export *ex = export_of(object);

	dma_resv_fini(&ex->resv);
	kfree(ex);
}

static const struct peerdma_object_ops export_object_ops = {
	.charge = CHARGE_EXPORTS,
	.stop = export_stop,
	.settle = export_settle,
	.free = export_free,
};

/* ---- making one ---- */

static struct dma_buf *make(struct peerdma_export *ex, u64 length)
{
	const struct peerdma_pin *pin = ex->object.pin;
	DEFINE_DMA_BUF_EXPORT_INFO(info);

	info.exp_name = "peerdma";
	info.ops = &export_ops;
	info.size = length;
	info.flags = pin->flags & PEERDMA_PIN_READONLY ? O_RDONLY : O_RDWR;
	info.resv = &ex->resv;
	info.priv = ex;
	return dma_buf_export(&info);
}

static int check_range(const struct peerdma_pin *pin, u64 offset, u64 length)
{
	u64 mask = (1ULL << pin->page_shift) - 1;

	/* An import is a dma-buf already, and its exporter notifies importers itself. */
	if (pin->flags & PEERDMA_PIN_DMABUF)
		return -EOPNOTSUPP;
	if ((offset | length) & mask || !length || offset > pin->pinned_length ||
	    length > pin->pinned_length - offset)
		return -EINVAL;
	return 0;
}

int peerdma_export(struct peerdma_pin *pin, u64 offset, u64 length, struct file **file)
{
	struct peerdma_account *account;
	struct address_space *views;
	struct peerdma_export *ex;
	struct dma_buf *dmabuf;
	int err;

	err = check_range(pin, offset, length);
	if (err)
		return err;
	account = peerdma_account();
	ex = account ? peerdma_zalloc(sizeof(*ex)) : NULL;
	if (!ex)
		return -ENOMEM;
	dma_resv_init(&ex->resv);
	ex->offset = offset;

	/*
	 * Entered in the list before the dma_buf exists, since the dma_buf's release
	 * removes it.  The pin must be usable at that moment.
	 */
	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err)
		err = peerdma_object_enter(&ex->object, pin, &export_object_ops, account);
	if (!err)
		views = peerdma_view_mapping(pin);
	mutex_unlock(&pin->lock);
	if (err) {
		export_free(&ex->object);
		return err;
	}

	dmabuf = make(ex, length);
	if (IS_ERR(dmabuf)) {
		mutex_lock(&pin->lock);
		peerdma_object_end(&ex->object);
		mutex_unlock(&pin->lock);
		return PTR_ERR(dmabuf);
	}
	/* CPU views of the dma-buf are views of the pin: view.c. */
	dmabuf->file->f_mapping = views;
	dma_resv_lock(&ex->resv, NULL);
	ex->dmabuf = dmabuf;
	dma_resv_unlock(&ex->resv);
	atomic64_inc(&peerdma_stats.exports);
	*file = dmabuf->file;
	return 0;
}
