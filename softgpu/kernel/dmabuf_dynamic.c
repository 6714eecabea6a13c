// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf_dynamic.c - device memory as a dma-buf, as AMD's driver exports it: a
 * dynamic exporter, whose memory has a fixed place only while somebody needs that.
 *
 * It keeps the VRAM (struct sg_keep).  As long as an importer has it mapped or
 * pinned it has a pin of the core, too, which takes room in the aperture, makes the
 * place known, and tells of the GPU's removal; what programs see of it is under the
 * same pin, and is taken from them with it, for they come back by a fault.
 *
 * A move (softgpu_dynamic_move) tells importers, and fails if one has said that
 * the memory must stay, or has not unmapped in time: by the time it has been told
 * or, since Linux 7.1, dmabuf_timeout_ms later.  The original moves between VRAM and system memory, as it
 * runs short; here it is from one place in VRAM to another, and only on command.
 * So an importer that cannot use memory without struct pages is refused, where the
 * original would have moved it to system memory.
 *
 * Locks: the reservation lock guards all of struct moving.  exports_lock comes
 * before it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include "compat.h"
#include "dmabuf.h"
#include "softgpu.h"

struct moving {
	struct list_head node;		/* exports, under exports_lock */
	u64 number;
	struct dma_buf *dmabuf;
	struct sg_keep keep;
	bool has_place;			/* pieces[0] is a live pin, and pages[] are known */
	bool giving_up;			/* export->lock: that pin is ended by us */
	u32 users;			/* maps and pins of importers */
	u32 due;			/* importers that were told, and have not unmapped since */
	wait_queue_head_t let_go;	/* due is 0 */
	u64 moves, busy, late;
};

/* Of one importer: dma_buf_attachment.priv. */
struct attached {
	u32 pins;
	u32 maps;
	bool due;
};

static LIST_HEAD(exports);
static DEFINE_MUTEX(exports_lock);
static u64 last_number;

static unsigned int dmabuf_timeout_ms = 10000;
module_param(dmabuf_timeout_ms, uint, 0644);
MODULE_PARM_DESC(dmabuf_timeout_ms, "Milliseconds that importers of dma-bufs have to let go of what is to move (default 10000)");

/* ---- a place, and none ---- */

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

static int take_place(struct export *x)
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
	err = sg_keep_pin(&mv->keep, &piece->pin, &place_ops);
	if (!err) {
		x->on_pci = softgpu_pin_backing(&piece->pin)->pdev;
		sg_pin_pages(&piece->pin, x->pages, sizeof(*x->pages));
	}
	mutex_unlock(&x->lock);
	mv->has_place = !err;
	return err;
}

/* Nobody uses it; programs that look find it again. */
static void give_up_place(struct export *x)
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

static int user_get(struct export *x)
{
	int err;

	dma_resv_assert_held(x->moving->dmabuf->resv);
	err = take_place(x);
	if (!err)
		x->moving->users++;
	return err;
}

/* Locked. */
static void importer_let_go(struct moving *mv, struct attached *a)
{
	if (!a->due || a->maps)
		return;
	a->due = false;
	WRITE_ONCE(mv->due, mv->due - 1);
	wake_up_all(&mv->let_go);
}

static void user_put(struct export *x)
{
	dma_resv_assert_held(x->moving->dmabuf->resv);
	if (!--x->moving->users)
		give_up_place(x);
}

/* ---- importers ---- */

static int dynamic_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	const struct export *x = dmabuf->priv;

	if (x->on_pci && !(attach->importer_ops && attach->peer2peer)) {
		pr_info_ratelimited("%s cannot do without struct pages, and this GPU moves nothing to system memory for it\n",
				    dev_name(attach->dev));
		return -EOPNOTSUPP;
	}
	attach->priv = kzalloc(sizeof(struct attached), GFP_KERNEL_ACCOUNT);
	return attach->priv ? 0 : -ENOMEM;
}

static void dynamic_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	kfree(attach->priv);
}

static int dynamic_pin(struct dma_buf_attachment *attach)
{
	struct attached *a = attach->priv;
	int err = user_get(attach->dmabuf->priv);

	if (!err)
		a->pins++;
	return err;
}

static void dynamic_unpin(struct dma_buf_attachment *attach)
{
	struct attached *a = attach->priv;

	a->pins--;
	user_put(attach->dmabuf->priv);
}

static struct sg_table *dynamic_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	struct export *x = attach->dmabuf->priv;
	struct attached *a = attach->priv;
	struct sg_table *table;
	int err = user_get(x);

	if (err)
		return ERR_PTR(err);
	err = softgpu_export_map(x, attach->dev, dir, &table);
	if (err) {
		user_put(x);
		return ERR_PTR(err);
	}
	a->maps++;
	return table;
}

static void dynamic_unmap(struct dma_buf_attachment *attach, struct sg_table *table,
			  enum dma_data_direction dir)
{
	struct export *x = attach->dmabuf->priv;
	struct attached *a = attach->priv;

	softgpu_export_unmap(x, table);
	a->maps--;
	importer_let_go(x->moving, a);
	user_put(x);
}

/* ---- programs ---- */

static vm_fault_t dynamic_fault(struct vm_fault *vmf)
{
	struct export *x = vmf->vma->vm_private_data;
	struct dma_resv *resv = x->moving->dmabuf->resv;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	dma_resv_lock(resv, NULL);
	if (!take_place(x))
		ret = softgpu_export_insert(x, vmf);
	dma_resv_unlock(resv);
	return ret;
}

static const struct vm_operations_struct dynamic_vm_ops = {
	.fault = dynamic_fault,
};

static int dynamic_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	/* Only what is in the dma-buf's own file can be taken away from there. */
	if (vma->vm_file != dmabuf->file)
		return -EOPNOTSUPP;
	return softgpu_export_view(dmabuf->priv, vma, &dynamic_vm_ops);
}

static int dynamic_cpu_access(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	/* What was written through a write-combined view leaves the CPU before devices read. */
	wmb();
	return 0;
}

/* ---- its end ---- */

static void dynamic_release(struct dma_buf *dmabuf)
{
	struct export *x = dmabuf->priv;
	struct moving *mv = x->moving;

	/* A move under way ends first. */
	mutex_lock(&exports_lock);
	list_del(&mv->node);
	mutex_unlock(&exports_lock);
	SG_WARN_ON(mv->users);
	give_up_place(x);
	sg_keep_put(&mv->keep);
	kfree(mv);
	softgpu_export_free(x);
}

static const struct dma_buf_ops dynamic_ops = {
	.attach = dynamic_attach,
	.detach = dynamic_detach,
	.pin = dynamic_pin,
	.unpin = dynamic_unpin,
	.map_dma_buf = dynamic_map,
	.unmap_dma_buf = dynamic_unmap,
	.begin_cpu_access = dynamic_cpu_access,
	.end_cpu_access = dynamic_cpu_access,
	.mmap = dynamic_mmap,
	.release = dynamic_release,
};

/* ---- its beginning ---- */

struct dma_buf *softgpu_dynamic_export(struct sg_client *client, u64 va, u64 length)
{
	u64 start = round_down(va, SG_PAGE_SIZE), end = round_up(va + length, SG_PAGE_SIZE);
	const struct sg_pin_who who = { .proc_key = sg_client_key(client) };
	struct export *x = softgpu_export_alloc(va, length, 1);
	struct moving *mv = kzalloc(sizeof(*mv), GFP_KERNEL_ACCOUNT);
	struct dma_buf *dmabuf;
	int err = -ENOMEM;

	if (!x || !mv)
		goto free;
	err = sg_keep_get(softgpu_sg, &mv->keep, &who, start, end - start);
	if (err)
		goto free;
	init_waitqueue_head(&mv->let_go);
	x->moving = mv;
	/* Whether it has struct pages, which no move changes, is known of a place. */
	err = take_place(x);
	if (err)
		goto put;
	give_up_place(x);
	dmabuf = softgpu_export_publish(x, "drm", &dynamic_ops);
	err = PTR_ERR_OR_ZERO(dmabuf);
	if (err)
		goto put;
	mv->dmabuf = dmabuf;
	mutex_lock(&exports_lock);
	mv->number = ++last_number;
	list_add_tail(&mv->node, &exports);
	mutex_unlock(&exports_lock);
	return dmabuf;

put:
	sg_keep_put(&mv->keep);
free:
	kfree(mv);
	if (x)
		softgpu_export_free(x);
	return ERR_PTR(err);
}

/* ---- moves ---- */

/* Has this one said that the memory must stay? */
static bool insists(struct dma_buf_attachment *attach)
{
	const struct attached *a = attach->priv;

	if (!dma_buf_attach_revocable(attach))
		return a->pins || a->maps;
	return a->pins > (SOFTGPU_MAPS_PIN ? a->maps : 0);
}

static void tell(struct moving *mv)
{
	struct dma_buf_attachment *attach;

	list_for_each_entry(attach, &mv->dmabuf->attachments, node) {
		struct attached *a = attach->priv;

		if (!a->maps || a->due)
			continue;
		a->due = true;
		mv->due++;
	}
	dma_buf_invalidate_mappings(mv->dmabuf);
}

/* They want the lock to unmap. */
static void wait_unmaps(struct moving *mv)
{
	struct dma_buf_attachment *attach;
	u32 ms = READ_ONCE(dmabuf_timeout_ms);

	dma_resv_unlock(mv->dmabuf->resv);
	wait_event_timeout(mv->let_go, !READ_ONCE(mv->due), msecs_to_jiffies(ms));
	dma_resv_lock(mv->dmabuf->resv, NULL);
	list_for_each_entry(attach, &mv->dmabuf->attachments, node) {
		const struct attached *a = attach->priv;

		if (!a->due)
			continue;
		mv->late++;
		pr_warn("%s (driver %s) has not let go of dma-buf %llu within %u ms\n",
			dev_name(attach->dev), dev_driver_string(attach->dev), mv->number, ms);
	}
}

static int move(struct export *x)
{
	struct dma_buf *dmabuf = x->moving->dmabuf;
	struct dma_buf_attachment *attach;

	dma_resv_assert_held(dmabuf->resv);
	list_for_each_entry(attach, &dmabuf->attachments, node)
		if (insists(attach))
			return -EBUSY;
	tell(x->moving);
	if (dma_resv_wait_timeout(dmabuf->resv, DMA_RESV_USAGE_BOOKKEEP, false,
				  msecs_to_jiffies(READ_ONCE(dmabuf_timeout_ms))) <= 0)
		return -EBUSY;
	if (SOFTGPU_IMPORTERS_PROMISE && x->moving->due)
		wait_unmaps(x->moving);
	/* Those who keep a mapping have it where it is. */
	if (x->moving->users)
		return -EBUSY;
	give_up_place(x);
	return sg_keep_move(&x->moving->keep);
}

int softgpu_dynamic_move(u64 number)
{
	struct moving *mv;
	int err = -ENOENT;

	/* Its release waits for this lock: the dma-buf stays. */
	mutex_lock(&exports_lock);
	list_for_each_entry(mv, &exports, node) {
		if (mv->number != number)
			continue;
		dma_resv_lock(mv->dmabuf->resv, NULL);
		err = move(mv->dmabuf->priv);
		mv->moves += !err;
		mv->busy += err == -EBUSY;
		dma_resv_unlock(mv->dmabuf->resv);
		break;
	}
	mutex_unlock(&exports_lock);
	return err;
}

void softgpu_dynamic_show(struct seq_file *m)
{
	const struct moving *mv;

	seq_puts(m, "number\tlength\tusers\tplaced\tmoves\tbusy\tlate\n");
	mutex_lock(&exports_lock);
	list_for_each_entry(mv, &exports, node) {
		dma_resv_lock(mv->dmabuf->resv, NULL);
		seq_printf(m, "%llu\t%zu\t%u\t%u\t%llu\t%llu\t%llu\n", mv->number, mv->dmabuf->size,
			   mv->users, mv->has_place, mv->moves, mv->busy, mv->late);
		dma_resv_unlock(mv->dmabuf->resv);
	}
	mutex_unlock(&exports_lock);
}
