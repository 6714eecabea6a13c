// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf.c - the provider of memory that other drivers export: any dma-buf.
 *
 * A dma-buf has addresses only for a device.  So a pin of a dma-buf holds the dma-buf, and
 * each mapping has an attachment of its own.  The exporter is asked to keep the memory in
 * place (dma_buf_pin).  If it refuses, it may move the memory at any time; a move ends the
 * pin, as does taking the memory away: the exporter calls invalidate_mappings for both, and
 * we revoke the pin.  An exporter that never calls invalidate_mappings never moves or takes
 * away memory either.
 *
 * invalidate_mappings is called with the dma-buf's reservation lock held, and unmapping
 * needs that lock, too.  So for these pins the reservation lock is taken before pin->lock
 * around every call that makes or unmakes a mapping: struct peerdma_import_ops.  The
 * exporter maps before pin->lock is taken, since it may move memory to map it, and notify
 * us of that.  Attaching is done without any lock, also without that of the device that a
 * program maps for (device_map.c): attaching allocates, here and in the exporter.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/slab.h>

#include "core/charge.h"
#include "core/compat.h"
#include "dmabuf.h"
#include "objects/map.h"

/* One device's attachment, with its mapping if it has one. */
struct peerdma_import {
	struct list_head node;		/* source->idle */
	struct source *source;
	struct dma_buf_attachment *attach;
	struct sg_table *sgt;
	enum dma_data_direction dir;
	u64 cookie;			/* of the pin */
	bool pinned;
};

/* pin->priv.  The reservation lock guards all fields but dmabuf. */
struct source {
	struct dma_buf *dmabuf;
	struct peerdma_room *room;	/* attachment: lock_maps() maps it, dma_map takes it */
	struct list_head idle;		/* to be detached */
	u32 mapped;
};

static struct source *source_of(const struct peerdma_pin *pin)
{
	return pin->priv;
}

static void moved(struct dma_buf_attachment *attach)
{
	struct peerdma_import *im = attach->importer_priv;

	/*
	 * If nothing is mapped, nothing is stale: the next mapping finds the memory at its
	 * new place.
	 */
	if (im->source->mapped)
		peerdma_revoke(im->cookie);
}

static const struct dma_buf_attach_ops importer_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = moved,
};

/* Translates an exporter's errno into ours. */
static int map_errno(int err)
{
	switch (err) {
	case -ENOMEM:
		return -ENOMEM;
	case -ENODEV:
	case -ESTALE:
	case -ENOENT:
		return -ESTALE;
	default:
		return -EOPNOTSUPP;
	}
}

static void import_detach(struct peerdma_import *im)
{
	dma_buf_detach(im->source->dmabuf, im->attach);
	kfree(im);
}

/* ---- attachments; no lock of ours is held ---- */

/* Before 6.16 the kernel maps the memory of a static exporter when an importer that can be told attaches. */
static bool attach_maps(struct peerdma_pin *pin)
{
	return PEERDMA_ATTACH_MAPS && !source_of(pin)->dmabuf->ops->pin;
}

static int attach(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir,
		  struct peerdma_room *room)
{
	struct source *source = source_of(pin);
	struct peerdma_import *im;
	int err;

	if (!valid_dma_direction(dir))
		return -EINVAL;
	if (pin->flags & PEERDMA_PIN_READONLY && dir != DMA_TO_DEVICE)
		return -EPERM;
	if (!dev->dma_mask)
		return -EOPNOTSUPP;
	im = peerdma_zalloc(sizeof(*im));
	if (!im)
		return -ENOMEM;
	im->source = source;
	im->dir = dir;
	im->cookie = pin->cookie;
	im->attach = dma_buf_dynamic_attach(source->dmabuf, dev, &importer_ops, im);
	if (IS_ERR(im->attach)) {
		err = PTR_ERR(im->attach);
		kfree(im);
		return map_errno(err);
	}
	room->import = im;
	room->detach = import_detach;
	return 0;
}

static void detach_all(struct list_head *idle)
{
	struct peerdma_import *im, *next;

	list_for_each_entry_safe(im, next, idle, node)
		import_detach(im);
}

/* ---- mappings; the reservation lock is held ---- */

static int import_map(struct peerdma_import *im, bool pinned)
{
	struct sg_table *sgt;
	int err = pinned ? dma_buf_pin(im->attach) : 0;

	if (err)
		return err;
	sgt = dma_buf_map_attachment(im->attach, im->dir);
	if (IS_ERR_OR_NULL(sgt)) {
		if (pinned)
			dma_buf_unpin(im->attach);
		return sgt ? PTR_ERR(sgt) : -ENOMEM;
	}
	im->sgt = sgt;
	im->pinned = pinned;
	im->source->mapped++;
	return 0;
}

static void import_unmap(struct peerdma_import *im)
{
	im->source->mapped--;
	dma_buf_unmap_attachment(im->attach, im->sgt, im->dir);
	im->sgt = NULL;
	if (im->pinned)
		dma_buf_unpin(im->attach);
}

static int lock_maps(struct peerdma_pin *pin, struct peerdma_room *room)
{
	struct source *source = pin->priv;
	int err;

	if (!room) {
		dma_resv_lock(source->dmabuf->resv, NULL);
		mutex_lock(&pin->lock);
		return 0;
	}
	/* The exporter and its other importers decide how long the lock is held. */
	if (dma_resv_lock_interruptible(source->dmabuf->resv, NULL))
		return -ERESTARTSYS;
	err = import_map(room->import, true);
	/* An exporter that refuses to pin may still map, and move later. */
	if (err && err != -ENOMEM)
		err = import_map(room->import, false);
	if (err) {
		dma_resv_unlock(source->dmabuf->resv);
		return map_errno(err);
	}
	source->room = room;
	mutex_lock(&pin->lock);
	return 0;
}

static void unlock_maps(struct peerdma_pin *pin)
{
	struct source *source = pin->priv;
	LIST_HEAD(idle);

	mutex_unlock(&pin->lock);
	/* No mapping was made: the attachment is the next attempt's, or the room's end detaches it. */
	if (source->room && source->room->import)
		import_unmap(source->room->import);
	source->room = NULL;
	list_splice_init(&source->idle, &idle);
	dma_resv_unlock(source->dmabuf->resv);
	detach_all(&idle);
}

/* Adds those parts of the exporter's segments that lie in the mapping's range. */
static int take_segments(struct peerdma_map *map, const struct peerdma_import *im)
{
	u64 from = map->pub.pin->start + map->offset, to = from + map->length, at = 0;
	struct scatterlist *sg;
	int err;
	u32 i;

	for_each_sgtable_dma_sg(im->sgt, sg, i) {
		u64 begin = max(from, at), end = min(to, at + sg_dma_len(sg));

		if (begin < end) {
			err = peerdma_map_add(map, sg_dma_address(sg) + (begin - at), end - begin);
			if (err)
				return err;
		}
		at += sg_dma_len(sg);
	}
	/* The exporter has mapped less than the dma-buf's size. */
	return at < to ? -EOPNOTSUPP : 0;
}

static int source_dma_map(struct peerdma_map *map)
{
	struct source *source = map->pub.pin->priv;
	int err;

	if (WARN_ON(!source->room))
		return -EOPNOTSUPP;
	err = take_segments(map, source->room->import);
	if (err)
		return err;
	map->priv = source->room->import;
	source->room->import = NULL;
	return 0;
}

static void source_dma_unmap(struct peerdma_map *map)
{
	struct source *source = source_of(map->pub.pin);
	struct peerdma_import *im = map->priv;

	dma_resv_assert_held(source->dmabuf->resv);
	import_unmap(im);
	list_add(&im->node, &source->idle);
	map->nsegs = 0;
}

/* ---- pins ---- */

static int source_get(struct peerdma_pin *pin)
{
	return pin->start + pin->pinned_length > source_of(pin)->dmabuf->size ? -ENXIO : 0;
}

/* Nothing to do: source_free() drops the dma-buf, after the pin's last reference. */
static void source_put(struct peerdma_pin *pin)
{
}

/* Put or revoked: detaches, for which no lock may be held. */
static void source_release(struct peerdma_pin *pin)
{
	struct source *source = source_of(pin);
	LIST_HEAD(idle);

	dma_resv_lock(source->dmabuf->resv, NULL);
	list_splice_init(&source->idle, &idle);
	dma_resv_unlock(source->dmabuf->resv);
	detach_all(&idle);
}

static void source_free(struct peerdma_pin *pin)
{
	struct source *source = source_of(pin);

	WARN_ON(source->mapped || !list_empty(&source->idle));
	dma_buf_put(source->dmabuf);
	kfree(source);
}

static const struct peerdma_import_ops import_ops = {
	.attach = attach,
	.attach_maps = attach_maps,
	.lock = lock_maps,
	.unlock = unlock_maps,
	.free = source_free,
};

static struct peerdma_provider dmabuf_provider = {
	.name = "dmabuf",
	.owner = THIS_MODULE,
	.page_shift = PAGE_SHIFT,
	.get = source_get,
	.put = source_put,
	.release = source_release,
	.dma_map = source_dma_map,
	.dma_unmap = source_dma_unmap,
};

void peerdma_dmabuf_init(void)
{
	peerdma_provider_init(&dmabuf_provider);
}

static int set_range(struct peerdma_pin *pin, const struct dma_buf *dmabuf)
{
	if (pin->flags & ~PEERDMA_PIN_READONLY)
		return -EINVAL;
	/* The kernel checks this in mmap() only; importers have to do so themselves. */
	if (!(pin->flags & PEERDMA_PIN_READONLY) && !(dmabuf->file->f_mode & FMODE_WRITE))
		return -EACCES;
	/* 0: up to the end of the dma-buf. */
	if (!pin->length) {
		if (pin->addr >= dmabuf->size)
			return -ENXIO;
		pin->length = dmabuf->size - pin->addr;
	}
	if (pin->addr + pin->length < pin->addr)
		return -EINVAL;
	pin->token = 0;
	pin->va_space = 0;
	pin->flags |= PEERDMA_PIN_DEVICE | PEERDMA_PIN_DMABUF;
	return 0;
}

int peerdma_pin_start_dmabuf(struct peerdma_pin *pin, struct dma_buf *dmabuf)
{
	struct source *source;
	int err = set_range(pin, dmabuf);

	if (err)
		return err;
	source = peerdma_zalloc(sizeof(*source));
	if (!source)
		return -ENOMEM;
	get_dma_buf(dmabuf);
	source->dmabuf = dmabuf;
	INIT_LIST_HEAD(&source->idle);
	pin->priv = source;
	pin->import = &import_ops;
	/* The caller runs code of this module, so it is loaded. */
	WARN_ON(!peerdma_provider_hold(&dmabuf_provider));
	err = peerdma_pin_start_at(pin, &dmabuf_provider);
	if (err)
		peerdma_provider_let_go(&dmabuf_provider);
	return err;
}
