// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * view.c - CPU views of pinned memory: mmap of /dev/peerdma and of the dma-bufs exported
 * from it.
 *
 * Views are bare page frames, for RAM as well.  They hold no page reference, and no other
 * part of the kernel takes one through them (VIEW_FLAGS), so zapping them is enough to give
 * the memory back.  They are filled on fault, a table of 2 MiB at a time.
 *
 * Each open file of /dev/peerdma has an address_space, that of an inode which is used for
 * nothing else.  It has the views of all pins of the file at PEERDMA_MMAP_PIN(handle), those
 * through the pins' dma-bufs as well, so one call finds and zaps every view of a pin.  It is
 * not one address_space for all files: while views are zapped, others of the same
 * address_space cannot be made or unmapped, and a user may have made so many that this takes
 * seconds.
 *
 * Faults check the pin's state under pin->lock and insert under it.  Revocation changes the
 * state under the lock and zaps afterwards, so no entry survives.  It zaps without the
 * lock, since zapping calls MMU notifiers of other drivers, whose locks may be held around
 * calls of ours.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>

#include "core/charge.h"
#include "core/compat.h"
#include "memtype.h"
#include "view.h"

#define HANDLE_SHIFT	40
#define WITHIN_PIN	((1ULL << HANDLE_SHIFT) - 1)
#define PEERDMA_MAGIC	0x70656572	/* "peer" */

/*
 * What a view is to the rest of the kernel: VM_MIXEDMAP with special entries, and neither
 * VM_PFNMAP nor VM_IO.  Then get_user_pages() finds no page (-EEXIST), and the functions
 * that return a bare frame refuse the area.  With other flags, parts of the kernel use the
 * frame that an entry has, and zapping the entry does not stop them:
 *
 * - VM_PFNMAP: VFIO maps the frame in its IOMMU domain (vaddr_get_pfns(), 6.1 to 7.2).
 * - VM_IO or VM_PFNMAP: follow_pfn(), follow_pte() and follow_pfnmap_start() return the
 *   frame.  KVM before 6.13 keeps it while a nested guest runs (kvm_vcpu_map()).
 *
 * So there are no entries of 2 MiB.  Outside of VM_PFNMAP areas the kernel, 7.2 included,
 * looks for the struct page of such an entry: get_user_pages(), madvise(MADV_COLD),
 * /proc/PID/clear_refs.
 *
 * VM_SPECIAL, of which VM_MIXEDMAP and VM_DONTEXPAND are part, also excludes mlock, merging,
 * guard pages and core dumps.
 */
#define VIEW_FLAGS	(VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY)

static struct vfsmount *view_mount;

struct inode *peerdma_view_inode(void)
{
	return alloc_anon_inode(view_mount->mnt_sb);
}

/* The reference is dropped by peerdma_pin_free(): the file may be closed before the last dma-buf. */
struct address_space *peerdma_view_mapping(struct peerdma_pin *pin)
{
	lockdep_assert_held(&pin->lock);
	if (!pin->views) {
		pin->views = pin->owner->views;
		ihold(pin->views);
	}
	return pin->views->i_mapping;
}

/* One call of mmap, with all VMAs that remain of it after splits and partial unmaps. */
struct view {
	struct peerdma_object object;
	u64 offset;			/* of the range in the pin */
	u64 length;
	u32 areas;			/* pin->lock: number of VMAs */
	bool wc;			/* pin->lock: counts in pin->wc_views */
};

static struct peerdma_pin *pin_of(const struct vm_area_struct *vma)
{
	const struct view *view = vma->vm_private_data;

	return view->object.pin;
}

static u64 offset_of(const struct vm_area_struct *vma, unsigned long addr)
{
	u64 pgoff = vma->vm_pgoff + ((addr - vma->vm_start) >> PAGE_SHIFT);

	return (pgoff << PAGE_SHIFT) & WITHIN_PIN;
}

struct fill {
	unsigned long pfn;
	pgprot_t prot;
	struct mm_struct *mm;
};

static int fill_pte(pte_t *pte, unsigned long addr, void *data)
{
	struct fill *fill = data;

	/* Another thread may have filled it. */
	if (!pte_present(*pte))
		set_pte_at(fill->mm, addr, pte, pte_mkspecial(pfn_pte(fill->pfn, fill->prot)));
	fill->pfn++;
	return 0;
}

/*
 * Computes the part of the VMA that lies in the pin and under one page table of addr: 2
 * MiB, or more with larger base pages.
 */
static void window(const struct vm_area_struct *vma, const struct peerdma_pin *pin,
		   unsigned long addr, unsigned long *from, unsigned long *to)
{
	u64 left = pin->pinned_length - offset_of(vma, vma->vm_start);

	*from = max(addr & PMD_MASK, vma->vm_start);
	*to = min((addr & PMD_MASK) + PMD_SIZE, vma->vm_end);
	if (*to - vma->vm_start > left)
		*to = vma->vm_start + left;
}

static vm_fault_t fill_small(struct vm_area_struct *vma, struct peerdma_pin *pin,
			     unsigned long addr)
{
	struct fill fill = { .prot = vma->vm_page_prot, .mm = vma->vm_mm };
	unsigned long from, to;
	phys_addr_t phys;
	u64 n;

	window(vma, pin, addr, &from, &to);
	for (; from < to; from += n) {
		n = peerdma_pin_run(pin, offset_of(vma, from), to - from, &phys);
		fill.pfn = PHYS_PFN(phys);
		if (apply_to_page_range(vma->vm_mm, from, n, fill_pte, &fill))
			return VM_FAULT_OOM;
	}
	return VM_FAULT_NOPAGE;
}

static int leave_pte(pte_t *pte, unsigned long addr, void *data)
{
	return 0;
}

int peerdma_view_table(const struct vm_fault *vmf)
{
	if (!pmd_none(READ_ONCE(*vmf->pmd)))
		return 0;
	peerdma_charge_waits();
	return apply_to_page_range(vmf->vma->vm_mm, vmf->address & PAGE_MASK, PAGE_SIZE,
				   leave_pte, NULL);
}

static vm_fault_t view_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct peerdma_pin *pin = pin_of(vma);
	vm_fault_t ret = VM_FAULT_SIGBUS;

	if (peerdma_view_table(vmf))
		return VM_FAULT_OOM;
	mutex_lock(&pin->lock);
	if (pin->state == PIN_LIVE && offset_of(vma, vmf->address) < pin->pinned_length)
		ret = fill_small(vma, pin, vmf->address);
	mutex_unlock(&pin->lock);
	atomic64_inc(&peerdma_stats.faults);
	return ret;
}

static void view_open(struct vm_area_struct *vma)
{
	struct view *view = vma->vm_private_data;
	struct peerdma_pin *pin = view->object.pin;

	mutex_lock(&pin->lock);
	view->areas++;
	mutex_unlock(&pin->lock);
}

static void view_close(struct vm_area_struct *vma)
{
	struct view *view = vma->vm_private_data;
	struct peerdma_pin *pin = view->object.pin;

	/*
	 * Keeps the pin: peerdma_object_end() may drop the last other reference, with the
	 * lock held.
	 */
	kref_get(&pin->ref);
	mutex_lock(&pin->lock);
	if (!--view->areas)
		peerdma_object_end(&view->object);
	mutex_unlock(&pin->lock);
	peerdma_pin_put(pin);
}

static const struct vm_operations_struct view_vm_ops = {
	.open = view_open,
	.close = view_close,
	.fault = view_fault,
};

/* ---- write-combined memory, by the runs of a pin ---- */

static u32 wc_blocks(struct peerdma_pin *pin)
{
	phys_addr_t phys;
	u32 count = 0;
	u64 at, n;

	for (at = 0; at < pin->pinned_length; at += n) {
		n = peerdma_pin_run(pin, at, pin->pinned_length - at, &phys);
		count += peerdma_memtype_blocks(phys, n);
	}
	return count;
}

/* The runs in [0, end). */
static void wc_free(struct peerdma_pin *pin, u64 end)
{
	phys_addr_t phys;
	u64 at, n;

	for (at = 0; at < end; at += n) {
		n = peerdma_pin_run(pin, at, end - at, &phys);
		peerdma_memtype_free(phys, n);
	}
}

static int wc_reserve(struct peerdma_pin *pin, struct peerdma_spare_blocks *spares)
{
	phys_addr_t phys;
	u64 at, n;
	int err;

	for (at = 0; at < pin->pinned_length; at += n) {
		n = peerdma_pin_run(pin, at, pin->pinned_length - at, &phys);
		err = peerdma_memtype_reserve(phys, n, spares);
		if (err) {
			wc_free(pin, at);
			return err;
		}
	}
	return 0;
}

/* RAM is cached, unless its owner has it write-combined.  A BAR is write-combined. */
static enum peerdma_memory memory_of(struct peerdma_pin *pin)
{
	const struct peerdma_provider *p = pin->provider;
	enum peerdma_memory memory = p->memory ? p->memory(pin) : MEMORY_BAR;
	phys_addr_t phys;

	if (pin->flags & PEERDMA_PIN_HOST)
		return MEMORY_CACHED;
	if (memory != MEMORY_BAR)
		return memory;
	peerdma_pin_run(pin, 0, 1, &phys);
	return page_is_ram(PHYS_PFN(phys)) ? MEMORY_CACHED : MEMORY_BAR;
}

/*
 * That a BAR is write-combined is reserved with the kernel, so that all mappings of it
 * agree.  If it has a cached mapping already (EBUSY: a GPU whose memory is system memory or
 * has struct pages), this view is cached, too.
 */
static int set_prot(struct view *view, struct vm_area_struct *vma,
		    struct peerdma_spare_blocks *spares)
{
	struct peerdma_pin *pin = view->object.pin;
	enum peerdma_memory memory = memory_of(pin);
	int err;

	if (memory == MEMORY_CACHED)
		return 0;
	if (memory == MEMORY_COMBINED) {
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
		return 0;
	}
	/* Once for all views of the pin. */
	err = pin->wc_views ? 0 : wc_reserve(pin, spares);
	if (err)
		return err == -EBUSY ? 0 : -ENOMEM;
	pin->wc_views++;
	view->wc = true;
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	return 0;
}

/* The first view to be stopped zaps all views of the pin. */
static void view_stop(struct peerdma_object *object)
{
	struct peerdma_pin *pin = object->pin;

	if (pin->zapped)
		return;
	unmap_mapping_range(pin->views->i_mapping, PEERDMA_MMAP_PIN(pin->handle),
			    pin->pinned_length, 1);
	pin->zapped = true;
}

/* Frees the reservation before the memory is given back. */
static void view_down(struct peerdma_object *object)
{
	struct view *view = container_of(object, struct view, object);

	if (view->wc && !--object->pin->wc_views)
		wc_free(object->pin, object->pin->pinned_length);
	view->wc = false;
}

static void view_free(struct peerdma_object *object)
{
	kfree(container_of(object, struct view, object));
}

static const struct peerdma_object_ops view_ops = {
	.charge = CHARGE_VIEWS,
	.stop = view_stop,
	.down = view_down,
	.free = view_free,
};

/*
 * What a view needs, beside itself: allocated before pin->lock is taken.  A view that fails
 * is freed by its last reference, or is still here.
 */
struct preparation {
	struct view *view;
	struct peerdma_account *account;
	struct peerdma_spare_blocks spares;
	u32 missing;			/* spares: -EAGAIN */
};

/*
 * pin->lock held.  -EAGAIN: `missing' says how many spares are to be there.  The pages of a pin
 * stay the same, so the second attempt has enough.
 */
static int view_create(struct peerdma_pin *pin, struct preparation *p, struct vm_area_struct *vma)
{
	struct view *view = p->view;
	int err = peerdma_pin_usable(pin);

	if (!err && (!pin->provider->page ||
		     (pin->flags & PEERDMA_PIN_HOST && peerdma_page_tables_checked())))
		err = -EOPNOTSUPP;
	if (err)
		return err;
	if (!pin->wc_views && memory_of(pin) == MEMORY_BAR)
		p->missing = wc_blocks(pin);
	if (p->spares.count < p->missing)
		return -EAGAIN;
	err = peerdma_object_enter(&view->object, pin, &view_ops, p->account);
	if (err)
		return err;
	p->view = NULL;
	/* Holds the inode that view_stop() needs. */
	peerdma_view_mapping(pin);
	err = set_prot(view, vma, &p->spares);
	if (err) {
		peerdma_object_end(&view->object);
		return err;
	}
	view->areas = 1;
	return 0;
}

static int prepare_and_create(struct peerdma_pin *pin, struct preparation *p,
			      struct vm_area_struct *vma)
{
	int err;

	p->account = peerdma_account();
	if (!p->account)
		return -ENOMEM;
	do {
		err = peerdma_memtype_fill(&p->spares, p->missing);
		if (err)
			return err;
		mutex_lock(&pin->lock);
		err = view_create(pin, p, vma);
		mutex_unlock(&pin->lock);
	} while (err == -EAGAIN);
	return err;
}

int peerdma_view_mmap(struct peerdma_pin *pin, struct vm_area_struct *vma, u64 offset)
{
	u64 length = vma->vm_end - vma->vm_start;
	struct preparation p = {};
	struct view *view;
	int err;

	/* VM_SHARED itself is not set if the file is open for reading only. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (offset > pin->pinned_length || length > pin->pinned_length - offset)
		return -EINVAL;
	if (pin->flags & PEERDMA_PIN_READONLY) {
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		vm_flags_clear(vma, VM_MAYWRITE);
	}

	view = peerdma_zalloc(sizeof(*view));
	if (!view)
		return -ENOMEM;
	view->offset = offset;
	view->length = length;
	p.view = view;
	err = prepare_and_create(pin, &p, vma);
	peerdma_memtype_drop(&p.spares);
	kfree(p.view);
	if (err)
		return err;

	vm_flags_set(vma, VIEW_FLAGS);
	vma->vm_pgoff = (PEERDMA_MMAP_PIN(pin->handle) + offset) >> PAGE_SHIFT;
	vma->vm_private_data = view;
	vma->vm_ops = &view_vm_ops;
	return 0;
}

static int view_fs_init(struct fs_context *fc)
{
	return init_pseudo(fc, PEERDMA_MAGIC) ? 0 : -ENOMEM;
}

/* No owner: the module itself mounts it, and a reference would keep the module for ever. */
static struct file_system_type view_fs = {
	.name = "peerdma",
	.init_fs_context = view_fs_init,
	.kill_sb = kill_anon_super,
};

int peerdma_view_init(void)
{
	peerdma_memtype_init();
	view_mount = kern_mount(&view_fs);
	return PTR_ERR_OR_ZERO(view_mount);
}

void peerdma_view_exit(void)
{
	kern_unmount(view_mount);
}
