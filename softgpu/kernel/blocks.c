// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * blocks.c - system memory in blocks of 64 KiB, each physically contiguous.  The blocks
 * need not be adjacent; the kernel maps them contiguously.  They replace VRAM if there is
 * no PCI device with a BAR, and dma-bufs are moved to them for importers that cannot reach
 * VRAM.
 */
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "charge.h"
#include "softgpu.h"

#define BLOCK_ORDER	(SG_PAGE_SHIFT - PAGE_SHIFT)
#define BLOCK_PAGES	(1u << BLOCK_ORDER)

static void free_pages_of(struct page **pages, u64 npages)
{
	while (npages)
		__free_page(pages[--npages]);
}

static struct page *alloc_block(bool charged)
{
	struct page *block;

	if (!charged)
		return alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN, BLOCK_ORDER);
	block = alloc_pages(SOFTGPU_CHARGED_AT_ONCE | __GFP_ZERO, BLOCK_ORDER);
	return block ?: alloc_pages(SOFTGPU_CHARGED | __GFP_ZERO, BLOCK_ORDER);
}

/* False: out of memory. */
static bool alloc_blocks(struct page **pages, u64 npages, bool charged)
{
	u64 i;

	for (i = 0; i < npages; i++) {
		if (i % BLOCK_PAGES) {
			pages[i] = pages[i - 1] + 1;
			continue;
		}
		pages[i] = alloc_block(charged);
		if (!pages[i]) {
			free_pages_of(pages, i);
			return false;
		}
		split_page(pages[i], BLOCK_ORDER);
	}
	return true;
}

void *softgpu_blocks_alloc(u64 length, bool charged)
{
	u64 npages = length >> PAGE_SHIFT;
	struct page **pages = kvmalloc_array(npages, sizeof(*pages), GFP_KERNEL);
	void *memory;

	if (!pages)
		return NULL;
	if (alloc_blocks(pages, npages, charged)) {
		/* From then on the mapping owns the pages and the array. */
		memory = vmap(pages, npages, VM_MAP | VM_MAP_PUT_PAGES, PAGE_KERNEL);
		if (memory)
			return memory;
		free_pages_of(pages, npages);
	}
	kvfree(pages);
	return NULL;
}

void softgpu_blocks_free(void *memory)
{
	vfree(memory);
}

u64 softgpu_blocks_phys(const void *memory, u64 offset)
{
	return page_to_phys(vmalloc_to_page(memory + offset)) + offset % PAGE_SIZE;
}
