// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * nvidia.c - peerdma_nvidia.ko: GPU memory through any implementation of nvidia_p2p_*.
 *
 * What the interface leaves open, and what is done about it:
 *
 * - nvidia_p2p_dma_map_pages() takes the driver's lock and reads the page table.  A thread
 *   that frees memory holds that lock while it calls us back, and frees the page table
 *   after that callback.  So a call that races with the free either deadlocks or reads
 *   freed memory, whatever the client does.  Persistent pins have no callback, but even for
 *   them the function must not be called with a lock held that another pin's callback
 *   takes: an importer that maps has reservation locks, and may wait for pin->lock while it
 *   has them.  So the driver is only asked once, with no lock held, whether it would map
 *   (nvidia_path.c).  The kernel's DMA API then maps the bus addresses in the page table,
 *   which takes none of these locks.  Pins are unmapped before their callback returns.
 * - The memory of a coherent GPU has no bus addresses: only its driver can map it.  So only
 *   persistent pins of it are mapped, by the driver and with pin->lock held, and importers
 *   are refused when they attach.
 * - nvidia_p2p_put_pages() finds only pins of the calling process.  From another process
 *   (the last close after fork) NVIDIA's driver does nothing and returns 0, so it is not
 *   called there: the pages stay pinned until their owner frees them or exits, and then the
 *   callback comes.  By then the pin has ended for peerdma.  The callback's argument is a
 *   cookie, not a pointer, so the late callback finds no pin.  But this module must still be
 *   loaded: see struct stray.
 * - -ENOMEM means either "BAR1 is exhausted" or "the kernel has no memory". We return
 *   -ENOSPC, for the likelier of the two.
 */
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pid_namespace.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include <nv-p2p.h>

#include "core/compat.h"
#include "nvidia.h"

#define NV_PAGE_SHIFT	16
#define NV_PAGE_SIZE	(1UL << NV_PAGE_SHIFT)

/*
 * A callback that is still armed after its pin has ended: it comes when the memory is
 * freed, and finds no pin any more.  Until then the driver keeps the pages, so they stay
 * charged, and this module is held, but not longer than the process that pinned lives.  (If
 * that process gave its open GPU file to a child that outlives it, and an administrator
 * unloads this module meanwhile, NVIDIA's driver would call freed code: there is no way to
 * detect this.)
 */
struct stray {
	struct hlist_node node;
	struct pid *owner;
	u64 cookie;
	struct nvidia_p2p_page_table *table;
	struct peerdma_account *account;	/* NULL: nothing is charged, as it ends soon */
	u64 aperture;
	unsigned long until;	/* jiffies: forgotten after that; 0: when called */
	bool held;		/* strays_lock: holds this module */
	bool called;
};

#define TOKEN_STRAY	HZ

static DEFINE_HASHTABLE(strays, 10);	/* by cookie */
static atomic_t nstrays;
/*
 * strays_lock: strays that hold this module.  All of them have one reference together: Linux
 * shows every user how many there are.
 */
static unsigned int nheld;
/*
 * A spinlock, since this module may not sleep after its callback has called
 * peerdma_revoke() (provider.h).
 */
static DEFINE_SPINLOCK(strays_lock);

static void strays_check(struct work_struct *work);
static DECLARE_DELAYED_WORK(strays_work, strays_check);

static bool gone(struct pid *pid)
{
	bool is_gone;

	rcu_read_lock();
	is_gone = !pid || !pid_task(pid, PIDTYPE_TGID);
	rcu_read_unlock();
	return is_gone;
}

static bool over(const struct stray *s)
{
	return s->called || (s->until && time_after(jiffies, s->until));
}

/* strays_lock held; module_put() does not sleep. */
static void let_module_go(struct stray *s)
{
	if (!s->held)
		return;
	s->held = false;
	if (!--nheld)
		module_put(THIS_MODULE);
}

static void stray_free(struct stray *s)
{
	if (s->account) {
		peerdma_uncharge(s->account, CHARGE_PINS);
		peerdma_uncharge_aperture(s->account, s->aperture);
	}
	put_pid(s->owner);
	kfree(s);
	atomic_dec(&nstrays);
}

/* Moves strays that are over to @ended; those of dead processes do not hold the module any more. */
static void sweep(struct hlist_head *bucket, struct hlist_head *ended)
{
	struct hlist_node *next;
	struct stray *s;

	spin_lock(&strays_lock);
	hlist_for_each_entry_safe(s, next, bucket, node) {
		bool is_over = over(s);

		if (is_over || gone(s->owner))
			let_module_go(s);
		if (is_over) {
			hlist_del(&s->node);
			hlist_add_head(&s->node, ended);
		}
	}
	spin_unlock(&strays_lock);
}

static void free_all(struct hlist_head *list)
{
	struct hlist_node *next;
	struct stray *s;

	hlist_for_each_entry_safe(s, next, list, node)
		stray_free(s);
}

static void strays_check(struct work_struct *work)
{
	HLIST_HEAD(ended);
	int i;

	for (i = 0; i < HASH_SIZE(strays); i++) {
		if (!hlist_empty(&strays[i]))
			sweep(&strays[i], &ended);
		cond_resched();
	}
	free_all(&ended);
	if (READ_ONCE(nheld))
		schedule_delayed_work(&strays_work, HZ);
}

static void strays_exit(void)
{
	int i;

	cancel_delayed_work_sync(&strays_work);
	for (i = 0; i < HASH_SIZE(strays); i++)
		free_all(&strays[i]);
}

/*
 * Called inside the group lock, so the record is not charged to the process's cgroup
 * (charge.h): the limit on pins bounds their number.
 */
static void stray_add(const struct peerdma_pin *pin, unsigned long until)
{
	struct stray *s = kzalloc(sizeof(*s), GFP_KERNEL | __GFP_NOFAIL);

	rcu_read_lock();
	s->owner = get_pid(find_pid_ns(pin->tgid, &init_pid_ns));
	rcu_read_unlock();
	s->cookie = pin->cookie;
	s->until = until;
	s->table = pin->priv;
	/* In addition to the pin's own charge, which is about to end. */
	if (!until) {
		s->account = pin->account;
		s->aperture = pin->charged ? pin->pinned_length : 0;
		atomic_inc(&s->account->used[CHARGE_PINS]);
		atomic64_add(s->aperture, &s->account->aperture);
	}
	s->held = true;
	atomic_inc(&nstrays);
	/* Before pin->revoked is read: pairs with the barrier in stray_called(). */
	smp_mb__after_atomic();
	spin_lock(&strays_lock);
	if (!nheld++)
		__module_get(THIS_MODULE);
	hash_add(strays, &s->node, s->cookie);
	/*
	 * The callback first marks the pin, then looks for a stray under this lock: if it
	 * has looked already, the mark is seen here.
	 */
	s->called = READ_ONCE(pin->revoked);
	spin_unlock(&strays_lock);
	schedule_delayed_work(&strays_work, HZ);
}

/*
 * Returns the stray's table, or NULL if there is no such stray.  The record and its
 * reference to the module are freed soon, by the work.
 */
static struct nvidia_p2p_page_table *stray_called(u64 cookie)
{
	struct nvidia_p2p_page_table *table = NULL;
	struct stray *s;

	/* The pin was marked before. */
	smp_mb();
	if (likely(!atomic_read(&nstrays)))
		return NULL;
	spin_lock(&strays_lock);
	hash_for_each_possible(strays, s, node, cookie) {
		if (s->cookie != cookie)
			continue;
		table = s->table;
		s->called = true;
		break;
	}
	spin_unlock(&strays_lock);
	if (table)
		mod_delayed_work(system_percpu_wq, &strays_work, 0);
	return table;
}

/*
 * The client frees the table, here and only once.  A put that runs at the same time leaves
 * a stray, too.
 */
static void free_callback(void *data)
{
	u64 cookie = (u64)data;
	struct nvidia_p2p_page_table *table = peerdma_revoke(cookie);
	struct nvidia_p2p_page_table *of_stray = stray_called(cookie);

	table = table ?: of_stray;
	if (table)
		nvidia_p2p_free_page_table(table);
}

/* Translates the errno of get_pages into ours. */
static int pin_errno(int err)
{
	switch (err) {
	case -ENOMEM:
		return -ENOSPC;
	case -ENOTSUPP:
		return -EOPNOTSUPP;
	default:
		/*
		 * Not GPU memory of this process, bad tokens, GPU removed: memory that the
		 * driver does not know.
		 */
		return -ENXIO;
	}
}

static bool persistent(const struct peerdma_pin *pin)
{
	return pin->flags & PEERDMA_PIN_PERSISTENT;
}

static int get_pages(struct peerdma_pin *pin, struct nvidia_p2p_page_table **table)
{
#ifdef NVIDIA_P2P_CAP_GET_PAGES_PERSISTENT_API
	if (persistent(pin))
		return nvidia_p2p_get_pages_persistent(pin->start, pin->pinned_length, table, 0);
#endif
	return nvidia_p2p_get_pages(pin->token, pin->va_space, pin->start, pin->pinned_length,
				    table, free_callback, (void *)pin->cookie);
}

static int put_pages(struct peerdma_pin *pin, struct nvidia_p2p_page_table *table)
{
#ifdef NVIDIA_P2P_CAP_GET_PAGES_PERSISTENT_API
	if (persistent(pin))
		return nvidia_p2p_put_pages_persistent(pin->start, table, 0);
#endif
	return nvidia_p2p_put_pages(pin->token, pin->va_space, pin->start, table);
}

static bool understood(const struct peerdma_pin *pin, struct nvidia_p2p_page_table *table)
{
	if (NVIDIA_P2P_PAGE_TABLE_VERSION_COMPATIBLE(table) &&
	    table->page_size == NVIDIA_P2P_PAGE_SIZE_64KB &&
	    table->entries == pin->pinned_length >> NV_PAGE_SHIFT)
		return true;
	pr_warn_once("peerdma_nvidia: the GPU driver returned a page table in an unsupported format (version %#x, page size %u, %u entries): build peerdma_nvidia for the driver that is loaded\n",
		     table->version, table->page_size, table->entries);
	return false;
}

static int nv_get(struct peerdma_pin *pin)
{
	struct nvidia_p2p_page_table *table = NULL;
	int err;

	/*
	 * The callback for this pin waits for pin->lock, so the table is not freed while it
	 * is read.  Arming the callback is the last thing that get_pages() does with the
	 * driver's lock held.
	 */
	err = get_pages(pin, &table);
	if (unlikely(err))
		return pin_errno(err);
	pin->priv = table;
	return understood(pin, table) ? 0 : -EOPNOTSUPP;
}

static void nv_put(struct peerdma_pin *pin)
{
	bool tokens = pin->token | pin->va_space;
	int err;

	/* The driver would do nothing: it looks for the pin among those of this process. */
	if (!persistent(pin) && !tokens && current->tgid != pin->tgid) {
		stray_add(pin, 0);
		return;
	}
	/*
	 * With tokens any process can put, unless their context ends at this moment; then
	 * the callback comes soon.
	 */
	if (tokens)
		stray_add(pin, jiffies + TOKEN_STRAY);
	err = put_pages(pin, pin->priv);
	/* The callback has come meanwhile: older drivers do not find the pin, and say so. */
	if (likely(!err) || READ_ONCE(pin->revoked))
		return;
	pr_warn_once("peerdma_nvidia: the GPU driver failed to release a pin (error %d): it keeps the memory until that is freed\n",
		     err);
	if (!persistent(pin))
		stray_add(pin, 0);
}

static phys_addr_t nv_page(const struct peerdma_pin *pin, u32 i)
{
	const struct nvidia_p2p_page_table *table = pin->priv;

	return table->pages[i]->physical_address;
}

static enum peerdma_memory nv_memory(const struct peerdma_pin *pin)
{
#ifdef NVIDIA_P2P_PAGE_TABLE_FLAGS_CPU_CACHEABLE
	const struct nvidia_p2p_page_table *table = pin->priv;

	if (table->flags & NVIDIA_P2P_PAGE_TABLE_FLAGS_CPU_CACHEABLE)
		return MEMORY_CACHED;
#endif
	return MEMORY_BAR;
}

#ifdef NVIDIA_P2P_DMA_MAPPING_VERSION

static int nv_dma_map(struct peerdma_map *map)
{
	struct peerdma_pin *pin = map->pub.pin;
	struct nvidia_p2p_dma_mapping *m = NULL;
	u64 at;
	int err;

	if (nv_memory(pin) == MEMORY_BAR)
		return peerdma_map_resource(map);
	if (!persistent(pin) || !dev_is_pci(map->pub.dev))
		return -EOPNOTSUPP;
	err = nvidia_p2p_dma_map_pages(to_pci_dev(map->pub.dev), pin->priv, &m);
	if (err)
		return err == -ENOMEM ? -ENOMEM : -EOPNOTSUPP;
	map->priv = m;
	if (!NVIDIA_P2P_DMA_MAPPING_VERSION_COMPATIBLE(m) ||
	    m->page_size_type != NVIDIA_P2P_PAGE_SIZE_64KB ||
	    m->entries != pin->pinned_length >> NV_PAGE_SHIFT) {
		err = -EOPNOTSUPP;
		goto unmap;
	}
	for (at = map->offset; at < map->offset + map->length; at += NV_PAGE_SIZE) {
		err = peerdma_map_add(map, m->dma_addresses[at >> NV_PAGE_SHIFT], NV_PAGE_SIZE);
		if (err)
			goto unmap;
	}
	return 0;

unmap:
	nvidia_p2p_dma_unmap_pages(to_pci_dev(map->pub.dev), pin->priv, m);
	map->nsegs = 0;
	return err;
}

static int nv_reach(struct peerdma_pin *pin, struct device *dev, bool importer)
{
	bool live, coherent;

	mutex_lock(&pin->lock);
	live = pin->state == PIN_LIVE;
	coherent = live && nv_memory(pin) != MEMORY_BAR;
	mutex_unlock(&pin->lock);
	/* Not LIVE: the caller's attempt to map will return the error. */
	if (!live)
		return 0;
	if (coherent)
		return importer ? -EOPNOTSUPP : 0;
	return peerdma_nvidia_reach(pin, dev);
}

static void nv_dma_unmap(struct peerdma_map *map)
{
	struct peerdma_pin *pin = map->pub.pin;

	if (nv_memory(pin) == MEMORY_BAR) {
		peerdma_unmap_resource(map);
		return;
	}
	nvidia_p2p_dma_unmap_pages(to_pci_dev(map->pub.dev), pin->priv, map->priv);
	map->nsegs = 0;
}

#endif

static struct peerdma_provider nv_provider = {
	.name = "nvidia",
	.owner = THIS_MODULE,
#ifdef NVIDIA_P2P_CAP_GET_PAGES_PERSISTENT_API
	.can_persist = true,
#endif
	.aperture = true,
	.page_shift = NV_PAGE_SHIFT,
	.get = nv_get,
	.put = nv_put,
	.page = nv_page,
	.memory = nv_memory,
#ifdef NVIDIA_P2P_DMA_MAPPING_VERSION
	.reach = nv_reach,
	.vouches = peerdma_nvidia_vouches,
	.dma_map = nv_dma_map,
	.dma_unmap = nv_dma_unmap,
#endif
};

static int __init peerdma_nvidia_init(void)
{
	int err = peerdma_nvidia_path_init();

	if (err)
		return err;
	err = peerdma_register_provider(&nv_provider);
	if (err)
		peerdma_nvidia_path_exit();
	return err;
}

static void __exit peerdma_nvidia_exit(void)
{
	peerdma_unregister_provider(&nv_provider);
	strays_exit();
	peerdma_nvidia_path_exit();
}

module_init(peerdma_nvidia_init);
module_exit(peerdma_nvidia_exit);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("peerdma: GPU memory through nvidia_p2p");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
