/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * mover.h - between the files of dmabuf_mover.ko.
 *
 * A buffer's bytes are in a place: pages, which importers' mappings keep.  To
 * move is to take another place; the old one is left alone until the last
 * mapping of it has gone.  Then it is filled with a pattern and set aside, and
 * is looked at before it is freed: who still wrote to it had not let go.
 *
 * Locks: the dma-buf's reservation lock guards all of a buffer but what is said
 * to be fixed.  Importers are told under it.
 */
#ifndef MOVER_H
#define MOVER_H

#include <linux/dma-buf.h>
#include <linux/list.h>
#include <linux/scatterlist.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

/* Where an importer is when something is to happen. */
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
	u32 maps;			/* of importers */
	bool retired;			/* nobody may map it any more */
	struct list_head node;		/* buffer->old */
};

struct buffer {
	/* fixed */
	u32 number;
	u32 npages;
	struct dma_buf *dmabuf;		/* whose release ends all of this */
	struct inode *inode;		/* its, with a reference: views are found by it, also while it is released */
	struct dentry *debugfs;

	struct place *now;		/* NULL: revoked */
	struct list_head old;		/* places that are still mapped */
	struct place *aside;		/* the one that was let go of last */
	struct list_head mappings;
	bool viewed;			/* by the kernel: vmap */

	u32 delay_ms;
	u32 lacking;			/* pages at its end that mappings do not have */
	u32 timeout_ms;
	u32 vfio;			/* not 0: who may attach is as with VFIO's exporter */
	struct {
		u32 count;
		int err;
	} refuse[STEPS];
	enum mover_action at[STEPS], after[STEPS];
	enum mover_action due;		/* what the work is to do */
	struct work_struct work;
	struct delayed_work late_work;	/* looks for those who do not let go */
	wait_queue_head_t let_go;

	u64 moves, revokes, busy, maps, unmaps, late, stale;
};

/* What an importer was given. */
struct mapping {
	struct sg_table table;
	struct list_head node;		/* buffer->mappings */
	struct dma_buf_attachment *attach;
	struct device *dev;
	enum dma_data_direction dir;
	struct place *place;
	u32 npages;			/* of the place, from its first on */
	bool named;			/* as one who is late */
};

/* place.c */
struct place *place_create(u32 npages);
void place_free(struct place *p);
void place_copy(struct place *to, const struct place *from);
void place_poison(struct place *p);
/* Is the pattern still there? */
bool place_intact(const struct place *p);
/* m->place as m->dev sees it. */
int place_map(struct mapping *m);
void place_unmap(struct mapping *m);

/* buffer.c */
int buffer_create(u64 length, struct buffer **out);
/*
 * Locked.  Importers are told.  Who keeps a mapping all the same keeps the place
 * that it is of, which is in buffer->old from then on.
 *
 * -EBUSY: an importer cannot let go.  It is static, or looks by vmap, or (move) has pinned.
 * -ENODEV: revoked already.
 */
int buffer_act(struct buffer *b, enum mover_action action);
/* Not locked.  Until all have let go, or -ETIMEDOUT, and the log names those who have not. */
int buffer_wait(struct buffer *b);

/* control.c */
void control_init(void);
void control_exit(void);
void control_add(struct buffer *b);
/* Waits for those who are in it. */
void control_remove(struct buffer *b);

#endif
