// SPDX-License-Identifier: MIT
/*
 * movable.c - movable VRAM: stays allocated without being pinned, so that it may be moved.
 *
 * A move takes other pages of the same GPU's VRAM, or system memory, and copies.  It
 * happens under the lock while no thread touches VRAM of this GPU: engines look up their
 * VRAM anew for each chunk, and CPU mappings are removed before and fault until the move is
 * over.  Memory whose location is known elsewhere (to a pin or another process) is not
 * moved.
 */
#include "memory.h"

struct sg_range *sg_movable_range_locked(const struct sg_movable *movable)
{
	struct sg_proc *proc = sg_proc_by_key_locked(movable->sg, movable->proc_key);
	struct sg_range *range = proc ? sg_range_at(proc, movable->va) : NULL;

	return range && range->mem == movable->mem ? range : NULL;
}

u64 sg_mapping_end(struct sg *sg, const void *proc_key, u64 va)
{
	const struct sg_range *range;
	const struct sg_proc *proc;
	u64 end = 0;

	sg_mutex_lock(&sg->lock);
	proc = sg_proc_by_key_locked(sg, proc_key);
	range = proc ? sg_range_at(proc, va) : NULL;
	if (range)
		end = range->node.key + range->node.len;
	sg_mutex_unlock(&sg->lock);
	return end;
}

void sg_movable_put(struct sg_movable *movable)
{
	struct sg *sg = movable->sg;

	sg_mutex_lock(&sg->lock);
	movable->mem->movables--;
	sg_mem_put_locked(movable->mem);
	sg_mutex_unlock(&sg->lock);
}

u32 sg_movable_gpu_index(const struct sg_movable *movable)
{
	return movable->mem->gpu->index;
}

/* -EBUSY: a pin, another process or strict mode relies on the memory's location. */
static int may_move_locked(const struct sg_movable *movable)
{
	const struct sg_mem *mem = movable->mem;

	if (mem->gpu->removed)
		return -ENODEV;
	/* Each pin, other sg_movable, other range and copy under way has a reference. */
	if (mem->refs != 1 + (u32)!!sg_movable_range_locked(movable))
		return -EBUSY;
	return movable->sg->chaos.strict || mem->gpu->watches ? -EBUSY : 0;
}

static void copy(const struct sg_mem *to, const struct sg_mem *from)
{
	u64 at, n, m;

	for (at = 0; at < from->size; at += n) {
		const void *source = sg_mem_at(from, at, &n);
		void *target = sg_mem_at(to, at, &m);

		if (n > m)
			n = m;
		memcpy(target, source, n);
	}
}

/*
 * May drop the lock.  Waits until no thread touches this GPU's VRAM and no CPU mapping
 * shows it; -EINTR.  There is one range at most: memory with more, or with a handle, does
 * not move.
 */
static int quiet_locked(const struct sg_movable *movable)
{
	struct sg_range *range = sg_movable_range_locked(movable);
	int err = 0;

	if (range && range->visible)
		sg_range_hide_locked(range);
	movable->mem->gpu->awaited++;
	while (!err && movable->mem->gpu->entered)
		err = sg_cond_wait_killable(&movable->sg->ended, &movable->sg->lock);
	movable->mem->gpu->awaited--;
	return err;
}

static void swap_places(struct sg_mem *a, struct sg_mem *b)
{
	struct sg_extent *first = a->first;
	void *system = a->system;

	a->first = b->first;
	a->system = b->system;
	b->first = first;
	b->system = system;
}

enum sg_place sg_movable_place(const struct sg_movable *movable)
{
	enum sg_place place;

	sg_mutex_lock(&movable->sg->lock);
	place = movable->mem->system ? SG_IN_SYSTEM : SG_IN_VRAM;
	sg_mutex_unlock(&movable->sg->lock);
	return place;
}

int sg_movable_move(struct sg_movable *movable, enum sg_place to)
{
	struct sg_mem *mem = movable->mem, *other;
	struct sg *sg = movable->sg;
	int err;

	if (to == SG_IN_SYSTEM && sg_movable_place(movable) == to)
		return 0;
	err = to == SG_IN_SYSTEM ? sg_mem_create_system(mem->gpu, mem->size, &other) :
		sg_mem_create(mem->gpu, mem->size, &other);
	if (err)
		return err;
	sg_mutex_lock(&sg->lock);
	err = mem->moving ? -EBUSY : may_move_locked(movable);
	if (err)
		goto out;
	mem->moving = true;
	err = quiet_locked(movable);
	if (!err)
		err = may_move_locked(movable);
	if (!err) {
		copy(other, mem);
		swap_places(mem, other);
	}
	mem->moving = false;
out:
	sg_mem_put_locked(other);
	sg_mutex_unlock(&sg->lock);
	return err;
}
