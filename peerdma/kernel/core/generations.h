/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * generations.h - the generations of one open file's pins, and their handles.
 *
 * While a pin belongs to a file, it has one of the file's slots.  The slot's number (`slot' of
 * peerdma_ioctl.h) names the pin for user space: number + 1 is its handle, and number is its
 * index in the file's array of generations, PEERDMA_MMAP_GENERATIONS.  A generation is
 * odd while a pin with that slot is valid, and changes when the pin's validity ends, before
 * any other effect of that end.  It never decreases: a slot whose generations are used up
 * is not used again, nor is one whose pin an importer kept after its unpin.
 *
 * Each file has slots of its own, so that a program does not learn what other programs
 * pin.
 */
#ifndef PEERDMA_GENERATIONS_H
#define PEERDMA_GENERATIONS_H

#include <linux/xarray.h>

struct peerdma_pin;
struct vm_area_struct;

struct peerdma_slot {
	struct peerdma_pin *pin;	/* that user space knows by the handle, or NULL */
	struct peerdma_slot *next;	/* list of free slots */
	u32 *generation;
	u32 handle;
};

struct peerdma_generations {
	struct peerdma_slot *free;	/* caller's lock: this list, and each slot's pin */
	struct xarray slots;		/* by handle; they stay as long as the file */
	struct xarray pages;		/* of generations; allocated when first needed, and kept */
	bool kept;			/* a slot was abandoned: a notifier may still write to it */
};

void peerdma_generations_init(struct peerdma_generations *generations);
/* No pin may have one of these slots, and none may be mapped. */
void peerdma_generations_free(struct peerdma_generations *generations);
/* Allocates a slot that was never used.  No lock held.  ERR_PTR: -ENOMEM, -ENFILE. */
struct peerdma_slot *peerdma_slot_make(struct peerdma_generations *generations);
static inline u32 peerdma_slot_index(u32 handle)
{
	return handle - 1;
}

/* The slot of a handle that user space has given, or NULL.  It exists as long as the file. */
static inline struct peerdma_slot *peerdma_slot_find(struct peerdma_generations *generations,
						     u32 handle)
{
	return xa_load(&generations->slots, handle);
}

/*
 * take: removes a slot from the free list, which must not be empty. give: puts it back, if
 * it can be used again. abandon: it is never used again.  The caller holds its lock.
 */
static inline struct peerdma_slot *peerdma_slot_take(struct peerdma_generations *generations)
{
	struct peerdma_slot *slot = generations->free;

	generations->free = slot->next;
	return slot;
}

/* The last even generation from which one more pin can begin and end. */
#define PEERDMA_LAST_GENERATION	(U32_MAX - 3)

static inline void peerdma_slot_give(struct peerdma_generations *generations,
				     struct peerdma_slot *slot)
{
	if (unlikely(*slot->generation > PEERDMA_LAST_GENERATION))
		return;
	slot->next = generations->free;
	generations->free = slot;
}

static inline void peerdma_slot_abandon(struct peerdma_generations *generations)
{
	generations->kept = true;
}

int peerdma_generations_mmap(struct peerdma_generations *generations, struct vm_area_struct *vma);

#endif
