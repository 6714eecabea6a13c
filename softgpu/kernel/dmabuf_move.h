/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * dmabuf_move.h - between what makes a dma-buf that can be moved (dmabuf_dynamic.c)
 * and what moves it (dmabuf_move.c).
 */
#ifndef SOFTGPU_DMABUF_MOVE_H
#define SOFTGPU_DMABUF_MOVE_H

#include "dmabuf.h"

/* Under the reservation lock, where nothing else is said. */
struct moving {
	struct list_head node;		/* exports_lock */
	u64 number;
	struct dma_buf *dmabuf;
	struct sg_keep keep;
	bool in_bar;			/* the GPU's VRAM is in a BAR, without struct pages: since the export was made */
	bool has_place;			/* pieces[0] is a live pin, and pages[] are known */
	bool giving_up;			/* export->lock: that pin is ended by us */
	bool viewed;			/* by the kernel: nobody can be told to stop looking */
	u32 users;			/* maps and pins of importers, and the kernel's view */
	u32 due;			/* mappings whose importers were told, and have not let go since */
	u32 late;			/* of those, who took too long and was named */
	u32 commands;			/* moves on command under way; exports_lock to change it */
	u64 moves, evictions, busy;
};

/* Of one importer: dma_buf_attachment.priv. */
struct attached {
	u32 pins;
	u32 maps;
};

/* A place, while it has users; and without one, where nobody uses it. */
int softgpu_place_take(struct export *x);
void softgpu_place_give_up(struct export *x);
int softgpu_place_user_get(struct export *x);
void softgpu_place_user_put(struct export *x);

/* At once, or -EBUSY: somebody keeps it where it is. */
int softgpu_export_move(struct export *x, enum sg_place to);
/* Before an importer's mapping is unmapped. */
void softgpu_export_let_go(struct export *x, struct sg_table *table);

/* From then on, and until then, it is moved on command; a command under way ends first. */
void softgpu_moving_begin(struct moving *mv);
void softgpu_moving_end(struct moving *mv);

#endif
