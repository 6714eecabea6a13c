// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * importers.c - importers of a pin's dma-bufs have been told to let go: they are
 * waited for, named when they take too long, and cut off where that is possible.
 *
 * Nobody can make an importer unmap.  What is done about one that does not, when
 * its time is over, depends on why the pin ends:
 *
 * - It is unpinned: the importer keeps the memory, as static ones do.  The pin is
 *   held for it until it detaches.
 *
 * - The provider takes the memory away, and lets others have it when we return.
 *   A device behind an IOMMU loses its mapping.  One without could still write
 *   there: it is waited for, however long it takes, unless somebody allows that
 *   such a device is stopped (export_stop_device), which ends all of its DMA.
 */
#include <linux/iommu.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>

#include "importers.h"
#include "pin.h"

static unsigned int timeout_ms = 10000;
module_param_named(export_timeout_ms, timeout_ms, uint, 0644);
MODULE_PARM_DESC(export_timeout_ms, "Milliseconds that importers of dma-bufs have to let go of what is taken away (default 10000)");

static bool stop_device;
module_param_named(export_stop_device, stop_device, bool, 0644);
MODULE_PARM_DESC(export_stop_device, "An importer's device that has no IOMMU and does not let go in time loses its bus mastering (default N: it is waited for)");

/* Who waits for importers of some pin: rare, so one for all. */
static DECLARE_WAIT_QUEUE_HEAD(returned);

unsigned long peerdma_importers_timeout(void)
{
	return msecs_to_jiffies(READ_ONCE(timeout_ms));
}

void peerdma_importer_returns(struct peerdma_map *map)
{
	struct peerdma_pin *pin = map->pub.pin;

	lockdep_assert_held(&pin->lock);
	map->lent = false;
	/* Release: who sees none left finds them taken down. */
	smp_store_release(&pin->lent, pin->lent - 1);
	wake_up_all(&returned);
}

static bool all_returned(const struct peerdma_pin *pin)
{
	/* Acquire: what they had is taken down. */
	return !smp_load_acquire(&pin->lent);
}

/* ---- those who are late ---- */

static void name_late(struct peerdma_pin *pin)
{
	struct peerdma_map *map;

	mutex_lock(&pin->lock);
	list_for_each_entry(map, &pin->maps, node) {
		if (!map->lent || map->late)
			continue;
		map->late = true;
		atomic64_inc(&peerdma_stats.late);
		pr_warn("peerdma: %s (driver %s) has not let go of a dma-buf of pin %u (%s, process %d) within %u ms\n",
			dev_name(map->pub.dev), dev_driver_string(map->pub.dev), pin->handle,
			pin->provider->name, pin->tgid, READ_ONCE(timeout_ms));
	}
	mutex_unlock(&pin->lock);
}

static void overdue(struct work_struct *work)
{
	struct peerdma_overdue *o = container_of(to_delayed_work(work), struct peerdma_overdue, work);

	name_late(o->pin);
}

void peerdma_overdue_begin(struct peerdma_overdue *o, struct peerdma_pin *pin)
{
	o->pin = pin;
	INIT_DELAYED_WORK_ONSTACK(&o->work, overdue);
	schedule_delayed_work(&o->work, peerdma_importers_timeout());
}

void peerdma_overdue_end(struct peerdma_overdue *o)
{
	cancel_delayed_work_sync(&o->work);
	destroy_delayed_work_on_stack(&o->work);
}

/* ---- what becomes of them ---- */

/* Until it detaches. */
static void keep(struct peerdma_pin *pin)
{
	struct peerdma_map *map;

	mutex_lock(&pin->lock);
	list_for_each_entry(map, &pin->maps, node) {
		if (!map->lent || map->hold)
			continue;
		map->hold = true;
		if (!*map->importer_holds) {
			*map->importer_holds = true;
			pin->holds++;
		}
	}
	mutex_unlock(&pin->lock);
}

/* True: what this device does from here on does not reach the memory. */
static bool cut_off(struct peerdma_map *map)
{
	struct device *dev = map->pub.dev;

	if (peerdma_translated(dev)) {
		peerdma_map_down(map);
		/* Not later, as the DMA API may do it. */
		iommu_flush_iotlb_all(iommu_get_domain_for_dev(dev));
		return true;
	}
	if (!READ_ONCE(stop_device) || !dev_is_pci(dev))
		return false;
	pr_warn("peerdma: %s is stopped: it does no DMA any more until its driver is loaded again\n",
		dev_name(dev));
	pci_clear_master(to_pci_dev(dev));
	peerdma_map_down(map);
	return true;
}

static bool cut_off_all(struct peerdma_pin *pin)
{
	struct peerdma_map *map;
	bool all = true;

	mutex_lock(&pin->lock);
	list_for_each_entry(map, &pin->maps, node)
		if (map->lent && !cut_off(map))
			all = false;
	mutex_unlock(&pin->lock);
	return all;
}

void peerdma_importers_wait(struct peerdma_pin *pin, bool taken)
{
	if (wait_event_timeout(returned, all_returned(pin), peerdma_importers_timeout()))
		return;
	name_late(pin);
	if (!taken) {
		keep(pin);
		return;
	}
	/* Again and again: it may be allowed to stop the device meanwhile. */
	while (!cut_off_all(pin))
		wait_event_timeout(returned, all_returned(pin), HZ);
}
