// SPDX-License-Identifier: MIT
/*
 * managed.c - strict mode: managed memory that can be pinned, although it must not be.
 *
 * Managed memory is host memory here, which both CPU and GPU use in place, and a pin of it
 * is refused.  NVIDIA's guide warns of drivers that pin it nevertheless: they pin the GPU's
 * copy at that moment.  In strict mode the first pin makes such a copy.  It begins without
 * the data, so what a device reads there is stale.  What a device writes there reaches
 * neither the program nor CUDA.  Whenever an engine reads or writes part of the buffer,
 * that part of the copy is overwritten with the host's data.
 *
 * A copy is a range in proc->copies, where only pins look for it.
 */
#include "memory.h"

static struct sg_range *copy_at(const struct sg_proc *proc, u64 va)
{
	return SG_NODE_OF(sg_covering(&proc->copies, va), struct sg_range);
}

/* Returns the managed buffer at va, if there is one and it is aligned to whole pages. */
static struct sg_buf *managed_at(const struct sg_proc *proc, u64 va)
{
	struct sg_buf *buf = sg_buf_at(proc, va);

	if (!buf || buf->kind != SOFTGPU_KIND_MANAGED || buf->node.key % SG_PAGE_SIZE)
		return NULL;
	return buf;
}

/* Called without the lock; the caller holds a reference to the heap's context. */
static int create(struct sg_proc *proc, struct sg_heap *heap, u64 len, struct sg_range **out)
{
	struct sg_mem *mem;
	int err = sg_mem_create(heap->gpu, (len + SG_PAGE_SIZE - 1) & ~(SG_PAGE_SIZE - 1), &mem);

	if (err)
		return err;
	*out = sg_range_new(proc, heap, mem);
	if (*out)
		return 0;
	sg_mutex_lock(&proc->sg->lock);
	sg_mem_put_locked(mem);
	sg_mutex_unlock(&proc->sg->lock);
	return -ENOMEM;
}

int sg_managed_copy_locked(struct sg_proc *proc, u64 va, struct sg_range **out)
{
	struct sg *sg = proc->sg;
	struct sg_buf *buf = managed_at(proc, va);
	struct sg_range *fresh = NULL;
	struct sg_heap *heap;
	u64 id, len;
	int err;

	*out = NULL;
	if (!sg->chaos.strict || !buf)
		return -EINVAL;
	*out = copy_at(proc, va);
	if (*out)
		return 0;
	heap = buf->heap;
	id = buf->buffer_id;
	len = buf->node.len;
	/* The reference also keeps the client and the process alive. */
	heap->obj->refs++;
	sg_mutex_unlock(&sg->lock);
	err = create(proc, heap, len, &fresh);
	sg_mutex_lock(&sg->lock);
	/* Meanwhile the buffer may have been freed, or another thread may have made the copy. */
	buf = managed_at(proc, va);
	if (!err && (!buf || buf->buffer_id != id))
		err = -EINVAL;
	*out = err ? NULL : copy_at(proc, va);
	if (!err && !*out) {
		fresh->tree = &proc->copies;
		sg_range_publish_locked(fresh, buf->node.key);
		*out = fresh;
		fresh = NULL;
	}
	if (fresh) {
		sg_mem_put_locked(fresh->mem);
		sg_free(fresh);
	}
	sg_obj_put_locked(heap->obj);
	return err;
}

bool sg_is_managed_copy(const struct sg_range *range)
{
	return range->tree == &range->proc->copies;
}

void sg_managed_moved_locked(struct sg_proc *proc, u64 va, const void *local, u64 len)
{
	struct sg *sg = proc->sg;

	while (len) {
		struct sg_range *copy = copy_at(proc, va);
		struct sg_node *next = copy ? NULL : sg_tree_ceil(&proc->copies, va);
		u64 run = next && next->key - va < len ? next->key - va : len;

		if (copy) {
			struct sg_mem *mem = copy->mem;
			u64 in_mem;
			void *at = sg_mem_at(mem, va - copy->node.key, &in_mem);

			if (run > in_mem)
				run = in_mem;
			if (!sg_gpu_enter_locked(mem->gpu))
				return;
			sg_mem_get_locked(mem);
			sg_mutex_unlock(&sg->lock);
			memcpy(at, local, run);
			sg_mutex_lock(&sg->lock);
			sg_gpu_leave_locked(mem->gpu);
			sg_mem_put_locked(mem);
		}
		va += run;
		local = (const char *)local + run;
		len -= run;
	}
}
