// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * region.c - which thread may do what to a region, and which thread waits for which. See
 * region.h, rdma/peer_mem.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kref.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "client.h"
#include "region.h"
#include "trim.h"

enum peer_state { PEER_NEW, PEER_HELD, PEER_ENDING, PEER_ENDED };

struct peer_region {
	struct ib_umem umem;		/* what the driver gets; its table is a copy of `table' */
	struct kref kref;		/* the umem, and each invalidation under way */
	struct peer_client *client;	/* one user of it until released */
	void *context;			/* the client's */
	u64 id;				/* core_context; 0: the client cannot invalidate */
	struct device *dev;
	struct sg_table table;		/* the client's; it gets it unchanged in dma_unmap */
	size_t pages;			/* count, saved here: drivers change umem.iova */

	spinlock_t lock;		/* guards the fields below */
	wait_queue_head_t wait;		/* woken at any change of these fields */
	enum peer_state state;
	struct task_struct *getter;	/* the thread in get_pages or dma_map */
	struct task_struct *ender;	/* the thread that has claimed the end */
	bool mapped;			/* dma_map has succeeded */
	bool gone;			/* invalidated */
	bool stopped;			/* no DMA is under way or will start */
	umem_invalidate_func_t func;
	void *cookie;
	bool activated;
};

/* Marks our umems, in sgt_append.prv: struct ib_umem has no field for that. */
static struct scatterlist mark;

bool peer_region_is(const struct ib_umem *umem)
{
	return !IS_ERR_OR_NULL(umem) && umem->sgt_append.prv == &mark;
}

static struct peer_region *to_region(struct ib_umem *umem)
{
	return container_of(umem, struct peer_region, umem);
}

static void region_free(struct kref *kref)
{
	kfree(container_of(kref, struct peer_region, kref));
	module_put(THIS_MODULE);
}

/* ---- calls of the client ---- */

/* Begins a call that invalidations wait for. False: the region was invalidated already. */
static bool getter_begin(struct peer_region *region)
{
	bool wanted;

	spin_lock_irq(&region->lock);
	wanted = !region->gone;
	if (wanted)
		region->getter = current;
	spin_unlock_irq(&region->lock);
	return wanted;
}

static void getter_end(struct peer_region *region, enum peer_state state, bool mapped)
{
	spin_lock_irq(&region->lock);
	region->getter = NULL;
	region->state = state;
	region->mapped = mapped;
	spin_unlock_irq(&region->lock);
	wake_up_all(&region->wait);
}

/*
 * Calls dma_unmap and put_pages, in the one thread that has claimed the end. by_client: the
 * client has invalidated the region before that, and unmaps by itself.
 */
static void region_end(struct peer_region *region, bool by_client)
{
	const struct peer_memory_client *ops = region->client->ops;
	int err = 0;

	if (!by_client) {
		if (region->mapped)
			err = ops->dma_unmap(&region->table, region->context, region->dev);
		if (err)
			pr_warn_ratelimited("%s: dma_unmap returned %d\n", ops->name, err);
		ops->put_pages(&region->table, region->context);
	}
	spin_lock_irq(&region->lock);
	region->state = PEER_ENDED;
	region->ender = NULL;
	spin_unlock_irq(&region->lock);
	wake_up_all(&region->wait);
	atomic64_inc(&region->client->counts[PEER_DEALLOC_MRS]);
}

/* Claims the end: no other thread undoes the region. Lock held. */
static bool claim(struct peer_region *region)
{
	if (region->state != PEER_HELD)
		return false;
	region->state = PEER_ENDING;
	region->ender = current;
	return true;
}

/* The caller's device is stopped. When this returns, the region is ENDED, or was never HELD. */
static void region_stop(struct peer_region *region)
{
	bool mine, by_client;

	spin_lock_irq(&region->lock);
	mine = claim(region);
	if (mine)
		region->stopped = true;
	else if (region->state != PEER_NEW)
		/* Another thread claimed the end; it may be running func. */
		wait_event_lock_irq(region->wait, region->state == PEER_ENDED, region->lock);
	by_client = region->gone && region->client->unmaps;
	region->func = NULL;
	spin_unlock_irq(&region->lock);
	if (!mine)
		return;
	wake_up_all(&region->wait);
	region_end(region, by_client);
}

static void region_put_client(struct peer_region *region)
{
	struct peer_client *client = region->client;

	if (region->id)
		xa_erase(&client->regions, region->id);
	if (client->ops->release)
		client->ops->release(region->context);
	peer_client_put(client);
}

static void region_release(struct peer_region *region)
{
	region_stop(region);
	region_put_client(region);
	mmdrop(region->umem.owning_mm);
	sg_free_table(&region->umem.sgt_append.sgt);
	kref_put(&region->kref, region_free);
}

void peer_region_release(struct ib_umem *umem)
{
	struct peer_region *region = to_region(umem);

	atomic64_add(region->pages, &region->client->counts[PEER_DEREG_PAGES]);
	atomic64_add(umem->length, &region->client->counts[PEER_DEREG_BYTES]);
	region_release(region);
}

/* ---- registration ---- */

static int region_get_pages(struct peer_region *region)
{
	const struct peer_memory_client *ops = region->client->ops;
	struct ib_umem *umem = &region->umem;
	int err;

	if (!getter_begin(region))
		return -EFAULT;
	err = ops->get_pages(umem->address, umem->length, 1, !umem->writable, NULL,
			     region->context, region->id);
	if (err > 0)
		err = -EINVAL;
	getter_end(region, err ? PEER_NEW : PEER_HELD, false);
	if (err)
		pr_info_ratelimited("%s: get_pages of %zu bytes: error %d\n", ops->name,
				    umem->length, err);
	else
		atomic64_inc(&region->client->counts[PEER_ALLOC_MRS]);
	return err;
}

/* Copies the table of dma_map, trimmed. */
static int region_copy_table(struct peer_region *region, int nmap)
{
	const struct peer_memory_client *ops = region->client->ops;
	struct ib_umem *umem = &region->umem;
	unsigned long page_size = PAGE_SIZE;
	int err;

	if (ops->get_page_size)
		page_size = ops->get_page_size(region->context);
	err = peer_trim_table(&umem->sgt_append.sgt, &region->table, nmap, umem->address,
			      umem->length, page_size);
	if (err)
		pr_info_ratelimited("%s: the table of dma_map for %zu bytes: error %d; its pages of %lu bytes, as get_page_size %s, must cover the range exactly\n",
				    ops->name, umem->length, err, page_size,
				    ops->get_page_size ? "returns" : "is missing");
	return err;
}

/* Maps, and copies the table while the client must keep it. */
static int region_map(struct peer_region *region)
{
	const struct peer_memory_client *ops = region->client->ops;
	bool mapped = false;
	int err, nmap = 0;

	if (!getter_begin(region))
		return -EFAULT;
	err = ops->dma_map(&region->table, region->context, region->dev, 0, &nmap);
	if (err > 0)
		err = -EINVAL;
	if (err) {
		pr_info_ratelimited("%s: dma_map for %zu bytes: error %d\n", ops->name,
				    region->umem.length, err);
	} else {
		mapped = true;
		err = region_copy_table(region, nmap);
	}
	getter_end(region, PEER_HELD, mapped);
	return err;
}

static int region_fill(struct peer_region *region)
{
	int err = region_get_pages(region);

	if (!err)
		err = region_map(region);
	if (!err) {
		spin_lock_irq(&region->lock);
		err = region->gone ? -EFAULT : 0;
		spin_unlock_irq(&region->lock);
	}
	return err;
}

/* If it succeeds, takes over the caller's user of the client, and the context. */
static struct peer_region *region_new(struct peer_client *client, void *context,
				      struct ib_device *ibdev, struct device *dev,
				      unsigned long addr, size_t size, int access)
{
	struct peer_region *region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	struct ib_umem *umem;

	if (!region)
		return NULL;
	umem = &region->umem;
	umem->ibdev = ibdev;
	umem->address = addr;
	umem->iova = addr;
	umem->length = size;
	umem->writable = ib_access_writable(access);
	umem->owning_mm = current->mm;
	umem->sgt_append.prv = &mark;
	region->pages = ib_umem_num_pages(umem);
	region->client = client;
	region->context = context;
	region->dev = dev;
	kref_init(&region->kref);
	spin_lock_init(&region->lock);
	init_waitqueue_head(&region->wait);
	if (client->revocable) {
		region->id = atomic64_inc_return(&client->last_context);
		if (xa_insert(&client->regions, region->id, region, GFP_KERNEL)) {
			kfree(region);
			return NULL;
		}
	}
	mmgrab(umem->owning_mm);
	__module_get(THIS_MODULE);
	return region;
}

/* Returns the first client that owns the range, with a user taken. */
static struct peer_client *acquire(unsigned long addr, size_t size, unsigned long flags,
				   void **context)
{
	struct peer_client *client;
	u64 number = 0;

	while ((client = peer_client_after(number))) {
		*context = NULL;
		if ((!client->revocable || flags & IB_PEER_MEM_INVAL_SUPP) &&
		    client->ops->acquire(addr, size, NULL, NULL, context) > 0)
			return client;
		number = client->number;
		peer_client_put(client);
	}
	return NULL;
}

struct ib_umem *peer_region_get(struct ib_device *ibdev, struct device *dev, unsigned long addr,
				size_t size, int access, unsigned long flags)
{
	struct peer_region *region;
	struct peer_client *client;
	void *context;
	int err;

	client = acquire(addr, size, flags, &context);
	if (!client)
		return NULL;
	region = region_new(client, context, ibdev, dev, addr, size, access);
	if (!region) {
		if (client->ops->release)
			client->ops->release(context);
		peer_client_put(client);
		return ERR_PTR(-ENOMEM);
	}
	err = region_fill(region);
	if (err) {
		region_release(region);
		return ERR_PTR(err);
	}
	atomic64_add(region->pages, &client->counts[PEER_REG_PAGES]);
	atomic64_add(size, &client->counts[PEER_REG_BYTES]);
	return &region->umem;
}

/* ---- invalidation ---- */

int peer_region_activate(struct ib_umem *umem, umem_invalidate_func_t func, void *cookie)
{
	struct peer_region *region = to_region(umem);
	int err = 0;

	spin_lock_irq(&region->lock);
	if (region->activated || !func) {
		err = -EINVAL;
	} else if (region->state != PEER_HELD || region->gone) {
		err = -EFAULT;
	} else {
		region->activated = true;
		region->func = func;
		region->cookie = cookie;
	}
	spin_unlock_irq(&region->lock);
	return err;
}

void peer_region_stop(struct ib_umem *umem)
{
	region_stop(to_region(umem));
}

/* Called by the thread that has claimed the end. */
static void stop_device(struct peer_region *region)
{
	umem_invalidate_func_t func;

	spin_lock_irq(&region->lock);
	func = region->func;
	spin_unlock_irq(&region->lock);
	if (func)
		func(region->cookie, &region->umem, region->umem.address, region->umem.length);
	spin_lock_irq(&region->lock);
	region->stopped = true;
	spin_unlock_irq(&region->lock);
	wake_up_all(&region->wait);
}

static void region_invalidate(struct peer_region *region)
{
	bool unmaps = region->client->unmaps;
	bool mine;

	spin_lock_irq(&region->lock);
	region->gone = true;
	/*
	 * Called from within a call of this region: that thread ends the region, and sees
	 * `gone'.
	 */
	if (region->getter == current || region->ender == current) {
		spin_unlock_irq(&region->lock);
		return;
	}
	wait_event_lock_irq(region->wait, !region->getter, region->lock);
	mine = claim(region);
	if (!mine && region->state == PEER_ENDING)
		wait_event_lock_irq(region->wait, region->state == PEER_ENDED ||
				    (unmaps && region->stopped), region->lock);
	spin_unlock_irq(&region->lock);
	if (!mine)
		return;
	stop_device(region);
	region_end(region, unmaps);
}

static struct peer_region *region_find(struct peer_client *client, u64 id)
{
	struct peer_region *region;

	xa_lock(&client->regions);
	region = xa_load(&client->regions, id);
	if (region)
		kref_get(&region->kref);
	xa_unlock(&client->regions);
	return region;
}

int peer_region_invalidate(void *reg_handle, u64 core_context)
{
	struct peer_client *client = reg_handle;
	struct peer_region *region;

	/* Unregistering waits for threads that hold a user. */
	if (!peer_client_get(client))
		return 0;
	atomic64_inc(&client->counts[PEER_FREE_CALLBACKS]);
	region = region_find(client, core_context);
	if (region) {
		region_invalidate(region);
		kref_put(&region->kref, region_free);
	}
	peer_client_put(client);
	return 0;
}
