/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* importers.h - an exported dma-buf, and those that import it: export.c lends, importers.c gets it back. */
#ifndef PEERDMA_IMPORTERS_H
#define PEERDMA_IMPORTERS_H

#include <linux/dma-resv.h>
#include <linux/workqueue.h>

#include "map.h"

struct dma_buf;

struct peerdma_export {
	struct peerdma_made made;
	u64 offset;
	struct dma_resv resv;		/* outlives the dma_buf, so that revoking may lock it */
	struct dma_buf *dmabuf;		/* resv; NULL once it is being released */
	bool told;			/* importers know that it is over; of the thread that ends the pin */
	unsigned long deadline;		/* jiffies: when they must have let go */
	u32 lent;			/* pin->lock: maps of importers that are to let go; also read without it */
	bool mapped;			/* pin->lock: a device had it mapped, once */
	bool untranslated;		/* pin->lock: a device had it mapped that no IOMMU translates for */
};

/* What one attachment has: resv. */
struct attached {
	struct peerdma_export *ex;
	u32 pins;
	u32 maps;
	bool hold;			/* pin->lock: counts in pin->holds, until it is detached */
	bool unmapped;			/* pin->lock: only for dma_buf_pin(), nothing is mapped that insists */
};

/* How long importers may take, in jiffies; and what of that is left to those of this export. */
unsigned long peerdma_importers_timeout(void);
static inline unsigned long peerdma_export_left(const struct peerdma_export *ex)
{
	unsigned long now = jiffies;

	return time_after(ex->deadline, now) ? ex->deadline - now : 0;
}

/* Takes an importer's addresses away, if they were not; the flush is made.c's.  pin->lock held. */
void peerdma_importer_down(struct peerdma_map *map);
/*
 * Until the importers of this export have let go; or are late, and named, and the memory
 * is safe from them (taken) or theirs until they detach (not taken).  No lock held.
 */
void peerdma_importers_wait(struct peerdma_export *ex, bool taken);

/* Names those that take longer than they may while something else is waited for. */
struct peerdma_overdue {
	struct delayed_work work;
	struct peerdma_export *ex;
};
void peerdma_overdue_begin(struct peerdma_overdue *o, struct peerdma_export *ex);
void peerdma_overdue_end(struct peerdma_overdue *o);

#endif
