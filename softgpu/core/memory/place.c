// SPDX-License-Identifier: MIT
/* place.c - places allocations of VRAM and system memory: in a slab, or on pages of their own. */
#include "memory.h"

/* The unit in which a heap gets memory for its bufs, shared or not. */
static u64 unit_of(const struct sg_heap *heap)
{
	return heap->gpu->desc.blocks && !heap->visible ? SG_BLOCK_SIZE : SG_PAGE_SIZE;
}

/* Places a small buf in one of its heap's slabs; false: none has room. */
static bool place_small_locked(struct sg_buf *buf, u64 len, u64 *va)
{
	struct sg_range *slab;
	u32 count = sg_slots_for(len), at;

	sg_list_for_each(slab, &buf->heap->slabs, struct sg_range, in_slabs) {
		/*
		 * The end of the last import or sg_movable does not update the slots, so do it
		 * here.
		 */
		sg_slab_unpinned_locked(slab);
		if (slab->unused < count)
			continue;
		at = sg_slots_find(slab, count);
		if (at == sg_slots_of(slab))
			continue;
		sg_slots_set(slab, at, count, SG_SLOT_USED);
		buf->range = slab;
		*va = slab->node.key + (u64)at * SG_SLOT_SIZE;
		return true;
	}
	return false;
}

/* The CPU maps visible memory by the page, so such allocations share no page. */
static bool is_small(const struct sg_heap *heap, u64 len)
{
	return !heap->visible &&
	       (heap->gpu->desc.blocks ? len < SG_BLOCK_SIZE : len <= SG_SMALL_MAX);
}

/* Allocates zeroed memory for a heap. */
static int create_mem(const struct sg_heap *heap, u64 size, struct sg_mem **out)
{
	int err;

	if (!heap->system)
		return sg_mem_create(heap->gpu, size, out);
	err = sg_mem_create_system(heap->gpu, size, out);
	if (!err)
		memset((*out)->system, 0, size);
	return err;
}

/*
 * Gives a buf new pages: its own range, or a new slab of which it gets the first slots.
 * Returns with the lock held.
 */
static int alloc_pages(struct sg_buf *buf, u64 len, u64 *va)
{
	struct sg_heap *heap = buf->heap;
	struct sg *sg = heap->gpu->sg;
	u64 unit = unit_of(heap);
	struct sg_range *range;
	struct sg_mem *mem;
	u8 *slots = NULL;
	int err;

	err = create_mem(heap, (len + unit - 1) & ~(unit - 1), &mem);
	if (err) {
		sg_mutex_lock(&sg->lock);
		return err;
	}
	range = sg_range_new(buf->proc, heap, mem);
	if (is_small(heap, len))
		slots = sg_zalloc(unit / SG_SLOT_SIZE);
	sg_mutex_lock(&sg->lock);
	err = -ENOMEM;
	if (!range || (is_small(heap, len) && !slots))
		goto fail;
	range->visible = heap->visible;
	/*
	 * Meanwhile the context may have been destroyed, or the GPU removed, with all of their
	 * memory.
	 */
	if (heap->obj && heap->obj->gone)
		err = -ENOENT;
	else
		err = heap->gpu->removed ? -ENODEV : sg_range_place_locked(range);
	if (err)
		goto fail;
	range->slots = slots;
	if (slots) {
		range->unused = sg_slots_of(range);
		sg_slots_set(range, 0, sg_slots_for(len), SG_SLOT_USED);
		sg_list_add_tail(&heap->slabs, &range->in_slabs);
	}
	buf->range = range;
	*va = range->node.key;
	return 0;
fail:
	sg_mem_put_locked(mem);
	sg_free(slots);
	sg_free(range);
	return err;
}

int sg_buf_place_locked(struct sg_buf *buf, u64 len, u64 *va)
{
	if (is_small(buf->heap, len) && place_small_locked(buf, len, va))
		return 0;
	sg_mutex_unlock(&buf->proc->sg->lock);
	return alloc_pages(buf, len, va);
}
