// SPDX-License-Identifier: MIT OR GPL-2.0
/* region.c - one registration; region.h says who may wait for whom. */
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
	u64 context;			/* the core's; written before `map' */
	struct work_struct end;		/* of a region that was revoked */

	spinlock_t lock;		/* guards what follows */
	bool got;			/* get_pages has succeeded, and put_pages has not been called; set without the lock */
	bool mapping;			/* dma_map is at work */
	bool revoked;			/* the memory is gone, or goes when the revocation returns */
	struct peerdma_mapping *map;	/* the adapter may be using it */
	struct sg_table table;		/* what dma_map gave to the core: ours to free */
	struct scatterlist one;		/* its entry, if it has only one */
};

static struct workqueue_struct *ends;

/* ---- allocation ---- */

/*
 * Programs that cannot cache registrations make and end one for each message: so each processor keeps one region for the
 * next; not on kernels that look for use after free.  Not accounted: the next may be another user's.
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

/* ---- the memory goes away ---- */

/*
 * In the thread that frees the memory.  The region stays until this has returned: what frees it waits for that.
 * Its context may have ended by the time the core looks: then the core knows it no more, or does nothing.
 */
static void revoke(struct peerdma_pin *pin, void *priv)
{
	struct region *r = priv;
	bool mapped;

	spin_lock(&r->lock);
	r->revoked = true;
	mapped = r->map;
	spin_unlock(&r->lock);
	/* Not mapped, no adapter reaches it: get_pages or dma_map will say that it is gone. */
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
		return peerdma_pin_user(r->start, r->length, PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT,
					&persistent_ops, r);
	pin = peerdma_pin_user(r->start, r->length, PEERDMA_PIN_DEVICE, &revocable_ops, r);
	if (pin == ERR_PTR(-ENXIO))
		pin = peermem_pin_imported(r->start, r->length, &revocable_ops, r);
	return pin;
}

/* The caller is told only that it is no memory of ours, so the log says why. */
static void explain(const struct region *r, int err)
{
	const char *why;

	switch (err) {
	case -ENOSPC:
		why = "the GPU's BAR is full";
		break;
	case -EDQUOT:
		why = "this user has as many pins, or as much of the GPU's BAR, as one user may";
		break;
	case -ENFILE:
		why = "there are as many pins as there can be";
		break;
	case -EPERM:
		why = "it is a dma-buf, mapped read-only or privately, and adapters write";
		break;
	case -EOPNOTSUPP:
		why = r->client->persistent ? "its driver has no persistent pins" : "its driver refuses";
		break;
	default:
		why = "it cannot be pinned";
		break;
	}
	pr_info_ratelimited(NAME "[%#llx, %#llx) of %s (%d) is not registered: %s (error %d)\n",
			    r->start, r->start + r->length, current->comm, current->tgid, why, err);
}

int peermem_acquire(const struct peermem_client *client, unsigned long addr, size_t size, void **region)
{
	u64 end = (u64)addr + size;
	struct peerdma_pin *pin;
	struct region *r;

	if (!size || end < addr || end > (u64)PAGE_MASK || !current->mm)
		return 0;
	/* Cores may ask before they have told the handle, without which there is no invalidating. */
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

		/* Somebody else's memory: most of it is. */
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

/* Waits for the revocation, if there is one: no core waits for this thread. */
static void end_region(struct work_struct *work)
{
	struct region *r = container_of(work, struct region, end);

	if (r->map)
		peerdma_unmap(r->map);
	peerdma_unpin(r->pin);
	region_free(r);
}

/* The table's entries, unless they are the region's own. */
static void free_table(struct region *r, struct sg_table *table)
{
	if (table->sgl && table->sgl != &r->one)
		sg_free_table(table);
}

/* Also where nothing was mapped. */
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

	/* A core with INVALIDATE_UNMAPS has not called put_pages, of a region that was invalidated. */
	if (unlikely(r->got))
		put_table(r);
	/* Acquire: what the revocation found in the region it found before. */
	if (unlikely(smp_load_acquire(&r->revoked))) {
		INIT_WORK(&r->end, end_region);
		queue_work(ends, &r->end);
		return;
	}
	/* A revocation that begins now finds nothing mapped, and asks the core nothing. */
	WARN_ON(r->map);
	peerdma_unpin(r->pin);
	region_free(r);
}

/* ---- between the two ---- */

int peermem_get_pages(unsigned long addr, size_t size, int write, int force, struct sg_table *table,
		      void *region, u64 core_context)
{
	struct region *r = region;

	if (addr < r->start || size > r->length || addr - r->start > r->length - size)
		return -EINVAL;
	/* A revocation that is not seen here is by dma_map. */
	if (READ_ONCE(r->revoked))
		return -EFAULT;
	if (xchg(&r->got, true))
		return -EBUSY;
	/* No revocation reads it before there is a mapping. */
	r->context = core_context;
	return 0;
}

/* An entry's length is 32 bits wide. */
#define ENTRY_MAX	((u64)SZ_2G)

/* The next entry of the region's table, from the mapping's runs, which are of the provider's whole pages. */
struct walk {
	const struct peerdma_mapping *map;
	u32 run;
	u64 skip;		/* bytes of the runs from here on that are not the region's */
	u64 left;		/* of the region */
};

static struct walk walk_of(const struct region *r, const struct peerdma_mapping *map)
{
	return (struct walk){ map, 0, peerdma_pin_offset(r->pin), r->length };
}

/* Its length; 0: there are no more. */
static u32 next_entry(struct walk *w, u64 *addr)
{
	u64 length = 0, n;

	while (w->left && (length = peerdma_mapping_run(w->map, w->run, addr)) && length <= w->skip) {
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
 * The adapter's addresses for the pages of the region, in a table that the core may write to and the client frees.
 * Adapters have page tables, and no limit of a piece's length.  -EFAULT: a revocation takes the mapping down.
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
		/* Anew: the core may have written to it. */
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

/* Only one dma_map at a time, after get_pages. */
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

/* From here on a revocation has the adapter stopped.  -EFAULT: one was faster. */
static int end_mapping(struct region *r, struct peerdma_mapping *map, const struct sg_table *table)
{
	struct sg_table last = { };
	int err = 0;

	spin_lock(&r->lock);
	r->mapping = false;
	if (r->revoked) {
		err = -EFAULT;
	} else if (map) {
		/* A core may map again without put_pages: it has no use for the last table then. */
		if (unlikely(r->table.sgl))
			last = r->table;
		r->map = map;
		r->table = *table;
	}
	spin_unlock(&r->lock);
	free_table(r, &last);
	return err;
}

int peermem_dma_map(struct sg_table *sg_head, void *region, struct device *dev, int dmasync, int *nmap)
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
		/* The memory is gone, or going, as programs know it; EIO is what Tegra's driver makes of that. */
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

/* What is revoked stays mapped, as far as it is, until the revocation has returned: see end_region(). */
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

/* The table has the region's own pages, so that no core need trim it. */
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
