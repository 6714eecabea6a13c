// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * pages.c - page views: files whose mappings show the struct pages of a pin's memory, so
 * that O_DIRECT, sockets and other drivers can use it.
 *
 * What has taken a reference to a page cannot be made to drop it.  So the memory of a page
 * view is kept by a persistent pin of its own (`kept'), whatever happens to the pin that the
 * view was made from: the provider gives the memory to no one else before that pin is put.
 * It is put when the view has ended and all its pages are idle.  Until then the memory is
 * "parked": charged to its user, and listed like any pin.
 *
 * A view ends:
 *
 *	revocable kind	when its pin is revoked or unpinned, or with the last close.  The
 *			mappings are zapped, and the revoker waits for I/O in flight, for at
 *			most pages_timeout_ms.  The inode has S_DAX, so the kernel refuses
 *			references without limit (FOLL_LONGTERM).
 *	persistent kind	with the last close.  References without limit are allowed.
 *
 * Pages are inserted under kept->lock while the view has not ended.  So after it has ended
 * and the mappings were zapped, no new reference can be taken, and a page whose count is the
 * provider's own stays idle.
 */
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mount.h>
#include <linux/pci.h>
#include <linux/pseudo_fs.h>
#include <linux/workqueue.h>

#include "core/charge.h"
#include "core/compat.h"
#include "core/path.h"
#include "map.h"
#include "pages.h"
#include "view.h"

static unsigned int timeout_ms = 2000;
module_param_named(pages_timeout_ms, timeout_ms, uint, 0644);
MODULE_PARM_DESC(pages_timeout_ms, "Milliseconds for which a revocation waits for I/O on a page view; after that its memory is parked (default 2000)");

#define PAGES_MAGIC	0x70647067	/* "pdpg" */
/* Of a page that has no user: may_lend(). */
#define IDLE_COUNT	1
#define LOOK_AGAIN_MIN	1	/* jiffies */
#define LOOK_AGAIN_SOON	(HZ / 20)	/* ... at most, while a revocation waits */
#define LOOK_AGAIN_MAX	(2 * HZ)
#define PUT_PATIENCE	(HZ / 20)
#define LOOK_AT_ONCE	512		/* pages, without giving up the processor */

struct page_view {
	struct peerdma_object object;	/* of the pin; only if revocable */
	bool revocable;
	bool readonly;
	struct peerdma_pin *kept;	/* persistent; a reference */
	struct dev_pagemap *pagemap;	/* a reference, as long as the memory is kept */
	struct inode *inode;		/* a reference */
	u64 offset;			/* of the first byte, in `kept' */
	u64 length;
	bool ended;			/* kept->lock: nothing is inserted any more */
	atomic_t files;			/* open ones */
	struct kref ref;		/* of all open files together, the object, the keeper */
	struct delayed_work keeper;	/* from the end on: gives the memory back when it is idle */
	u64 idle_up_to;			/* the keeper's: bytes whose pages it has found idle */
	unsigned long parked_at;	/* jiffies: from then on the memory is parked */
	unsigned long look_again;
	bool parked;			/* kept->lock: counts in account->parked */
	struct completion idle, given_back;
};

static struct workqueue_struct *keepers;

static int pages_fs_init(struct fs_context *fc)
{
	return init_pseudo(fc, PAGES_MAGIC) ? 0 : -ENOMEM;
}

/*
 * Mounted as long as there are views or paths to them.  A path (O_PATH) holds the mount and the
 * inode, but no module: so the mount holds it, by `owner'.
 */
static struct file_system_type pages_fs = {
	.owner = THIS_MODULE,
	.name = "peerdma_pages",
	.init_fs_context = pages_fs_init,
	.kill_sb = kill_anon_super,
};
static struct vfsmount *pages_mount;
static int pages_mounts;

/* Guards inode->i_private, by which a file that is opened anew finds its view. */
static DEFINE_MUTEX(views_lock);

/* Owns the pins that keep memory.  They are persistent, so they are not revoked. */
static void never_revoked(struct peerdma_pin *pin)
{
	WARN_ONCE(1, "peerdma: provider %s revoked a persistent pin\n", pin->provider->name);
}

static const struct peerdma_owner_ops keeper_ops = {
	.revoked = never_revoked,
};

static struct peerdma_owner keeper = {
	.ops = &keeper_ops,
};

static int make_inode(struct page_view *view)
{
	int err = simple_pin_fs(&pages_fs, &pages_mount, &pages_mounts);

	if (err)
		return err;
	view->inode = alloc_anon_inode(pages_mount->mnt_sb);
	if (IS_ERR(view->inode)) {
		simple_release_fs(&pages_mount, &pages_mounts);
		return -ENOMEM;
	}
	return 0;
}

static void free_inode_of(struct page_view *view)
{
	iput(view->inode);
	simple_release_fs(&pages_mount, &pages_mounts);
}

static void view_free(struct kref *ref)
{
	struct page_view *view = container_of(ref, struct page_view, ref);

	mutex_lock(&views_lock);
	view->inode->i_private = NULL;
	mutex_unlock(&views_lock);
	free_inode_of(view);
	peerdma_pin_put(view->kept);
	kfree(view);
}

static void view_put(struct page_view *view)
{
	kref_put(&view->ref, view_free);
}

/* kept->lock is not to be mixed up with that of the pin that the view is made from. */
static void lock(struct page_view *view)
{
	mutex_lock_nested(&view->kept->lock, PIN_LOCK_KEPT);
}

static void unlock(struct page_view *view)
{
	mutex_unlock(&view->kept->lock);
}

/* ---- its end ---- */

/*
 * Nothing takes a reference to a page any more, so one that is idle stays so: the next look
 * begins where this one has ended.
 */
static bool idle(struct page_view *view)
{
	phys_addr_t phys;
	u64 n, i;

	while (view->idle_up_to < view->length) {
		n = min(view->length - view->idle_up_to, (u64)LOOK_AT_ONCE << PAGE_SHIFT);
		lock(view);
		n = peerdma_pin_run(view->kept, view->offset + view->idle_up_to, n, &phys);
		unlock(view);
		for (i = 0; i < n; i += PAGE_SIZE, view->idle_up_to += PAGE_SIZE)
			if (page_ref_count(pfn_to_page(PHYS_PFN(phys + i))) != IDLE_COUNT)
				return false;
		cond_resched();
	}
	return true;
}

static void give_back(struct page_view *view)
{
	complete_all(&view->idle);
	lock(view);
	if (view->parked)
		atomic_dec(&view->kept->account->parked);
	unlock(view);
	put_dev_pagemap(view->pagemap);
	peerdma_pin_end(view->kept, false);
	complete_all(&view->given_back);
	view_put(view);
	/* The exit function waits for the end of this function. */
	module_put(THIS_MODULE);
}

/* Shown as the pin's client. */
static void park(struct page_view *view)
{
	lock(view);
	if (!view->parked && !completion_done(&view->idle)) {
		view->parked = true;
		atomic_inc(&view->kept->account->parked);
		WRITE_ONCE(view->kept->client, "parked page view");
	}
	unlock(view);
}

static void keep(struct work_struct *work)
{
	struct page_view *view = container_of(to_delayed_work(work), struct page_view, keeper);

	if (idle(view)) {
		give_back(view);
		return;
	}
	if (time_after_eq(jiffies, view->parked_at))
		park(view);
	view->look_again = min_t(unsigned long, view->look_again * 2,
				 view->parked ? LOOK_AGAIN_MAX : LOOK_AGAIN_SOON);
	queue_delayed_work(keepers, &view->keeper, view->look_again);
}

/* Returns when no mapping shows the memory.  The keeper waits for the rest. */
static void end(struct page_view *view)
{
	bool ended;

	lock(view);
	ended = view->ended;
	if (!ended) {
		view->ended = true;
		view->look_again = LOOK_AGAIN_MIN;
		view->parked_at = jiffies + msecs_to_jiffies(READ_ONCE(timeout_ms));
	}
	unlock(view);
	if (ended)
		return;
	unmap_mapping_range(view->inode->i_mapping, 0, 0, 1);
	queue_delayed_work(keepers, &view->keeper, 0);
}

static struct page_view *view_of(struct peerdma_object *object)
{
	return container_of(object, struct page_view, object);
}

static void object_stop(struct peerdma_object *object)
{
	end(view_of(object));
}

/*
 * All views of a pin have one deadline.  If the view's user has parked memory already, this thread does
 * not wait at all: a thread that frees the memory of many pins would wait for each of them.
 */
static void wait_until_idle(struct page_view *view)
{
	long left = view->parked_at - jiffies;

	if (left > 0 && !atomic_read(&view->kept->account->parked))
		wait_for_completion_timeout(&view->idle, left);
	park(view);
}

/*
 * When the pages are idle, no device reaches the memory.  Usually the keeper also gives it back before
 * this returns, so that the thread which frees it can allocate it again; but the provider may hold
 * a lock around this call that its `put' needs.
 */
static void object_settle(struct peerdma_object *object, bool taken)
{
	struct page_view *view = view_of(object);

	wait_until_idle(view);
	if (completion_done(&view->idle))
		wait_for_completion_timeout(&view->given_back, PUT_PATIENCE);
}

static void object_free(struct peerdma_object *object)
{
	view_put(view_of(object));
}

static const struct peerdma_object_ops page_view_ops = {
	.charge = CHARGE_VIEWS,
	.stop = object_stop,
	.settle = object_settle,
	.free = object_free,
};

/* ---- its mappings ---- */

/* Inserts the pages of the VMA that lie under one page table of the address. */
static vm_fault_t insert(struct page_view *view, struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	u64 start = (u64)vma->vm_pgoff << PAGE_SHIFT;
	unsigned long from = max(vmf->address & PMD_MASK, vma->vm_start);
	unsigned long to = min((vmf->address & PMD_MASK) + PMD_SIZE, vma->vm_end);
	vm_fault_t ret = VM_FAULT_SIGBUS;
	phys_addr_t phys;
	u64 at, n;

	if (to - vma->vm_start > view->length - start)
		to = vma->vm_start + (view->length - start);
	for (; from < to; from += PAGE_SIZE) {
		at = view->offset + start + (from - vma->vm_start);
		n = peerdma_pin_run(view->kept, at, PAGE_SIZE, &phys);
		ret = peerdma_insert_page(vma, from, pfn_to_page(PHYS_PFN(phys)));
		if (ret != VM_FAULT_NOPAGE)
			break;
	}
	return ret;
}

static vm_fault_t page_view_fault(struct vm_fault *vmf)
{
	struct page_view *view = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (peerdma_view_table(vmf))
		return VM_FAULT_OOM;
	lock(view);
	if (!view->ended && (u64)vmf->pgoff << PAGE_SHIFT < view->length)
		ret = insert(view, vmf);
	unlock(view);
	atomic64_inc(&peerdma_stats.faults);
	return ret;
}

static const struct vm_operations_struct page_view_vm_ops = {
	.fault = page_view_fault,
};

/* The VMA holds the file, and so the view. */
static int page_view_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct page_view *view = file->private_data;
	u64 length = vma->vm_end - vma->vm_start, offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (!(vma->vm_flags & VM_MAYSHARE) || offset > view->length ||
	    length > view->length - offset)
		return -EINVAL;
	if (view->readonly) {
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTDUMP);
	/* As the provider's own mapping of its BAR. */
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vma->vm_private_data = view;
	vma->vm_ops = &page_view_vm_ops;
	return 0;
}

/* ---- its files ---- */

static void leave_pin(struct page_view *view)
{
	struct peerdma_pin *pin = view->object.pin;

	/* peerdma_object_end() may drop the last other reference, with the lock held. */
	kref_get(&pin->ref);
	mutex_lock(&pin->lock);
	peerdma_object_end(&view->object);
	mutex_unlock(&pin->lock);
	peerdma_pin_put(pin);
}

/* The last file is closed, so nothing is mapped; I/O may still be under way. */
static void close_last(struct page_view *view)
{
	end(view);
	if (view->revocable)
		leave_pin(view);
	view_put(view);
}

/* By /proc/PID/fd, for programs that want a path. */
static int page_view_open(struct inode *inode, struct file *file)
{
	struct page_view *view;

	mutex_lock(&views_lock);
	view = inode->i_private;
	if (view && !atomic_inc_not_zero(&view->files))
		view = NULL;
	mutex_unlock(&views_lock);
	file->private_data = view;
	return view ? 0 : -ENXIO;
}

static int page_view_release(struct inode *inode, struct file *file)
{
	struct page_view *view = file->private_data;

	if (atomic_dec_and_test(&view->files))
		close_last(view);
	return 0;
}

static const struct file_operations page_view_fops = {
	.owner = THIS_MODULE,
	.open = page_view_open,
	.release = page_view_release,
	.mmap = page_view_mmap,
	.llseek = noop_llseek,
};

static struct file *make_file(struct page_view *view)
{
	struct file *file;

	/* Of the file, which drops it; and of the inode, which the file's path has. */
	__module_get(THIS_MODULE);
	ihold(view->inode);
	file = alloc_file_pseudo(view->inode, pages_mount, "peerdma-pages",
				 (view->readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC, &page_view_fops);
	if (IS_ERR(file)) {
		iput(view->inode);
		module_put(THIS_MODULE);
		return file;
	}
	file->private_data = view;
	return file;
}

/* ---- making one ---- */

/*
 * May others than their driver hand out the pages of this map? A driver that wants to know of a
 * page's last reference counts them itself.  One without a function for that keeps a reference
 * to each page for as long as there is the map: so the pages are never free, and the count of
 * one without another user is 1.
 */
static bool may_lend(const struct dev_pagemap *pagemap)
{
	return (pagemap->type == MEMORY_DEVICE_GENERIC ||
		pagemap->type == MEMORY_DEVICE_PCI_P2PDMA) && !pagemap->ops;
}

/* A reference to the page map that all pages of the view are in: 0, or -EOPNOTSUPP. */
static int find_pagemap(struct page_view *view)
{
	struct peerdma_pin *kept = view->kept;
	u64 at, step = 1ULL << kept->page_shift;
	struct dev_pagemap *found;
	phys_addr_t phys;
	bool same;

	for (at = 0; at < kept->pinned_length; at += step) {
		lock(view);
		peerdma_pin_run(kept, at, step, &phys);
		unlock(view);
		found = peerdma_get_pagemap(PHYS_PFN(phys));
		same = found && may_lend(found) && (!view->pagemap || view->pagemap == found);
		if (same && !view->pagemap) {
			view->pagemap = found;
			continue;
		}
		put_dev_pagemap(found);
		if (!same)
			return -EOPNOTSUPP;
		cond_resched();
	}
	return 0;
}

/* The provider of a pin that is alive, held: pins of it can outlive their memory's free. */
static struct peerdma_provider *hold_provider(struct peerdma_pin *pin)
{
	struct peerdma_provider *provider = pin->provider;
	int err;

	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err && !provider->can_persist)
		err = -EOPNOTSUPP;
	if (!err && !peerdma_provider_hold(provider))
		err = -ESTALE;
	mutex_unlock(&pin->lock);
	return err ? ERR_PTR(err) : provider;
}

/*
 * Pins the memory that `pin' has at this moment once more: persistent, in this process, by the
 * same provider.
 */
static int keep_memory(struct page_view *view, struct peerdma_pin *pin, u64 offset)
{
	struct peerdma_provider *provider = hold_provider(pin);
	struct peerdma_pin *kept;
	int err;

	if (IS_ERR(provider))
		return PTR_ERR(provider);
	kept = peerdma_pin_new(&keeper);
	err = PTR_ERR_OR_ZERO(kept);
	if (err)
		goto let_go;
	kept->client = "page view";
	kept->flags = PEERDMA_PIN_DEVICE | PEERDMA_PIN_PERSISTENT;
	kept->addr = pin->start + offset;
	kept->length = view->length;
	err = peerdma_pin_start_at(kept, provider);
	if (err)
		goto put;
	view->kept = kept;
	view->offset = kept->addr - kept->start;
	/* peerdma_pin_end() takes over the first one. */
	kref_get(&kept->ref);
	return 0;

put:
	peerdma_pin_put(kept);
let_go:
	peerdma_provider_let_go(provider);
	return err;
}

static void drop_memory(struct page_view *view)
{
	if (view->pagemap)
		put_dev_pagemap(view->pagemap);
	peerdma_pin_end(view->kept, false);
	peerdma_pin_put(view->kept);
}

/*
 * Is it the same memory? The address may belong to another process, or be in use anew.  While
 * both pins are live, equal pages are the same memory. pin->lock held.
 */
static bool same_memory(struct page_view *view, const struct peerdma_pin *pin, u64 offset)
{
	phys_addr_t of_pin, of_view;
	u64 at, n, m;

	for (at = 0; at < view->length; at += min(n, m)) {
		u64 left = view->length - at;

		n = peerdma_pin_run(pin, offset + at, left, &of_pin);
		lock(view);
		m = peerdma_pin_run(view->kept, view->offset + at, left, &of_view);
		unlock(view);
		if (of_pin != of_view)
			return false;
	}
	return true;
}

/*
 * For pages of p2pdma the kernel asks this itself, with each transfer.  It takes the others for
 * RAM, so there it is by peerdma's rules.
 */
static int check_path(struct page_view *view, struct peerdma_pin *pin, struct device *dev)
{
	phys_addr_t phys;
	u64 n;

	if (view->pagemap->type != MEMORY_DEVICE_PCI_P2PDMA)
		return peerdma_map_path(pin, dev);
	lock(view);
	n = peerdma_pin_run(view->kept, view->offset, view->length, &phys);
	unlock(view);
	return peerdma_path_check_pages(phys, n, dev);
}

/* By the path, and by the device's DMA mask.  The provider is not asked: it would map. pin->lock held. */
static int check_reach(struct page_view *view, struct peerdma_pin *pin, struct device *dev)
{
	u64 at, n, last = peerdma_translated(dev) ? U64_MAX : dma_get_mask(dev);
	int err = check_path(view, pin, dev);
	phys_addr_t phys;

	for (at = 0; !err && at < view->length; at += n) {
		lock(view);
		n = peerdma_pin_run(view->kept, view->offset + at, view->length - at, &phys);
		unlock(view);
		if (phys + n - 1 > last)
			err = -EOPNOTSUPP;
	}
	return err;
}

/* From here on the view ends with its pin, if it is of the revocable kind. */
static int enter(struct page_view *view, struct peerdma_pin *pin, u64 offset,
		 struct pci_dev *user, struct peerdma_account *account)
{
	int err;

	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err && user)
		err = check_reach(view, pin, &user->dev);
	if (!err && !same_memory(view, pin, offset))
		err = -ENXIO;
	if (!err && view->revocable)
		err = peerdma_object_enter(&view->object, pin, &page_view_ops, account);
	/* The object's. */
	if (!err && view->revocable)
		kref_get(&view->ref);
	mutex_unlock(&pin->lock);
	return err;
}

static struct page_view *alloc_view(const struct peerdma_page_view_args *args)
{
	struct page_view *view = peerdma_zalloc(sizeof(*view));

	if (!view)
		return NULL;
	view->revocable = !args->persistent;
	view->length = args->length;
	atomic_set(&view->files, 1);
	kref_init(&view->ref);
	INIT_DELAYED_WORK(&view->keeper, keep);
	init_completion(&view->idle);
	init_completion(&view->given_back);
	if (make_inode(view)) {
		kfree(view);
		return NULL;
	}
	view->inode->i_fop = &page_view_fops;
	if (view->revocable)
		view->inode->i_flags |= S_DAX;
	i_size_write(view->inode, view->length);
	return view;
}

static void free_view(struct page_view *view)
{
	free_inode_of(view);
	kfree(view);
}

static int check(const struct peerdma_pin *pin, const struct peerdma_page_view_args *args)
{
	u64 length = pin->pinned_length;

	if (!args->length || !PAGE_ALIGNED(args->offset | args->length))
		return -EINVAL;
	if (args->offset > length || args->length > length - args->offset)
		return -EINVAL;
	/* Host memory has pages, and its own address shows them. */
	if (pin->flags & PEERDMA_PIN_HOST || pin->import)
		return -EOPNOTSUPP;
	/* The kernel would not refuse references without limit. */
	if (!args->persistent && !IS_ENABLED(CONFIG_FS_DAX))
		return -EOPNOTSUPP;
	return 0;
}

static int make(struct page_view *view, struct peerdma_pin *pin,
		const struct peerdma_page_view_args *args)
{
	struct peerdma_account *account = peerdma_account();
	int err;

	if (!account)
		return -ENOMEM;
	view->readonly = pin->flags & PEERDMA_PIN_READONLY;
	view->inode->i_mode = S_IFREG | (view->readonly ? 0400 : 0600);
	err = keep_memory(view, pin, args->offset);
	if (err)
		return err;
	err = find_pagemap(view);
	if (err)
		pr_info_ratelimited("peerdma: no page view of pin %u: the memory's driver (%s) has made no struct pages for it that may be used so\n",
				    pin->id, pin->provider->name);
	else
		/* From here on a revocation may end the view, which takes a reference. */
		err = enter(view, pin, args->offset, args->user, account);
	if (err)
		drop_memory(view);
	return err;
}

int peerdma_page_view(struct peerdma_pin *pin, const struct peerdma_page_view_args *args,
		      struct file **file)
{
	struct page_view *view;
	int err = check(pin, args);

	if (err)
		return err;
	view = alloc_view(args);
	if (!view)
		return -ENOMEM;
	/* The keeper's. */
	kref_get(&view->ref);
	__module_get(THIS_MODULE);
	err = make(view, pin, args);
	if (err) {
		module_put(THIS_MODULE);
		free_view(view);
		return err;
	}
	view->inode->i_private = view;
	*file = make_file(view);
	if (IS_ERR(*file)) {
		close_last(view);
		return PTR_ERR(*file);
	}
	return 0;
}

int peerdma_pages_init(void)
{
	keepers = alloc_workqueue("peerdma_pages", WQ_UNBOUND, 0);
	return keepers ? 0 : -ENOMEM;
}

void peerdma_pages_exit(void)
{
	destroy_workqueue(keepers);
}
