/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * host_notifier.h - does a process still map the host memory that it pinned?
 *
 * The pages of a pin of host memory stay in place, even if the mapping that they were found
 * through is removed.  But a registration cache must know when the address begins to refer to
 * other memory.  So the pin's generation ends when part of the range is unmapped, moved or given
 * other pages.  The pin and all that was made from it live on until they are ended.  For
 * memory that is revoked then (tegra/), `gone' is called instead.  The functions that provider
 * modules call are peerdma_watch_begin(), _found() and _end().
 */
#ifndef PEERDMA_HOST_NOTIFIER_H
#define PEERDMA_HOST_NOTIFIER_H

#include <linux/mmu_notifier.h>

struct peerdma_pin;

#ifdef CONFIG_MMU_NOTIFIER

struct peerdma_host_notifier {
	struct mmu_interval_notifier interval;
	struct peerdma_pin *pin;
	struct task_struct *looking_up;	/* the thread that pins, until the pages are found */
	/*
	 * NULL: the pin's generation ends.  Called from an MMU notifier, perhaps often: it
	 * must not sleep, nor take a lock that is held around an allocation.
	 */
	void (*gone)(struct peerdma_host_notifier *notifier);
};

/*
 * begin: watches the pin's range in the current process.  Set `gone' first, and call this before
 * the pages are looked up, so that no change is missed.  end: waits for a change that is being
 * handled.  Both may sleep.  Call both without mmap_lock.
 */
int peerdma_watch_begin(struct peerdma_host_notifier *notifier, struct peerdma_pin *pin);
/*
 * The pages were found.  Pages that the calling thread itself replaced before this call
 * (its own copies of shared ones) are no change.
 */
void peerdma_watch_found(struct peerdma_host_notifier *notifier);
void peerdma_watch_end(struct peerdma_host_notifier *notifier);

#else

struct peerdma_host_notifier {};

static inline int peerdma_watch_begin(struct peerdma_host_notifier *notifier,
				      struct peerdma_pin *pin)
{
	return 0;
}

static inline void peerdma_watch_found(struct peerdma_host_notifier *notifier)
{
}

static inline void peerdma_watch_end(struct peerdma_host_notifier *notifier)
{
}

#endif

#endif
