/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * mover.h - declarations shared by the files of dmabuf_mover.ko.
 *
 * A place is a set of pages that holds a buffer's bytes; importers' mappings keep it.  A
 * move takes another place.  The old one is left alone until its last mapping is gone.
 * Then it is filled with a pattern and set aside, and the pattern is checked before the
 * place is freed: if it has changed, an importer wrote to memory that it had unmapped.
 *
 * Locks: the dma-buf's reservation lock guards all fields of a buffer except those marked
 * fixed.  Importers are notified with it held.
 */
#ifndef MOVER_H
#define MOVER_H

#include <linux/dma-buf.h>
#include <linux/list.h>
#include <linux/scatterlist.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

/* Steps of an importer at which an action can be ordered. */
enum mover_step {
	STEP_ATTACH,
	STEP_PIN,
	STEP_MAP,
	STEP_UNMAP,
	STEP_DETACH,
	STEP_MMAP,
	STEP_VMAP,
	STEP_BEGIN,
	STEP_END,
	STEPS
};
extern const char *const mover_step_names[STEPS];

enum mover_action {
	ACTION_NONE,
	ACTION_MOVE,
	ACTION_REVOKE,
};

struct place {
	struct page **pages;
	u32 npages;
	u32 maps;			/* number of importers' mappings */
	bool retired;			/* it must not be mapped any more */
	struct list_head node;		/* buffer->old */
};

struct buffer {
	/* fixed */
	u32 number;
	u32 npages;
	struct dma_buf *dmabuf;		/* its release frees the buffer */
	struct inode *inode;		/* dma-buf's, with a reference: finds CPU mappings */
	struct dentry *debugfs;

	struct place *now;		/* NULL: revoked */
	struct list_head old;		/* places that are still mapped */
	struct place *aside;		/* the last place that all importers have unmapped */
	struct list_head mappings;
	bool viewed;			/* mapped by vmap */

	u32 delay_ms;
	u32 lacking;			/* number of pages missing at the end of mappings */
	u32 timeout_ms;
	u32 vfio;			/* 1: accepts only importers that VFIO's exporter accepts */
	struct {
		u32 count;
		int err;
	} refuse[STEPS];
	enum mover_action at[STEPS], after[STEPS];
	enum mover_action due;		/* to be done by `work' */
	struct work_struct work;
	struct delayed_work late_work;	/* names late importers in the log */
	wait_queue_head_t let_go;

	u64 moves, revokes, busy, maps, unmaps, late, stale;
};

/* A mapping of an importer. */
struct mapping {
	struct sg_table table;
	struct list_head node;		/* buffer->mappings */
	struct dma_buf_attachment *attach;
	struct device *dev;
	enum dma_data_direction dir;
	struct place *place;
	u32 npages;			/* mapped pages, from the place's first on */
	bool named;			/* as late, in the log */
};

/* place.c */
struct place *place_create(u32 npages);
void place_free(struct place *p);
void place_copy(struct place *to, const struct place *from);
void place_poison(struct place *p);
/* Is the pattern unchanged? */
bool place_intact(const struct place *p);
/* Maps m->place for m->dev. */
int place_map(struct mapping *m);
void place_unmap(struct mapping *m);

/* buffer.c */
int buffer_create(u64 length, struct buffer **out);
/*
 * Reservation lock held.  Notifies importers.  An importer that keeps a mapping also keeps
 * the place that is mapped, which is in buffer->old from then on.
 *
 * -EBUSY: an importer cannot unmap: it is static, or has a vmap, or (move) has pinned.
 * -ENODEV: revoked already.
 */
int buffer_act(struct buffer *b, enum mover_action action);
/*
 * Reservation lock not held.  Waits until all importers have unmapped; -ETIMEDOUT: some
 * have not, and the log names them.
 */
int buffer_wait(struct buffer *b);

/* control.c */
void control_init(void);
void control_exit(void);
/* The buffer removes the file when it ends. */
void control_add(struct buffer *b);

#endif
