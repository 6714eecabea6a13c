// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf_move.c - pins and moves a dma-buf that can be moved.
 *
 * A move notifies importers.  It fails if an importer has pinned the memory or keeps a
 * mapping, or if the kernel has it mapped by vmap.  The old memory is not reused as long as
 * it is mapped.
 *
 * Since Linux 7.1 an importer that is notified promises to unmap soon, perhaps only after
 * its callback has returned.  A move on command gives importers a limited time for that,
 * and names late ones in the log.  A move for another importer, or for a CPU that is about
 * to read, does not wait: it is made under the reservation lock, which importers need to
 * unmap.
 *
 * Locks: exports_lock is held for no other lock: all users' dma-bufs are begun and ended
 * under it, and one user's reservation lock may be held for seconds.  Neither is held while
 * waiting for importers, since unmapping may end another dma-buf.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/wait.h>
#include "compat.h"
#include "dmabuf_move.h"
#include "softgpu.h"

static unsigned int dmabuf_timeout_ms = 10000;
module_param(dmabuf_timeout_ms, uint, 0644);
MODULE_PARM_DESC(dmabuf_timeout_ms, "Milliseconds within which importers, since Linux 7.1, must release a dma-buf that is moved on command (default 10000)");

static LIST_HEAD(exports);
static DEFINE_MUTEX(exports_lock);
static u64 last_number;

/* Threads that wait for importers to unmap or for a command to end: rare, so one queue for all. */
static DECLARE_WAIT_QUEUE_HEAD(changed);

/* ---- pinning: an export "has a place" ---- */

static void place_unmap(struct sg_pin *pin)
{
	struct export *x = container_of(pin, struct piece, pin)->export;
	bool removed;

	mutex_lock(&x->lock);
	removed = !x->moving->giving_up;
	mutex_unlock(&x->lock);
	if (removed)
		softgpu_export_gone(x);
}

static void place_free(struct sg_pin *pin)
{
}

static const struct sg_pin_ops place_ops = {
	.unmap = place_unmap,
	.free = place_free,
};

int softgpu_place_take(struct export *x)
{
	struct moving *mv = x->moving;
	struct piece *piece = &x->pieces[0];
	int err;

	if (mv->has_place)
		return 0;
	memset(&piece->pin, 0, sizeof(piece->pin));
	piece->export = x;
	mutex_lock(&x->lock);
	mv->giving_up = false;
	err = sg_movable_pin(&mv->vram, &piece->pin, &place_ops);
	if (!err) {
		/* While x->lock keeps place_unmap() waiting, the GPU cannot be gone. */
		x->on_pci = softgpu_pin_backing(&piece->pin)->pdev;
		sg_pin_pages(&piece->pin, x->pages, sizeof(*x->pages));
	}
	mutex_unlock(&x->lock);
	mv->has_place = !err;
	return err;
}

/* Nothing uses it; programs' mappings come back by a fault. */
void softgpu_place_give_up(struct export *x)
{
	struct moving *mv = x->moving;

	if (!mv->has_place)
		return;
	if (x->inode)
		unmap_mapping_range(x->inode->i_mapping, 0, 0, 1);
	mutex_lock(&x->lock);
	mv->giving_up = true;
	mutex_unlock(&x->lock);
	SG_WARN_ON(sg_pin_put(softgpu_sg, &x->pieces[0].pin, true));
	mv->has_place = false;
}

int softgpu_place_user_get(struct export *x)
{
	int err;

	dma_resv_assert_held(x->moving->dmabuf->resv);
	err = softgpu_place_take(x);
	if (!err)
		x->moving->users++;
	return err;
}

void softgpu_place_user_put(struct export *x)
{
	dma_resv_assert_held(x->moving->dmabuf->resv);
	if (!--x->moving->users)
		softgpu_place_give_up(x);
}

/* ---- moves ---- */

/* Must the memory stay for this importer? */
static bool insists(struct dma_buf_attachment *attach)
{
	const struct attached *a = attach->priv;

	if (!dma_buf_attach_revocable(attach))
		return a->pins || a->maps;
	return a->pins > (SOFTGPU_MAPS_PIN ? a->maps : 0);
}

/* Asks importers with mappings to unmap.  The list changes only under the reservation lock. */
static void tell(struct export *x)
{
	struct moving *mv = x->moving;
	struct mapping *m;

	list_for_each_entry(m, &x->mappings, node) {
		if (m->due)
			continue;
		m->due = true;
		m->told = jiffies;
		WRITE_ONCE(mv->due, mv->due + 1);
	}
	dma_buf_invalidate_mappings(mv->dmabuf);
}

void softgpu_export_let_go(struct export *x, struct sg_table *table)
{
	struct mapping *m = container_of(table, struct mapping, table);
	struct moving *mv = x->moving;

	dma_resv_assert_held(mv->dmabuf->resv);
	mv->late -= m->late;
	if (!m->due)
		return;
	WRITE_ONCE(mv->due, mv->due - 1);
	wake_up_all(&changed);
}

/*
 * Unpins, for a move.  -EBUSY: a user needs the memory to stay.  -EAGAIN: importers were
 * asked to unmap, and have not done so yet.
 */
static int clear_place(struct export *x)
{
	struct moving *mv = x->moving;
	struct dma_buf_attachment *attach;

	dma_resv_assert_held(mv->dmabuf->resv);
	if (mv->viewed)
		return -EBUSY;
	list_for_each_entry(attach, &mv->dmabuf->attachments, node)
		if (insists(attach))
			return -EBUSY;
	tell(x);
	if (dma_resv_wait_timeout(mv->dmabuf->resv, DMA_RESV_USAGE_BOOKKEEP, false, 10 * HZ) <= 0)
		return -EBUSY;
	/* An importer still has it mapped. */
	if (mv->users)
		return -EAGAIN;
	softgpu_place_give_up(x);
	return 0;
}

static int move_cleared(struct export *x, enum sg_place to)
{
	struct moving *mv = x->moving;
	int err = sg_movable_move(&mv->vram, to);

	if (!err && to == SG_IN_SYSTEM)
		mv->evictions++;
	else if (!err)
		mv->moves++;
	return err;
}

int softgpu_export_move(struct export *x, enum sg_place to)
{
	int err = clear_place(x);

	if (!err)
		err = move_cleared(x, to);
	return err == -EAGAIN ? -EBUSY : err;
}

/* ---- importers that promise to unmap ---- */

/* Names late importers, once for each mapping. */
static void name_late(struct export *x, u32 ms)
{
	struct moving *mv = x->moving;
	struct mapping *m;

	list_for_each_entry(m, &x->mappings, node) {
		if (!m->due || m->late || time_before(jiffies, m->told + msecs_to_jiffies(ms)))
			continue;
		m->late = true;
		mv->late++;
		pr_warn("%s (driver %s) has not released dma-buf %llu within %u ms\n",
			dev_name(m->dev), dev_driver_string(m->dev), mv->number, ms);
	}
}

/* Waits until all importers that were asked have unmapped; others may have mapped it anew. */
static int wait_told(struct moving *mv, unsigned long end)
{
	long ret;

	dma_resv_unlock(mv->dmabuf->resv);
	/* The wait may end at once, if the time is over. */
	ret = wait_event_killable_timeout(changed, !READ_ONCE(mv->due),
					  max((long)(end - jiffies), 0L));
	dma_resv_lock(mv->dmabuf->resv, NULL);
	return ret < 0 ? -EINTR : 0;
}

static int move_in_time(struct export *x, enum sg_place to)
{
	struct moving *mv = x->moving;
	u32 ms = READ_ONCE(dmabuf_timeout_ms);
	int err = clear_place(x);
	/* The time starts after importers were notified, so that they have all of it. */
	unsigned long end = jiffies + msecs_to_jiffies(ms);

	while (err == -EAGAIN && time_before(jiffies, end)) {
		err = wait_told(mv, end);
		if (!err)
			err = mv->due ? -EAGAIN : clear_place(x);
	}
	if (err == -EAGAIN) {
		name_late(x, ms);
		return -EBUSY;
	}
	return err ?: move_cleared(x, to);
}

/* ---- on command ---- */

/* The first dma-buf with this number or a higher one. */
static struct moving *command_begin(u64 number)
{
	struct moving *mv, *found = NULL;

	mutex_lock(&exports_lock);
	list_for_each_entry(mv, &exports, node) {
		if (mv->number < number)
			continue;
		mv->commands++;
		found = mv;
		break;
	}
	mutex_unlock(&exports_lock);
	return found;
}

static void command_end(struct moving *mv)
{
	mutex_lock(&exports_lock);
	/* Release: a thread that sees zero may free it. */
	smp_store_release(&mv->commands, mv->commands - 1);
	mutex_unlock(&exports_lock);
	wake_up_all(&changed);
}

int softgpu_dynamic_move(u64 number, enum sg_place to)
{
	/* The dma-buf's release waits for the command, so the dma-buf stays. */
	struct moving *mv = command_begin(number);
	struct export *x;
	int err;

	if (!mv)
		return -ENOENT;
	if (mv->number != number) {
		command_end(mv);
		return -ENOENT;
	}
	x = mv->dmabuf->priv;
	dma_resv_lock(mv->dmabuf->resv, NULL);
	err = SOFTGPU_IMPORTERS_PROMISE ? move_in_time(x, to) : softgpu_export_move(x, to);
	mv->busy += err == -EBUSY;
	dma_resv_unlock(mv->dmabuf->resv);
	command_end(mv);
	return err;
}

void softgpu_moving_begin(struct moving *mv)
{
	mutex_lock(&exports_lock);
	mv->number = ++last_number;
	list_add_tail(&mv->node, &exports);
	mutex_unlock(&exports_lock);
}

void softgpu_moving_end(struct moving *mv)
{
	mutex_lock(&exports_lock);
	list_del(&mv->node);
	mutex_unlock(&exports_lock);
	/* A short wait: it is not mapped any more. */
	wait_event(changed, !smp_load_acquire(&mv->commands));
}

void softgpu_dynamic_show(struct seq_file *m)
{
	struct moving *mv;
	u64 number = 0;

	seq_puts(m, "number\tlength\tusers\tplaced\tmoves\tbusy\tevictions\tlate\tin\n");
	while ((mv = command_begin(number))) {
		dma_resv_lock(mv->dmabuf->resv, NULL);
		seq_printf(m, "%llu\t%zu\t%u\t%u\t%llu\t%llu\t%llu\t%u\t%s\n", mv->number,
			   mv->dmabuf->size, mv->users, mv->has_place, mv->moves, mv->busy,
			   mv->evictions, mv->late,
			   sg_movable_place(&mv->vram) == SG_IN_SYSTEM ? "system" : "vram");
		dma_resv_unlock(mv->dmabuf->resv);
		number = mv->number + 1;
		command_end(mv);
	}
}
