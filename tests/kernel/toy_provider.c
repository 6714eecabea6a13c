// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * toy_provider.c - the smallest provider of memory: the example of docs/extending.md.
 *
 * An open file of /dev/toy is one allocation of its process.  read() returns its address: that of a
 * GPU with an address space of its own, where no host memory is.  The last close frees it.
 */
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "objects/map.h"

#define TOY_ORDER	2
#define TOY_LENGTH	(PAGE_SIZE << TOY_ORDER)

struct toy_memory {
	struct list_head node;		/* in memories, until it is freed */
	struct list_head pins;		/* toy_pin.node */
	struct page *pages;
	pid_t tgid;			/* of the process that may pin it */
	u64 addr;
};

struct toy_pin {
	struct list_head node;
	struct page *pages;		/* its first */
	u64 cookie;
};

/* Inside pin->lock, since toy_get() takes it.  So it is not held around peerdma_revoke(). */
static DEFINE_MUTEX(toy_lock);
static LIST_HEAD(memories);
static u64 next_addr = 1ULL << 56;	/* no address is used twice */

/* ---- the vendor's driver: allocates and frees ---- */

static int toy_open(struct inode *inode, struct file *file)
{
	struct toy_memory *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (m)
		m->pages = alloc_pages(GFP_KERNEL | __GFP_ZERO, TOY_ORDER);
	if (!m || !m->pages) {
		kfree(m);
		return -ENOMEM;
	}
	INIT_LIST_HEAD(&m->pins);
	m->tgid = current->tgid;
	mutex_lock(&toy_lock);
	m->addr = next_addr;
	next_addr += 2 * TOY_LENGTH;
	list_add(&m->node, &memories);
	mutex_unlock(&toy_lock);
	file->private_data = m;
	return 0;
}

static ssize_t toy_read(struct file *file, char __user *to, size_t length, loff_t *at)
{
	struct toy_memory *m = file->private_data;

	return simple_read_from_buffer(to, length, at, &m->addr, sizeof(m->addr));
}

/*
 * Frees the memory: first all of its pins are revoked.  Calls that follow peerdma_revoke() may sleep
 * here, because the open file holds this module.
 */
static int toy_release(struct inode *inode, struct file *file)
{
	struct toy_memory *m = file->private_data;
	struct toy_pin *p;
	u64 cookie;

	mutex_lock(&toy_lock);
	list_del(&m->node);
	while ((p = list_first_entry_or_null(&m->pins, struct toy_pin, node))) {
		list_del_init(&p->node);
		cookie = p->cookie;
		mutex_unlock(&toy_lock);
		/* The pin may have ended meanwhile, and p is gone: then this does nothing. */
		peerdma_revoke(cookie);
		mutex_lock(&toy_lock);
	}
	mutex_unlock(&toy_lock);
	__free_pages(m->pages, TOY_ORDER);
	kfree(m);
	return 0;
}

static const struct file_operations toy_fops = {
	.owner = THIS_MODULE,
	.open = toy_open,
	.read = toy_read,
	.release = toy_release,
};

static struct miscdevice toy_device = { .minor = MISC_DYNAMIC_MINOR, .name = "toy", .fops = &toy_fops };

/* ---- the provider ---- */

static bool contains(const struct toy_memory *m, const struct peerdma_pin *pin)
{
	u64 offset = pin->start - m->addr;

	return m->tgid == current->tgid && pin->start >= m->addr && offset < TOY_LENGTH &&
	       pin->pinned_length <= TOY_LENGTH - offset;
}

static int toy_get(struct peerdma_pin *pin)
{
	struct toy_pin *p = kzalloc(sizeof(*p), GFP_KERNEL);
	struct toy_memory *m;
	int err = -ENXIO;

	if (!p)
		return -ENOMEM;
	p->cookie = pin->cookie;
	mutex_lock(&toy_lock);
	list_for_each_entry(m, &memories, node) {
		/* Tokens are another vendor's. */
		if (pin->token || pin->va_space || !contains(m, pin))
			continue;
		p->pages = m->pages + ((pin->start - m->addr) >> PAGE_SHIFT);
		list_add(&p->node, &m->pins);
		pin->priv = p;
		err = 0;
		break;
	}
	mutex_unlock(&toy_lock);
	if (err)
		kfree(p);
	return err;
}

static void toy_put(struct peerdma_pin *pin)
{
	struct toy_pin *p = pin->priv;

	mutex_lock(&toy_lock);
	list_del_init(&p->node);	/* toy_release() may have taken it out already */
	mutex_unlock(&toy_lock);
}

static void toy_forget(struct peerdma_pin *pin)
{
	kfree(pin->priv);
	pin->priv = NULL;
}

static phys_addr_t toy_page(const struct peerdma_pin *pin, u32 i)
{
	const struct toy_pin *p = pin->priv;

	return page_to_phys(p->pages + i);
}

/* It is RAM.  Memory in a BAR needs neither this nor dma_map: map.c maps it. */
static enum peerdma_memory toy_kind(const struct peerdma_pin *pin)
{
	return MEMORY_CACHED;
}

static void toy_dma_unmap(struct peerdma_map *map)
{
	dma_unmap_page(map->pub.dev, map->segs[0].dma_addr, map->length, map->pub.dir);
	map->nsegs = 0;
}

static int toy_dma_map(struct peerdma_map *map)
{
	const struct toy_pin *p = map->pub.pin->priv;
	struct device *dev = map->pub.dev;
	dma_addr_t dma = dma_map_page(dev, p->pages + (map->offset >> PAGE_SHIFT), 0, map->length, map->pub.dir);
	int err;

	if (dma_mapping_error(dev, dma))
		return -ENOMEM;
	err = peerdma_map_add(map, dma, map->length);	/* cannot fail: each mapping has room for two */
	/* Without an IOMMU the DMA API may have returned a bounce buffer, which is not the memory. */
	if (!err && !device_iommu_mapped(dev) && dma_need_sync(dev, dma)) {
		toy_dma_unmap(map);
		err = -EOPNOTSUPP;
	}
	return err;
}

static struct peerdma_provider toy_provider = {
	.name = "toy",
	.owner = THIS_MODULE,
	.page_shift = PAGE_SHIFT,
	.get = toy_get,
	.put = toy_put,
	.release = toy_forget,
	.page = toy_page,
	.memory = toy_kind,
	.dma_map = toy_dma_map,
	.dma_unmap = toy_dma_unmap,
};

static int __init toy_init(void)
{
	int err = peerdma_register_provider(&toy_provider);

	if (!err) {
		err = misc_register(&toy_device);
		if (err)
			peerdma_unregister_provider(&toy_provider);
	}
	return err;
}
module_init(toy_init);

static void __exit toy_exit(void)
{
	misc_deregister(&toy_device);
	peerdma_unregister_provider(&toy_provider);
}
module_exit(toy_exit);

MODULE_DESCRIPTION("For tests: the smallest provider of memory");
MODULE_LICENSE("Dual MIT/GPL");
