// SPDX-License-Identifier: MIT OR GPL-2.0
/* place.c - the pages that hold a buffer's bytes between two moves. */
#include <linux/dma-mapping.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "mover.h"

#define POISON 0x5a

struct place *place_create(u32 npages)
{
	struct place *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return NULL;
	INIT_LIST_HEAD(&p->node);
	p->pages = kvcalloc(npages, sizeof(*p->pages), GFP_KERNEL);
	if (!p->pages)
		goto fail;
	for (; p->npages < npages; p->npages++) {
		p->pages[p->npages] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!p->pages[p->npages])
			goto fail;
	}
	/* Never all contiguous, so that an importer that expects one entry always fails. */
	if (npages > 1 && page_to_pfn(p->pages[1]) == page_to_pfn(p->pages[0]) + 1)
		swap(p->pages[0], p->pages[1]);
	return p;

fail:
	place_free(p);
	return NULL;
}

void place_free(struct place *p)
{
	u32 i;

	for (i = 0; i < p->npages; i++)
		__free_page(p->pages[i]);
	kvfree(p->pages);
	kfree(p);
}

void place_copy(struct place *to, const struct place *from)
{
	u32 i;

	for (i = 0; i < to->npages; i++)
		copy_highpage(to->pages[i], from->pages[i]);
}

void place_poison(struct place *p)
{
	u32 i;

	for (i = 0; i < p->npages; i++)
		memset(page_address(p->pages[i]), POISON, PAGE_SIZE);
}

bool place_intact(const struct place *p)
{
	u32 i;

	for (i = 0; i < p->npages; i++)
		if (memchr_inv(page_address(p->pages[i]), POISON, PAGE_SIZE))
			return false;
	return true;
}

int place_map(struct mapping *m)
{
	u32 segment_max = max_t(u32, dma_get_max_seg_size(m->dev), PAGE_SIZE);
	int err;

	err = sg_alloc_table_from_pages_segment(&m->table, m->place->pages, m->npages, 0,
						(size_t)m->npages << PAGE_SHIFT, segment_max,
						GFP_KERNEL);
	if (err)
		return err;
	err = dma_map_sgtable(m->dev, &m->table, m->dir, DMA_ATTR_SKIP_CPU_SYNC);
	if (err)
		sg_free_table(&m->table);
	return err;
}

void place_unmap(struct mapping *m)
{
	dma_unmap_sgtable(m->dev, &m->table, m->dir, DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(&m->table);
}
