// SPDX-License-Identifier: MIT
/*
 * buf.c - bufs: allocations as the program knows them.  Most bufs have a range (range.c) of
 * their own, small ones share a slab (slab.c), and host memory has none.
 */
#include "memory.h"

void sg_heap_init(struct sg_heap *heap, struct sg_obj *obj, struct sg_gpu *gpu)
{
	heap->obj = obj;
	heap->gpu = gpu;
	sg_list_init(&heap->bufs);
	sg_list_init(&heap->slabs);
}

struct sg_buf *sg_buf_new(struct sg_proc *proc, struct sg_heap *heap, u32 kind)
{
	struct sg_buf *buf = sg_zalloc(sizeof(*buf));

	if (buf) {
		buf->proc = proc;
		buf->heap = heap;
		buf->kind = kind;
		sg_list_init(&buf->in_owner);
		sg_list_init(&buf->in_share);
		sg_list_init(&buf->in_freed);
	}
	return buf;
}

void sg_buf_publish_locked(struct sg_buf *buf, u64 va, u64 len, struct sg_link *owner)
{
	buf->buffer_id = buf->proc->sg->next_buffer_id++;
	buf->node.key = va;
	buf->node.len = len;
	sg_tree_insert(&buf->proc->bufs, &buf->node);
	buf->proc->sg->objects++;
	sg_list_add_tail(owner, &buf->in_owner);
	if (buf->range)
		buf->range->bufs++;
}

void sg_buf_release_locked(struct sg_buf *buf)
{
	struct sg_range *range = buf->range;
	struct sg_range *copy = SG_NODE_OF(sg_tree_find(&buf->proc->copies, buf->node.key),
					   struct sg_range);
	struct sg_obj *phys = buf->phys;

	sg_tree_erase(&buf->proc->bufs, &buf->node);
	buf->proc->sg->objects--;
	sg_list_del(&buf->in_owner);
	sg_list_del(&buf->in_freed);
	sg_share_end_locked(buf);
	sg_alias_end_locked(buf);
	if (range && range->slots)
		sg_slots_set(range, (u32)((buf->node.key - range->node.key) / SG_SLOT_SIZE),
			  sg_slots_for(buf->node.len),
			  sg_slab_in_use_elsewhere(range) ? SG_SLOT_LIMBO : SG_SLOT_FREE);
	sg_free(buf);
	if (phys)
		sg_obj_put_locked(phys);
	if (range && !--range->bufs)
		sg_range_end_locked(range);
	if (copy)
		sg_range_end_locked(copy);
}
