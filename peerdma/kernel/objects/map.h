/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* map.h - a pin made usable for one device: for user space, a driver or a dma-buf importer. */
#ifndef PEERDMA_MAP_H
#define PEERDMA_MAP_H

#include "core/pin.h"
#include "room.h"

/* For mappings of drivers and programs.  Mappings of an export's importers have their own. */
extern const struct peerdma_object_ops peerdma_map_ops;
/* The same without an sg_table, which needs an entry for each piece that the device can take. */
extern const struct peerdma_object_ops peerdma_runs_ops;

/*
 * All that a mapping needs and that may wait for the user, for memory or for the exporter of
 * an imported dma-buf: no lock held.  0, -ENOMEM, or why the pin cannot be mapped.  Undone
 * by peerdma_room_free().
 */
int peerdma_map_prepare(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir,
			struct peerdma_room *room);
/* Its last part: attaches to an imported dma-buf, unless the room has an attachment. */
int peerdma_map_attach(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir,
		       struct peerdma_room *room);
/* Is the memory mapped for the device as soon as that has been called? */
bool peerdma_map_attach_maps(struct peerdma_pin *pin);
/*
 * peerdma_map_reach() and peerdma_maps_lock().  If the provider has already said that the
 * device reaches its memory, it is not asked again.
 */
int peerdma_maps_lock_for(struct peerdma_pin *pin, struct device *dev, struct peerdma_room *room);

/*
 * Maps [offset, offset + length) of the pin for dev. peerdma_maps_lock() held.  Undone by
 * peerdma_object_end().  ERR_PTR: as peerdma_map() of peerdma_kapi.h, -EDQUOT, and -EAGAIN:
 * nothing was done, and the room is to be made larger first (room.h).
 */
struct peerdma_map *peerdma_map_create(struct peerdma_pin *pin, struct device *dev,
				       enum dma_data_direction dir, u64 offset, u64 length,
				       const struct peerdma_object_ops *ops,
				       struct peerdma_room *room);
/*
 * Says in the room what a mapping with an sg_table will take, as far as that is known before.
 * No lock held.
 */
void peerdma_map_want(struct peerdma_pin *pin, struct device *dev, u64 offset, u64 length,
		      struct peerdma_room *room);
/* Moves the memory of a mapping that is down to an empty room. pin->lock held. */
void peerdma_map_return_room(struct peerdma_map *map, struct peerdma_room *room);
/* All of it, for the whole pin: room, locks, mapping.  No lock held. */
struct peerdma_map *peerdma_map_make(struct peerdma_pin *pin, struct device *dev,
				     enum dma_data_direction dir,
				     const struct peerdma_object_ops *ops);
/*
 * To be called before peerdma_map_create(). reach, with no lock held: would the provider
 * map the pin for the device? path, with pin->lock held: is there a path between the memory
 * and the device? Both return 0, -EOPNOTSUPP, or what peerdma_pin_usable() returns.
 */
int peerdma_map_reach(struct peerdma_pin *pin, struct device *dev, bool importer);
int peerdma_map_path(struct peerdma_pin *pin, struct device *dev);

/*
 * The same memory may be mapped several times for one device.  The DMA API allows that if
 * it does not sync CPU caches: device memory is in none, and host memory is synced
 * explicitly where a mapping begins and ends.
 */
#define PEERDMA_MAP_ATTRS	DMA_ATTR_SKIP_CPU_SYNC

/* reserve.c: unmaps one segment of peerdma_map_resource(). */
void peerdma_unmap_segment(struct peerdma_map *map, const struct peerdma_segment *seg);

/*
 * Both unmap, without the flush, and return false if it was unmapped already. pin->lock
 * held. down: behind an IOMMU, the device gets these addresses for nothing else until
 * let_go: the owner of the mapping, or the device's driver, uses them no more.
 */
bool peerdma_map_down(struct peerdma_map *map);
bool peerdma_map_let_go(struct peerdma_map *map);
void peerdma_map_free(struct peerdma_object *object);

/* Returns the mapping that this object is, or NULL if it is another kind. */
static inline struct peerdma_map *peerdma_map_of(struct peerdma_object *object)
{
	return object->ops->charge == CHARGE_MAPPINGS ?
	       container_of(object, struct peerdma_map, object) : NULL;
}

#endif
