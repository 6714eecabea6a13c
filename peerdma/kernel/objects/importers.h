/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * importers.h - an exported dma-buf and its importers: export.c gives them mappings,
 * importers.c gets these back.
 */
#ifndef PEERDMA_IMPORTERS_H
#define PEERDMA_IMPORTERS_H

#include <linux/dma-resv.h>
#include <linux/workqueue.h>

#include "map.h"

struct dma_buf;

struct peerdma_export {
	struct peerdma_object object;
	u64 offset;
	struct dma_resv resv;		/* outlives the dma_buf, so that revoking may lock it */
	struct dma_buf *dmabuf;		/* resv; NULL once it is being released */
	bool notified;			/* importers were asked to unmap; no lock: ending thread */
	unsigned long deadline;		/* jiffies: by when importers must have unmapped */
	u32 outstanding;		/* pin->lock to write: maps with `outstanding' set */
	bool mapped;			/* pin->lock: it was mapped at least once */
	bool untranslated;		/* pin->lock: ... for a device without IOMMU translation */
};

/* One attachment.  Fields without a comment are guarded by resv. */
struct attached {
	struct peerdma_export *ex;
	u32 pins;
	u32 maps;
	bool hold;			/* pin->lock: counts in pin->holds, until detached */
	bool unmapped;			/* pin->lock: `hold' is for dma_buf_pin(), not a mapping */
	struct peerdma_room room;	/* of the next mapping */
};

/* The time that importers have, in jiffies, and how much of it is left for this export. */
unsigned long peerdma_importers_timeout(void);
static inline unsigned long peerdma_export_left(const struct peerdma_export *ex)
{
	unsigned long now = jiffies;

	return time_after(ex->deadline, now) ? ex->deadline - now : 0;
}

/*
 * Both unmap for an importer, if not done yet. object.c flushes. pin->lock held. down: the
 * importer has not unmapped, so its addresses stay reserved until let_go.
 */
void peerdma_importer_down(struct peerdma_map *map);
void peerdma_importer_let_go(struct peerdma_map *map);
/*
 * Waits until the importers of this export have unmapped.  Importers that are late are
 * named in the log; then, with `taken', it waits until none of them can reach the memory,
 * and without, they keep it until they detach.  No lock held.
 */
void peerdma_importers_wait(struct peerdma_export *ex, bool taken);

/* Names late importers in the log while this thread waits for something else. */
struct peerdma_overdue {
	struct delayed_work work;
	struct peerdma_export *ex;
};
void peerdma_overdue_begin(struct peerdma_overdue *o, struct peerdma_export *ex);
void peerdma_overdue_end(struct peerdma_overdue *o);

#endif
