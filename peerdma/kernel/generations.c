// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * generations.c - an array of counters that user space may read but not write:
 * one slot per pin, so that validity costs a load and no system call.
 *
 * A slot is odd while a pin lives in it and changes when the pin's validity
 * ends, before anything else does.  It never goes back, so a slot that is used
 * again does not revive what its last tenant said.  Pages are made when first
 * needed and kept.
 */
#include <linux/mm.h>

#include "compat.h"
#include "pin.h"

#define SLOTS_PER_PAGE	(PAGE_SIZE / sizeof(u32))
#define PAGES		(PEERDMA_MAX_PINS / SLOTS_PER_PAGE)

static struct page *pages[PAGES];

static struct page *get_or_make(unsigned long i)
{
	struct page *page = READ_ONCE(pages[i]), *made;

	if (page)
		return page;
	made = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!made)
		return NULL;
	page = cmpxchg(&pages[i], NULL, made);
	if (page) {
		__free_page(made);
		return page;
	}
	return made;
}

static u32 *slot_of(u32 slot)
{
	return (u32 *)page_address(pages[slot / SLOTS_PER_PAGE]) + slot % SLOTS_PER_PAGE;
}

/* The slot is the caller's: one writer at a time. */
int peerdma_generation_next(u32 slot, u32 *generation)
{
	u32 *p;

	if (!get_or_make(slot / SLOTS_PER_PAGE))
		return -ENOMEM;
	p = slot_of(slot);
	*generation = *p + 1;
	WRITE_ONCE(*p, *generation);
	return 0;
}

void peerdma_generation_end(u32 slot)
{
	u32 *p = slot_of(slot);

	WRITE_ONCE(*p, *p + 1);
	/* Before anything that the pin's end does to devices and views. */
	smp_mb();
}

static vm_fault_t generation_fault(struct vm_fault *vmf)
{
	struct page *page;

	if (vmf->pgoff >= PAGES)
		return VM_FAULT_SIGBUS;
	page = get_or_make(vmf->pgoff);
	if (!page)
		return VM_FAULT_OOM;
	get_page(page);
	vmf->page = page;
	return 0;
}

static const struct vm_operations_struct generation_vm_ops = {
	.fault = generation_fault,
};

int peerdma_generation_mmap(struct vm_area_struct *vma)
{
	if (vma->vm_pgoff + vma_pages(vma) > PAGES)
		return -EINVAL;
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EPERM;
	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &generation_vm_ops;
	return 0;
}

/* The module goes: no file is open, so nothing is mapped. */
void peerdma_generation_exit(void)
{
	unsigned long i;

	for (i = 0; i < PAGES; i++)
		if (pages[i])
			__free_page(pages[i]);
}
