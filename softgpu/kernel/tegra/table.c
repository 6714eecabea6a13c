// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * table.c - pins of a process's memory, and their end, as in NVIDIA's driver for Tegra:
 *
 * - get_pages() takes a reference to each page of any address that the process can write.
 *   It need not be memory of cudaHostAlloc().
 * - An MMU notifier calls the client's callback as soon as the kernel changes the page
 *   tables where the pin begins, in any way: munmap(), mremap(), madvise(), mprotect(),
 *   reclaim, and at exit.  So it runs under locks of the process's memory (mmap_lock, of the
 *   page tables, of reclaim), and must not sleep where the OOM killer takes the memory.
 *   A change that spares the pin's first page is not noticed.
 * - put_pages() removes the notifier, which calls the callback, too.
 * - The pages are referenced until the client frees the table.
 *
 * For memory of cudaHostAlloc(), pointers and protections are checked as well.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "../compat.h"
#include "../delay.h"
#include "../softgpu_kapi.h"
#include "../../include/softgpu_uapi.h"
#include "tegra.h"

#define WRITE_COMBINED	4		/* cudaHostAllocWriteCombined */

static unsigned int table_version;
module_param(table_version, uint, 0644);
MODULE_PARM_DESC(table_version, "FAULT INJECTION, for tests: the version that page tables say they have (default 0: the right one)");

static unsigned int told_page_size = NVIDIA_P2P_PAGE_SIZE_4KB;
module_param_named(page_size, told_page_size, uint, 0644);
MODULE_PARM_DESC(page_size, "FAULT INJECTION, for tests: what page tables say in page_size, 0 (default), 1 or 2 for 4, 64 or 128 KiB");

static bool short_table;
module_param(short_table, bool, 0644);
MODULE_PARM_DESC(short_table, "FAULT INJECTION, for tests: page tables say that they have an entry less than they do (default N)");

static bool client_frees;
module_param(client_frees, bool, 0644);
MODULE_PARM_DESC(client_frees, "The client frees the memory of a page table, with kfree() after nvidia_p2p_free_page_table, as NVIDIA's reference driver does; one that does not leaks it, as on a Tegra (default N: free_page_table frees it)");

static unsigned int get_delay_ms;
module_param(get_delay_ms, uint, 0644);
MODULE_PARM_DESC(get_delay_ms, "FAULT INJECTION, for tests: milliseconds that nvidia_p2p_get_pages waits when it has the pages and is not notified yet, so that a free can overtake it (default 0)");

static unsigned int put_delay_ms;
module_param(put_delay_ms, uint, 0644);
MODULE_PARM_DESC(put_delay_ms, "FAULT INJECTION, for tests: milliseconds that nvidia_p2p_put_pages waits before it does anything (default 0)");

DEFINE_SPINLOCK(tegra_lock);
static LIST_HEAD(tables);

/* tegra_lock held.  Returns the table at this address, which may be any value, or NULL. */
static struct table *table_find(const struct nvidia_p2p_page_table *pub)
{
	struct table *t;

	lockdep_assert_held(&tegra_lock);
	list_for_each_entry(t, &tables, node)
		if (t->pub == pub)
			return t;
	return NULL;
}

struct table *table_get(const struct nvidia_p2p_page_table *pub)
{
	struct table *t;

	spin_lock(&tegra_lock);
	t = table_find(pub);
	if (t)
		kref_get(&t->ref);
	spin_unlock(&tegra_lock);
	return t;
}

static void table_free(struct kref *ref)
{
	struct table *t = container_of(ref, struct table, ref);

	mmdrop(t->mm);
	kvfree(t->pages);
	if (!t->handed_over)
		kfree(t->pub);
	kfree(t);
}

void table_put(struct table *t)
{
	kref_put(&t->ref, table_free);
}

void table_check_sleep(const struct table *t, const char *call)
{
	lockdep_assert_held(&tegra_lock);
	if (t->thread == current && t->atomic)
		pr_err_ratelimited("a client calls %s in the free callback of %#llx, which may not sleep: the OOM killer takes the memory; do it later, in another thread\n",
				   call, t->vaddr);
}

static void pages_put(struct table *t)
{
	u32 i;

	for (i = 0; i < t->npages; i++) {
		set_page_dirty_lock(t->pages[i]);
		put_page(t->pages[i]);
		cond_resched();
	}
}

/* ---- a pin's end ---- */

/*
 * A chaos knob: delays the callback.  Asking the core takes its lock, which the notifier may
 * not do.
 */
static u32 callback_delay(void)
{
	struct sg_chaos chaos;

	sg_chaos_get(softgpu_core(), &chaos);
	return chaos.callback_delay_ms;
}

/* Runs the callback, unless it has begun in another thread. */
static void end(struct table *t, bool atomic)
{
	spin_lock(&tegra_lock);
	if (t->state != TABLE_LIVE) {
		spin_unlock(&tegra_lock);
		return;
	}
	t->state = TABLE_ENDING;
	t->thread = current;
	t->atomic = atomic;
	/* The callback may free the table. */
	kref_get(&t->ref);
	spin_unlock(&tegra_lock);

	if (!atomic)
		softgpu_delay_ms(READ_ONCE(t->delay_ms));
	t->callback(t->data);

	spin_lock(&tegra_lock);
	t->state = TABLE_ENDED;
	t->thread = NULL;
	t->ended_at = jiffies;
	spin_unlock(&tegra_lock);
	complete_all(&t->ended);
	table_put(t);
	module_put(THIS_MODULE);
}

static struct table *of_notifier(struct mmu_notifier *mn)
{
	return container_of(mn, struct table, mn);
}

static void mm_released(struct mmu_notifier *mn, struct mm_struct *mm)
{
	end(of_notifier(mn), false);
}

static int mm_changes(struct mmu_notifier *mn, const struct mmu_notifier_range *range)
{
	struct table *t = of_notifier(mn);

	if (t->host_va >= range->start && t->host_va < range->end)
		end(t, !mmu_notifier_range_blockable(range));
	return 0;
}

static void notifier_free(struct mmu_notifier *mn)
{
	table_put(of_notifier(mn));
}

static const struct mmu_notifier_ops notifier_ops = {
	.release = mm_released,
	.invalidate_range_start = mm_changes,
	.free_notifier = notifier_free,
};

/* Returns whether the caller is the one to remove the notifier. */
static bool take_notifier(struct table *t)
{
	bool watched;

	spin_lock(&tegra_lock);
	watched = t->watched;
	t->watched = false;
	spin_unlock(&tegra_lock);
	return watched;
}

static void end_later(struct work_struct *work)
{
	struct table *t = container_of(work, struct table, work);

	end(t, false);
	table_put(t);
	module_put(THIS_MODULE);
}

/*
 * Ends a pin in a work item: this thread's client may hold a lock that its callback takes.
 * tegra_lock held; the table is live, and so holds the module.
 */
static void end_soon(struct table *t)
{
	kref_get(&t->ref);
	__module_get(THIS_MODULE);
	if (schedule_work(&t->work))
		return;
	kref_put(&t->ref, table_free);
	module_put(THIS_MODULE);
}

/* 0, or -EINVAL: a client may not put now. */
static int check_put(const struct table *t)
{
	bool own, ended, late;

	spin_lock(&tegra_lock);
	own = t->thread == current;
	ended = t->state == TABLE_ENDED;
	/* The two may race: then the client could not know. */
	late = ended && time_after(jiffies, t->ended_at + HZ);
	spin_unlock(&tegra_lock);
	if (own)
		pr_err_ratelimited("a client calls put_pages(%#llx) in the free callback of the same pin: ignored; on a Tegra it waits for itself\n",
				   t->vaddr);
	else if (late)
		pr_err_ratelimited("a client calls put_pages(%#llx) after the pin's free callback: ignored; on a Tegra it drops a reference to the process twice\n",
				   t->vaddr);
	return own || ended ? -EINVAL : 0;
}

int nvidia_p2p_put_pages(struct nvidia_p2p_page_table *page_table)
{
	struct table *t = table_get(page_table);
	int err;

	if (!t)
		return -EINVAL;
	err = check_put(t);
	if (err)
		goto put;
	softgpu_delay_ms(READ_ONCE(put_delay_ms));
	/* Also logs wrong mappings made since the last check. */
	protection_check(t);
	WRITE_ONCE(t->delay_ms, callback_delay());
	/* Calls mm_released(), unless the process has ended, and waits for callbacks under way. */
	if (take_notifier(t)) {
		mmu_notifier_unregister(&t->mn, t->mm);
		table_put(t);
	}
	/* Another put_pages(), or end_later(), may be running it. */
	wait_for_completion(&t->ended);
put:
	table_put(t);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages);

static void table_end(struct table *t)
{
	if (t->end_mappings)
		t->end_mappings(t);
	pages_put(t);
	/* Does not wait: this may be that notifier. */
	if (take_notifier(t))
		mmu_notifier_put(&t->mn);
	table_put(t);
}

int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *page_table)
{
	struct table *t;
	bool live;

	might_sleep();
	spin_lock(&tegra_lock);
	t = table_find(page_table);
	live = t && t->state == TABLE_LIVE;
	if (live)
		pr_err_ratelimited("a client frees the page table of %#llx, which is still pinned: ignored; call put_pages first\n",
				   t->vaddr);
	if (t && !live) {
		table_check_sleep(t, "free_page_table");
		list_del(&t->node);
		t->handed_over = READ_ONCE(client_frees);
	}
	spin_unlock(&tegra_lock);
	if (!t || live)
		return -EINVAL;
	table_end(t);
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

/* ---- a pin's beginning ---- */

/*
 * What CUDA knows of the address.  Without cudaDevAttrCanUseHostPointerForRegisteredMem the
 * pointer of cudaHostGetDevicePointer() is no address of the CPU's: the pages are those at
 * the host pointer.
 */
static void find_host(struct table *t)
{
	struct sg_found_host found;

	t->host_va = t->vaddr;
	if (sg_find_host(softgpu_core(), softgpu_current_key(), t->vaddr, &found) ||
	    found.kind != SOFTGPU_KIND_HOST)
		return;
	t->allocated = true;
	t->host_va = found.host_va;
	t->write_combined = found.host_flags & WRITE_COMBINED;
	if (found.device_va != t->vaddr)
		pr_info_ratelimited("get_pages(%#llx): this is a host pointer; use the device pointer of cudaHostGetDevicePointer(), %#llx (cudaDevAttrCanUseHostPointerForRegisteredMem is 0)\n",
				    t->vaddr, found.device_va);
}

/* Clients may ask about any address, so nothing is logged for others. */
static void explain(const struct table *t)
{
	struct sg_found device;

	if (!t->allocated && !sg_find(softgpu_core(), softgpu_current_key(), t->vaddr, &device))
		pr_info_ratelimited("get_pages(%#llx): memory of cudaMalloc(), which on Tegra cannot be pinned: use cudaHostAlloc()\n",
				    t->vaddr);
}

/* A page that is not there is faulted in with mmap_lock held for reading all the while. */
static int pages_get(struct table *t)
{
	struct mm_struct *mm = t->mm;
	u32 done = 0;
	long n = 1;

	mmap_read_lock(mm);
	while (done < t->npages && n > 0) {
		n = softgpu_get_user_pages(t->host_va + ((u64)done << PAGE_SHIFT), t->npages - done,
					   FOLL_WRITE, t->pages + done);
		if (n > 0)
			done += n;
	}
	mmap_read_unlock(mm);
	if (done == t->npages)
		return 0;
	release_pages(t->pages, done);
	explain(t);
	return n == -ENOMEM ? -ENOMEM : -EFAULT;
}

/*
 * A chaos knob: after about so many pins a live one is revoked, while its memory stays
 * allocated.
 */
static void revoke_some(void)
{
	struct table *t;
	u32 live = 0;
	u64 random;

	if (!sg_chaos_pinned(softgpu_core(), &random))
		return;
	spin_lock(&tegra_lock);
	list_for_each_entry(t, &tables, node)
		live += t->state == TABLE_LIVE;
	if (live)
		random %= live;
	list_for_each_entry(t, &tables, node) {
		if (t->state != TABLE_LIVE || random--)
			continue;
		end_soon(t);
		break;
	}
	spin_unlock(&tegra_lock);
}

/* What the client sees. NULL: no memory. */
static struct nvidia_p2p_page_table *table_show(const struct table *t)
{
	struct nvidia_p2p_page_table *pub = kzalloc(sizeof(*pub), GFP_KERNEL_ACCOUNT);

	if (!pub)
		return NULL;
	pub->version = READ_ONCE(table_version) ?: NVIDIA_P2P_PAGE_TABLE_VERSION;
	pub->page_size = READ_ONCE(told_page_size);
	pub->size = t->size;
	pub->entries = t->npages - READ_ONCE(short_table);
	pub->pages = t->pages;
	pub->vaddr = t->vaddr;
	pub->mapped = NVIDIA_P2P_PINNED;
	pub->mm = t->mm;
	mutex_init(&pub->lock);
	pub->free_callback = t->callback;
	pub->data = t->data;
	return pub;
}

static struct table *table_create(u64 vaddr, u64 size, void (*callback)(void *data), void *data)
{
	struct table *t = kzalloc(sizeof(*t), GFP_KERNEL_ACCOUNT);

	if (!t)
		return NULL;
	kref_init(&t->ref);
	INIT_LIST_HEAD(&t->mappings);
	init_completion(&t->ended);
	INIT_WORK(&t->work, end_later);
	t->delay_ms = callback_delay();
	get_task_comm(t->comm, current);
	t->size = size;
	t->npages = size >> PAGE_SHIFT;
	t->vaddr = vaddr;
	t->mm = current->mm;
	t->mn.ops = &notifier_ops;
	t->callback = callback;
	t->data = data;
	t->pages = kvcalloc(t->npages, sizeof(*t->pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	t->pub = table_show(t);
	if (!t->pages || !t->pub) {
		kvfree(t->pages);
		kfree(t->pub);
		kfree(t);
		return NULL;
	}
	mmgrab(t->mm);
	return t;
}

/* From when the notifier is registered the callback may come, also before this returns. */
static int table_publish(struct table *t)
{
	int err;

	kref_get(&t->ref);		/* the notifier's */
	t->watched = true;
	__module_get(THIS_MODULE);
	spin_lock(&tegra_lock);
	list_add(&t->node, &tables);
	spin_unlock(&tegra_lock);
	err = mmu_notifier_register(&t->mn, t->mm);
	if (!err)
		return 0;
	spin_lock(&tegra_lock);
	list_del(&t->node);
	spin_unlock(&tegra_lock);
	table_put(t);
	module_put(THIS_MODULE);
	return err;
}

int nvidia_p2p_get_pages(u64 vaddr, u64 size, struct nvidia_p2p_page_table **page_table,
			 void (*free_callback)(void *data), void *data)
{
	struct table *t;
	int err;

	if (!page_table)
		return -EINVAL;
	*page_table = NULL;
	if (PAGE_SIZE != SZ_4K) {
		pr_warn_once("get_pages refused: page tables have pages of 4 KiB, and this kernel has pages of %lu bytes\n",
			     PAGE_SIZE / SZ_1K);
		return -EOPNOTSUPP;
	}
	if (!free_callback || !size || !PAGE_ALIGNED(vaddr | size) || vaddr + size < vaddr ||
	    size >> PAGE_SHIFT > INT_MAX || !current->mm)
		return -EINVAL;
	err = sg_chaos_pin(softgpu_core());
	if (err)
		return err;
	t = table_create(vaddr, size, free_callback, data);
	if (!t)
		return -ENOMEM;
	find_host(t);
	err = pages_get(t);
	if (err)
		goto put;
	softgpu_delay_ms(READ_ONCE(get_delay_ms));
	*page_table = t->pub;
	err = table_publish(t);
	if (err) {
		*page_table = NULL;
		pages_put(t);
		goto put;
	}
	revoke_some();
	return 0;

put:
	table_put(t);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages);

void tables_exit(void)
{
	struct table *t, *next;

	/* Each live table holds the module.  These have ended, but were not freed. */
	list_for_each_entry_safe(t, next, &tables, node) {
		pr_err("a client has not freed the page table of %#llx of %s, in its callback or after it: it leaks\n",
		       t->vaddr, t->comm);
		list_del(&t->node);
		table_end(t);
	}
	/* Notifiers of freed tables may still be called, and are freed by code of this module. */
	mmu_notifier_synchronize();
}
