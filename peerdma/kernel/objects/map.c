// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * map.c - addresses of a pin for one device.
 *
 * Addresses are made by the DMA API from pages, from bus addresses, or by the provider.  In
 * each case a mapping ends up as a list of segments, adjacent ones merged, and, for callers
 * that need it, as an sg_table of the same, cut into pieces that the device can take.
 */
#include <linux/dma-mapping.h>

#include "core/path.h"
#include "core/trace.h"
#include "map.h"
#include "reserve.h"
#include "room.h"

/*
 * Without an IOMMU the device must be able to address the memory itself.  The DMA API would
 * bounce RAM through a buffer, which does not work for a long-lived mapping, and warn about
 * bus addresses.
 */
static __always_inline int check_reach(struct device *dev, bool translated, phys_addr_t phys,
				       u64 length)
{
	u64 last = phys + length - 1;

	if (!translated && last > min_not_zero(dma_get_mask(dev), dev->bus_dma_limit)) {
		dev_dbg(dev, "cannot address %#llx: raise its DMA mask or use an IOMMU\n", last);
		return -EOPNOTSUPP;
	}
	return 0;
}

static void free_segments(struct peerdma_map *map)
{
	if (unlikely(map->segs != map->few))
		kvfree(map->segs);
}

/* -EAGAIN: there is no room; the next attempt has more. */
static int add_segment(struct peerdma_map *map, u64 addr, u64 length)
{
	if (unlikely(map->nsegs == map->segs_room)) {
		if (map->segs_room > U32_MAX / 2)
			return -ENOMEM;
		map->wants_segs = 2 * map->segs_room;
		return -EAGAIN;
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

/* Has the provider already said that the device reaches its memory? */
static bool vouched(const struct peerdma_pin *pin, struct device *dev)
{
	const struct peerdma_provider *p = pin->provider;

	return p->vouches && p->vouches(pin, dev);
}

static int find_path(const struct peerdma_map *map, phys_addr_t phys, u64 length,
		     struct peerdma_path *path)
{
	struct device *dev = map->pub.dev;

	/*
	 * A remembered path was not refused, so there is no refusal for the provider to
	 * override.
	 */
	if (likely(peerdma_path_known(phys, length, dev, path)))
		return 0;
	return peerdma_path_check(phys, length, dev, vouched(map->pub.pin, dev), path);
}

/*
 * Maps one physically contiguous run of a pin.  Behind an IOMMU, and for system memory, the
 * device uses the address that the DMA API returns.  Otherwise it uses the bus address,
 * which differs from the CPU physical address if a host bridge has an offset.
 */
static int map_run(struct peerdma_map *map, phys_addr_t phys, u64 length)
{
	struct device *dev = map->pub.dev;
	struct peerdma_path path;
	dma_addr_t dma;
	bool bus;
	int err;

	err = find_path(map, phys, length, &path);
	if (err)
		return err;
	bus = !path.translated && path.verdict != PEERDMA_PATH_MACHINE;
	/*
	 * One mapping has bus addresses only or DMA API addresses only: all segments are
	 * unmapped in the same way.
	 */
	if (map->nsegs && bus != map->bus)
		return -EOPNOTSUPP;
	map->bus = bus;
	err = check_reach(dev, path.translated, phys + path.offset, length);
	if (err)
		return err;
	if (bus)
		return add_segment(map, phys + path.offset, length);

	dma = dma_map_resource(dev, phys, length, map->pub.dir, PEERDMA_MAP_ATTRS);
	if (dma_mapping_error(dev, dma))
		return -ENOMEM;
	err = add_segment(map, dma, length);
	if (err)
		dma_unmap_resource(dev, dma, length, map->pub.dir, PEERDMA_MAP_ATTRS);
	return err;
}

static u32 count_runs(const struct peerdma_pin *pin, u64 offset, u64 end)
{
	phys_addr_t phys;
	u32 n;

	for (n = 0; offset < end; n++) {
		offset += peerdma_pin_run(pin, offset, end - offset, &phys);
		cond_resched();
	}
	return n;
}

/* Segments are not merged here, since each one is unmapped by itself. */
int peerdma_map_resource(struct peerdma_map *map)
{
	struct peerdma_pin *pin = map->pub.pin;
	u64 offset = map->offset, end = offset + map->length, n;
	phys_addr_t phys;
	int err;

	map->resource = true;
	for (;;) {
		n = peerdma_pin_run(pin, offset, end - offset, &phys);
		err = map_run(map, phys, n);
		if (unlikely(err == -EAGAIN))
			map->wants_segs = map->nsegs + count_runs(pin, offset, end);
		if (err) {
			peerdma_unmap_resource(map);
			return err;
		}
		offset += n;
		if (offset >= end)
			return 0;
		cond_resched();
	}
}
EXPORT_SYMBOL_GPL(peerdma_map_resource);

void peerdma_unmap_resource(struct peerdma_map *map)
{
	u32 i;

	for (i = 0; i < map->nsegs && !map->bus; i++)
		peerdma_unmap_segment(map, &map->segs[i]);
	map->nsegs = 0;
}
EXPORT_SYMBOL_GPL(peerdma_unmap_resource);

/* Length of a segment's next piece. */
static u32 piece(u64 length, u32 most)
{
	return min_t(u64, length, most);
}

/* The longest piece that the device can take, in whole pages. */
static u32 piece_max(struct device *dev)
{
	return max_t(u32, PAGE_SIZE, PAGE_ALIGN_DOWN(min_t(u32, dma_get_max_seg_size(dev), SZ_2G)));
}

/* Does the table have so many entries?  -EAGAIN: the next attempt has another one. */
static int table_fits(struct peerdma_map *map, u64 count)
{
	if (count > INT_MAX)
		return -ENOMEM;
	map->wants_ents = count;
	return map->pub.sgt.orig_nents == count ? 0 : -EAGAIN;
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
	err = table_fits(map, count);
	if (err)
		return err;

	map->pub.sgt.nents = count;
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
	dma_unmap_sgtable(map->pub.dev, &map->pub.sgt, map->pub.dir, PEERDMA_MAP_ATTRS);
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
		cond_resched();
		err = check_reach(dev, peerdma_translated(dev), phys, n);
		if (err)
			return err;
		count += DIV_ROUND_UP_ULL(n, most);
	}
	err = table_fits(map, count);
	if (err)
		return err;
	sg = sgt->sgl;
	for (at = map->offset; at < end; at += n) {
		u64 done;

		n = peerdma_pin_run(pin, at, end - at, &phys);
		cond_resched();
		for (done = 0; done < n; done += part, sg = sg_next(sg)) {
			part = piece(n - done, most);
			sg_set_page(sg, pfn_to_page(PHYS_PFN(phys + done)), part, 0);
		}
	}

	err = dma_map_sgtable(dev, sgt, map->pub.dir, PEERDMA_MAP_ATTRS);
	if (err)
		return err;
	dma_sync_sgtable_for_device(dev, sgt, map->pub.dir);
	for_each_sgtable_dma_sg(sgt, sg, i) {
		/* With swiotlb=force and the like the device would use a bounce buffer. */
		err = !peerdma_translated(dev) && dma_need_sync(dev, sg_dma_address(sg)) ?
		      -EOPNOTSUPP : peerdma_map_add(map, sg_dma_address(sg), sg_dma_len(sg));
		if (err)
			goto unmap;
	}
	return 0;

unmap:
	unmap_pages(map);
	map->nsegs = 0;
	return err;
}

static int map_device(struct peerdma_map *map)
{
	struct peerdma_provider *p = map->pub.pin->provider;
	int err;

	if (p->host)
		return map_pages(map);

	err = p->dma_map ? p->dma_map(map) : peerdma_map_resource(map);
	if (err || map->object.ops->runs_only)
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

static bool take_down(struct peerdma_map *map, bool reserve)
{
	lockdep_assert_held(&map->object.pin->lock);
	if (!map->live)
		return false;
	map->live = false;
	trace_peerdma_unmap(map->object.pin, map);
	if (!reserve || !peerdma_reserve(map))
		unmap_device(map);
	if (!map->bus)
		peerdma_object_stale(&map->object, map->pub.dev);
	atomic64_inc(&peerdma_stats.unmaps);
	return true;
}

bool peerdma_map_down(struct peerdma_map *map)
{
	return take_down(map, true);
}

bool peerdma_map_let_go(struct peerdma_map *map)
{
	if (map->reserved) {
		peerdma_unreserve(map);
		peerdma_object_stale(&map->object, map->pub.dev);
	}
	return take_down(map, false);
}

static void map_let_go(struct peerdma_object *object)
{
	peerdma_map_let_go(container_of(object, struct peerdma_map, object));
}

static void map_down(struct peerdma_object *object)
{
	/* The owner of a pin that ends has the mappings, too, and lets go of them. */
	if (object->pin->state >= PIN_ENDING)
		map_let_go(object);
	else
		peerdma_map_down(container_of(object, struct peerdma_map, object));
}

/* NULL: there is none in the room. */
static struct peerdma_map *take_map(struct peerdma_pin *pin, struct peerdma_room *room)
{
	struct peerdma_map *map = room->map;

	lockdep_assert_held(&pin->lock);
	/* Acquire: the thread that gave it back does not use it any more. */
	if (unlikely(smp_load_acquire(&pin->map_taken))) {
		room->map = NULL;
		return map;
	}
	pin->map_taken = true;
	memset(&pin->map, 0, sizeof(pin->map));
	return &pin->map;
}

/* What is not taken stays in the room. */
static void take_room(struct peerdma_map *map, struct peerdma_room *room)
{
	map->segs = map->few;
	map->segs_room = ARRAY_SIZE(map->few);
	if (unlikely(room->segs)) {
		map->segs = room->segs;
		map->segs_room = room->nsegs;
		room->segs = NULL;
		room->nsegs = 0;
	}
	map->pub.sgt = room->sgt;
	memset(&room->sgt, 0, sizeof(room->sgt));
}

void peerdma_map_return_room(struct peerdma_map *map, struct peerdma_room *room)
{
	lockdep_assert_held(&map->pub.pin->lock);
	if (map->segs != map->few && !room->segs) {
		room->segs = map->segs;
		room->nsegs = map->segs_room;
		map->segs = map->few;
		map->nsegs = 0;
	}
	if (!room->sgt.sgl) {
		room->sgt = map->pub.sgt;
		memset(&map->pub.sgt, 0, sizeof(map->pub.sgt));
	}
}

static void give_map(struct peerdma_map *map)
{
	struct peerdma_pin *pin = map->pub.pin;

	put_device(map->pub.dev);
	if (likely(map == &pin->map))
		/* From here on another mapping may use it. */
		smp_store_release(&pin->map_taken, false);
	else
		kfree(map);
}

void peerdma_map_free(struct peerdma_object *object)
{
	struct peerdma_map *map = container_of(object, struct peerdma_map, object);

	if (map->pub.sgt.sgl)
		sg_free_table(&map->pub.sgt);
	free_segments(map);
	give_map(map);
}

const struct peerdma_object_ops peerdma_map_ops = {
	.charge = CHARGE_MAPPINGS,
	.down = map_down,
	.let_go = map_let_go,
	.free = peerdma_map_free,
};

const struct peerdma_object_ops peerdma_runs_ops = {
	.charge = CHARGE_MAPPINGS,
	.runs_only = true,
	.down = map_down,
	.let_go = map_let_go,
	.free = peerdma_map_free,
};

static int check(const struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir,
		 u64 offset, u64 length)
{
	if (!valid_dma_direction(dir) || !length || offset + length > pin->pinned_length)
		return -EINVAL;
	if (pin->flags & PEERDMA_PIN_READONLY && dir != DMA_TO_DEVICE)
		return -EPERM;
	if (!dev->dma_mask)
		return -EOPNOTSUPP;
	return likely(pin->state == PIN_LIVE) ? 0 : peerdma_pin_usable(pin);
}

int peerdma_map_reach(struct peerdma_pin *pin, struct device *dev, bool importer)
{
	struct peerdma_provider *p;
	int err;

	/* The pin may end meanwhile, but its provider's module must stay. */
	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	p = pin->provider;
	/* A LIVE pin has a hold, so another one cannot fail. */
	if (!err)
		WARN_ON(!peerdma_provider_hold(p));
	mutex_unlock(&pin->lock);
	if (err)
		return err;
	if (p->reach) {
		err = peerdma_group_enter_killable(&p->group_lock, GROUP_GET);
		if (!err) {
			err = p->reach(pin, dev, importer);
			peerdma_group_leave(&p->group_lock);
		}
	}
	peerdma_provider_let_go(p);
	return err;
}

int peerdma_map_attach(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir,
		       struct peerdma_room *room)
{
	int err;

	if (likely(!pin->import) || room->import)
		return 0;
	err = peerdma_map_reach(pin, dev, false);
	return err ?: pin->import->attach(pin, dev, dir, room);
}

bool peerdma_map_attach_maps(struct peerdma_pin *pin)
{
	return pin->import && pin->import->attach_maps(pin);
}

int peerdma_map_prepare(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir,
			struct peerdma_room *room)
{
	return peerdma_room_make(room) ?: peerdma_map_attach(pin, dev, dir, room);
}

int peerdma_maps_lock_for(struct peerdma_pin *pin, struct device *dev, struct peerdma_room *room)
{
	int err;

	/* The provider of imports has no `reach'. */
	if (unlikely(pin->import))
		return peerdma_maps_lock(pin, room);
	peerdma_maps_lock(pin, room);
	if (likely(pin->state == PIN_LIVE && (!pin->provider->reach || vouched(pin, dev))))
		return 0;
	peerdma_maps_unlock(pin);
	err = peerdma_map_reach(pin, dev, false);
	return err ?: peerdma_maps_lock(pin, room);
}

/*
 * The first run decides: the pin's whole memory is in one BAR, or the provider maps it and
 * was asked by `reach'.
 */
int peerdma_map_path(struct peerdma_pin *pin, struct device *dev)
{
	const struct peerdma_provider *p = pin->provider;
	struct peerdma_path path;
	phys_addr_t phys;
	u64 n;

	lockdep_assert_held(&pin->lock);
	if (p->host || !p->page || (p->memory && p->memory(pin) != MEMORY_BAR))
		return 0;
	n = peerdma_pin_run(pin, 0, pin->pinned_length, &phys);
	return peerdma_path_check(phys, n, dev, vouched(pin, dev), &path);
}

void peerdma_map_want(struct peerdma_pin *pin, struct device *dev, u64 offset, u64 length,
		      struct peerdma_room *room)
{
	u64 end = offset + length, ents = 0, n;
	u32 most = piece_max(dev), runs = 0;
	phys_addr_t phys;

	mutex_lock(&pin->lock);
	if (pin->state == PIN_LIVE && pin->provider->page && end <= pin->pinned_length) {
		for (; offset < end; offset += n, runs++) {
			n = peerdma_pin_run(pin, offset, end - offset, &phys);
			ents += DIV_ROUND_UP_ULL(n, most);
			cond_resched();
		}
	}
	mutex_unlock(&pin->lock);
	/* An import's is known when it is mapped.  Nearly always it is one. */
	room->wants_ents = clamp_t(u64, ents, 1, INT_MAX);
	room->wants_segs = runs > ARRAY_SIZE(pin->map.few) ? runs : 0;
}

/* The room was too small.  -EAGAIN, or: it is so however often it is tried (room.h). */
static int try_again(const struct peerdma_pin *pin, struct device *dev, struct peerdma_room *room)
{
	if (++room->attempts < PEERDMA_ROOM_ATTEMPTS)
		return -EAGAIN;
	dev_warn_ratelimited(dev, "peerdma: pin %u is not mapped: the driver of its memory (%s) returns other segments each time\n",
			     pin->id, pin->provider->name);
	room->attempts = 0;
	return -EOPNOTSUPP;
}

struct peerdma_map *peerdma_map_create(struct peerdma_pin *pin, struct device *dev,
				       enum dma_data_direction dir, u64 offset, u64 length,
				       const struct peerdma_object_ops *ops,
				       struct peerdma_room *room)
{
	struct peerdma_map *map;
	int err;

	lockdep_assert_held(&pin->lock);
	err = check(pin, dev, dir, offset, length);
	if (err)
		return ERR_PTR(err);
	map = take_map(pin, room);
	if (!map) {
		room->wants_map = true;
		return ERR_PTR(try_again(pin, dev, room));
	}
	map->pub.pin = pin;
	map->pub.dev = get_device(dev);
	map->pub.dir = dir;
	map->offset = offset;
	map->length = length;
	take_room(map, room);
	/*
	 * Entered in the list first, so that a mapping that fails half-way is flushed as
	 * any other.
	 */
	err = peerdma_object_enter(&map->object, pin, ops, room->account);
	if (err) {
		peerdma_map_return_room(map, room);
		peerdma_map_free(&map->object);
		return ERR_PTR(err);
	}
	err = map_device(map);
	if (err) {
		room->wants_segs = max(room->wants_segs, map->wants_segs);
		room->wants_ents = map->wants_ents ?: room->wants_ents;
		peerdma_map_return_room(map, room);
		peerdma_object_stale(&map->object, dev);
		peerdma_object_end(&map->object);
		return ERR_PTR(err == -EAGAIN ? try_again(pin, dev, room) : err);
	}
	room->attempts = 0;
	map->live = true;
	atomic64_inc(&peerdma_stats.maps);
	trace_peerdma_map(pin, map);
	return map;
}

struct peerdma_map *peerdma_map_make(struct peerdma_pin *pin, struct device *dev,
				     enum dma_data_direction dir,
				     const struct peerdma_object_ops *ops)
{
	struct peerdma_room room = {};
	struct peerdma_map *map;
	int err;

	if (!ops->runs_only)
		peerdma_map_want(pin, dev, 0, pin->pinned_length, &room);
	do {
		err = peerdma_map_prepare(pin, dev, dir, &room) ?:
		      peerdma_maps_lock_for(pin, dev, &room);
		if (err) {
			map = ERR_PTR(err);
			break;
		}
		map = peerdma_map_create(pin, dev, dir, 0, pin->pinned_length, ops, &room);
		peerdma_maps_unlock(pin);
	} while (map == ERR_PTR(-EAGAIN));
	peerdma_room_free(&room);
	return map;
}
