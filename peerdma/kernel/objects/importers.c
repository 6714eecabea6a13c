// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * importers.c - waits for importers that were asked to unmap a pin's dma-buf, names those
 * that take too long, and cuts them off where that is possible.
 *
 * An importer cannot be made to unmap.  What happens when its time is over depends on why
 * the pin ends:
 *
 * - It is unpinned: the importer keeps the memory, as static ones do.  The pin is held for
 *   it until it detaches.
 * - The provider takes the memory back, and may reuse it when we return.  A device behind
 *   an IOMMU loses its mapping.  A device without one could still write to the memory: we
 *   wait for it, however long it takes, unless the administrator allows that such a device
 *   is stopped (export_stop_device), which ends all of its DMA.  This wait cannot be
 *   bounded: to return would let the device write to memory of another owner.  It never
 *   ends by itself if the importer's file is closed by the very thread that waits, as in a
 *   process that exits.  The log names the device, and setting export_stop_device then ends
 *   the wait within a second.
 */
#include <linux/moduleparam.h>
#include <linux/pci.h>

#include "core/path.h"
#include "importers.h"

static unsigned int timeout_ms = 10000;
module_param_named(export_timeout_ms, timeout_ms, uint, 0644);
MODULE_PARM_DESC(export_timeout_ms, "Milliseconds within which importers must release a revoked dma-buf (default 10000)");

static bool stop_device;
module_param_named(export_stop_device, stop_device, bool, 0644);
MODULE_PARM_DESC(export_stop_device, "Turn off bus mastering of an importing device without an IOMMU that does not release a dma-buf in time (default N: wait for it)");

/* Threads that wait for importers: rare, so one queue for all. */
static DECLARE_WAIT_QUEUE_HEAD(returned);

unsigned long peerdma_importers_timeout(void)
{
	return msecs_to_jiffies(READ_ONCE(timeout_ms));
}

static void map_returned(struct peerdma_map *map)
{
	struct peerdma_export *ex;

	if (!map->outstanding)
		return;
	ex = map->attached->ex;
	map->outstanding = false;
	/* Release: a thread that sees zero also sees all unmapped. */
	smp_store_release(&ex->outstanding, ex->outstanding - 1);
	wake_up_all(&returned);
}

void peerdma_importer_down(struct peerdma_map *map)
{
	if (peerdma_map_down(map))
		map_returned(map);
}

void peerdma_importer_let_go(struct peerdma_map *map)
{
	if (peerdma_map_let_go(map))
		map_returned(map);
}

static bool all_returned(const struct peerdma_export *ex)
{
	/* Acquire: this thread sees all unmapped. */
	return !smp_load_acquire(&ex->outstanding);
}

/* Returns the mapping if an importer of this export has it and must unmap it, else NULL. */
static struct peerdma_map *outstanding_map(const struct peerdma_export *ex,
					   struct peerdma_object *object)
{
	struct peerdma_map *map = peerdma_map_of(object);

	return map && map->outstanding && map->attached->ex == ex ? map : NULL;
}

/* ---- late importers ---- */

static void name_late(struct peerdma_export *ex)
{
	struct peerdma_pin *pin = ex->object.pin;
	struct peerdma_object *object;
	struct peerdma_map *map;

	mutex_lock(&pin->lock);
	list_for_each_entry(object, &pin->objects, node) {
		map = outstanding_map(ex, object);
		if (!map || map->late)
			continue;
		map->late = true;
		atomic64_inc(&peerdma_stats.late);
		pr_warn("peerdma: %s (driver %s) has not released a dma-buf of pin %u (%s, process %d) within %u ms\n",
			dev_name(map->pub.dev), dev_driver_string(map->pub.dev), pin->id,
			pin->provider->name, pin->tgid, READ_ONCE(timeout_ms));
	}
	mutex_unlock(&pin->lock);
}

static void overdue(struct work_struct *work)
{
	name_late(container_of(to_delayed_work(work), struct peerdma_overdue, work)->ex);
}

void peerdma_overdue_begin(struct peerdma_overdue *o, struct peerdma_export *ex)
{
	o->ex = ex;
	INIT_DELAYED_WORK_ONSTACK(&o->work, overdue);
	schedule_delayed_work(&o->work, peerdma_importers_timeout());
}

void peerdma_overdue_end(struct peerdma_overdue *o)
{
	cancel_delayed_work_sync(&o->work);
	destroy_delayed_work_on_stack(&o->work);
}

/* ---- keep or cut off ---- */

/* Late importers keep the memory until they detach. */
static void keep(struct peerdma_export *ex)
{
	struct peerdma_pin *pin = ex->object.pin;
	struct peerdma_object *object;
	struct peerdma_map *map;

	mutex_lock(&pin->lock);
	list_for_each_entry(object, &pin->objects, node) {
		map = outstanding_map(ex, object);
		if (!map || map->attached->hold)
			continue;
		map->attached->hold = true;
		pin->holds++;
	}
	mutex_unlock(&pin->lock);
}

/*
 * Returns true if the device's accesses, from here or from the flush on, do not reach the
 * memory.
 */
static bool cut_off(struct peerdma_map *map)
{
	struct device *dev = map->pub.dev;

	if (!peerdma_translated(dev)) {
		if (!READ_ONCE(stop_device) || !dev_is_pci(dev))
			return false;
		pr_warn("peerdma: %s: bus mastering is off until its driver is loaded again: an importer did not release memory in time\n",
			dev_name(dev));
		pci_clear_master(to_pci_dev(dev));
	}
	peerdma_importer_down(map);
	return true;
}

static bool cut_off_all(struct peerdma_export *ex)
{
	struct peerdma_pin *pin = ex->object.pin;
	struct peerdma_object *object;
	struct peerdma_map *map;
	bool all = true;

	mutex_lock(&pin->lock);
	list_for_each_entry(object, &pin->objects, node) {
		map = outstanding_map(ex, object);
		if (map && !cut_off(map))
			all = false;
	}
	mutex_unlock(&pin->lock);
	return all;
}

void peerdma_importers_wait(struct peerdma_export *ex, bool taken)
{
	if (wait_event_timeout(returned, all_returned(ex), peerdma_export_left(ex)))
		return;
	name_late(ex);
	if (!taken) {
		keep(ex);
		return;
	}
	/* Tried every second: export_stop_device may be set meanwhile. */
	while (!cut_off_all(ex))
		wait_event_timeout(returned, all_returned(ex), HZ);
}
