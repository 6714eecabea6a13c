// SPDX-License-Identifier: MIT OR GPL-2.0
/* host_notifier.c - notices when the range of a process's pin changes; host_notifier.h says why. */
#include <linux/export.h>
#include <linux/sched.h>

#include "host_notifier.h"
#include "pin.h"

/* May run where sleeping is not allowed.  Takes no lock, so it never blocks. */
static bool changed(struct mmu_interval_notifier *interval,
		    const struct mmu_notifier_range *range, unsigned long seq)
{
	struct peerdma_host_notifier *notifier =
		container_of(interval, struct peerdma_host_notifier, interval);

	mmu_interval_set_seq(interval, seq);
	switch (range->event) {
	case MMU_NOTIFY_CLEAR:		/* MADV_DONTNEED, truncation; sometimes without a change */
		/*
		 * The look-up replaces a page shared since a fork, or the zero page, by the
		 * process's own.
		 */
		if (READ_ONCE(notifier->looking_up) == current)
			break;
		fallthrough;
	case MMU_NOTIFY_UNMAP:		/* munmap(), mremap() */
	case MMU_NOTIFY_RELEASE:	/* exit, exec */
		if (notifier->gone) {
			notifier->gone(notifier);
			break;
		}
		/* The slot's file may be closing: generations.h. */
		rcu_read_lock();
		peerdma_generation_end(notifier->pin);
		rcu_read_unlock();
		break;
	default:			/* same pages, other rights or flags: pinned pages stay */
		break;
	}
	return true;
}

static const struct mmu_interval_notifier_ops ops = {
	.invalidate = changed,
};

int peerdma_watch_begin(struct peerdma_host_notifier *notifier, struct peerdma_pin *pin)
{
	notifier->pin = pin;
	notifier->looking_up = current;
	return mmu_interval_notifier_insert(&notifier->interval, current->mm, pin->start,
					    pin->pinned_length, &ops);
}
EXPORT_SYMBOL_GPL(peerdma_watch_begin);

void peerdma_watch_found(struct peerdma_host_notifier *notifier)
{
	WRITE_ONCE(notifier->looking_up, NULL);
}
EXPORT_SYMBOL_GPL(peerdma_watch_found);

void peerdma_watch_end(struct peerdma_host_notifier *notifier)
{
	mmu_interval_notifier_remove(&notifier->interval);
}
EXPORT_SYMBOL_GPL(peerdma_watch_end);
