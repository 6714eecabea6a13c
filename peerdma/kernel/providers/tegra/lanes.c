// SPDX-License-Identifier: MIT OR GPL-2.0
/* lanes.c - one work item for each account that has pins; see lanes.h. */
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "core/charge.h"
#include "lanes.h"

struct lane {
	struct list_head node;		/* lanes */
	struct peerdma_account *account;
	refcount_t users;		/* the last one is dropped under lanes_lock */
	spinlock_t lock;
	struct list_head items;		/* lock; not empty: `work' is queued, with a reference */
	struct work_struct work;
};

static LIST_HEAD(lanes);
static DEFINE_SPINLOCK(lanes_lock);
static struct workqueue_struct *queue;
static void (*run)(struct list_head *batch);

static void lane_work(struct work_struct *work)
{
	struct lane *lane = container_of(work, struct lane, work);
	LIST_HEAD(batch);

	spin_lock(&lane->lock);
	list_splice_init(&lane->items, &batch);
	spin_unlock(&lane->lock);
	run(&batch);
	lane_put(lane);
}

static struct lane *find(struct peerdma_account *account)
{
	struct lane *lane;

	lockdep_assert_held(&lanes_lock);
	list_for_each_entry(lane, &lanes, node)
		if (lane->account == account) {
			refcount_inc(&lane->users);
			return lane;
		}
	return NULL;
}

static struct lane *make(struct peerdma_account *account)
{
	struct lane *lane = peerdma_zalloc(sizeof(*lane)), *there;

	if (!lane)
		return NULL;
	lane->account = account;
	refcount_set(&lane->users, 1);
	spin_lock_init(&lane->lock);
	INIT_LIST_HEAD(&lane->items);
	INIT_WORK(&lane->work, lane_work);
	spin_lock(&lanes_lock);
	there = find(account);
	if (!there)
		list_add(&lane->node, &lanes);
	spin_unlock(&lanes_lock);
	if (!there)
		return lane;
	kfree(lane);
	return there;
}

struct lane *lane_get(struct peerdma_account *account)
{
	struct lane *lane;

	spin_lock(&lanes_lock);
	lane = find(account);
	spin_unlock(&lanes_lock);
	return lane ?: make(account);
}

void lane_put(struct lane *lane)
{
	bool last;

	spin_lock(&lanes_lock);
	last = refcount_dec_and_test(&lane->users);
	if (last)
		list_del(&lane->node);
	spin_unlock(&lanes_lock);
	if (last)
		kfree(lane);
}

void lane_add(struct lane *lane, struct list_head *item)
{
	bool queued;

	spin_lock(&lane->lock);
	queued = !list_empty(&lane->items);
	list_add_tail(item, &lane->items);
	if (!queued) {
		refcount_inc(&lane->users);
		queue_work(queue, &lane->work);
	}
	spin_unlock(&lane->lock);
}

/*
 * A work item that waits takes none of the threads that others need: as many may run at
 * once as there are users, up to WQ_MAX_ACTIVE.  Not WQ_MEM_RECLAIM: its one rescuer would
 * be shared by all users, and importers may flush queues that are not.  If there is no
 * memory for a thread, the memory of these pins stays taken until there is.
 */
int lanes_init(void (*function)(struct list_head *batch))
{
	run = function;
	queue = alloc_workqueue("peerdma_tegra", WQ_UNBOUND, WQ_MAX_ACTIVE);
	return queue ? 0 : -ENOMEM;
}

void lanes_exit(void)
{
	destroy_workqueue(queue);
}
