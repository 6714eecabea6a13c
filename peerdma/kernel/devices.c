// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * devices.c - what programs have mapped for a device goes when its driver does.
 *
 * DMA mappings belong to whoever drives the device: the next driver, or the device's
 * removal, finds an IOMMU and an engine that nobody uses.  A driver takes its own
 * mappings down; those of programs nobody else knows.  The mapping's handle stays
 * until it is unmapped, and leads to nothing.
 *
 * Locks: programs' mappings are made under device_lock (map_for() in uapi.c).  When a driver
 * is unbound, the core of drivers calls with that held.  When a device is removed, it calls
 * without, and after the device has left the bus: whoever gets the lock after this does not
 * find it there.
 */
#include <linux/device/bus.h>
#include <linux/notifier.h>
#include <linux/pci.h>

#include "devices.h"
#include "map.h"

static void take_down(struct peerdma_pin *pin, struct device *dev)
{
	struct peerdma_made *made;

	/* Nothing is mapped.  Acquire: later, its provider's lock is known. */
	if (smp_load_acquire(&pin->state) == PIN_NEW)
		return;
	peerdma_maps_lock(pin, NULL, DMA_NONE);
	list_for_each_entry(made, &pin->made, node) {
		struct peerdma_map *map = peerdma_map_of(made);

		if (map && map->handle && map->pub.dev == dev)
			peerdma_made_down(made);
	}
	peerdma_maps_unlock(pin);
}

static int device_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct peerdma_pin *pin;
	struct device *dev = data;
	u32 handle = 1;

	if (event != BUS_NOTIFY_UNBIND_DRIVER && event != BUS_NOTIFY_REMOVED_DEVICE)
		return NOTIFY_DONE;
	if (event == BUS_NOTIFY_REMOVED_DEVICE)
		device_lock(dev);
	while ((pin = peerdma_pin_from(handle))) {
		handle = pin->handle + 1;
		take_down(pin, dev);
		peerdma_pin_put(pin);
	}
	if (event == BUS_NOTIFY_REMOVED_DEVICE)
		device_unlock(dev);
	return NOTIFY_OK;
}

static struct notifier_block notifier = {
	.notifier_call = device_event,
	/* Before the IOMMU's, which takes the device's domain away. */
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
