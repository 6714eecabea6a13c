// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * devices.c - takes down programs' mappings for a device when its driver is unbound or the
 * device is removed.
 *
 * DMA mappings belong to a device's driver: the next driver, or the removal of the device,
 * expects that none is left.  A driver takes its own mappings down, but does not know those
 * of programs.  The mapping's handle stays valid until it is unmapped, but has no addresses
 * any more.
 *
 * When a driver begins to be unbound, its device still runs.  So programs' mappings only lose
 * their translations then, and their addresses stay reserved (reserve.c).  When the driver
 * is gone, or the device is, all reserved addresses are given back, whose mapping it was: the
 * domain that they belong to may end with the device.
 *
 * Locks: programs' mappings are made under device_lock (device_map.c).  When a
 * driver is unbound, the driver core calls us with that lock held.  When a device is
 * removed, it calls us without the lock, after the device has left the bus: a thread that
 * takes the lock after us does not find the device there.
 */
#include <linux/device/bus.h>
#include <linux/notifier.h>
#include <linux/pci.h>

#include "devices.h"
#include "objects/map.h"

static bool is_for(struct peerdma_object *object, const struct device *dev)
{
	const struct peerdma_map *map = peerdma_map_of(object);

	/* stale: to be flushed by a revocation that is under way, while the domain exists. */
	return map && map->pub.dev == dev && (map->program || map->reserved || object->stale);
}

/*
 * Most pins have no such mapping.  Of these no lock but pin->lock is taken: the reservation
 * lock of an imported dma-buf may be held for long by its exporter or another importer.
 */
static bool has_mapping(struct peerdma_pin *pin, const struct device *dev)
{
	struct peerdma_object *object;
	bool has = false;

	if (list_empty_careful(&pin->objects))
		return false;
	mutex_lock(&pin->lock);
	list_for_each_entry(object, &pin->objects, node)
		has |= is_for(object, dev);
	mutex_unlock(&pin->lock);
	return has;
}

static void take_down(struct peerdma_pin *pin, struct device *dev, bool let_go)
{
	struct peerdma_object *object;

	/*
	 * NEW: nothing is mapped.  Acquire: in any other state pin->import, which
	 * peerdma_maps_lock() reads, is set.
	 */
	if (smp_load_acquire(&pin->state) == PIN_NEW || !has_mapping(pin, dev))
		return;
	peerdma_maps_lock(pin, NULL);
	list_for_each_entry(object, &pin->objects, node) {
		if (!is_for(object, dev))
			continue;
		if (let_go)
			peerdma_object_let_go(object);
		else if (peerdma_map_of(object)->program)
			peerdma_object_down(object);
	}
	peerdma_maps_unlock(pin);
}

static int device_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct peerdma_pin *pin;
	struct device *dev = data;
	u32 id = 1;

	if (event != BUS_NOTIFY_UNBIND_DRIVER && event != BUS_NOTIFY_UNBOUND_DRIVER &&
	    event != BUS_NOTIFY_REMOVED_DEVICE)
		return NOTIFY_DONE;
	if (event == BUS_NOTIFY_REMOVED_DEVICE)
		device_lock(dev);
	while ((pin = peerdma_pin_from(id))) {
		id = pin->id + 1;
		take_down(pin, dev, event != BUS_NOTIFY_UNBIND_DRIVER);
		peerdma_pin_put(pin);
	}
	if (event == BUS_NOTIFY_REMOVED_DEVICE)
		device_unlock(dev);
	return NOTIFY_OK;
}

static struct notifier_block notifier = {
	.notifier_call = device_event,
	/* Runs before the IOMMU's notifier, which removes the device's domain. */
	.priority = INT_MAX,
};

int peerdma_devices_init(void)
{
	return bus_register_notifier(&pci_bus_type, &notifier);
}

void peerdma_devices_exit(void)
{
	bus_unregister_notifier(&pci_bus_type, &notifier);
}
