// SPDX-License-Identifier: MIT
/*
 * keep.c - VRAM that is kept without being pinned, and so may be moved.
 *
 * A move takes other pages of the same GPU's VRAM and copies.  It happens under
 * the lock while nobody touches VRAM of this GPU: engines take what they copy anew
 * for each chunk, and the CPU's views are hidden before and fault until it is over.
 * Whoever else knows where the memory is (a pin, another process) is a reason to
 * leave it there.
 */
#include "sg_int.h"

/* The mapping of what is kept, if the process still has it. */
static struct sg_range *range_of_locked(const struct sg_keep *keep)
{
	struct sg_proc *proc = sg_proc_by_key_locked(keep->sg, keep->proc_key);
	struct sg_range *range = proc ? sg_range_at(proc, keep->va) : NULL;

	return range && range->mem == keep->mem ? range : NULL;
}

int sg_keep_get(struct sg *sg, struct sg_keep *keep, const struct sg_pin_who *who, u64 va, u64 length)
{
	struct sg_range *range;
	int err;

	if (!length || (va | length) % SG_PAGE_SIZE || va + length < va)
		return -EINVAL;
	sg_mutex_lock(&sg->lock);
	err = sg_resolve_locked(sg, who, va, length, &range);
	if (!err && range->mem->gpu->removed)
		err = -ENODEV;
	if (!err) {
		keep->sg = sg;
		keep->mem = range->mem;
		keep->proc_key = range->proc->key;
		keep->va = va;
		keep->length = length;
		keep->offset = va - range->node.key;
		sg_mem_get_locked(keep->mem);
		keep->mem->keeps++;
	}
	sg_mutex_unlock(&sg->lock);
	return err;
}

void sg_keep_put(struct sg_keep *keep)
{
	struct sg *sg = keep->sg;

	sg_mutex_lock(&sg->lock);
	keep->mem->keeps--;
	sg_mem_put_locked(keep->mem);
	sg_mutex_unlock(&sg->lock);
}

int sg_keep_pin(struct sg_keep *keep, struct sg_pin *pin, const struct sg_pin_ops *ops)
{
	struct sg *sg = keep->sg;
	int err;

	sg_mutex_lock(&sg->lock);
	/* No pin that chaos counts: the caller may hold locks that a revocation wants. */
	err = sg_pin_take_locked(pin, ops, keep->mem, keep->offset, keep->va, keep->length, true);
	sg_mutex_unlock(&sg->lock);
	return err;
}

/* Whether somebody relies on it that the memory is where it is. */
static bool must_stay(const struct sg_keep *keep, const struct sg_range *range)
{
	const struct sg_mem *mem = keep->mem;

	return mem->refs != 1 + (u32)!!range || sg_mem_pinned(mem) || keep->sg->chaos.strict ||
	       !sg_list_empty(&mem->gpu->watches);
}

static void copy(const struct sg_mem *to, const struct sg_mem *from)
{
	u8 *vram = from->gpu->desc.vram;
	u64 at, n, m;

	for (at = 0; at < from->size; at += n) {
		u64 source = sg_mem_at(from, at, &n), target = sg_mem_at(to, at, &m);

		if (n > m)
			n = m;
		memcpy(vram + target, vram + source, n);
	}
}

/* May drop the lock.  Nobody touches this GPU's VRAM, nor sees it through a view. */
static void quiet_locked(const struct sg_keep *keep)
{
	struct sg_range *range = range_of_locked(keep);

	if (range && range->visible)
		sg_range_hide_locked(range);
	keep->mem->gpu->awaited++;
	while (keep->mem->gpu->entered)
		sg_cond_wait(&keep->sg->ended, &keep->sg->lock);
	keep->mem->gpu->awaited--;
}

int sg_keep_move(struct sg_keep *keep)
{
	struct sg_mem *mem = keep->mem, *other;
	struct sg *sg = keep->sg;
	struct sg_extent *e;
	int err;

	err = sg_mem_create(mem->gpu, mem->size, &other);
	if (err)
		return err;
	sg_mutex_lock(&sg->lock);
	err = mem->moving || must_stay(keep, range_of_locked(keep)) ? -EBUSY : 0;
	if (err)
		goto out;
	mem->moving = true;
	quiet_locked(keep);
	err = mem->gpu->removed ? -ENODEV : must_stay(keep, range_of_locked(keep)) ? -EBUSY : 0;
	if (!err) {
		copy(other, mem);
		e = mem->first;
		mem->first = other->first;
		other->first = e;
	}
	mem->moving = false;
out:
	sg_mem_put_locked(other);
	sg_mutex_unlock(&sg->lock);
	return err;
}
