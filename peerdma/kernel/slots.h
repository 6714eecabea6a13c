/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * slots.h - the generations of one open file's pins, which user space reads.
 *
 * A slot is the index of a pin in its file's array of generations,
 * PEERDMA_MMAP_GENERATIONS.  A generation is odd while a pin with that slot is valid, and
 * changes when the pin's validity ends, before any other effect of that end.  It never
 * decreases: a slot whose numbers are used up is not used again, nor is one whose pin an
 * importer kept after its unpin.
 *
 * Each file has an array of its own, so that a program does not learn what other programs
 * pin.
 */
#ifndef PEERDMA_SLOTS_H
#define PEERDMA_SLOTS_H

#include <linux/slab.h>
#include <linux/xarray.h>

struct vm_area_struct;

struct peerdma_slot {
	struct peerdma_slot *next;	/* list of free slots */
	u32 *generation;
	u32 index;
};

struct peerdma_slots {
	struct peerdma_slot *free;	/* the caller's lock guards this list */
	struct xarray pages;		/* of generations; allocated when first needed, and kept */
	atomic_t used;			/* slots from this index on were never used */
	bool kept;			/* a slot was abandoned: a notifier may still write to it */
};

void peerdma_slots_init(struct peerdma_slots *slots);
/* No pin may have one of these slots, and none may be mapped. */
void peerdma_slots_free(struct peerdma_slots *slots);
/* Allocates a slot that was never used.  No lock held.  ERR_PTR: -ENOMEM, -ENFILE. */
struct peerdma_slot *peerdma_slot_make(struct peerdma_slots *slots);
/*
 * take: removes a slot from the free list, which must not be empty. give: puts it back.
 * abandon: frees it.  The caller holds its lock.
 */
static inline struct peerdma_slot *peerdma_slot_take(struct peerdma_slots *slots)
{
	struct peerdma_slot *slot = slots->free;

	slots->free = slot->next;
	return slot;
}

/* The last even generation from which one more pin can begin and end. */
#define PEERDMA_LAST_GENERATION	(U32_MAX - 3)

static inline void peerdma_slot_give(struct peerdma_slots *slots, struct peerdma_slot *slot)
{
	if (unlikely(*slot->generation > PEERDMA_LAST_GENERATION)) {
		kfree(slot);
		return;
	}
	slot->next = slots->free;
	slots->free = slot;
}

/* The slot is never used again; its page stays until all slots are freed. */
static inline void peerdma_slot_abandon(struct peerdma_slots *slots, struct peerdma_slot *slot)
{
	slots->kept = true;
	kfree(slot);
}

int peerdma_slots_mmap(struct peerdma_slots *slots, struct vm_area_struct *vma);

#endif
