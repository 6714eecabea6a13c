// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * devices.c - what programs have mapped for a device goes when its driver does.
 *
 * DMA mappings belong to whoever drives the device: the next driver, or the device's
 * removal, finds an IOMMU and an engine that nobody uses.  A driver takes its own
 * mappings down; those of programs nobody else knows.  The mapping's handle stays
 * until it is unmapped, and leads to nothing.
 *
 * Locks: the core of drivers calls with device_lock held, under which programs'
 * mappings are made too (map_for() in uapi.c), so that none is made meanwhile.
 */
#include <linux/device/bus.h>
#include <linux/notifier.h>
#include <linux/pci.h>

#include "devices.h"
#include "pin.h"

static void take_down(struct peerdma_pin *pin, struct device *dev)
{
	struct peerdma_map *map;

	peerdma_maps_lock(pin, NULL, DMA_NONE);
	list_for_each_entry(map, &pin->maps, node)
		if (map->handle && map->pub.dev == dev)
			peerdma_map_down(map);
	peerdma_maps_unlock(pin);
}

static int device_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct peerdma_pin *pin;
	u32 handle = 1;

	if (event != BUS_NOTIFY_UNBIND_DRIVER && event != BUS_NOTIFY_DEL_DEVICE)
		return NOTIFY_DONE;
	while ((pin = peerdma_pin_from(handle))) {
		handle = pin->handle + 1;
		take_down(pin, data);
		peerdma_pin_put(pin);
	}
	return NOTIFY_OK;
}

static struct notifier_block notifier = {
	.notifier_call = device_event,
};

int peerdma_devices_init(void)
{
	return bus_register_notifier(&pci_bus_type, &notifier);
}

void peerdma_devices_exit(void)
{
	bus_unregister_notifier(&pci_bus_type, &notifier);
}
