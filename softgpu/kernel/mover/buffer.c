// SPDX-License-Identifier: MIT OR GPL-2.0
/* buffer.c - the dma-buf and its operations, and what it does to importers. */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/dma-resv.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "../compat.h"
#include "../delay.h"
#include "mover.h"

const char *const mover_step_names[STEPS] = {
	"attach", "pin", "map", "unmap", "detach", "mmap", "vmap", "begin", "end",
};

/* One importer: dma_buf_attachment.priv, under the reservation lock. */
struct attached {
	u32 pins;
	u32 maps;
};

static void lock(struct buffer *b)
{
	dma_resv_lock(b->dmabuf->resv, NULL);
}

static void unlock(struct buffer *b)
{
	dma_resv_unlock(b->dmabuf->resv);
}

/* ---- places ---- */

/*
 * Keeps the last place that all importers have unmapped, poisoned; checks and frees the one
 * before.
 */
static void set_aside(struct buffer *b, struct place *p)
{
	if (b->aside) {
		if (!place_intact(b->aside)) {
			b->stale++;
			pr_warn("dmabuf_mover: buffer %u: memory was written after all importers had released it\n",
				b->number);
		}
		place_free(b->aside);
	}
	if (p)
		place_poison(p);
	b->aside = p;
}

static void retire(struct buffer *b, struct place *p)
{
	p->retired = true;
	if (!p->maps) {
		set_aside(b, p);
		return;
	}
	list_add(&p->node, &b->old);
	mod_delayed_work(system_percpu_wq, &b->late_work, msecs_to_jiffies(b->timeout_ms));
}

/* ---- what is done to importers ---- */

/* Has this importer pinned the memory? */
static bool keeps(const struct dma_buf_attachment *attach)
{
	const struct attached *a = attach->priv;

	return a->pins > (SOFTGPU_MAPS_PIN ? a->maps : 0);
}

static bool can_let_go(struct buffer *b, enum mover_action action)
{
	struct dma_buf_attachment *attach;
	const struct attached *a;

	/* A vmap cannot be taken back. */
	if (b->viewed)
		return false;
	list_for_each_entry(attach, &b->dmabuf->attachments, node) {
		a = attach->priv;
		if (!dma_buf_attach_revocable(attach) && (a->pins || a->maps))
			return false;
		if (action == ACTION_MOVE && keeps(attach))
			return false;
	}
	return true;
}

/* Notifies importers, and waits for work that they had queued on the memory. */
static void tell(struct buffer *b)
{
	dma_buf_invalidate_mappings(b->dmabuf);
	unmap_mapping_range(b->inode->i_mapping, 0, 0, 1);
	if (!dma_resv_wait_timeout(b->dmabuf->resv, DMA_RESV_USAGE_BOOKKEEP, false,
				   msecs_to_jiffies(b->timeout_ms))) {
		b->late++;
		pr_warn("dmabuf_mover: buffer %u: a fence was not signalled within %u ms\n",
			b->number, b->timeout_ms);
	}
}

int buffer_act(struct buffer *b, enum mover_action action)
{
	struct place *next = NULL, *old = b->now;

	dma_resv_assert_held(b->dmabuf->resv);
	if (!old)
		return -ENODEV;
	if (!can_let_go(b, action)) {
		b->busy++;
		return -EBUSY;
	}
	if (action == ACTION_MOVE) {
		next = place_create(b->npages);
		if (!next)
			return -ENOMEM;
		b->moves++;
	} else {
		b->revokes++;
	}
	/* From here on the old place is not mapped anew. */
	b->now = next;
	tell(b);
	if (next)
		place_copy(next, old);
	retire(b, old);
	return 0;
}

static void name_late(struct buffer *b)
{
	struct mapping *m;

	list_for_each_entry(m, &b->mappings, node) {
		if (!m->place->retired || m->named)
			continue;
		m->named = true;
		b->late++;
		pr_warn("dmabuf_mover: buffer %u: %s has not released it within %u ms (%s importer); its memory stays allocated\n",
			b->number, dev_name(m->dev), b->timeout_ms,
			m->attach->importer_ops ? "dynamic" : "static");
	}
}

int buffer_wait(struct buffer *b)
{
	if (wait_event_timeout(b->let_go, list_empty_careful(&b->old),
			       msecs_to_jiffies(b->timeout_ms)))
		return 0;
	lock(b);
	name_late(b);
	unlock(b);
	return -ETIMEDOUT;
}

static void late(struct work_struct *work)
{
	struct buffer *b = container_of(to_delayed_work(work), struct buffer, late_work);

	lock(b);
	name_late(b);
	unlock(b);
}

static void act_later(struct work_struct *work)
{
	struct buffer *b = container_of(work, struct buffer, work);
	enum mover_action action;

	lock(b);
	action = b->due;
	b->due = ACTION_NONE;
	if (action)
		buffer_act(b, action);
	unlock(b);
}

/* An importer is at this step: does what was ordered for it. */
static int step(struct buffer *b, enum mover_step s)
{
	enum mover_action at = b->at[s], after = b->after[s];

	dma_resv_assert_held(b->dmabuf->resv);
	if (b->refuse[s].count) {
		b->refuse[s].count--;
		return -b->refuse[s].err;
	}
	b->at[s] = ACTION_NONE;
	b->after[s] = ACTION_NONE;
	if (at)
		buffer_act(b, at);
	if (after) {
		b->due = after;
		schedule_work(&b->work);
	}
	return 0;
}

static int step_unlocked(struct buffer *b, enum mover_step s)
{
	int err;

	lock(b);
	err = step(b, s);
	unlock(b);
	return err;
}

/* ---- what importers do ---- */

static int mover_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct buffer *b = dmabuf->priv;
	int err = step_unlocked(b, STEP_ATTACH);

	if (err)
		return err;
	if (READ_ONCE(b->vfio) && !(attach->peer2peer && dma_buf_attach_revocable(attach)))
		return -EOPNOTSUPP;
	attach->priv = kzalloc(sizeof(struct attached), GFP_KERNEL);
	return attach->priv ? 0 : -ENOMEM;
}

static void mover_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	step_unlocked(dmabuf->priv, STEP_DETACH);
	kfree(attach->priv);
}

static int mover_pin(struct dma_buf_attachment *attach)
{
	struct buffer *b = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	int err = step(b, STEP_PIN);

	if (!err && !b->now)
		err = -ENODEV;
	if (!err)
		a->pins++;
	return err;
}

static void mover_unpin(struct dma_buf_attachment *attach)
{
	struct attached *a = attach->priv;

	a->pins--;
}

static struct sg_table *mover_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	struct buffer *b = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	struct mapping *m;
	int err;

	softgpu_delay_ms(b->delay_ms);
	err = step(b, STEP_MAP);
	if (!err && !b->now)
		err = -ENODEV;
	if (err)
		return ERR_PTR(err);
	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return ERR_PTR(-ENOMEM);
	m->attach = attach;
	m->dev = attach->dev;
	m->dir = dir;
	m->place = b->now;
	m->npages = b->npages - b->lacking;
	err = place_map(m);
	if (err) {
		kfree(m);
		return ERR_PTR(err);
	}
	m->place->maps++;
	a->maps++;
	b->maps++;
	list_add(&m->node, &b->mappings);
	return &m->table;
}

static void mover_unmap(struct dma_buf_attachment *attach, struct sg_table *table,
			enum dma_data_direction dir)
{
	struct mapping *m = container_of(table, struct mapping, table);
	struct buffer *b = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	struct place *p = m->place;

	place_unmap(m);
	list_del(&m->node);
	kfree(m);
	a->maps--;
	b->unmaps++;
	if (!--p->maps && p->retired) {
		list_del(&p->node);
		set_aside(b, p);
		wake_up_all(&b->let_go);
	}
	step(b, STEP_UNMAP);
}

/*
 * Holds the reservation lock until the page is in the page table: otherwise tell() could
 * run before, not find the page, and the program would keep the old place.
 */
static vm_fault_t mover_fault(struct vm_fault *vmf)
{
	struct buffer *b = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	lock(b);
	if (b->now && vmf->pgoff < b->npages)
		ret = vmf_insert_page(vmf->vma, vmf->address, b->now->pages[vmf->pgoff]);
	unlock(b);
	return ret;
}

static const struct vm_operations_struct mover_vm_ops = {
	.fault = mover_fault,
};

static int mover_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	int err = step_unlocked(dmabuf->priv, STEP_MMAP);

	if (err)
		return err;
	/* We can unmap only mappings of the dma-buf's own file. */
	if (vma->vm_file != dmabuf->file)
		return -EOPNOTSUPP;
	softgpu_vm_flags(vma, VM_DONTEXPAND | VM_DONTDUMP | VM_MIXEDMAP, 0);
	vma->vm_private_data = dmabuf->priv;
	vma->vm_ops = &mover_vm_ops;
	return 0;
}

/* Maps the whole buffer. The dma-buf core keeps one vmap for all importers. */
static int view_locked(struct buffer *b, struct iosys_map *map)
{
	void *view;
	int err = step(b, STEP_VMAP);

	if (!err && !b->now)
		err = -ENODEV;
	if (err)
		return err;
	view = vmap(b->now->pages, b->npages, VM_MAP, PAGE_KERNEL);
	if (!view)
		return -ENOMEM;
	iosys_map_set_vaddr(map, view);
	b->viewed = true;
	return 0;
}

static int mover_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct buffer *b = dmabuf->priv;
	int err;

	if (!SOFTGPU_VMAP_LOCKED)
		lock(b);
	err = view_locked(b, map);
	if (!SOFTGPU_VMAP_LOCKED)
		unlock(b);
	return err;
}

static void mover_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct buffer *b = dmabuf->priv;

	if (!SOFTGPU_VMAP_LOCKED)
		lock(b);
	vunmap(map->vaddr);
	b->viewed = false;
	if (!SOFTGPU_VMAP_LOCKED)
		unlock(b);
}

static int mover_begin(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	return step_unlocked(dmabuf->priv, STEP_BEGIN);
}

static int mover_end(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	return step_unlocked(dmabuf->priv, STEP_END);
}

static void mover_release(struct dma_buf *dmabuf)
{
	struct buffer *b = dmabuf->priv;

	/* Waits for reads and writes under way. */
	debugfs_remove(b->debugfs);
	cancel_work_sync(&b->work);
	cancel_delayed_work_sync(&b->late_work);
	WARN_ON(!list_empty(&b->mappings));
	set_aside(b, NULL);
	if (b->now)
		place_free(b->now);
	iput(b->inode);
	kfree(b);
}

static const struct dma_buf_ops mover_ops = {
	.attach = mover_attach,
	.detach = mover_detach,
	.pin = mover_pin,
	.unpin = mover_unpin,
	.map_dma_buf = mover_map,
	.unmap_dma_buf = mover_unmap,
	.mmap = mover_mmap,
	.vmap = mover_vmap,
	.vunmap = mover_vunmap,
	.begin_cpu_access = mover_begin,
	.end_cpu_access = mover_end,
	.release = mover_release,
};

int buffer_create(u64 length, struct buffer **out)
{
	static atomic_t numbers;
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct buffer *b;
	int err = -ENOMEM;

	if (!length || length > SZ_64M)
		return -EINVAL;
	b = kzalloc(sizeof(*b), GFP_KERNEL);
	if (!b)
		return -ENOMEM;
	b->number = atomic_inc_return(&numbers);
	b->npages = PAGE_ALIGN(length) >> PAGE_SHIFT;
	b->timeout_ms = 10000;
	INIT_LIST_HEAD(&b->old);
	INIT_LIST_HEAD(&b->mappings);
	INIT_WORK(&b->work, act_later);
	INIT_DELAYED_WORK(&b->late_work, late);
	init_waitqueue_head(&b->let_go);
	b->now = place_create(b->npages);
	if (!b->now)
		goto free;
	info.exp_name = "dmabuf_mover";
	info.ops = &mover_ops;
	info.size = (size_t)b->npages << PAGE_SHIFT;
	info.flags = O_RDWR;
	info.priv = b;
	b->dmabuf = dma_buf_export(&info);
	if (IS_ERR(b->dmabuf)) {
		err = PTR_ERR(b->dmabuf);
		goto free_place;
	}
	b->inode = file_inode(b->dmabuf->file);
	ihold(b->inode);
	*out = b;
	return 0;

free_place:
	place_free(b->now);
free:
	kfree(b);
	return err;
}
