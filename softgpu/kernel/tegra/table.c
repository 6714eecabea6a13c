// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * table.c - pins of memory of cudaHostAlloc(), and their end.
 *
 * softgpu.ko notifies us after an allocation, a context, an open file or a GPU has ended,
 * with the process that it belonged to.  Then each table of that process is checked: does
 * its allocation still exist?  This module keeps the pages until the callback has returned, so
 * they are not reused before, even if the process has unmapped them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

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

static unsigned int get_delay_ms;
module_param(get_delay_ms, uint, 0644);
MODULE_PARM_DESC(get_delay_ms, "FAULT INJECTION, for tests: milliseconds that nvidia_p2p_get_pages waits when it has the pages, so that a free can overtake it (default 0)");

static unsigned int put_delay_ms;
module_param(put_delay_ms, uint, 0644);
MODULE_PARM_DESC(put_delay_ms, "FAULT INJECTION, for tests: milliseconds that nvidia_p2p_put_pages waits before it does anything (default 0)");

DEFINE_MUTEX(tegra_lock);
static LIST_HEAD(tables);

struct table *table_find(const struct nvidia_p2p_page_table *pub)
{
	struct table *t;

	lockdep_assert_held(&tegra_lock);
	list_for_each_entry(t, &tables, node)
		if (&t->pub == pub)
			return t;
	return NULL;
}

static void table_free(struct kref *ref)
{
	struct table *t = container_of(ref, struct table, ref);

	mmdrop(t->pub.mm);
	kvfree(t->pub.pages);
	kfree(t);
}

void table_put(struct table *t)
{
	kref_put(&t->ref, table_free);
}

/* ---- a pin's end ---- */

/* A chaos knob: delays the callback. */
static void callback_delay(void)
{
	struct sg_chaos chaos;

	sg_chaos_get(softgpu_core(), &chaos);
	softgpu_delay_ms(chaos.callback_delay_ms);
}

/*
 * Ends a pin: one thread runs the callback, and others wait for it.  -EDEADLK: called from
 * that callback.
 */
static int end(struct table *t)
{
	mutex_lock(&tegra_lock);
	if (t->state != TABLE_LIVE) {
		bool own = t->thread == current;

		mutex_unlock(&tegra_lock);
		if (own)
			return -EDEADLK;
		wait_for_completion(&t->ended);
		return 0;
	}
	t->state = TABLE_ENDING;
	t->thread = current;
	mutex_unlock(&tegra_lock);

	callback_delay();
	t->pub.free_callback(t->pub.data);

	mutex_lock(&tegra_lock);
	mappings_end(t);
	t->state = TABLE_ENDED;
	t->thread = NULL;
	mutex_unlock(&tegra_lock);
	unpin_user_pages_dirty_lock(t->pub.pages, t->npages, true);
	complete_all(&t->ended);
	module_put(THIS_MODULE);
	return 0;
}

static void end_later(struct work_struct *work)
{
	struct table *t = container_of(work, struct table, work);

	end(t);
	table_put(t);
	module_put(THIS_MODULE);
}

/* Ends a pin in a work item: this thread's client may hold a lock that its callback takes. */
static void end_soon(struct table *t)
{
	kref_get(&t->ref);
	/* The caller, or the client whose call this is, holds the module. */
	__module_get(THIS_MODULE);
	if (schedule_work(&t->work))
		return;
	table_put(t);
	module_put(THIS_MODULE);
}

int nvidia_p2p_put_pages(struct nvidia_p2p_page_table *page_table)
{
	struct table *t;
	int err;

	softgpu_delay_ms(READ_ONCE(put_delay_ms));
	mutex_lock(&tegra_lock);
	t = table_find(page_table);
	if (t) {
		kref_get(&t->ref);
		/* Also logs wrong mappings made since the last check. */
		if (t->state == TABLE_LIVE)
			protection_check(t);
	}
	mutex_unlock(&tegra_lock);
	if (!t)
		return -EINVAL;
	err = end(t);
	if (err)
		pr_err_ratelimited("a client calls %s(%#llx) in the free callback of the same pin: ignored; the pin ends when the callback returns\n",
				   __func__, t->pub.vaddr);
	table_put(t);
	return err ? -EINVAL : 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_put_pages);

int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *page_table)
{
	struct table *t;
	bool live;

	mutex_lock(&tegra_lock);
	t = table_find(page_table);
	live = t && t->state == TABLE_LIVE;
	if (live)
		pr_err_ratelimited("a client frees the page table of %#llx, which is still pinned: ignored; call put_pages first\n",
				   t->pub.vaddr);
	if (t && !live)
		list_del(&t->node);
	mutex_unlock(&tegra_lock);
	if (!t || live)
		return -EINVAL;
	table_put(t);
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

/* ---- a pin's beginning ---- */

/* Does the allocation that was pinned still exist? */
static bool still_there(const struct table *t)
{
	struct sg_found_host found;

	return !sg_find_host(softgpu_core(), t->process, t->pub.vaddr, &found) &&
		found.buffer_id == t->buffer_id;
}

static int find_host(u64 vaddr, u64 size, struct sg_found_host *found)
{
	struct sg_found device;
	u64 last;

	if (sg_find_host(softgpu_core(), softgpu_current_key(), vaddr, found) ||
	    found->kind != SOFTGPU_KIND_HOST) {
		/*
		 * Clients may ask about any memory of a program, so nothing is logged for
		 * other memory.
		 */
		if (!sg_find(softgpu_core(), softgpu_current_key(), vaddr, &device))
			pr_info_ratelimited("get_pages(%#llx): memory of cudaMalloc(), which on Tegra cannot be pinned: use cudaHostAlloc()\n",
					    vaddr);
		return -EINVAL;
	}
	if (found->device_va != vaddr) {
		pr_info_ratelimited("get_pages(%#llx): this is a host pointer; use the device pointer of cudaHostGetDevicePointer(), %#llx (cudaDevAttrCanUseHostPointerForRegisteredMem is 0)\n",
				    vaddr, found->device_va);
		return -EINVAL;
	}
	/* The rest of its last page holds no other allocation. */
	last = PAGE_ALIGN(found->base + found->length);
	if (vaddr + size > last) {
		pr_info_ratelimited("get_pages(%#llx, %#llx): the allocation ends at %#llx\n", vaddr, size,
				    last);
		return -EINVAL;
	}
	return 0;
}

static int pin_all(struct table *t)
{
	u32 done = 0;
	int n;

	while (done < t->npages) {
		n = pin_user_pages_fast(t->host_va + ((u64)done << PAGE_SHIFT), t->npages - done,
					FOLL_WRITE | FOLL_LONGTERM, t->pub.pages + done);
		if (n <= 0) {
			unpin_user_pages(t->pub.pages, done);
			return n == -ENOMEM ? -ENOMEM : -EFAULT;
		}
		done += n;
	}
	return 0;
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
	mutex_lock(&tegra_lock);
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
	mutex_unlock(&tegra_lock);
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
	protection_init(t);
	t->process = softgpu_current_key();
	get_task_comm(t->comm, current);
	t->pub.version = READ_ONCE(table_version) ?: NVIDIA_P2P_PAGE_TABLE_VERSION;
	t->pub.page_size = READ_ONCE(told_page_size);
	t->pub.size = size;
	t->npages = size >> PAGE_SHIFT;
	t->pub.entries = t->npages - READ_ONCE(short_table);
	t->pub.vaddr = vaddr;
	t->pub.mapped = NVIDIA_P2P_PINNED;
	t->pub.mm = current->mm;
	mutex_init(&t->pub.lock);
	t->pub.free_callback = callback;
	t->pub.data = data;
	t->pub.pages = kvcalloc(t->npages, sizeof(*t->pub.pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!t->pub.pages) {
		kfree(t);
		return NULL;
	}
	mmgrab(t->pub.mm);
	return t;
}

/*
 * False: the memory was freed after it was found.  host_changed() did not see the table, so
 * there is no pin: a pin that began now would be live after the free has returned.
 */
static bool table_publish(struct table *t)
{
	bool there;

	mutex_lock(&tegra_lock);
	there = still_there(t);
	if (there) {
		__module_get(THIS_MODULE);
		list_add(&t->node, &tables);
	}
	mutex_unlock(&tegra_lock);
	return there;
}

int nvidia_p2p_get_pages(u64 vaddr, u64 size, struct nvidia_p2p_page_table **page_table,
			 void (*free_callback)(void *data), void *data)
{
	struct sg_found_host found;
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
	err = find_host(vaddr, size, &found) ?: sg_chaos_pin(softgpu_core());
	if (err)
		return err;
	t = table_create(vaddr, size, free_callback, data);
	if (!t)
		return -ENOMEM;
	t->host_va = found.host_va;
	t->buffer_id = found.buffer_id;
	t->write_combined = found.host_flags & WRITE_COMBINED;
	err = pin_all(t);
	if (err) {
		table_put(t);
		return err;
	}
	softgpu_delay_ms(READ_ONCE(get_delay_ms));
	if (!table_publish(t)) {
		unpin_user_pages(t->pub.pages, t->npages);
		table_put(t);
		return -EINVAL;
	}
	*page_table = &t->pub;
	revoke_some();
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_get_pages);

/* ---- memory that ends ---- */

/* NULL: of any process. */
static struct table *next_gone(const void *process)
{
	struct table *t;

	mutex_lock(&tegra_lock);
	list_for_each_entry(t, &tables, node) {
		if ((process && t->process != process) || t->state == TABLE_ENDED || t->thread == current ||
		    still_there(t))
			continue;
		kref_get(&t->ref);
		mutex_unlock(&tegra_lock);
		return t;
	}
	mutex_unlock(&tegra_lock);
	return NULL;
}

static int host_changed(struct notifier_block *nb, unsigned long unused, void *process)
{
	struct table *t;

	while ((t = next_gone(process))) {
		end(t);
		table_put(t);
	}
	return NOTIFY_OK;
}

static struct notifier_block notifier = {
	.notifier_call = host_changed,
};

int tables_init(void)
{
	return softgpu_host_changed_register(&notifier);
}

void tables_exit(void)
{
	struct table *t, *next;

	softgpu_host_changed_unregister(&notifier);
	/* Each live table holds the module.  These have ended, but were not freed. */
	list_for_each_entry_safe(t, next, &tables, node) {
		pr_err("a client has not freed the page table of %#llx of %s, in its callback or after it: it leaks\n",
		       t->pub.vaddr, t->comm);
		list_del(&t->node);
		table_put(t);
	}
}
