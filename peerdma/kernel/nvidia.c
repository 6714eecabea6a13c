// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * nvidia.c - peerdma_nvidia.ko: GPU memory through nvidia_p2p_*, whoever
 * implements that.
 *
 * What the interface leaves open, and what is done about it:
 *
 * - nvidia_p2p_dma_map_pages() takes the driver's lock, which a thread that
 *   frees memory holds while it calls us back, and reads a page table that the
 *   driver frees after that callback.  A call of it that races with the free
 *   either deadlocks or reads freed memory, whatever the client does.  So it
 *   is used for persistent pins, which have no callback.  Other pins are mapped
 *   by the kernel's DMA API from the bus addresses in the page table, which
 *   waits for nobody; and they are unmapped before the callback returns.
 *
 * - nvidia_p2p_put_pages() finds only pins of the calling process.  From
 *   another one (the last close after fork) NVIDIA's driver does nothing and
 *   says 0: the pages stay pinned until their owner frees them or exits, and
 *   then the callback comes.  By then the pin has ended for peerdma; the
 *   callback's argument is a cookie, not a pointer, and means nothing any more.
 *   But this module's code must be there: see struct stray.
 *
 * - -ENOMEM is both "BAR1 is exhausted" and "the kernel has no memory".  It
 *   becomes ENOSPC, the likelier of the two.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pid_namespace.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include <nv-p2p.h>

#include "compat.h"
#include "pin.h"

#define NV_PAGE_SHIFT	16
#define NV_PAGE_SIZE	(1UL << NV_PAGE_SHIFT)

/*
 * A callback that may still be armed: holds this module until the callback has
 * come, or the process that pinned is gone and its GPU files with it.  (If that
 * process gave its open GPU file to a child which outlives it, and somebody
 * unloads this module meanwhile, NVIDIA's driver would call into nothing: there
 * is no way to know.)
 */
struct stray {
	struct list_head node;
	struct pid *owner;
	u64 cookie;
	bool called;
};

static LIST_HEAD(strays);
static DEFINE_MUTEX(strays_lock);

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

static void strays_check(struct work_struct *work)
{
	struct stray *s, *next;

	mutex_lock(&strays_lock);
	list_for_each_entry_safe(s, next, &strays, node) {
		if (!s->called && !gone(s->owner))
			continue;
		list_del(&s->node);
		put_pid(s->owner);
		kfree(s);
		module_put(THIS_MODULE);
	}
	if (!list_empty(&strays))
		schedule_delayed_work(&strays_work, HZ);
	mutex_unlock(&strays_lock);
}

static void stray_add(const struct peerdma_pin *pin)
{
	struct stray *s = kzalloc(sizeof(*s), GFP_KERNEL | __GFP_NOFAIL);

	rcu_read_lock();
	s->owner = get_pid(find_pid_ns(pin->tgid, &init_pid_ns));
	rcu_read_unlock();
	s->cookie = pin->cookie;
	__module_get(THIS_MODULE);
	mutex_lock(&strays_lock);
	list_add(&s->node, &strays);
	mutex_unlock(&strays_lock);
	schedule_delayed_work(&strays_work, HZ);
}

static void stray_called(u64 cookie)
{
	struct stray *s;

	if (list_empty_careful(&strays))
		return;
	mutex_lock(&strays_lock);
	list_for_each_entry(s, &strays, node)
		if (s->cookie == cookie)
			s->called = true;
	mutex_unlock(&strays_lock);
	mod_delayed_work(system_percpu_wq, &strays_work, 0);
}

static void free_callback(void *data)
{
	u64 cookie = (u64)data;

	peerdma_revoke(cookie);
	stray_called(cookie);
}

/* The interface's errno as ours; for get_pages. */
static int pin_errno(int err)
{
	switch (err) {
	case -ENOMEM:
		return -ENOSPC;
	case -ENOTSUPP:
		return -EOPNOTSUPP;
	default:
		/* Not this process's GPU memory, bad tokens, GPU gone: nothing that it knows. */
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

static void put_pages(struct peerdma_pin *pin, struct nvidia_p2p_page_table *table)
{
	int err;

#ifdef NVIDIA_P2P_CAP_GET_PAGES_PERSISTENT_API
	if (persistent(pin))
		err = nvidia_p2p_put_pages_persistent(pin->start, table, 0);
	else
#endif
		err = nvidia_p2p_put_pages(pin->token, pin->va_space, pin->start, table);
	WARN_ONCE(err, "peerdma_nvidia: the GPU driver does not take a pin back: %d\n", err);
}

static bool understood(const struct peerdma_pin *pin, struct nvidia_p2p_page_table *table)
{
	if (NVIDIA_P2P_PAGE_TABLE_VERSION_COMPATIBLE(table) &&
	    table->page_size == NVIDIA_P2P_PAGE_SIZE_64KB &&
	    table->entries == pin->pinned_length >> NV_PAGE_SHIFT)
		return true;
	pr_warn_once("peerdma_nvidia: the GPU driver gives a page table that this module does not understand (version %#x, page size %u, %u entries): build peerdma_nvidia for the driver that is loaded\n",
		     table->version, table->page_size, table->entries);
	return false;
}

static int nv_get(struct peerdma_pin *pin)
{
	struct nvidia_p2p_page_table *table = NULL;
	int err;

	/*
	 * The callback for this pin waits for pin->lock, so the table is not
	 * freed while it is read.  That is the last thing that get_pages() does
	 * with the driver's lock held: to arm the callback.
	 */
	err = get_pages(pin, &table);
	if (unlikely(err))
		return pin_errno(err);
	pin->priv = table;
	return understood(pin, table) ? 0 : -EOPNOTSUPP;
}

static void nv_put(struct peerdma_pin *pin)
{
	if (!persistent(pin) && current->tgid != pin->tgid)
		stray_add(pin);
	put_pages(pin, pin->priv);
}

static phys_addr_t nv_page(const struct peerdma_pin *pin, u32 i)
{
	const struct nvidia_p2p_page_table *table = pin->priv;

	return table->pages[i]->physical_address;
}

static bool nv_cached(const struct peerdma_pin *pin)
{
#ifdef NVIDIA_P2P_PAGE_TABLE_FLAGS_CPU_CACHEABLE
	const struct nvidia_p2p_page_table *table = pin->priv;

	return table->flags & NVIDIA_P2P_PAGE_TABLE_FLAGS_CPU_CACHEABLE;
#else
	return false;
#endif
}

#ifdef NVIDIA_P2P_DMA_MAPPING_VERSION

static int nv_dma_map(struct peerdma_map *map)
{
	struct peerdma_pin *pin = map->pub.pin;
	struct nvidia_p2p_dma_mapping *m = NULL;
	u64 at;
	int err;

	if (!persistent(pin)) {
		/* A coherent GPU's memory is not bus addresses: only its driver can map it. */
		return nv_cached(pin) ? -EOPNOTSUPP : peerdma_map_resource(map);
	}
	if (!dev_is_pci(map->pub.dev))
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

static void nv_dma_unmap(struct peerdma_map *map)
{
	struct peerdma_pin *pin = map->pub.pin;

	if (!persistent(pin)) {
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
	.page_shift = NV_PAGE_SHIFT,
	.get = nv_get,
	.put = nv_put,
	.page = nv_page,
	.cached = nv_cached,
#ifdef NVIDIA_P2P_DMA_MAPPING_VERSION
	.dma_map = nv_dma_map,
	.dma_unmap = nv_dma_unmap,
#endif
};

static int __init peerdma_nvidia_init(void)
{
	return peerdma_register_provider(&nv_provider);
}

static void __exit peerdma_nvidia_exit(void)
{
	peerdma_unregister_provider(&nv_provider);
	cancel_delayed_work_sync(&strays_work);
}

module_init(peerdma_nvidia_init);
module_exit(peerdma_nvidia_exit);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("peerdma: GPU memory through nvidia_p2p");
MODULE_LICENSE("Dual MIT/GPL");
