// SPDX-License-Identifier: MIT OR GPL-2.0
/* charge.c - tells lockdep that a charge waits for a user; charge.h says why. */
#include <linux/export.h>

#include "charge.h"

#ifdef CONFIG_LOCKDEP

static struct lock_class_key charge_key;
static struct lockdep_map charge_map = STATIC_LOCKDEP_MAP_INIT("peerdma_charge", &charge_key);

void peerdma_charge_before(struct lockdep_map *lock, unsigned int subclass)
{
	lock_map_acquire(&charge_map);
	lock_acquire(lock, subclass, 0, 0, 1, NULL, _THIS_IP_);
	lock_release(lock, _THIS_IP_);
	lock_map_release(&charge_map);
}

void peerdma_charge_waits(void)
{
	might_sleep();
	lock_map_acquire(&charge_map);
	lock_map_release(&charge_map);
}
EXPORT_SYMBOL_GPL(peerdma_charge_waits);

#endif
