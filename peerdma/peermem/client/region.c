// SPDX-License-Identifier: MIT OR GPL-2.0
/* region.c - one registration; region.h says which thread may wait for which. */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include <peerdma_ioctl.h>
#include <peerdma_kapi.h>

#include "imported.h"
#include "region.h"

#define NAME "peerdma_peermem: "

struct region {
	const struct peermem_client *client;
	struct peerdma_pin *pin;
	u64 start, length;		/* whole pages; the table covers these */
	u64 context;			/* core_context; written before `map' */
	struct work_struct end;		/* of a region that was revoked */

	spinlock_t lock;		/* guards the fields below */
	bool got;			/* between get_pages and put_pages; set without the lock */
	bool mapping;			/* dma_map is running */
	bool revoked;			/* the memory is lost, or is when revoke() returns */
	struct peerdma_mapping *map;	/* the adapter may be using it */
	struct sg_table table;		/* the table that dma_map gave to the core; we free it */
	struct scatterlist one;		/* its entry, if it has only one */
};

static struct workqueue_struct *ends;

/* ---- allocation ---- */

/*
 * Programs that cannot cache registrations make and end one for each message.  So each CPU
 * keeps one freed region for the next registration, except under KASAN, which looks for use
 * after free.  It is not charged to a memory cgroup: its next user may be another one.
 */
static DEFINE_PER_CPU(struct region *, spare);

static struct region *region_alloc(void)
{
	struct region *r = this_cpu_xchg(spare, NULL);

	if (unlikely(!r)) {
		r = kmalloc(sizeof(*r), GFP_KERNEL);
		if (!r)
			return NULL;
		spin_lock_init(&r->lock);
	}
	r->got = false;
	r->mapping = false;
	r->revoked = false;
	r->map = NULL;
	r->table.sgl = NULL;
	return r;
}

static void region_free(struct region *r)
{
	if (!IS_ENABLED(CONFIG_KASAN))
		r = this_cpu_xchg(spare, r);
	if (unlikely(r))
		kfree(r);
}

static void free_spares(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kfree(per_cpu(spare, cpu));
}

/* ---- the memory is taken back ---- */

/*
 * Runs in the thread that frees the memory.  The region stays allocated until this has
 * returned, since freeing it waits for that.  If its context has ended when the core looks,
 * the core does not find it or does nothing.
 */
static void revoke(struct peerdma_pin *pin, void *priv)
{
	struct region *r = priv;
	bool mapped;

	spin_lock(&r->lock);
	r->revoked = true;
	mapped = r->map;
	spin_unlock(&r->lock);
	/* If it is not mapped, no adapter reaches it, and get_pages or dma_map will fail. */
	if (mapped)
		r->client->invalidate(r->client->handle, r->context);
}

static const struct peerdma_client_ops revocable_ops = {
	.owner = THIS_MODULE,
	.name = "peer memory",
	.revoke = revoke,
};

static const struct peerdma_client_ops persistent_ops = {
	.owner = THIS_MODULE,
	.name = "peer memory",
};

/* ---- acquire and release ---- */

static struct peerdma_pin *pin_range(struct region *r)
{
	struct peerdma_pin *pin;

	if (r->client->persistent)
		return peerdma_pin_user(r->start, r->length,
					PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT,
					&persistent_ops, r);
	pin = peerdma_pin_user(r->start, r->length, PEERDMA_PIN_DEVICE, &revocable_ops, r);
	if (pin == ERR_PTR(-ENXIO))
		pin = peermem_pin_imported(r->start, r->length, &revocable_ops, r);
	return pin;
}

/* The core ignores this errno and asks the next client, so the log gives the reason. */
static void explain(const struct region *r, int err)
{
	const char *why;

	switch (err) {
	case -ENOSPC:
		why = "the GPU's BAR is full";
		break;
	case -EDQUOT:
		why = "this user has reached a limit, of pins or of the GPU's BAR";
		break;
	case -ENFILE:
		why = "peerdma.ko has no pin left";
		break;
	case -EPERM:
		why = "it is a read-only or private mapping of a dma-buf, and adapters write";
		break;
	case -EOPNOTSUPP:
		why = r->client->persistent ? "its driver has no persistent pins" :
					      "its driver refuses";
		break;
	default:
		why = "it cannot be pinned";
		break;
	}
	pr_info_ratelimited(NAME "[%#llx, %#llx) of %s (%d) is not registered: %s (error %d)\n",
			    r->start, r->start + r->length, current->comm, current->tgid, why, err);
}

int peermem_acquire(const struct peermem_client *client, unsigned long addr, size_t size,
		    void **region)
{
	u64 end = (u64)addr + size;
	struct peerdma_pin *pin;
	struct region *r;

	if (!size || end < addr || end > (u64)PAGE_MASK || !current->mm)
		return 0;
	/*
	 * A core may call acquire before registration has returned the handle, which
	 * invalidation needs.
	 */
	if (!client->persistent && !smp_load_acquire(&client->handle))
		return 0;
	r = region_alloc();
	if (!r)
		return -ENOMEM;
	r->client = client;
	r->start = addr & PAGE_MASK;
	r->length = PAGE_ALIGN(end) - r->start;
	pin = pin_range(r);
	if (IS_ERR(pin)) {
		int err = PTR_ERR(pin);

		/* Not our memory, which is the most common case. */
		if (err == -ENXIO || (client->persistent && err == -EOPNOTSUPP))
			err = 0;
		else
			explain(r, err);
		region_free(r);
		return err;
	}
	r->pin = pin;
	*region = r;
	return 1;
}

/* In a work item: waits for the revocation, if one is under way.  No core waits for this thread. */
static void end_region(struct work_struct *work)
{
	struct region *r = container_of(work, struct region, end);

	if (r->map)
		peerdma_unmap(r->map);
	peerdma_unpin(r->pin);
	region_free(r);
}

/* Frees the table's entries, unless they are part of the region. */
static void free_table(struct region *r, struct sg_table *table)
{
	if (table->sgl && table->sgl != &r->one)
		sg_free_table(table);
}

/* Also called if nothing was mapped. */
static void put_table(struct region *r)
{
	struct sg_table table;
	bool many;

	spin_lock(&r->lock);
	many = r->table.sgl && r->table.sgl != &r->one;
	if (unlikely(many))
		table = r->table;
	r->table.sgl = NULL;
	r->got = false;
	spin_unlock(&r->lock);
	if (unlikely(many))
		sg_free_table(&table);
}

void peermem_release(void *region)
{
	struct region *r = region;

	/*
	 * A core with INVALIDATE_UNMAPS does not call put_pages for a region that was
	 * invalidated.
	 */
	if (unlikely(r->got))
		put_table(r);
	/* Acquire: the revocation is done with the region's fields. */
	if (unlikely(smp_load_acquire(&r->revoked))) {
		INIT_WORK(&r->end, end_region);
		queue_work(ends, &r->end);
		return;
	}
	/* A revocation that begins now finds nothing mapped, and does not call the core. */
	WARN_ON(r->map);
	peerdma_unpin(r->pin);
	region_free(r);
}

/* ---- between acquire and release ---- */

int peermem_get_pages(unsigned long addr, size_t size, int write, int force, struct sg_table *table,
		      void *region, u64 core_context)
{
	struct region *r = region;

	if (addr < r->start || size > r->length || addr - r->start > r->length - size)
		return -EINVAL;
	/* A revocation that is not seen here is seen by dma_map. */
	if (READ_ONCE(r->revoked))
		return -EFAULT;
	if (xchg(&r->got, true))
		return -EBUSY;
	/* A revocation reads it only once there is a mapping. */
	r->context = core_context;
	return 0;
}

/* An entry's length is 32 bits wide. */
#define ENTRY_MAX	((u64)SZ_2G)

/*
 * State of a walk over the mapping's runs, which cover the provider's whole pages, to make
 * the entries of the region's table.
 */
struct walk {
	const struct peerdma_mapping *map;
	u32 run;
	u64 skip;		/* bytes to skip: before the region, or used already */
	u64 left;		/* bytes of the region that are left */
};

static struct walk walk_of(const struct region *r, const struct peerdma_mapping *map)
{
	return (struct walk){ map, 0, peerdma_pin_offset(r->pin), r->length };
}

/* Returns the next entry's length, and its address in *addr; 0: there are no more. */
static u32 next_entry(struct walk *w, u64 *addr)
{
	u64 length = 0, n;

	while (w->left && (length = peerdma_mapping_run(w->map, w->run, addr)) &&
	       length <= w->skip) {
		w->skip -= length;
		w->run++;
	}
	if (!w->left || !length)
		return 0;
	n = min3(length - w->skip, w->left, ENTRY_MAX);
	*addr += w->skip;
	w->skip += n;
	w->left -= n;
	return n;
}

static void set_entry(struct scatterlist *sg, u64 addr, u32 length)
{
	sg_set_page(sg, NULL, length, 0);
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = length;
}

/*
 * Fills a table with the adapter's addresses for the region's pages.  The core may write to
 * the table, and the client frees it.  Adapters have page tables, so an entry's length is
 * not limited.  -EFAULT: a revocation is taking the mapping down.
 */
static int fill_table(struct region *r, struct peerdma_mapping *map, struct sg_table *table)
{
	u64 addr, skip = peerdma_pin_offset(r->pin);
	u64 length = peerdma_mapping_run(map, 0, &addr);
	struct scatterlist *sg;
	unsigned int i, n = 0;
	struct walk w;
	int err;

	if (likely(length >= skip + r->length && r->length <= ENTRY_MAX)) {
		/* Set each time: the core may have written to it. */
		sg_init_table(&r->one, 1);
		set_entry(&r->one, addr + skip, r->length);
		*table = (struct sg_table){ .sgl = &r->one, .nents = 1, .orig_nents = 1 };
		return 0;
	}
	w = walk_of(r, map);
	while (next_entry(&w, &addr))
		n++;
	if (w.left)
		return -EFAULT;
	err = sg_alloc_table(table, n, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	w = walk_of(r, map);
	for_each_sgtable_sg(table, sg, i) {
		u32 part = next_entry(&w, &addr);

		set_entry(sg, addr, part);
	}
	return 0;
}

/* Only one dma_map may run at a time, after get_pages. */
static int begin_mapping(struct region *r)
{
	int err = 0;

	spin_lock(&r->lock);
	if (!r->got || r->mapping || r->map)
		err = -EINVAL;
	else if (r->revoked)
		err = -EFAULT;
	else
		r->mapping = true;
	spin_unlock(&r->lock);
	return err;
}

/* From here on a revocation makes the core stop the adapter.  -EFAULT: a revocation came first. */
static int end_mapping(struct region *r, struct peerdma_mapping *map, const struct sg_table *table)
{
	struct sg_table last = { };
	int err = 0;

	spin_lock(&r->lock);
	r->mapping = false;
	if (r->revoked) {
		err = -EFAULT;
	} else if (map) {
		/*
		 * A core may map again without put_pages: then it does not use the last
		 * table any more.
		 */
		if (unlikely(r->table.sgl))
			last = r->table;
		r->map = map;
		r->table = *table;
	}
	spin_unlock(&r->lock);
	free_table(r, &last);
	return err;
}

int peermem_dma_map(struct sg_table *sg_head, void *region, struct device *dev, int dmasync,
		    int *nmap)
{
	struct region *r = region;
	struct peerdma_mapping *map;
	struct sg_table table;
	int err;

	if (!dev)
		return -EINVAL;
	err = begin_mapping(r);
	if (err)
		return err;
	map = peerdma_map_runs(r->pin, dev, DMA_BIDIRECTIONAL);
	if (IS_ERR(map)) {
		err = PTR_ERR(map);
		err = end_mapping(r, NULL, NULL) ?: err;
		/*
		 * The memory was or is being taken back, for which programs expect EFAULT.
		 * EIO: Tegra's driver returns that error in this case.
		 */
		return err == -ESTALE || err == -EIO ? -EFAULT : err;
	}
	err = fill_table(r, map, &table);
	if (err) {
		err = end_mapping(r, NULL, NULL) ?: err;
		goto unmap;
	}
	err = end_mapping(r, map, &table);
	if (err) {
		free_table(r, &table);
		goto unmap;
	}
	*sg_head = table;
	*nmap = table.nents;
	return 0;

unmap:
	peerdma_unmap(map);
	return err;
}

/* If the region is revoked, it stays mapped until the revocation has returned: see end_region(). */
int peermem_dma_unmap(struct sg_table *table, void *region, struct device *dev)
{
	struct peerdma_mapping *map = NULL;
	struct region *r = region;

	spin_lock(&r->lock);
	if (!r->revoked)
		swap(map, r->map);
	spin_unlock(&r->lock);
	if (map)
		peerdma_unmap(map);
	return 0;
}

void peermem_put_pages(struct sg_table *table, void *region)
{
	put_table(region);
	*table = (struct sg_table){ };
}

/* The table covers exactly the region's pages, so the core need not trim it. */
unsigned long peermem_page_size(void *region)
{
	return PAGE_SIZE;
}

/* ---- the module ---- */

int peermem_regions_init(void)
{
	ends = alloc_workqueue("peerdma_peermem", WQ_UNBOUND, 0);
	return ends ? 0 : -ENOMEM;
}

void peermem_regions_exit(void)
{
	destroy_workqueue(ends);
	free_spares();
}
