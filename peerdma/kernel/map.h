/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* map.h - a pin made usable for one device: for user space, a driver or a dma-buf importer. */
#ifndef PEERDMA_MAP_H
#define PEERDMA_MAP_H

#include "pin.h"

/* Of drivers and programs.  An export's mappings have others. */
extern const struct peerdma_made_ops peerdma_map_ops;
/* The same without an sg_table, which costs an entry for each piece that the device takes. */
extern const struct peerdma_made_ops peerdma_runs_ops;

/*
 * peerdma_map_reach() and peerdma_maps_lock().  Where the provider has said before that the device reaches its memory,
 * it is not asked again.
 */
int peerdma_maps_lock_for(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir);

/*
 * For [offset, offset + length) of the pin, peerdma_maps_lock() held.  It ends by
 * peerdma_made_end().  ERR_PTR: as peerdma_map() of peerdma_kapi.h, and -EDQUOT.
 */
struct peerdma_map *peerdma_map_create(struct peerdma_pin *pin, struct device *dev,
				       enum dma_data_direction dir, u64 offset, u64 length,
				       const struct peerdma_made_ops *ops);
/*
 * Before that, and with no lock held: would the provider map it for the device?  And, with
 * pin->lock held, is there a path between the two?  0, -EOPNOTSUPP, or what
 * peerdma_pin_usable() says.
 */
int peerdma_map_reach(struct peerdma_pin *pin, struct device *dev, bool importer);
int peerdma_map_path(struct peerdma_pin *pin, struct device *dev);
/* Takes the device's addresses away, without the flush; false: they were.  pin->lock held. */
bool peerdma_map_down(struct peerdma_map *map);
void peerdma_map_free(struct peerdma_made *made);

/* This one of what was made is a mapping; else NULL. */
static inline struct peerdma_map *peerdma_map_of(struct peerdma_made *made)
{
	return made->ops->charge == CHARGE_MAPPINGS ? container_of(made, struct peerdma_map, made) : NULL;
}

#endif
