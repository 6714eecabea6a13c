// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * tegra.c - peerdma_tegra.ko: memory of cudaHostAlloc() on a Tegra, through any
 * implementation of its nvidia_p2p_*.
 *
 * - The callback comes once for each pin, also when the client puts it.  The client frees
 *   the page table, in the callback or later. put names the pin by the table's address, so
 *   the table must not be freed while a put for it is under way: another client's table
 *   could get the same address.  The callback or the put frees the table, whichever begins
 *   first.
 * - get_pages() looks the pages up in the process, under mmap_lock.
 * - The table does not say how the memory was allocated, and if the memory is
 *   write-combined, CPU views must be so, too.  The process's own VMA at that address shows
 *   it.  Where the GPU's pointers differ from host pointers there is no such VMA: the view
 *   is cached.
 */
#include <linux/completion.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <linux/nv-p2p.h>

#include "map.h"

/* The page size of the interface, independent of the CPU's. */
#define TEGRA_PAGE_SHIFT	12

enum freer { NOBODY, CALLBACK, PUT };

struct held {
	struct kref ref;		/* the pin's and the callback's */
	struct nvidia_p2p_page_table *table;
	u64 cookie;
	enum peerdma_memory memory;
	atomic_t freer;			/* enum freer: who frees the table */
	struct task_struct *putter;	/* PUT: a callback in this thread frees the table */
	bool freed;			/* by the callback in the putter's thread */
	struct completion got;		/* tegra_get() is done with the table */
	struct completion done;		/* the callback has freed the table */
};

static void held_free(struct kref *ref)
{
	kfree(container_of(ref, struct held, ref));
}

static void free_callback(void *data)
{
	struct held *held = data;
	bool first;

	wait_for_completion(&held->got);
	first = atomic_cmpxchg(&held->freer, NOBODY, CALLBACK) == NOBODY;
	peerdma_revoke(held->cookie);
	if (first || READ_ONCE(held->putter) == current) {
		held->freed = true;
		nvidia_p2p_free_page_table(held->table);
	}
	complete_all(&held->done);
	kref_put(&held->ref, held_free);
}

static int pin_errno(int err)
{
	return err == -ENOMEM ? -ENOMEM : -ENXIO;
}

static bool understood(const struct peerdma_pin *pin, const struct nvidia_p2p_page_table *table)
{
	if (NVIDIA_P2P_PAGE_TABLE_VERSION_COMPATIBLE(table) && table->page_size == NVIDIA_P2P_PAGE_SIZE_4KB &&
	    table->entries == pin->pinned_length >> TEGRA_PAGE_SHIFT)
		return true;
	pr_warn_ratelimited("peerdma_tegra: the GPU driver returned a page table in an unsupported format (version %#x, page size %u, %u entries for %llu pages): refused; build peerdma_tegra for the driver that is loaded\n",
			    table->version, table->page_size, table->entries,
			    pin->pinned_length >> TEGRA_PAGE_SHIFT);
	return false;
}

/* An allocation has one VMA, or several with the same protection. */
static enum peerdma_memory memory_at(u64 vaddr)
{
	enum peerdma_memory memory = MEMORY_CACHED;
	struct vm_area_struct *vma;

	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, vaddr);
	if (vma && pgprot_val(vma->vm_page_prot) == pgprot_val(pgprot_writecombine(vma->vm_page_prot)))
		memory = MEMORY_COMBINED;
	mmap_read_unlock(current->mm);
	return memory;
}

static int tegra_get(struct peerdma_pin *pin)
{
	struct nvidia_p2p_page_table *table = NULL;
	struct held *held;
	int err;

	held = kzalloc(sizeof(*held), GFP_KERNEL_ACCOUNT);
	if (!held)
		return -ENOMEM;
	held->cookie = pin->cookie;
	kref_init(&held->ref);
	kref_get(&held->ref);
	init_completion(&held->got);
	init_completion(&held->done);
	err = nvidia_p2p_get_pages(pin->start, pin->pinned_length, &table, free_callback, held);
	if (err) {
		kfree(held);
		return pin_errno(err);
	}
	held->table = table;
	held->memory = memory_at(pin->start);
	pin->priv = held;
	err = understood(pin, table) ? 0 : -EOPNOTSUPP;
	/* From here on the callback may free the table. */
	complete_all(&held->got);
	return err;
}

static void tegra_put(struct peerdma_pin *pin)
{
	struct held *held = pin->priv;

	WRITE_ONCE(held->putter, current);
	if (atomic_cmpxchg(&held->freer, NOBODY, PUT) != NOBODY) {
		/* The callback began first: the pin ends when it is done. */
		wait_for_completion(&held->done);
		return;
	}
	nvidia_p2p_put_pages(held->table);
	if (!held->freed)
		nvidia_p2p_free_page_table(held->table);
}

static void tegra_release(struct peerdma_pin *pin)
{
	struct held *held = pin->priv;

	kref_put(&held->ref, held_free);
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
				    dev_name(map->pub.dev), m->version, m->entries, map->offset + map->length);
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
		return -EIO;
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

static int __init peerdma_tegra_init(void)
{
	if (PAGE_SHIFT != TEGRA_PAGE_SHIFT) {
		pr_err("peerdma_tegra: not loaded: Tegra's page tables have pages of 4 KiB, and this kernel has pages of %lu bytes\n",
		       PAGE_SIZE / SZ_1K);
		return -EOPNOTSUPP;
	}
	return peerdma_register_provider(&tegra_provider);
}

static void __exit peerdma_tegra_exit(void)
{
	peerdma_unregister_provider(&tegra_provider);
}

module_init(peerdma_tegra_init);
module_exit(peerdma_tegra_exit);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("peerdma: memory of cudaHostAlloc() through Tegra's nvidia_p2p");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
