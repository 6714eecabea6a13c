// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf.c - MRs of dma-bufs: a dynamic attachment of the adapter's PCI function.
 *
 * When the exporter moves the memory, it is closed for accesses and unmapped.  The next
 * access requests a new mapping, which the dma-buf's mapper makes; meanwhile packets are
 * retried (hca_resp.h).  If the exporter refuses to map, it has revoked the memory, and accesses
 * fail from then on.  If memory for the mapping cannot be allocated, accesses keep
 * requesting it.  A mapping that an access has requested stays for a while: see stay().
 *
 * The reservation lock guards sgt, for_access, begun and made.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/hashtable.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "rxe.h"
#include "rxe_loc.h"

#include "compat.h"
#include "hca.h"

/*
 * Maps the regions of one dma-buf again, one after the other. While it waits for the exporter, it keeps a worker busy. A program
 * may have thousands of regions: if each waited by itself, no worker would be left for other programs.
 */
struct mapper {
	struct hlist_node hash;		/* in mappers, by dma-buf; guarded by mappers_lock */
	const struct dma_buf *dmabuf;
	unsigned long users;		/* regions; guarded by mappers_lock */
	struct work_struct work;
	spinlock_t lock;		/* guards waiting */
	struct list_head waiting;	/* regions for which an access has found no mapping */
};

static DEFINE_HASHTABLE(mappers, 8);
static DEFINE_MUTEX(mappers_lock);

struct dmabuf_memory {
	struct hca_memory memory;	/* first */
	struct dma_buf *dmabuf;
	struct mapper *mapper;
	struct mem_cgroup *memcg;	/* the program's, which is charged for each mapping; NULL: none */
	struct list_head waiting;	/* in mapper->waiting, or empty; removed with the reservation lock held, too */
	struct dma_buf_attachment *attach;
	struct sg_table *sgt;		/* NULL: not mapped */
	enum dma_data_direction dir;
	bool for_access;		/* the mapping was made because an access found none */
	unsigned long begun, made;	/* jiffies: when that began, and ended */
	unsigned long wanted;		/* jiffies: when an access last found no mapping; without a lock */
	u64 length;
};

/* Not the system's workqueue: exporters may keep all workers busy, and then everything else would wait, such as the loading of modules. */
static struct workqueue_struct *mappings;

/* ---- the mapping; the reservation lock is held ---- */

static void unmap(struct dmabuf_memory *d)
{
	if (d->sgt)
		dma_buf_unmap_attachment(d->attach, d->sgt, d->dir);
	d->sgt = NULL;
}

static int map(struct dmabuf_memory *d)
{
	int err, removals = hca_removals();
	struct sg_table *sgt = dma_buf_map_attachment(d->attach, d->dir);
	long waited;

	if (IS_ERR_OR_NULL(sgt))
		return sgt ? PTR_ERR(sgt) : -ENOMEM;
	d->sgt = sgt;
	/* The exporter may still be copying its contents. */
	waited = dma_resv_wait_timeout(d->dmabuf->resv, DMA_RESV_USAGE_KERNEL, false, MAX_SCHEDULE_TIMEOUT);
	err = waited < 0 ? waited : hca_open(&d->memory, sgt, d->length, removals);
	if (err)
		unmap(d);
	return err;
}

/*
 * A request that found no mapping is repeated when its requester gets to it: after a timer, and behind packets that the requester
 * had sent meanwhile and that were of no use.  If the exporter moved the memory again before, and so on, the request would never
 * end.  So a mapping that was made for an access stays until an access comes, and then as long again as that took since the mapping
 * was begun: then further packets of a slow requester get through, too.  Either wait of the exporter is MAX_STAY at most.  That holds
 * for several regions together: none is mapped while the exporter waits, so their times run at once.
 */
#define MAX_STAY (HZ / 4)

static unsigned long stays_until(const struct dmabuf_memory *d)
{
	unsigned long first = READ_ONCE(d->memory.first_access), end = d->made + MAX_STAY;

	/* A later access does not count: it could come while the exporter waits for another region, and so on. */
	if (first && time_before_eq(first, end))
		/* A jiffy more: the first may have just ended. */
		end = first + 1 + min_t(unsigned long, first - d->begun, MAX_STAY);
	return end;
}

static void stay(const struct dmabuf_memory *d)
{
	while (d->for_access && time_before(jiffies, stays_until(d)))
		schedule_timeout_uninterruptible(1);
}

/* Called when the exporter moves or revokes the memory. */
static void moved(struct dma_buf_attachment *attach)
{
	struct dmabuf_memory *d = attach->importer_priv;

	dma_resv_assert_held(d->dmabuf->resv);
	if (!d->sgt)
		return;
	stay(d);
	hca_close(&d->memory, HCA_MOVED);
	unmap(d);
}

static const struct dma_buf_attach_ops attach_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = moved,
};

static int map_for_access(struct dmabuf_memory *d)
{
	struct mem_cgroup *worker = set_active_memcg(d->memcg);
	int err;

	d->begun = jiffies;
	err = map(d);
	set_active_memcg(worker);
	d->made = jiffies;
	d->for_access = !err;
	return err;
}

/*
 * Many regions may wait for the reservation lock to be mapped one after the other, each for as long as the exporter takes, and
 * a thread that ends a region waits behind them.  So none is mapped that no request has used lately: a request that still needs it is
 * repeated after 655 ms at most (IBA's longest RNR timer), and asks again.
 */
static bool is_wanted(const struct dmabuf_memory *d)
{
	return READ_ONCE(d->memory.state) != HCA_GONE && time_before(jiffies, READ_ONCE(d->wanted) + 2 * HZ);
}

static void map_again(struct dmabuf_memory *d)
{
	int err = 0;

	if (!d->sgt && is_wanted(d))
		err = map_for_access(d);
	if (!err || err == -ENOMEM)
		return;
	hca_close(&d->memory, HCA_GONE);
	ibdev_dbg(d->memory.ibdev, "a dma-buf is treated as revoked: it cannot be mapped again, error %d\n", err);
}

/* ---- the mapper of a dma-buf ---- */

static struct dmabuf_memory *next_waiting(struct mapper *mapper)
{
	struct dmabuf_memory *d;

	spin_lock_bh(&mapper->lock);
	d = list_first_entry_or_null(&mapper->waiting, struct dmabuf_memory, waiting);
	if (d)
		list_del_init(&d->waiting);
	spin_unlock_bh(&mapper->lock);
	return d;
}

static void map_waiting(struct work_struct *work)
{
	struct mapper *mapper = container_of(work, struct mapper, work);
	struct dma_resv *resv = mapper->dmabuf->resv;
	struct dmabuf_memory *d;

	do {
		/* For each anew: others wait for the lock, too.  A region ends with it held, so that d remains until it is released. */
		dma_resv_lock(resv, NULL);
		d = next_waiting(mapper);
		if (d)
			map_again(d);
		dma_resv_unlock(resv);
	} while (d);
}

/* Called when an access finds the memory not mapped. */
static void want(struct hca_memory *memory)
{
	struct dmabuf_memory *d = container_of(memory, struct dmabuf_memory, memory);
	struct mapper *mapper = d->mapper;

	WRITE_ONCE(d->wanted, jiffies);
	spin_lock_bh(&mapper->lock);
	if (list_empty(&d->waiting))
		list_add_tail(&d->waiting, &mapper->waiting);
	spin_unlock_bh(&mapper->lock);
	queue_work(mappings, &mapper->work);
}

static struct mapper *mapper_find(const struct dma_buf *dmabuf)
{
	struct mapper *mapper;

	hash_for_each_possible(mappers, mapper, hash, (unsigned long)dmabuf)
		if (mapper->dmabuf == dmabuf)
			return mapper;
	return NULL;
}

static struct mapper *mapper_create(const struct dma_buf *dmabuf)
{
	struct mapper *mapper = kzalloc(sizeof(*mapper), GFP_KERNEL_ACCOUNT);

	if (!mapper)
		return NULL;
	mapper->dmabuf = dmabuf;
	INIT_WORK(&mapper->work, map_waiting);
	spin_lock_init(&mapper->lock);
	INIT_LIST_HEAD(&mapper->waiting);
	return mapper;
}

/*
 * The caller has a reference to the dma-buf for as long as it has the mapper.  A new one is
 * allocated before the lock is taken: its charge may wait for the user's cgroup, and all
 * users share the lock.
 */
static struct mapper *mapper_get(const struct dma_buf *dmabuf)
{
	struct mapper *fresh = mapper_create(dmabuf), *mapper;

	if (!fresh)
		return NULL;
	mutex_lock(&mappers_lock);
	mapper = mapper_find(dmabuf);
	if (!mapper) {
		mapper = fresh;
		hash_add(mappers, &mapper->hash, (unsigned long)dmabuf);
	}
	mapper->users++;
	mutex_unlock(&mappers_lock);
	if (mapper != fresh)
		kfree(fresh);
	return mapper;
}

static void mapper_put(struct mapper *mapper)
{
	bool last;

	mutex_lock(&mappers_lock);
	last = !--mapper->users;
	if (last)
		hash_del(&mapper->hash);
	mutex_unlock(&mappers_lock);
	if (!last)
		return;
	cancel_work_sync(&mapper->work);
	kfree(mapper);
}

/* ---- a region ---- */

static void no_longer_waiting(struct dmabuf_memory *d)
{
	spin_lock_bh(&d->mapper->lock);
	list_del_init(&d->waiting);
	spin_unlock_bh(&d->mapper->lock);
}

static void release(struct hca_memory *memory)
{
	struct dmabuf_memory *d = container_of(memory, struct dmabuf_memory, memory);

	hca_close(memory, HCA_GONE);
	dma_resv_lock(d->dmabuf->resv, NULL);
	no_longer_waiting(d);
	unmap(d);
	dma_resv_unlock(d->dmabuf->resv);
	if (d->attach)
		dma_buf_detach(d->dmabuf, d->attach);
	mapper_put(d->mapper);
	dma_buf_put(d->dmabuf);
	hca_memory_end(memory);
	mem_cgroup_put(d->memcg);
	kfree(d);
}

static int attach(struct dmabuf_memory *d)
{
	struct dma_buf_attachment *at = dma_buf_dynamic_attach(d->dmabuf, d->memory.dev, &attach_ops, d);
	int err, removals;

	if (IS_ERR(at))
		return PTR_ERR(at);
	d->attach = at;
	dma_resv_lock(d->dmabuf->resv, NULL);
	do {
		removals = hca_removals();
		err = map(d);
		/* Any device may have lost its driver meanwhile. */
	} while (err == -ENOMEM && removals != hca_removals());
	dma_resv_unlock(d->dmabuf->resv);
	return err;
}

/* The kernel checks this in mmap() only; importers have to do so themselves. */
static int check_mode(struct ib_device *ibdev, const struct dma_buf *dmabuf, int access)
{
	if (!ib_access_writable(access) || dmabuf->file->f_mode & FMODE_WRITE)
		return 0;
	ibdev_notice_ratelimited(ibdev, "a dma-buf of %s is not registered: it is open for reading only\n", dmabuf->exp_name);
	return -EACCES;
}

static struct dmabuf_memory *create(struct ib_device *ibdev, struct dma_buf *dmabuf, u64 offset, u64 length, int access)
{
	struct dmabuf_memory *d;
	int err;

	if (!length || offset + length < offset || offset + length > dmabuf->size) {
		ibdev_notice_ratelimited(ibdev, "a dma-buf of %s is not registered: it has no %llu bytes from %llu on, but %zu in all\n",
					 dmabuf->exp_name, length, offset, dmabuf->size);
		return ERR_PTR(-EINVAL);
	}
	err = check_mode(ibdev, dmabuf, access);
	if (err)
		return ERR_PTR(err);
	d = kzalloc(sizeof(*d), GFP_KERNEL_ACCOUNT);
	if (!d)
		return ERR_PTR(-ENOMEM);
	err = hca_memory_init(&d->memory, ibdev);
	if (err)
		goto no_memory;
	d->mapper = mapper_get(dmabuf);
	if (!d->mapper) {
		err = -ENOMEM;
		goto no_mapper;
	}
	d->memory.offset = offset;
	d->memory.want = want;
	d->memory.release = release;
	d->dmabuf = dmabuf;
	d->memcg = get_mem_cgroup_from_mm(current->mm);
	d->length = length;
	d->dir = ib_access_writable(access) ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
	INIT_LIST_HEAD(&d->waiting);
	return d;

no_mapper:
	hca_memory_end(&d->memory);
no_memory:
	kfree(d);
	return ERR_PTR(err);
}

int hca_mr_init_dmabuf(struct rxe_mr *mr, struct ib_device *ibdev, u64 offset, u64 length, u64 iova, int fd, int access)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	struct dmabuf_memory *d;
	int err;

	if (IS_ERR(dmabuf)) {
		ibdev_notice_ratelimited(ibdev, "file %d of %s (%d) is not a dma-buf\n", fd, current->comm, task_tgid_nr(current));
		return PTR_ERR(dmabuf);
	}
	d = create(ibdev, dmabuf, offset, length, access);
	if (IS_ERR(d)) {
		dma_buf_put(dmabuf);
		return PTR_ERR(d);
	}
	err = attach(d);
	if (err) {
		ibdev_notice_ratelimited(ibdev, "a dma-buf of %s is not registered: it cannot be mapped, error %d\n",
					 dmabuf->exp_name, err);
		release(&d->memory);
		return err;
	}
	/* Unlike for ordinary MRs, the driver fills these in. */
	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	hca_mr_set(mr, &d->memory, access);
	return 0;
}

int hca_dmabuf_start(void)
{
	mappings = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND, 0);
	return mappings ? 0 : -ENOMEM;
}

void hca_dmabuf_stop(void)
{
	destroy_workqueue(mappings);
}

HCA_IMPORT_DMA_BUF;
