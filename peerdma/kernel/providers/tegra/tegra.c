// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * tegra.c - peerdma_tegra.ko: memory of a process on a Tegra, through any implementation of
 * its nvidia_p2p_*.
 *
 * - The callback comes once for each pin, also when the client puts it.  NVIDIA's driver
 *   calls it from an MMU notifier: the calling thread holds mmap_lock or locks of reclaim,
 *   and may not be allowed to sleep.  So the callback only notes that the memory is going,
 *   which ends the pin's generation, and queues the rest in the user's lane (lanes.h): there
 *   peerdma_revoke() takes down what was made from the pin, and then the table is freed.
 *   The driver's page references last until then, so the memory is not used for anything
 *   else before.
 * - The driver notices a change of a pin's first page only, and none between its look-up of
 *   the pages and the end of get_pages().  So the whole range has a host notifier as well
 *   (host_notifier.h), from before get_pages().  Either notices first.
 * - Exactly one thread ends a pin's memory: the one that moves it out of HELD (the notifier,
 *   for the lane; or tegra_put()), or a tegra_get() that fails.
 * - get_pages() takes any memory that the process can write, and charges nothing.  So it is
 *   charged here, as host memory is.
 * - The table does not say how the memory was allocated, and if the memory is
 *   write-combined, CPU views must be so, too.  The process's own VMA at that address shows
 *   it.  Where the GPU's pointers differ from host pointers there is no such VMA: the view
 *   is cached.
 */
#include <linux/completion.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include <linux/nv-p2p.h>

#include "core/charge.h"
#include "core/host_notifier.h"
#include "lanes.h"
#include "objects/map.h"

/* The page size of the interface, independent of the CPU's. */
#define TEGRA_PAGE_SHIFT	12

enum held_state {
	GETTING,	/* tegra_get() runs, and ends it if it fails */
	HELD,
	GOING,		/* in the user's lane */
	PUTTING,	/* tegra_put() ends it */
};

struct held {
	struct kref ref;		/* of the pin, the callback, and the memory until its end */
	spinlock_t lock;		/* taken in MMU notifiers; what follows */
	enum held_state state;
	bool gone;			/* the memory went while GETTING */
	bool called;			/* the driver's callback has come */
	bool awaited;			/* end_batch(): the notifiers that called it are over */
	struct peerdma_pin *pin;	/* NULL: it was released */

	struct nvidia_p2p_page_table *table;
	u64 cookie;
	enum peerdma_memory memory;
	struct peerdma_host_notifier notifier;
	struct peerdma_locked locked;
	struct lane *lane;
	struct list_head node;		/* in the lane */
	struct completion over;		/* the lane has ended the memory */
};

/* For tests and administrators; exact only while it does not change. */
static atomic_t ending = ATOMIC_INIT(0);

static int ending_show(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(&ending));
}

static const struct kernel_param_ops ending_ops = { .get = ending_show };
module_param_cb(ending, &ending_ops, NULL, 0444);
MODULE_PARM_DESC(ending, "Read only: the number of pins whose memory has gone, and that are being taken down");

static void held_free(struct kref *ref)
{
	kfree(container_of(ref, struct held, ref));
}

static void held_put(struct held *held)
{
	kref_put(&held->ref, held_free);
}

/* ---- the memory's end ---- */

/* Never sleeps. */
static void goes(struct held *held)
{
	lockdep_assert_held(&held->lock);
	held->gone = true;
	if (held->pin)
		peerdma_pin_going(held->pin);
	if (held->state != HELD)
		return;
	held->state = GOING;
	atomic_inc(&ending);
	lane_add(held->lane, &held->node);
}

static void range_changed(struct peerdma_host_notifier *notifier)
{
	struct held *held = container_of(notifier, struct held, notifier);

	spin_lock(&held->lock);
	goes(held);
	spin_unlock(&held->lock);
}

/* May run in the thread that puts or gets the pin, too. */
static void free_callback(void *data)
{
	struct held *held = data;
	bool first;

	spin_lock(&held->lock);
	first = !held->called;
	WRITE_ONCE(held->called, true);
	goes(held);
	spin_unlock(&held->lock);
	if (first)
		held_put(held);
}

/* The callback may come until this returns. */
static void end_table(struct held *held)
{
	if (!READ_ONCE(held->called))
		nvidia_p2p_put_pages(held->table);
	else if (!held->awaited)
		/* The notifier that has called back is part of the table. */
		mmu_notifier_synchronize();
	nvidia_p2p_free_page_table(held->table);
}

static void end_memory(struct held *held)
{
	peerdma_watch_end(&held->notifier);
	end_table(held);
	peerdma_unlock_pages(&held->locked);
	lane_put(held->lane);
	if (READ_ONCE(held->state) == GOING)
		atomic_dec(&ending);
	complete_all(&held->over);
	held_put(held);
}

/*
 * All of one user's.  The host notifier notices a change before the driver's notifier does.  A put
 * at that time would race with that notifier, so all notifiers under way are awaited first,
 * and then those of which the driver has called back.
 */
static void end_batch(struct list_head *batch)
{
	struct held *held, *next;

	list_for_each_entry(held, batch, node)
		peerdma_revoke(held->cookie);
	mmu_notifier_synchronize();
	list_for_each_entry(held, batch, node)
		held->awaited = READ_ONCE(held->called);
	mmu_notifier_synchronize();
	list_for_each_entry_safe(held, next, batch, node)
		end_memory(held);
}

/* ---- a pin ---- */

static int pin_errno(int err)
{
	return err == -ENOMEM ? -ENOMEM : -ENXIO;
}

static bool understood(const struct peerdma_pin *pin, const struct nvidia_p2p_page_table *table)
{
	if (NVIDIA_P2P_PAGE_TABLE_VERSION_COMPATIBLE(table) &&
	    table->page_size == NVIDIA_P2P_PAGE_SIZE_4KB &&
	    table->entries == pin->pinned_length >> TEGRA_PAGE_SHIFT)
		return true;
	pr_warn_ratelimited("peerdma_tegra: the GPU driver returned a page table in an unsupported format (version %#x, page size %u, %u entries for %llu pages): refused; build peerdma_tegra for the driver that is loaded\n",
			    table->version, table->page_size, table->entries,
			    pin->pinned_length >> TEGRA_PAGE_SHIFT);
	return false;
}

/* An allocation has one VMA, or several with the same protection. */
static int find_memory(u64 vaddr, enum peerdma_memory *memory)
{
	struct vm_area_struct *vma;

	if (mmap_read_lock_killable(current->mm))
		return -EINTR;
	*memory = MEMORY_CACHED;
	vma = vma_lookup(current->mm, vaddr);
	if (vma && pgprot_val(vma->vm_page_prot) ==
		   pgprot_val(pgprot_writecombine(vma->vm_page_prot)))
		*memory = MEMORY_COMBINED;
	mmap_read_unlock(current->mm);
	return 0;
}

static int get_pages(struct peerdma_pin *pin, struct held *held)
{
	int err = peerdma_lock_pages(&held->locked, pin->account, pin->pinned_length >> PAGE_SHIFT);

	if (err)
		return err;
	/*
	 * The driver holds mmap_lock while it waits for pages, and others of the process, and
	 * those who read its /proc, wait for that.  Here the lock is dropped meanwhile.  What
	 * cannot be faulted in the driver refuses.
	 */
	fault_in_safe_writeable((char __user *)pin->start, pin->pinned_length);
	if (fatal_signal_pending(current)) {
		err = -EINTR;
		goto unlock;
	}
	err = peerdma_watch_begin(&held->notifier, pin);
	if (err)
		goto unlock;
	err = nvidia_p2p_get_pages(pin->start, pin->pinned_length, &held->table, free_callback,
				   held);
	if (err) {
		/* The pin's generation has ended then, so no other provider may be asked. */
		err = READ_ONCE(held->gone) ? -ESTALE : pin_errno(err);
		goto unwatch;
	}
	peerdma_watch_found(&held->notifier);
	return 0;

unwatch:
	peerdma_watch_end(&held->notifier);
unlock:
	peerdma_unlock_pages(&held->locked);
	return err;
}

static struct held *held_create(struct peerdma_pin *pin)
{
	struct held *held = peerdma_zalloc(sizeof(*held));

	if (!held)
		return NULL;
	held->lane = lane_get(pin->account);
	if (!held->lane) {
		kfree(held);
		return NULL;
	}
	kref_init(&held->ref);
	kref_get(&held->ref);
	kref_get(&held->ref);
	spin_lock_init(&held->lock);
	init_completion(&held->over);
	held->notifier.gone = range_changed;
	held->pin = pin;
	held->cookie = pin->cookie;
	return held;
}

/* From here on the lane or tegra_put() ends the memory.  -ESTALE: it has gone already. */
static int hold(struct held *held)
{
	int err = 0;

	spin_lock(&held->lock);
	if (held->gone)
		err = -ESTALE;
	else
		held->state = HELD;
	spin_unlock(&held->lock);
	return err;
}

/* The pin is not used any more. */
static void let_go(struct held *held)
{
	spin_lock(&held->lock);
	held->pin = NULL;
	spin_unlock(&held->lock);
	held_put(held);
}

static int tegra_get(struct peerdma_pin *pin)
{
	struct held *held = held_create(pin);
	int err;

	if (!held)
		return -ENOMEM;
	err = find_memory(pin->start, &held->memory) ?: get_pages(pin, held);
	if (err) {
		lane_put(held->lane);
		kfree(held);
		return err;
	}
	err = understood(pin, held->table) ? 0 : -EOPNOTSUPP;
	/* The table is not read after this, except with pin->lock and the pin alive. */
	if (!err) {
		pin->priv = held;
		err = hold(held);
	}
	if (err) {
		pin->priv = NULL;
		end_memory(held);
		let_go(held);
	}
	return err;
}

static void tegra_put(struct peerdma_pin *pin)
{
	struct held *held = pin->priv;
	bool ours;

	spin_lock(&held->lock);
	ours = held->state == HELD;
	if (ours)
		held->state = PUTTING;
	spin_unlock(&held->lock);
	if (ours)
		end_memory(held);
}

/*
 * If the lane ends the memory, waits for it a while, so that the user is no longer charged
 * for the memory of a pin that has ended.
 */
static void tegra_release(struct peerdma_pin *pin)
{
	struct held *held = pin->priv;

	/* Not in exit, where no other call of the process comes, and there may be many pins. */
	if (READ_ONCE(held->state) == GOING && !(current->flags & PF_EXITING))
		wait_for_completion_killable_timeout(&held->over, HZ);
	let_go(held);
}

static phys_addr_t tegra_page(const struct peerdma_pin *pin, u32 i)
{
	const struct held *held = pin->priv;

	return page_to_phys(held->table->pages[i]);
}

static enum peerdma_memory tegra_memory(const struct peerdma_pin *pin)
{
	const struct held *held = pin->priv;

	return held->memory;
}

/*
 * Adds those parts of the runs that lie in the mapping's range.  A run may be longer than a
 * page.
 */
static int take_runs(struct peerdma_map *map, const struct nvidia_p2p_dma_mapping *m)
{
	u64 from = map->offset, to = from + map->length, at = 0;
	int err;
	u32 i;

	for (i = 0; i < m->entries; at += m->hw_len[i], i++) {
		u64 begin = max(from, at), end = min(to, at + m->hw_len[i]);

		if (begin >= end)
			continue;
		err = peerdma_map_add(map, m->hw_address[i] + (begin - at), end - begin);
		if (err)
			return err;
	}
	return at < to ? -EOPNOTSUPP : 0;
}

static int take_mapping(struct peerdma_map *map, const struct nvidia_p2p_dma_mapping *m)
{
	int err = NVIDIA_P2P_DMA_MAPPING_VERSION_COMPATIBLE(m) ? take_runs(map, m) : -EOPNOTSUPP;

	if (err == -EOPNOTSUPP)
		pr_warn_ratelimited("peerdma_tegra: the GPU driver returned a DMA mapping for %s in an unsupported format (version %#x, %u entries for %llu bytes): refused; build peerdma_tegra for the driver that is loaded\n",
				    dev_name(map->pub.dev), m->version, m->entries,
				    map->offset + map->length);
	return err;
}

static int tegra_dma_map(struct peerdma_map *map)
{
	const struct held *held = map->pub.pin->priv;
	struct nvidia_p2p_dma_mapping *m = NULL;
	int err;

	err = nvidia_p2p_dma_map_pages(map->pub.dev, held->table, &m, map->pub.dir);
	/*
	 * The arguments are valid: the pin's end has begun, or another driver has mapped it
	 * wrongly.
	 */
	if (err == -EINVAL)
		return READ_ONCE(held->gone) ? -ESTALE : -EIO;
	if (err)
		return err == -ENOMEM ? -ENOMEM : -EOPNOTSUPP;
	map->priv = m;
	err = take_mapping(map, m);
	if (err) {
		nvidia_p2p_dma_unmap_pages(m);
		map->nsegs = 0;
	}
	return err;
}

static void tegra_dma_unmap(struct peerdma_map *map)
{
	nvidia_p2p_dma_unmap_pages(map->priv);
	map->nsegs = 0;
}

static struct peerdma_provider tegra_provider = {
	.name = "tegra",
	.owner = THIS_MODULE,
	.takes_mmap_lock = true,
	.page_shift = TEGRA_PAGE_SHIFT,
	.get = tegra_get,
	.put = tegra_put,
	.release = tegra_release,
	.page = tegra_page,
	.memory = tegra_memory,
	.dma_map = tegra_dma_map,
	.dma_unmap = tegra_dma_unmap,
};

/*
 * NVIDIA's driver has a race that a client cannot close: if memory is unmapped while its pin
 * is put, both drop a reference to the process.  Any user of /dev/peerdma can bring that
 * about with two threads.
 */
static bool trusted_users;
module_param(trusted_users, bool, 0444);
MODULE_PARM_DESC(trusted_users, "Load on a real Tegra: only users who are trusted may open /dev/peerdma (default N)");

static bool is_real_tegra(void)
{
	static const char *const machines[] = {
		"nvidia,tegra124", "nvidia,tegra210", "nvidia,tegra186", "nvidia,tegra194",
		"nvidia,tegra234",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(machines); i++)
		if (of_machine_is_compatible(machines[i]))
			return true;
	return false;
}

static int __init peerdma_tegra_init(void)
{
	int err;

	if (is_real_tegra() && !trusted_users) {
		pr_err("peerdma_tegra: not loaded: with NVIDIA's driver, a user of /dev/peerdma can crash this machine by unmapping memory while it is unpinned; where all of them are trusted, load it with trusted_users=1\n");
		return -EPERM;
	}
	if (PAGE_SHIFT != TEGRA_PAGE_SHIFT) {
		pr_err("peerdma_tegra: not loaded: Tegra's page tables have pages of 4 KiB, and this kernel has pages of %lu bytes\n",
		       PAGE_SIZE / SZ_1K);
		return -EOPNOTSUPP;
	}
	err = lanes_init(end_batch);
	if (err)
		return err;
	err = peerdma_register_provider(&tegra_provider);
	if (err)
		lanes_exit();
	return err;
}

static void __exit peerdma_tegra_exit(void)
{
	/* No pin is left.  The memory of pins that were revoked may be left in lanes. */
	peerdma_unregister_provider(&tegra_provider);
	lanes_exit();
}

module_init(peerdma_tegra_init);
module_exit(peerdma_tegra_exit);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("peerdma: memory of processes through Tegra's nvidia_p2p");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
