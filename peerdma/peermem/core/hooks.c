// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * hooks.c - ftrace redirects ib_umem_get(), ib_umem_release() and ib_umem_copy_from() to functions
 * here.
 *
 * lead_here() takes a reference to this module before it redirects a thread, and the function here
 * drops it at its end, so a thread that sleeps in between keeps the module. Removing a hook waits
 * (synchronize_rcu_tasks()) for threads that have dropped it and not yet returned.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "client.h"
#include "compat.h"
#include "drivers.h"
#include "hooks.h"
#include "region.h"

/*
 * Can the kernel itself not register memory at addr? That is so if nothing is mapped there,
 * or device memory, or memory without access rights (as CUDA and ROCm reserve addresses for
 * their memory).
 */
static bool begins_without_pages(unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool without;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	without = !vma || vma->vm_flags & (VM_IO | VM_PFNMAP) || !vma_is_accessible(vma);
	mmap_read_unlock(mm);
	return without;
}

static bool may_be_peers(unsigned long addr, size_t size, int access)
{
	unsigned long end;

	return peer_clients_any() && current->mm && size && !(access & IB_ACCESS_ON_DEMAND) &&
	       !check_add_overflow(addr, size, &end) && PAGE_ALIGN(end) >= end;
}

/* The kernel itself refuses sizes whose pages it cannot count, with EINVAL. */
static bool is_countable(size_t size)
{
	return size >> PAGE_SHIFT < UINT_MAX;
}

/* For a range that begins in host memory: does it contain memory without access rights? */
static bool goes_on_without_rights(unsigned long addr, size_t size)
{
	unsigned long end = PAGE_ALIGN(addr + size), at = addr;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool forbidden = false;

	if (!is_countable(size))
		return false;
	mmap_read_lock(mm);
	while (!forbidden && at < end && (vma = vma_lookup(mm, at))) {
		forbidden = !vma_is_accessible(vma);
		at = vma->vm_end;
	}
	mmap_read_unlock(mm);
	return forbidden;
}

/*
 * For memory that no client owns.  Memory without access rights is refused, as the kernel
 * does since 6.2: before, an MR that does not write would be made of zeroed pages that the
 * kernel allocates there by force.
 */
static struct ib_umem *not_from_peers(unsigned long addr, size_t size)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool forbidden;

	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	forbidden = vma && !vma_is_accessible(vma) && is_countable(size);
	mmap_read_unlock(mm);
	return forbidden ? ERR_PTR(-EFAULT) : NULL;
}

/* Returns a client's umem, NULL if no client owns the range, or ERR_PTR. */
static struct ib_umem *get_from_peers(struct ib_device *ibdev, unsigned long addr, size_t size,
				      int access, unsigned long flags)
{
	struct ib_umem *umem;
	struct device *dev;

	if (!may_be_peers(addr, size, access))
		return NULL;
	if (!begins_without_pages(addr)) {
		/* The kernel refuses it, too, or registers zeroed pages: see not_from_peers(). */
		if (!goes_on_without_rights(addr, size))
			return NULL;
		pr_info_ratelimited("%s: %zu bytes at %#lx of %s (%d) begin in host memory, and are not all of it\n",
				    dev_name(&ibdev->dev), size, addr, current->comm,
				    task_tgid_nr(current));
		return ERR_PTR(-EFAULT);
	}
	if (!(flags & IB_PEER_MEM_ALLOW)) {
		pr_info_ratelimited("%s: gets no peer memory: its driver may need struct pages\n",
				    dev_name(&ibdev->dev));
		return not_from_peers(addr, size);
	}
	dev = peer_bus_device(ibdev);
	if (!dev) {
		pr_info_ratelimited("%s: gets no peer memory: it is not a PCI function\n",
				    dev_name(&ibdev->dev));
		return not_from_peers(addr, size);
	}
	umem = peer_region_get(ibdev, dev, addr, size, access, flags);
	if (umem)
		return umem;
	pr_info_ratelimited("%s: no client accepted %#lx, %zu bytes, of process %s (%d)\n", dev_name(&ibdev->dev),
			    addr, size, current->comm, task_tgid_nr(current));
	return not_from_peers(addr, size);
}

/* ---- what drivers call by name ---- */

struct ib_umem *ib_umem_get_peer(struct ib_device *device, unsigned long addr, size_t size,
				 int access, unsigned long peer_mem_flags)
{
	struct ib_umem *umem = NULL;

	if (peer_mem_flags & IB_PEER_MEM_ALLOW)
		umem = get_from_peers(device, addr, size, access, peer_mem_flags);
	if (!umem)
		umem = peer_umem_get_va(device, addr, size, access);
	return umem;
}
EXPORT_SYMBOL_GPL(ib_umem_get_peer);

int ib_umem_activate_invalidation_notifier(struct ib_umem *umem, umem_invalidate_func_t func,
					   void *cookie)
{
	return peer_region_is(umem) ? peer_region_activate(umem, func, cookie) : -EINVAL;
}
EXPORT_SYMBOL_GPL(ib_umem_activate_invalidation_notifier);

void ib_umem_stop_invalidation_notifier(struct ib_umem *umem)
{
	if (peer_region_is(umem))
		peer_region_stop(umem);
}
EXPORT_SYMBOL_GPL(ib_umem_stop_invalidation_notifier);

bool ib_umem_is_peer(const struct ib_umem *umem)
{
	return peer_region_is(umem);
}
EXPORT_SYMBOL_GPL(ib_umem_is_peer);

/* ---- replacements of the kernel's functions ---- */

static struct ib_umem *from_peers_by_table(struct ib_device *device, unsigned long addr,
					   size_t size, int access)
{
	return get_from_peers(device, addr, size, access, peer_driver_flags(device));
}

DEFINE_INSTEAD_OF_GET(instead_of_get, from_peers_by_table)

static void instead_of_release(struct ib_umem *umem)
{
	if (peer_region_is(umem))
		peer_region_release(umem);
	else
		ib_umem_release(umem);
	module_put(THIS_MODULE);
}

static int instead_of_copy_from(void *dst, struct ib_umem *umem, size_t offset, size_t length)
{
	/* There are no pages to copy from. */
	int ret = peer_region_is(umem) ? -EOPNOTSUPP : ib_umem_copy_from(dst, umem, offset, length);

	module_put(THIS_MODULE);
	return ret;
}

static void notrace lead_here(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			      struct ftrace_regs *fregs)
{
	/* A call from this module is meant for the original. */
	if (within_module(parent_ip, THIS_MODULE))
		return;
	/*
	 * Fails while the module is being unloaded: then none of our umems is left, and the
	 * original works.
	 */
	if (try_module_get(THIS_MODULE))
		peer_ftrace_go_to(fregs, (unsigned long)ops->private);
}

#define HOOK(original, ours) { \
	.name = #original, .addr = (unsigned long)(original), \
	.ops = { .func = lead_here, .flags = PEER_FTRACE_FLAGS, .private = (ours) } }

/*
 * Set in this order and removed in reverse, so that no umem of ours exists without the
 * first two.
 */
static struct hook {
	const char *name;
	unsigned long addr;
	struct ftrace_ops ops;
} hooks[] = {
	HOOK(ib_umem_release, instead_of_release),
	HOOK(ib_umem_copy_from, instead_of_copy_from),
	HOOK(PEER_UMEM_GET, instead_of_get),
};

static int hook_set(struct hook *hook)
{
	int err = ftrace_set_filter_ip(&hook->ops, hook->addr, 0, 0);

	if (err)
		return err;
	err = register_ftrace_function(&hook->ops);
	if (err)
		ftrace_set_filter_ip(&hook->ops, hook->addr, 1, 0);
	return err;
}

static void hooks_remove(int count)
{
	while (count--) {
		unregister_ftrace_function(&hooks[count].ops);
		ftrace_set_filter_ip(&hooks[count].ops, hooks[count].addr, 1, 0);
	}
}

int peer_hooks_init(void)
{
	int err, i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		err = hook_set(&hooks[i]);
		if (err) {
			pr_err("%s() cannot be hooked: error %d\n", hooks[i].name, err);
			hooks_remove(i);
			/*
			 * Wait for threads that a hook has redirected; loading itself holds
			 * one reference.
			 */
			while (module_refcount(THIS_MODULE) > 1)
				msleep(20);
			return err;
		}
	}
	return 0;
}

void peer_hooks_exit(void)
{
	hooks_remove(ARRAY_SIZE(hooks));
}
