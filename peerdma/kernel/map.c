// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * map.c - addresses of a pin for one device.
 *
 * Whatever way they are made (by the DMA API from pages, from bus addresses, or
 * by the provider), a mapping ends up as a list of segments, neighbours merged,
 * and as an sg_table of the same, cut to what the device can take in one piece.
 */
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/slab.h>

#include "pin.h"
#include "trace.h"

bool peerdma_translated(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	return domain && domain->type & __IOMMU_DOMAIN_PAGING;
}

/*
 * Without an IOMMU the device must be able to address the memory itself.  The
 * DMA API would bounce RAM through a buffer, which is no good for a mapping
 * that lives on, and warn about bus addresses.
 */
static int check_reach(struct device *dev, phys_addr_t phys, u64 length)
{
	u64 last = phys + length - 1;

	if (!peerdma_translated(dev) && last > min_not_zero(dma_get_mask(dev), dev->bus_dma_limit)) {
		dev_dbg(dev, "cannot address %#llx: raise its DMA mask or use an IOMMU\n", last);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int grow(struct peerdma_map *map)
{
	u32 room = map->segs_room ? 2 * map->segs_room : 4;
	struct peerdma_segment *segs;

	if (room < map->segs_room)
		return -ENOMEM;
	segs = kvmalloc_array(room, sizeof(*segs), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!segs)
		return -ENOMEM;
	if (map->nsegs)
		memcpy(segs, map->segs, map->nsegs * sizeof(*segs));
	kvfree(map->segs);
	map->segs = segs;
	map->segs_room = room;
	return 0;
}

static int add_segment(struct peerdma_map *map, u64 addr, u64 length)
{
	int err;

	if (map->nsegs == map->segs_room) {
		err = grow(map);
		if (err)
			return err;
	}
	map->segs[map->nsegs].dma_addr = addr;
	map->segs[map->nsegs].length = length;
	map->nsegs++;
	return 0;
}

int peerdma_map_add(struct peerdma_map *map, u64 addr, u64 length)
{
	struct peerdma_segment *last = map->nsegs ? &map->segs[map->nsegs - 1] : NULL;

	if (last && last->dma_addr + last->length == addr) {
		last->length += length;
		return 0;
	}
	return add_segment(map, addr, length);
}
EXPORT_SYMBOL_GPL(peerdma_map_add);

/*
 * The same memory is mapped as often as somebody asks, for one device too.  The
 * DMA API allows that to those who keep the CPU's caches out of it: device
 * memory is in none, and host memory is synchronized where a mapping begins and
 * ends, explicitly.
 */
#define MAP_ATTRS	DMA_ATTR_SKIP_CPU_SYNC

/* Segment by segment as mapped: here they are not merged, since each is unmapped for itself. */
int peerdma_map_resource(struct peerdma_map *map)
{
	struct peerdma_pin *pin = map->pub.pin;
	struct device *dev = map->pub.dev;
	u64 offset = map->offset, end = offset + map->length, n;
	phys_addr_t phys;
	dma_addr_t dma;
	int err;

	for (; offset < end; offset += n) {
		n = peerdma_pin_run(pin, offset, end - offset, &phys);
		err = check_reach(dev, phys, n);
		if (err)
			goto undo;
		dma = dma_map_resource(dev, phys, n, map->pub.dir, MAP_ATTRS);
		if (dma_mapping_error(dev, dma)) {
			err = -ENOMEM;
			goto undo;
		}
		err = add_segment(map, dma, n);
		if (err) {
			dma_unmap_resource(dev, dma, n, map->pub.dir, MAP_ATTRS);
			goto undo;
		}
	}
	return 0;

undo:
	peerdma_unmap_resource(map);
	return err;
}
EXPORT_SYMBOL_GPL(peerdma_map_resource);

void peerdma_unmap_resource(struct peerdma_map *map)
{
	u32 i;

	for (i = 0; i < map->nsegs; i++)
		dma_unmap_resource(map->pub.dev, map->segs[i].dma_addr, map->segs[i].length,
				   map->pub.dir, MAP_ATTRS);
	map->nsegs = 0;
}
EXPORT_SYMBOL_GPL(peerdma_unmap_resource);

/* Bytes of a segment's next piece. */
static u32 piece(u64 length, u32 most)
{
	return min_t(u64, length, most);
}

/* What the device takes in one piece, in whole pages. */
static u32 piece_max(struct device *dev)
{
	return max_t(u32, PAGE_SIZE, PAGE_ALIGN_DOWN(min_t(u32, dma_get_max_seg_size(dev), SZ_2G)));
}

/* The sg_table of the segments: addresses without pages. */
static int fill_sgt(struct peerdma_map *map)
{
	u32 most = piece_max(map->pub.dev), i, n;
	struct scatterlist *sg;
	u64 count = 0, at;
	int err;

	for (i = 0; i < map->nsegs; i++)
		count += DIV_ROUND_UP_ULL(map->segs[i].length, most);
	if (count > INT_MAX)
		return -ENOMEM;
	err = sg_alloc_table(&map->pub.sgt, count, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;

	sg = map->pub.sgt.sgl;
	for (i = 0; i < map->nsegs; i++) {
		for (at = 0; at < map->segs[i].length; at += n, sg = sg_next(sg)) {
			n = piece(map->segs[i].length - at, most);
			sg_set_page(sg, NULL, n, 0);
			sg_dma_address(sg) = map->segs[i].dma_addr + at;
			sg_dma_len(sg) = n;
		}
	}
	return 0;
}

static void unmap_pages(struct peerdma_map *map)
{
	dma_sync_sgtable_for_cpu(map->pub.dev, &map->pub.sgt, map->pub.dir);
	dma_unmap_sgtable(map->pub.dev, &map->pub.sgt, map->pub.dir, MAP_ATTRS);
}

/* Memory with pages: the DMA API maps the sg_table, and the segments follow from it. */
static int map_pages(struct peerdma_map *map)
{
	struct sg_table *sgt = &map->pub.sgt;
	struct peerdma_pin *pin = map->pub.pin;
	struct device *dev = map->pub.dev;
	u64 end = map->offset + map->length, at, n, count = 0;
	u32 most = piece_max(dev), i, part;
	struct scatterlist *sg;
	phys_addr_t phys;
	int err;

	for (at = map->offset; at < end; at += n) {
		n = peerdma_pin_run(pin, at, end - at, &phys);
		err = check_reach(dev, phys, n);
		if (err)
			return err;
		count += DIV_ROUND_UP_ULL(n, most);
	}
	if (count > INT_MAX)
		return -ENOMEM;
	err = sg_alloc_table(sgt, count, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	sg = sgt->sgl;
	for (at = map->offset; at < end; at += n) {
		u64 done;

		n = peerdma_pin_run(pin, at, end - at, &phys);
		for (done = 0; done < n; done += part, sg = sg_next(sg)) {
			part = piece(n - done, most);
			sg_set_page(sg, pfn_to_page(PHYS_PFN(phys + done)), part, 0);
		}
	}

	err = dma_map_sgtable(dev, sgt, map->pub.dir, MAP_ATTRS);
	if (err)
		goto free_table;
	dma_sync_sgtable_for_device(dev, sgt, map->pub.dir);
	for_each_sgtable_dma_sg(sgt, sg, i) {
		/* swiotlb=force and the like: the device would use a copy. */
		err = !peerdma_translated(dev) && dma_need_sync(dev, sg_dma_address(sg)) ? -EOPNOTSUPP :
			peerdma_map_add(map, sg_dma_address(sg), sg_dma_len(sg));
		if (err)
			goto unmap;
	}
	return 0;

unmap:
	unmap_pages(map);
	map->nsegs = 0;
free_table:
	sg_free_table(sgt);
	return err;
}

static int map_device(struct peerdma_map *map)
{
	struct peerdma_provider *p = map->pub.pin->provider;
	int err;

	if (p->host)
		return map_pages(map);

	err = p->dma_map ? p->dma_map(map) : peerdma_map_resource(map);
	if (err)
		return err;
	err = fill_sgt(map);
	if (err && p->dma_unmap)
		p->dma_unmap(map);
	else if (err)
		peerdma_unmap_resource(map);
	return err;
}

static void unmap_device(struct peerdma_map *map)
{
	struct peerdma_provider *p = map->pub.pin->provider;

	if (p->host)
		unmap_pages(map);
	else if (p->dma_unmap)
		p->dma_unmap(map);
	else
		peerdma_unmap_resource(map);
}

struct peerdma_map *peerdma_map_create(struct peerdma_pin *pin, struct device *dev,
				       enum dma_data_direction dir, u64 offset, u64 length)
{
	struct peerdma_map *map;
	int err;

	lockdep_assert_held(&pin->lock);
	if (!valid_dma_direction(dir) || !length || offset + length > pin->pinned_length)
		return ERR_PTR(-EINVAL);
	if (pin->flags & PEERDMA_PIN_READONLY && dir != DMA_TO_DEVICE)
		return ERR_PTR(-EPERM);
	if (!dev->dma_mask)
		return ERR_PTR(-EOPNOTSUPP);
	err = peerdma_pin_usable(pin);
	if (err)
		return ERR_PTR(err);

	map = kzalloc(sizeof(*map), GFP_KERNEL_ACCOUNT);
	if (!map)
		return ERR_PTR(-ENOMEM);
	map->pub.pin = pin;
	map->pub.dev = get_device(dev);
	map->pub.dir = dir;
	map->offset = offset;
	map->length = length;
	err = map_device(map);
	if (err) {
		put_device(dev);
		kvfree(map->segs);
		kfree(map);
		return ERR_PTR(err);
	}
	map->live = true;
	kref_get(&pin->ref);
	list_add_tail(&map->node, &pin->maps);
	atomic64_inc(&peerdma_stats.maps);
	trace_peerdma_map(pin, map);
	return map;
}

void peerdma_map_down(struct peerdma_map *map)
{
	lockdep_assert_held(&map->pub.pin->lock);
	if (!map->live)
		return;
	map->live = false;
	trace_peerdma_unmap(map->pub.pin, map);
	unmap_device(map);
	atomic64_inc(&peerdma_stats.unmaps);
	if (map->lent)
		peerdma_importer_returns(map);
}

void peerdma_map_destroy(struct peerdma_map *map)
{
	peerdma_map_down(map);
	if (map->handle)
		peerdma_file_forget_map(map);
	list_del(&map->node);
	put_device(map->pub.dev);
	sg_free_table(&map->pub.sgt);
	kvfree(map->segs);
	/* Not the last reference: the caller, who holds the lock, has one too. */
	peerdma_pin_put(map->pub.pin);
	kfree(map);
}
