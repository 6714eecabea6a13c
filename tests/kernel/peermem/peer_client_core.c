// SPDX-License-Identifier: MIT OR GPL-2.0
/* peer_client_core.c - peer_client_test.ko: see peer_client_test.h.  For tests, instead of an RDMA core with peer memory. */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/ioport.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/semaphore.h>
#include <linux/slab.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include "peer_client_core.h"
#include "peer_client_test.h"

struct region {
	struct kref ref;
	const struct peer_memory_client *client;
	void *context;			/* the client's */
	u32 id;				/* ours, for the client; 0: none */
	u32 on;				/* P_ON_* */
	u64 addr, size;
	struct device *dev;
	struct sg_table table;
	u32 nmap;
	bool acquired, got, mapped;	/* what is to be undone */
	bool invalidated;		/* the client has unmapped, or will */
	bool locked;			/* P_CORE_LOCK: from get_pages to P_ACTIVATE */
	/* Held around get_pages and dma_map; with P_CORE_LOCK for longer.  It is held while user space runs. */
	struct semaphore making;
	struct mutex lock;		/* which of the two undoes it: the invalidation or, `ended', who deregisters */
	bool ended;
	struct completion go;
	u64 begun, done, seen;
};

static const struct peer_memory_client *clients[2];
static DEFINE_XARRAY_ALLOC1(regions);
static u32 next_id;
static struct device *no_bus;		/* this module's own, which does no DMA */

/* ---- the device ---- */

static phys_addr_t translate(struct device *dev, dma_addr_t dma)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	if (!domain || !(domain->type & __IOMMU_DOMAIN_PAGING))
		return dma;
	return iommu_iova_to_phys(domain, dma);
}

/* 8 bytes at the offset, as the device would find them. */
static int peek(struct region *r, u64 offset, u64 *value)
{
	struct scatterlist *sg;
	u64 at = r->addr & ~PAGE_MASK;
	phys_addr_t phys = 0;
	void *p;
	u32 i;

	at += offset;
	for_each_sg(r->table.sgl, sg, r->nmap, i) {
		if (at < sg_dma_len(sg)) {
			phys = translate(r->dev, sg_dma_address(sg) + at);
			break;
		}
		at -= sg_dma_len(sg);
	}
	if (!phys)
		return -EFAULT;
	p = memremap(phys, sizeof(*value), region_intersects(phys, 8, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) ==
		     REGION_INTERSECTS ? MEMREMAP_WB : MEMREMAP_WC);
	if (!p)
		return -ENOMEM;
	memcpy(value, p, sizeof(*value));
	memunmap(p);
	return 0;
}

static struct device *device_of(u32 arg)
{
	struct pci_dev *pdev;

	if (arg == P_NO_DEVICE)
		return NULL;
	if (arg == P_NO_BUS)
		return get_device(no_bus);
	pdev = pci_get_domain_bus_and_slot(0, arg >> 8, arg & 0xff);
	return pdev ? &pdev->dev : NULL;
}

/* ---- the core ---- */

static void region_free(struct kref *ref)
{
	struct region *r = container_of(ref, struct region, ref);

	put_device(r->dev);
	kfree(r);
}

static void unmap(struct region *r)
{
	if (r->mapped)
		r->client->dma_unmap(&r->table, r->context, r->dev);
	r->mapped = false;
	if (r->got)
		r->client->put_pages(&r->table, r->context);
	r->got = false;
}

static void release(struct region *r)
{
	if (r->acquired && r->client->release)
		r->client->release(r->context);
	r->acquired = false;
}

static bool unmaps(const struct peer_memory_client *client)
{
	const struct peer_memory_client_ex *ex = container_of(client, struct peer_memory_client_ex, client);

	return client->version[IB_PEER_MEMORY_VER_MAX - 1] && ex->ex_size > offsetof(struct peer_memory_client_ex, flags) &&
	       ex->flags & PEER_MEM_INVALIDATE_UNMAPS;
}

static void forget(struct region *r)
{
	if (r->id)
		xa_erase(&regions, r->id);
	r->id = 0;
}

static void deregister(struct region *r)
{
	bool locked = r->on & P_CORE_LOCK, late = r->on & P_LATE;

	if (!late)
		forget(r);
	if (locked)
		down(&r->making);
	mutex_lock(&r->lock);
	r->ended = true;
	mutex_unlock(&r->lock);
	if (!r->invalidated)
		unmap(r);
	release(r);
	if (locked)
		up(&r->making);
	if (late)
		forget(r);
	complete_all(&r->go);
}

/* The device has stopped now: until here it has reached the memory. */
static void stopped(struct region *r)
{
	if (r->mapped && peek(r, 0, &r->seen))
		r->seen = ~0ULL;
	if (r->on & P_ON_UNMAP)
		unmap(r);
	else if (unmaps(r->client))
		r->invalidated = true;
	if (r->on & P_ON_RELEASE)
		release(r);
}

int test_core_invalidate(void *handle, u64 context)
{
	bool locked, wait;
	struct region *r;

	xa_lock(&regions);
	r = context <= U32_MAX ? xa_load(&regions, context) : NULL;
	if (r)
		kref_get(&r->ref);
	xa_unlock(&regions);
	if (!r)
		return 0;
	WRITE_ONCE(r->begun, r->begun + 1);
	wait = r->on & P_ON_WAIT;
	/* What runs is waited for. */
	down(&r->making);
	locked = r->on & P_CORE_LOCK;
	if (!locked)
		up(&r->making);
	if (r->on & P_ON_SLOW)
		msleep(100);
	mutex_lock(&r->lock);
	if (!r->ended)
		stopped(r);
	else
		wait |= r->on & P_ON_UNMAP;
	mutex_unlock(&r->lock);
	if (locked)
		up(&r->making);
	if (wait)
		wait_for_completion(&r->go);
	WRITE_ONCE(r->done, r->done + 1);
	kref_put(&r->ref, region_free);
	return 0;
}

void *test_core_register(const struct peer_memory_client *client, bool revocable)
{
	u32 i = revocable ? 0 : 1;

	if (clients[i] || !client->acquire || !client->get_pages || !client->put_pages || !client->dma_map ||
	    !client->dma_unmap)
		return NULL;
	clients[i] = client;
	return &clients[i];
}

void test_core_unregister(void *handle)
{
	const struct peer_memory_client **client = handle;
	struct region *r;
	unsigned long i;

	xa_for_each(&regions, i, r)
		WARN(r->client == *client, "peer_client_test: a client goes that has regions\n");
	*client = NULL;
}

/* ---- what a program says ---- */

static int do_acquire(struct region *r, struct peer_client_call *c)
{
	const struct peer_memory_client *client = c->arg < 2 ? clients[c->arg] : NULL;
	int ret;

	if (!client || r->acquired)
		return -ENODEV;
	r->context = NULL;
	ret = client->acquire(c->addr, c->size, NULL, NULL, &r->context);
	r->client = client;
	r->acquired = ret > 0;
	return ret;
}

static int do_get_pages(struct region *r, struct peer_client_call *c)
{
	int err = r->id ? 0 : xa_alloc_cyclic(&regions, &r->id, r, xa_limit_31b, &next_id, GFP_KERNEL);

	if (err < 0)
		return err;
	r->addr = c->addr;
	r->size = c->size;
	if (!r->locked)
		down(&r->making);
	err = r->client->get_pages(c->addr, c->size, 1, 0, NULL, r->context, r->id);
	r->got |= !err;
	r->locked = !err && r->on & P_CORE_LOCK;
	if (!r->locked)
		up(&r->making);
	return err;
}

/* Whole pages, all of the range, as many entries as were said. */
static bool table_is_right(const struct region *r, u64 *bytes)
{
	u64 want = PAGE_ALIGN(r->addr + r->size) - (r->addr & PAGE_MASK);
	struct scatterlist *sg;
	bool right = r->nmap && r->nmap <= r->table.orig_nents;
	u32 i;

	*bytes = 0;
	for_each_sg(r->table.sgl, sg, r->nmap, i) {
		right &= PAGE_ALIGNED(sg_dma_address(sg) | sg_dma_len(sg)) && sg_dma_len(sg);
		*bytes += sg_dma_len(sg);
	}
	return right && *bytes == want;
}

static int do_dma_map(struct region *r, struct peer_client_call *c)
{
	struct device *dev = device_of(c->arg);
	struct sg_table table = { };
	int nmap = 0, err;

	if (!r->locked)
		down(&r->making);
	err = r->client->dma_map(&table, r->context, dev, 0, &nmap);
	if (err) {
		WARN(table.sgl, "peer_client_test: dma_map fails and leaves a table\n");
		put_device(dev);
	} else {
		put_device(r->dev);
		r->dev = dev;
		r->table = table;
		r->nmap = nmap;
		r->mapped = true;
		/* Before an invalidation may take the table away. */
		c->nmap = nmap;
		c->value = table_is_right(r, &c->bytes);
		c->dma = sg_dma_address(table.sgl);
	}
	if (!r->locked)
		up(&r->making);
	return err;
}

static void activate(struct region *r)
{
	if (r->locked)
		up(&r->making);
	r->locked = false;
}

static int one_step(struct region *r, u32 op)
{
	switch (op) {
	case P_DMA_UNMAP:
		r->mapped = false;
		return r->client->dma_unmap(&r->table, r->context, r->dev);
	case P_PUT_PAGES:
		r->got = false;
		r->client->put_pages(&r->table, r->context);
		return r->table.sgl ? -EBUSY : 0;
	case P_RELEASE:
		forget(r);
		release(r);
		return 0;
	case P_ACTIVATE:
		activate(r);
		return 0;
	default:
		deregister(r);
		return 0;
	}
}

static int call(struct region *r, struct peer_client_call *c)
{
	switch (c->op) {
	case P_ACQUIRE:
		return do_acquire(r, c);
	case P_ON_INVALIDATE:
		r->on = c->arg;
		return 0;
	case P_STATE:
		/* Latest first: what is done has begun. */
		c->dma = READ_ONCE(r->done);
		c->bytes = READ_ONCE(r->begun);
		c->value = r->seen;
		return 0;
	case P_CLIENTS:
		c->value = clients[0] && clients[0]->version[IB_PEER_MEMORY_VER_MAX - 1] ?
			container_of(clients[0], struct peer_memory_client_ex, client)->flags : ~0U;
		return !!clients[0] + !!clients[1];
	}
	if (!r->client || c->op > P_CLIENTS)
		return -EINVAL;
	switch (c->op) {
	case P_GET_PAGES:
		return do_get_pages(r, c);
	case P_DMA_MAP:
		return do_dma_map(r, c);
	case P_PEEK:
		return r->mapped ? peek(r, c->addr, &c->value) : -EINVAL;
	default:
		return one_step(r, c->op);
	}
}

/* ---- what the calls cost ---- */

static int bench(struct peer_client_bench *b)
{
	const struct peer_memory_client *client = clients[0];
	struct device *dev = device_of(b->card);
	cycles_t t[PB_STEPS + 1];
	struct sg_table table = { };
	void *context = NULL;
	int err, nmap = 0, i;

	if (!client || !dev)
		return -ENODEV;
	t[0] = get_cycles();
	err = client->acquire(b->addr, b->size, NULL, NULL, &context) == 1 ? 0 : -EFAULT;
	t[1] = get_cycles();
	if (err)
		goto put_device;
	err = client->get_pages(b->addr, b->size, 1, 0, NULL, context, 0);
	t[2] = get_cycles();
	if (err)
		goto release;
	err = client->dma_map(&table, context, dev, 0, &nmap);
	t[3] = get_cycles();
	if (err)
		goto put_pages;
	client->dma_unmap(&table, context, dev);
	t[4] = get_cycles();
put_pages:
	client->put_pages(&table, context);
	t[5] = get_cycles();
release:
	client->release(context);
	t[6] = get_cycles();
put_device:
	put_device(dev);
	b->nmap = nmap;
	for (i = 0; i < PB_STEPS && !err; i++)
		b->ticks[i] = t[i + 1] - t[i];
	return err;
}

static struct region *region_of(struct file *file)
{
	return file->private_data;
}

static int test_release(struct inode *inode, struct file *file)
{
	struct region *r = region_of(file);

	activate(r);
	if (r->client)
		deregister(r);
	kref_put(&r->ref, region_free);
	return 0;
}

static int test_open(struct inode *inode, struct file *file)
{
	struct miscdevice *misc = file->private_data;
	struct region *r = kzalloc(sizeof(*r), GFP_KERNEL);

	if (!r)
		return -ENOMEM;
	kref_init(&r->ref);
	sema_init(&r->making, 1);
	mutex_init(&r->lock);
	init_completion(&r->go);
	no_bus = misc->this_device;
	file->private_data = r;
	return 0;
}

static long test_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *uarg = (void __user *)arg;
	struct peer_client_bench b;
	struct peer_client_call c;

	if (cmd == PEER_CLIENT_BENCH) {
		if (copy_from_user(&b, uarg, sizeof(b)))
			return -EFAULT;
		return bench(&b) ?: copy_to_user(uarg, &b, sizeof(b)) ? -EFAULT : 0;
	}
	if (cmd != PEER_CLIENT_CALL)
		return -ENOTTY;
	if (copy_from_user(&c, uarg, sizeof(c)))
		return -EFAULT;
	c.ret = call(region_of(file), &c);
	return copy_to_user(uarg, &c, sizeof(c)) ? -EFAULT : 0;
}

static const struct file_operations test_fops = {
	.owner = THIS_MODULE,
	.open = test_open,
	.release = test_release,
	.unlocked_ioctl = test_ioctl,
};

static struct miscdevice test_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "peer_client_test",
	.fops = &test_fops,
	.mode = 0600,
};

module_misc_device(test_misc);

MODULE_DESCRIPTION("Plays the RDMA core for peer-memory clients, for tests");
MODULE_LICENSE("Dual MIT/GPL");
