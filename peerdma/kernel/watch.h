/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * watch.h - does a process still have the host memory that it pinned?
 *
 * The pages of such a pin stay, whatever becomes of the mapping that they were
 * found through.  But who keeps pins for later (a registration cache) must know
 * when the address has come to mean other memory.  So the pin's generation ends
 * when part of the range is unmapped, moved or given other pages; the pin and
 * all that was made from it live on until they are ended.
 */
#ifndef PEERDMA_WATCH_H
#define PEERDMA_WATCH_H

#include <linux/mmu_notifier.h>

struct peerdma_pin;

#ifdef CONFIG_MMU_NOTIFIER

struct peerdma_watch {
	struct mmu_interval_notifier notifier;
	struct peerdma_pin *pin;
	struct task_struct *looking_up;	/* who makes the pin, until its pages are found */
};

/*
 * Watches the pin's range of the current process; before its pages are looked
 * up, so that no change is missed.  Both may sleep, without mmap_lock; the end
 * waits for a change that is being looked at.
 */
int peerdma_watch_begin(struct peerdma_watch *watch, struct peerdma_pin *pin);
/* The pages are found: until here, what the caller itself gave other pages to (its own copies of shared ones) is no change. */
void peerdma_watch_found(struct peerdma_watch *watch);
void peerdma_watch_end(struct peerdma_watch *watch);

#else

struct peerdma_watch {};

static inline int peerdma_watch_begin(struct peerdma_watch *watch, struct peerdma_pin *pin)
{
	return 0;
}

static inline void peerdma_watch_found(struct peerdma_watch *watch)
{
}

static inline void peerdma_watch_end(struct peerdma_watch *watch)
{
}

#endif

#endif
