// SPDX-License-Identifier: MIT
/*
 * slab.c - slabs: ranges whose slots of 512 bytes hold small allocations.
 *
 * If a small buf is freed while its slab is pinned or open in another process, its slots go
 * to limbo: a device or that process may still write to them.  They are used again only
 * after the last pin and the last import are gone.
 *
 * With desc.blocks a slab has 2 MiB, and all shorter bufs share one.  As with NVIDIA's
 * driver an import then keeps nothing in limbo: a process that has the slab open can access
 * what is allocated there next.
 */
#include "memory.h"

void sg_slots_set(struct sg_range *slab, u32 first, u32 count, enum sg_slot state)
{
	u32 i;

	for (i = first; i < first + count; i++)
		slab->slots[i] = state;
	slab->unused += state == SG_SLOT_USED ? -count : count;
	slab->limbo += state == SG_SLOT_LIMBO ? count : 0;
}

u32 sg_slots_of(const struct sg_range *slab)
{
	return (u32)(slab->mem->size / SG_SLOT_SIZE);
}

u32 sg_slots_for(u64 len)
{
	return (u32)((len + SG_SLOT_SIZE - 1) / SG_SLOT_SIZE);
}

/* May a device or another process still write to slots freed in this slab? */
bool sg_slab_in_use_elsewhere(const struct sg_range *slab)
{
	return !sg_list_empty(&slab->pins) || !sg_list_empty(&slab->persistent) ||
	       slab->mem->movables || (slab->mem->imports && !slab->mem->gpu->desc.blocks);
}

void sg_slab_unpinned_locked(struct sg_range *range)
{
	u32 i;

	if (!range->limbo || sg_slab_in_use_elsewhere(range))
		return;
	for (i = 0; i < sg_slots_of(range); i++) {
		if (range->slots[i] == SG_SLOT_LIMBO)
			range->slots[i] = SG_SLOT_FREE;
	}
	range->limbo = 0;
}

/* First fit. */
u32 sg_slots_find(const struct sg_range *slab, u32 count)
{
	u32 i, run = 0;

	for (i = 0; i < sg_slots_of(slab); i++) {
		run = slab->slots[i] == SG_SLOT_FREE ? run + 1 : 0;
		if (run == count)
			return i + 1 - count;
	}
	return sg_slots_of(slab);
}
