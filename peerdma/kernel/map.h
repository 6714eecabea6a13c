/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* map.h - a pin made usable for one device: for user space, a driver or a dma-buf importer. */
#ifndef PEERDMA_MAP_H
#define PEERDMA_MAP_H

#include "pin.h"

struct attached;

struct peerdma_map {
	struct peerdma_mapping pub;	/* first: what a driver sees */
	struct peerdma_made made;
	u64 offset;			/* of the range in the pin */
	u64 length;
	struct peerdma_segment *segs;
	u32 nsegs;
	u32 segs_room;
	u32 handle;			/* file.c: in file->maps, or 0 */
	bool live;			/* pin->lock: the device's addresses are valid */
	bool bus;			/* they are bus addresses, of which no IOMMU knows */
	bool lent;			/* pin->lock: export.c: an importer that is to let go has it */
	bool late;			/* pin->lock: export.c: and has not done so in time */
	struct attached *attached;	/* export.c */
	void *priv;			/* the provider's */
};

/* Of drivers and programs.  An export's mappings have others. */
extern const struct peerdma_made_ops peerdma_map_ops;
/* The same without an sg_table, which costs an entry for each piece that the device takes. */
extern const struct peerdma_made_ops peerdma_runs_ops;

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
