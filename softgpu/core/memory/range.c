// SPDX-License-Identifier: MIT
/*
 * range.c - ranges: whole 64 KiB pages of memory, mapped at an address of a process.  Pins
 * refer to a range, and the end of a range revokes them.
 */
#include "memory.h"

struct sg_range *sg_range_new(struct sg_proc *proc, struct sg_heap *heap, struct sg_mem *mem)
{
	struct sg_range *range = sg_zalloc(sizeof(*range));

	if (range) {
		range->proc = proc;
		/* A pin may outlive the client, and the client's own heap with it. */
		range->heap = heap && heap->obj ? heap : NULL;
		range->mem = mem;
		range->tree = &proc->ranges;
		range->access = SG_READ | SG_WRITE;
		sg_list_init(&range->pins);
		sg_list_init(&range->persistent);
		sg_list_init(&range->in_slabs);
	}
	return range;
}

void sg_range_publish_locked(struct sg_range *range, u64 va)
{
	range->node.key = va;
	range->node.len = range->mem->size;
	sg_tree_insert(range->tree, &range->node);
	/*
	 * A pin names its range's context until the pin has ended, which may be after the
	 * context's end.
	 */
	if (range->heap)
		range->heap->obj->refs++;
}

void sg_range_hide_locked(const struct sg_range *range)
{
	const struct sg_gpu_desc *desc = &range->mem->gpu->desc;
	struct sg *sg = range->proc->sg;

	sg_mutex_unlock(&sg->lock);
	desc->hide(desc->priv, range->proc->key, range->node.key, range->node.len);
	sg_mutex_lock(&sg->lock);
}

void sg_range_end_locked(struct sg_range *range)
{
	struct sg_proc *proc = range->proc;
	struct sg_obj *ctx = range->heap ? range->heap->obj : NULL;
	struct sg *sg = proc->sg;

	sg_tree_erase(range->tree, &range->node);
	sg_list_del(&range->in_slabs);
	proc->refs++;
	sg_pins_revoke_locked(range);
	if (range->visible)
		sg_range_hide_locked(range);
	if (range->window)
		sg_space_give(&proc->window, range->window);
	if (range->imported)
		range->mem->imports--;
	sg_mem_put_locked(range->mem);
	sg_free(range->slots);
	sg_free(range);
	if (ctx)
		sg_obj_put_locked(ctx);
	sg_proc_put_locked(proc);
	sg_cond_broadcast(&sg->ended);
}

int sg_range_place_locked(struct sg_range *range)
{
	struct sg_proc *proc = range->proc;
	u64 align = SG_PAGE_SIZE;
	int err;

	if (!proc->has_window)
		return -EINVAL;
	/* Blocks are aligned to their size, in every process. */
	if (range->mem->gpu->desc.blocks && !(range->mem->size % SG_BLOCK_SIZE))
		align = SG_BLOCK_SIZE;
	err = sg_space_take(&proc->window, range->mem->size, align, &range->window);
	if (!err)
		sg_range_publish_locked(range, range->window->node.key);
	return err;
}
