/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * slots.h - the generations of one open file's pins, which user space reads.
 *
 * A slot is a pin's place in its file's array, PEERDMA_MMAP_GENERATIONS.  Its generation
 * is odd while a pin lives in it, and changes when the pin's validity ends, before
 * anything else does.  It never goes back: a slot whose numbers are used up is not used
 * again, nor is one that an importer's hold has kept past its pin's end.
 *
 * Each file has an array of its own, so that no one learns what others pin.
 */
#ifndef PEERDMA_SLOTS_H
#define PEERDMA_SLOTS_H

#include <linux/slab.h>
#include <linux/xarray.h>

struct vm_area_struct;

struct peerdma_slot {
	struct peerdma_slot *next;	/* free ones */
	u32 *generation;
	u32 index;
};

struct peerdma_slots {
	struct peerdma_slot *free;	/* the caller's lock */
	struct xarray pages;		/* of generations; made when first needed, and kept */
	atomic_t used;			/* slots from here on were never used */
	bool kept;			/* a slot was abandoned: a notifier may still be writing to it */
};

void peerdma_slots_init(struct peerdma_slots *slots);
/* No pin has a slot of these, and none is mapped. */
void peerdma_slots_free(struct peerdma_slots *slots);
/* A slot that was never used; no lock held.  ERR_PTR: -ENOMEM, -ENFILE. */
struct peerdma_slot *peerdma_slot_make(struct peerdma_slots *slots);
/* A free one, if there is one; and back.  All under one lock of the caller's. */
static inline struct peerdma_slot *peerdma_slot_take(struct peerdma_slots *slots)
{
	struct peerdma_slot *slot = slots->free;

	slots->free = slot->next;
	return slot;
}

/* The last even number from which a pin can begin and end. */
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

/* Never to be used again; its page stays until the slots go. */
static inline void peerdma_slot_abandon(struct peerdma_slots *slots, struct peerdma_slot *slot)
{
	slots->kept = true;
	kfree(slot);
}

int peerdma_slots_mmap(struct peerdma_slots *slots, struct vm_area_struct *vma);

#endif
