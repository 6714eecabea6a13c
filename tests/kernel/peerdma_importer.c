// SPDX-License-Identifier: MIT OR GPL-2.0
/* peerdma_importer.c - see peerdma_importer.h.  For tests: one user at a time per file. */
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "core/compat.h"
#include "peerdma_importer.h"

struct importer {
	struct mutex lock;			/* one call at a time */
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attach;
	enum importer_kind kind;
	bool pinned;
	struct dma_buf *viewed;			/* NULL: there is no view */
	struct iosys_map view;
	u32 slow_ms;
	u32 begun, done;			/* notify(); written by it alone */
	/* The dma-buf's reservation lock, where dynamic: */
	struct sg_table *sgt;
	enum dma_data_direction dir;
	u32 notified;
};

static struct pci_dev *card;
static u64 card_mask;	/* of its addresses, when this module was loaded */

/*
 * A program drives the card, and may go on: only the IOMMU stops it.  Linux flushes that some
 * milliseconds after memory was unmapped, and the exporter may use the memory for something
 * else as soon as the reservation lock is free.
 */
static void unmap_held(struct importer *im)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&card->dev);

	dma_resv_assert_held(im->dmabuf->resv);
	dma_buf_unmap_attachment(im->attach, im->sgt, im->dir);
	im->sgt = NULL;
	if (domain && domain->type & __IOMMU_DOMAIN_PAGING)
		iommu_flush_iotlb_all(domain);
}

static void notify(struct dma_buf_attachment *attach)
{
	struct importer *im = attach->importer_priv;
	u32 ms;

	dma_resv_assert_held(attach->dmabuf->resv);
	im->notified++;
	WRITE_ONCE(im->begun, im->begun + 1);
	/* A second thread may make it shorter. */
	for (ms = 0; ms < READ_ONCE(im->slow_ms); ms++)
		usleep_range(900, 1000);
	if (im->sgt && im->kind != IMPORTER_LAZY && im->kind != IMPORTER_PINNING)
		unmap_held(im);
	WRITE_ONCE(im->done, im->done + 1);
}

static const struct dma_buf_attach_ops peer_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = notify,
};

/* Only where the kernel takes an importer without the callback. */
static const struct dma_buf_attach_ops deaf_ops = {
	.allow_peer2peer = true,
};

static const struct dma_buf_attach_ops no_peer_ops = {
	.allow_peer2peer = false,
	.invalidate_mappings = notify,
};

static void lock_resv(struct importer *im)
{
	if (im->kind != IMPORTER_STATIC)
		dma_resv_lock(im->dmabuf->resv, NULL);
}

static void unlock_resv(struct importer *im)
{
	if (im->kind != IMPORTER_STATIC)
		dma_resv_unlock(im->dmabuf->resv);
}

static void unmap(struct importer *im)
{
	lock_resv(im);
	if (im->sgt && im->kind == IMPORTER_STATIC)
		dma_buf_unmap_attachment_unlocked(im->attach, im->sgt, im->dir);
	else if (im->sgt)
		unmap_held(im);
	im->sgt = NULL;
	unlock_resv(im);
}

static void detach(struct importer *im)
{
	if (!im->dmabuf)
		return;
	unmap(im);
	if (im->pinned) {
		lock_resv(im);
		dma_buf_unpin(im->attach);
		unlock_resv(im);
	}
	dma_buf_detach(im->dmabuf, im->attach);
	dma_buf_put(im->dmabuf);
	im->dmabuf = NULL;
	im->pinned = false;
}

static long attach(struct importer *im, const struct importer_attach *a)
{
	static const struct dma_buf_attach_ops *const ops[] = {
		[IMPORTER_STATIC] = NULL,
		[IMPORTER_DYNAMIC] = &peer_ops,
		[IMPORTER_LAZY] = &peer_ops,
		[IMPORTER_PINNING] = &peer_ops,
		[IMPORTER_NO_PEER] = &no_peer_ops,
		[IMPORTER_DEAF] = &deaf_ops,
	};
	struct dma_buf_attachment *attach;
	int err = 0;

	if (im->dmabuf || a->kind >= ARRAY_SIZE(ops))
		return -EINVAL;
	if (a->kind == IMPORTER_DEAF && !PEERDMA_IMPORTERS_PROMISE)
		return -EOPNOTSUPP;
	im->dmabuf = dma_buf_get(a->fd);
	if (IS_ERR(im->dmabuf)) {
		err = PTR_ERR(im->dmabuf);
		im->dmabuf = NULL;
		return err;
	}
	im->kind = a->kind;
	im->notified = 0;
	attach = dma_buf_dynamic_attach(im->dmabuf, &card->dev, ops[a->kind], im);
	if (IS_ERR(attach)) {
		dma_buf_put(im->dmabuf);
		im->dmabuf = NULL;
		return PTR_ERR(attach);
	}
	im->attach = attach;
	if (a->kind == IMPORTER_PINNING) {
		lock_resv(im);
		err = dma_buf_pin(attach);
		unlock_resv(im);
		im->pinned = !err;
		if (err)
			detach(im);
	}
	return err;
}

/* How DMABUF_DEBUG hides pages on newer kernels: importers get a copy without, the exporter's table lies before it. */
struct hidden {
	struct sg_table *original;
	struct sg_table copy;
};

/* By the kernel's mapping of the first page; NULL: it has none.  Older kernels' DMABUF_DEBUG turns the link's bits round. */
static const u8 *first_byte(struct sg_table *sgt)
{
	const struct scatterlist *sg = sgt->sgl;
	unsigned long link = sg->page_link;

	if (IS_ENABLED(CONFIG_DMABUF_DEBUG) && link & ~3UL) {
		link ^= ~0xffUL;
	} else if (IS_ENABLED(CONFIG_DMABUF_DEBUG)) {
		sg = container_of(sgt, struct hidden, copy)->original->sgl;
		link = sg->page_link;
	}
	return link & ~3UL ? (u8 *)page_address((struct page *)(link & ~3UL)) + sg->offset : NULL;
}

static long map(struct importer *im, struct importer_map *m)
{
	struct scatterlist *sg;
	struct sg_table *sgt;
	const u8 *first;
	u32 i;

	if (!im->dmabuf || im->sgt)
		return -EINVAL;
	lock_resv(im);
	sgt = im->kind == IMPORTER_STATIC ? dma_buf_map_attachment_unlocked(im->attach, m->direction) :
		dma_buf_map_attachment(im->attach, m->direction);
	if (!IS_ERR(sgt)) {
		im->sgt = sgt;
		im->dir = m->direction;
		m->segments = sgt->nents;
		m->dma_addr = 0;
		first = first_byte(sgt);
		m->pages = !!first;
		m->first = first ? *first : 0;
		m->length = 0;
		for_each_sgtable_dma_sg(sgt, sg, i) {
			if (m->offset - m->length < sg_dma_len(sg))
				m->dma_addr = sg_dma_address(sg) + (m->offset - m->length);
			m->length += sg_dma_len(sg);
		}
	}
	unlock_resv(im);
	return PTR_ERR_OR_ZERO(sgt);
}

static long view(struct importer *im, struct importer_view *v)
{
	struct dma_buf *dmabuf;
	int err;

	if (im->viewed)
		return -EINVAL;
	dmabuf = dma_buf_get(v->fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	err = dma_buf_vmap_unlocked(dmabuf, &im->view);
	if (err) {
		dma_buf_put(dmabuf);
		return err;
	}
	im->viewed = dmabuf;
	v->iomem = im->view.is_iomem;
	return 0;
}

static long peek(struct importer *im, struct importer_peek *p)
{
	struct iosys_map at = im->view;

	if (!im->viewed || p->offset >= im->viewed->size)
		return -EINVAL;
	iosys_map_incr(&at, p->offset);
	if (!p->write)
		p->value = at.is_iomem ? readb(at.vaddr_iomem) : *(u8 *)at.vaddr;
	else if (at.is_iomem)
		writeb(p->value, at.vaddr_iomem);
	else
		*(u8 *)at.vaddr = p->value;
	/* Out of a write-combined view, too. */
	wmb();
	return 0;
}

static void unview(struct importer *im)
{
	if (!im->viewed)
		return;
	dma_buf_vunmap_unlocked(im->viewed, &im->view);
	dma_buf_put(im->viewed);
	im->viewed = NULL;
}

static long state(struct importer *im, struct importer_state *s)
{
	if (!im->dmabuf)
		return -EINVAL;
	lock_resv(im);
	s->notified = im->notified;
	s->mapped = !!im->sgt;
	unlock_resv(im);
	return 0;
}

static long call(struct importer *im, unsigned int cmd, void __user *arg)
{
	struct importer_attach a;
	struct importer_map m;
	struct importer_progress p;
	struct importer_state s;
	struct importer_peek k;
	struct importer_view v;
	u32 bits;
	long err;

	switch (cmd) {
	case IMPORTER_ATTACH:
		return copy_from_user(&a, arg, sizeof(a)) ? -EFAULT : attach(im, &a);
	case IMPORTER_MAP:
		if (copy_from_user(&m, arg, sizeof(m)))
			return -EFAULT;
		err = map(im, &m);
		return err ?: copy_to_user(arg, &m, sizeof(m)) ? -EFAULT : 0;
	case IMPORTER_STATE:
		err = state(im, &s);
		return err ?: copy_to_user(arg, &s, sizeof(s)) ? -EFAULT : 0;
	case IMPORTER_SLOW:
		return copy_from_user(&im->slow_ms, arg, sizeof(im->slow_ms)) ? -EFAULT : 0;
	case IMPORTER_PROGRESS:
		/* Latest first: what is done has begun. */
		p.done = READ_ONCE(im->done);
		p.begun = READ_ONCE(im->begun);
		return copy_to_user(arg, &p, sizeof(p)) ? -EFAULT : 0;
	case IMPORTER_PROMISES:
		return PEERDMA_IMPORTERS_PROMISE;
	case IMPORTER_BITS:
		if (copy_from_user(&bits, arg, sizeof(bits)))
			return -EFAULT;
		return dma_set_mask(&card->dev, bits ? DMA_BIT_MASK(min(bits, 64U)) : card_mask);
	case IMPORTER_VMAP:
		if (copy_from_user(&v, arg, sizeof(v)))
			return -EFAULT;
		err = view(im, &v);
		return err ?: copy_to_user(arg, &v, sizeof(v)) ? -EFAULT : 0;
	case IMPORTER_PEEK:
		if (copy_from_user(&k, arg, sizeof(k)))
			return -EFAULT;
		err = peek(im, &k);
		return err ?: copy_to_user(arg, &k, sizeof(k)) ? -EFAULT : 0;
	case IMPORTER_VUNMAP:
		unview(im);
		return 0;
	case IMPORTER_UNMAP:
		if (!im->dmabuf)
			return -EINVAL;
		unmap(im);
		return 0;
	case IMPORTER_DETACH:
		detach(im);
		return 0;
	default:
		return -ENOTTY;
	}
}

static long importer_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct importer *im = file->private_data;
	long err;

	mutex_lock(&im->lock);
	err = call(im, cmd, (void __user *)arg);
	mutex_unlock(&im->lock);
	return err;
}

static int importer_open(struct inode *inode, struct file *file)
{
	struct importer *im = kzalloc(sizeof(*im), GFP_KERNEL);

	if (!im)
		return -ENOMEM;
	mutex_init(&im->lock);
	file->private_data = im;
	return 0;
}

static int importer_release(struct inode *inode, struct file *file)
{
	struct importer *im = file->private_data;

	unview(im);
	detach(im);
	kfree(im);
	return 0;
}

static const struct file_operations importer_fops = {
	.owner = THIS_MODULE,
	.open = importer_open,
	.release = importer_release,
	.unlocked_ioctl = importer_ioctl,
};

static struct miscdevice importer_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "peerdma_importer",
	.fops = &importer_fops,
	.mode = 0600,
};

static int __init importer_init(void)
{
	int err;

	card = pci_get_device(0x1234, 0x11e8, NULL);
	if (!card)
		return -ENODEV;
	card_mask = dma_get_mask(&card->dev);
	err = misc_register(&importer_misc);
	if (err)
		pci_dev_put(card);
	return err;
}

static void __exit importer_exit(void)
{
	misc_deregister(&importer_misc);
	pci_dev_put(card);
}

module_init(importer_init);
module_exit(importer_exit);

MODULE_DESCRIPTION("Imports dma-bufs in every way, for tests");
MODULE_LICENSE("Dual MIT/GPL");
PEERDMA_IMPORT_DMA_BUF;
