// SPDX-License-Identifier: MIT OR GPL-2.0
/* generations.c - the generations and handles of one open file's pins. */
#include <linux/err.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "account.h"
#include "charge.h"
#include "compat.h"
#include "generations.h"
#include "peerdma_ioctl.h"

#define PAGE_SLOTS	((u32)(PAGE_SIZE / sizeof(u32)))
#define PAGES		(PEERDMA_MAX_PINS / PAGE_SLOTS)
/* Handles are PEERDMA_MAX_PINS - 1 at most, as many as there can be pins. */
#define HANDLES		XA_LIMIT(1, PEERDMA_MAX_PINS - 1)
/*
 * Pages that one page of generations, its slots and the nodes of the xarray that finds them
 * take.  They are kept as long as the file is open, even if the pins end.
 */
#define SLOT_BYTES	(PAGE_SLOTS * roundup_pow_of_two(sizeof(struct peerdma_slot)))
#define NODE_BYTES	(PAGE_SLOTS / XA_CHUNK_SIZE * sizeof(struct xa_node))
#define LOCKED_PAGES	(1 + DIV_ROUND_UP(SLOT_BYTES + NODE_BYTES, PAGE_SIZE))

struct slot_page {
	struct page *page;
	struct peerdma_locked locked;
};

void peerdma_generations_init(struct peerdma_generations *generations)
{
	generations->free = NULL;
	generations->kept = false;
	xa_init_flags(&generations->slots, XA_FLAGS_ALLOC1);
	xa_init(&generations->pages);
}

static void free_page_of(struct slot_page *p)
{
	put_page(p->page);
	if (p->locked.npages)
		peerdma_unlock_pages(&p->locked);
	kfree(p);
}

void peerdma_generations_free(struct peerdma_generations *generations)
{
	struct peerdma_slot *slot;
	struct slot_page *p;
	unsigned long i;

	if (generations->kept)
		synchronize_rcu();
	xa_for_each(&generations->slots, i, slot)
		kfree(slot);
	xa_destroy(&generations->slots);
	xa_for_each(&generations->pages, i, p)
		free_page_of(p);
	xa_destroy(&generations->pages);
}

/* NULL: out of memory, or the user's limit on locked memory is reached. */
static struct slot_page *make_page(unsigned long i)
{
	struct slot_page *p = peerdma_zalloc(sizeof(*p));
	struct peerdma_account *account = i ? peerdma_account() : NULL;

	if (!p)
		return NULL;
	/* The first page is not charged: it counts as part of the open file. */
	if (i && (!account || peerdma_lock_pages(&p->locked, account, LOCKED_PAGES)))
		goto free;
	p->page = peerdma_alloc_page();
	if (p->page)
		return p;
	if (i)
		peerdma_unlock_pages(&p->locked);
free:
	kfree(p);
	return NULL;
}

static struct page *page_at(struct peerdma_generations *generations, unsigned long i)
{
	struct slot_page *p = xa_load(&generations->pages, i), *there;

	if (p)
		return p->page;
	p = make_page(i);
	if (!p)
		return NULL;
	there = peerdma_xa_cmpxchg(&generations->pages, i, NULL, p);
	if (!there)
		return p->page;
	free_page_of(p);
	return xa_is_err(there) ? NULL : there->page;
}

struct peerdma_slot *peerdma_slot_make(struct peerdma_generations *generations)
{
	struct peerdma_slot *slot = peerdma_zalloc(sizeof(*slot));
	struct page *page;
	u32 index;
	int err;

	if (!slot)
		return ERR_PTR(-ENOMEM);
	/* Reserves a handle, which finds nothing before the slot is complete. */
	err = peerdma_xa_reserve(&generations->slots, &slot->handle, HANDLES);
	if (err) {
		err = err == -EBUSY ? -ENFILE : err;
		goto free;
	}
	index = peerdma_slot_index(slot->handle);
	page = page_at(generations, index / PAGE_SLOTS);
	if (!page) {
		err = -ENOMEM;
		goto release;
	}
	slot->generation = (u32 *)page_address(page) + index % PAGE_SLOTS;
	/* Allocates nothing, so does not fail: the entry is there. */
	xa_store(&generations->slots, slot->handle, slot, GFP_NOWAIT);
	return slot;

release:
	xa_erase(&generations->slots, slot->handle);
free:
	kfree(slot);
	return ERR_PTR(err);
}

static vm_fault_t generations_fault(struct vm_fault *vmf)
{
	struct peerdma_generations *generations = vmf->vma->vm_private_data;
	struct slot_page *p = vmf->pgoff ? xa_load(&generations->pages, vmf->pgoff) : NULL;
	struct page *page = p ? p->page : vmf->pgoff ? NULL : page_at(generations, 0);

	/* Only pages that have slots, so that a reader cannot make 4 MiB of them. */
	if (!page)
		return vmf->pgoff ? VM_FAULT_SIGBUS : VM_FAULT_OOM;
	get_page(page);
	vmf->page = page;
	return 0;
}

/* The VMA keeps the file open, and so the slots allocated. */
static const struct vm_operations_struct generations_vm_ops = {
	.fault = generations_fault,
};

int peerdma_generations_mmap(struct peerdma_generations *generations, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff + vma_pages(vma) > PAGES)
		return -EINVAL;
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EPERM;
	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = generations;
	vma->vm_ops = &generations_vm_ops;
	return 0;
}
