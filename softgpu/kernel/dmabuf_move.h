/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * dmabuf_move.h - declarations shared by dmabuf_dynamic.c, which exports dma-bufs that can
 * be moved, and dmabuf_move.c, which moves them.
 */
#ifndef SOFTGPU_DMABUF_MOVE_H
#define SOFTGPU_DMABUF_MOVE_H

#include "dmabuf.h"

/* Under the reservation lock, except as noted. */
struct moving {
	struct list_head node;		/* exports_lock */
	u64 number;
	struct dma_buf *dmabuf;
	struct sg_movable vram;
	bool in_bar;			/* fixed: VRAM is in a BAR, without struct pages */
	bool has_place;			/* pieces[0].pin is live and pages[] are valid */
	bool giving_up;			/* export->lock: we are putting that pin */
	bool viewed;			/* mapped by vmap, which cannot be taken back */
	u32 users;			/* importers' maps and pins, and a vmap */
	u32 due;			/* mappings whose importers were asked to unmap */
	u32 late;			/* of those: late ones, named in the log */
	u32 commands;			/* moves on command under way; written under exports_lock */
	u64 moves, evictions, busy;
};

/* One importer: dma_buf_attachment.priv. */
struct attached {
	u32 pins;
	u32 maps;
};

/*
 * take: pins the export, if not done yet. give_up: unpins it, if it has no users. user_get
 * and user_put: the same, counting users.
 */
int softgpu_place_take(struct export *x);
void softgpu_place_give_up(struct export *x);
int softgpu_place_user_get(struct export *x);
void softgpu_place_user_put(struct export *x);

/* Moves at once, or returns -EBUSY if a user keeps it where it is. */
int softgpu_export_move(struct export *x, enum sg_place to);
/* To be called before an importer's mapping is unmapped. */
void softgpu_export_let_go(struct export *x, struct sg_table *table);

/* Moves on command are possible between these two calls. end waits for a command under way. */
void softgpu_moving_begin(struct moving *mv);
void softgpu_moving_end(struct moving *mv);

#endif
