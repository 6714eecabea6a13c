// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * device_map.c - maps a pin for a PCI device on behalf of a program, which has no driver of its
 * own for it: the device may lose its driver, or be removed, at any time (devices.c).
 */
#include <linux/pci.h>

#include "core/charge.h"
#include "device_map.h"
#include "objects/map.h"

/* Copies the segments, with adjacent ones merged. */
static void copy_segments(struct peerdma_device_map *m)
{
	const struct peerdma_segment *from = m->map->segs;
	u32 i, n = 0;

	for (i = 0; i < m->nsegs; i++) {
		if (n && m->segs[n - 1].dma_addr + m->segs[n - 1].length == from[i].dma_addr)
			m->segs[n - 1].length += from[i].length;
		else
			m->segs[n++] = from[i];
	}
	m->count = n;
}

/* Gives the mapping its handle, if its segments fit into the caller's `space'; else ends it. */
static int name_map(struct peerdma_device_map *m, u32 space)
{
	struct peerdma_map *map = m->map;
	int err = 0;

	peerdma_maps_lock(m->pin, NULL);
	/* The pin has ended meanwhile, or the device has lost its driver (devices.c). */
	if (!map->live)
		err = peerdma_pin_usable(m->pin) ?: -ENODEV;
	else
		copy_segments(m);
	if (err || m->count > space) {
		peerdma_object_end(&map->object);
		m->map = NULL;
	} else {
		map->handle = m->handle;
		/* The place is reserved, so nothing is allocated. */
		xa_store(&m->file->maps, m->handle, map, GFP_NOWAIT);
	}
	peerdma_maps_unlock(m->pin);
	return err;
}

static int name_or_end(struct peerdma_device_map *m, u32 space)
{
	int err;

	m->segs = peerdma_kvarray(m->nsegs, sizeof(*m->segs), false);
	err = m->segs ? peerdma_xa_reserve_cyclic(&m->file->maps, &m->handle, &m->file->next_map) :
	      -ENOMEM;
	if (!err)
		return name_map(m, space);
	peerdma_maps_lock(m->pin, NULL);
	peerdma_object_end(&m->map->object);
	peerdma_maps_unlock(m->pin);
	m->map = NULL;
	return err;
}

int peerdma_device_unmap(struct peerdma_file *file, u32 handle)
{
	struct peerdma_map *map;
	struct peerdma_pin *pin = NULL;
	int err = -ENOENT;

	xa_lock(&file->maps);
	map = xa_load(&file->maps, handle);
	if (map) {
		pin = map->object.pin;
		kref_get(&pin->ref);
	}
	xa_unlock(&file->maps);
	if (!pin)
		return err;
	peerdma_maps_lock(pin, NULL);
	/* Look again, since the lock was not held; handles are not reused. */
	if (xa_load(&file->maps, handle) == map) {
		xa_erase(&file->maps, handle);
		peerdma_object_end(&map->object);
		err = 0;
	}
	peerdma_maps_unlock(pin);
	peerdma_pin_put(pin);
	return err;
}

/*
 * Does the device's DMA stay set up as it is, until devices.c has taken its mappings down?
 *
 * Behind an IOMMU only while it has a driver.  Without one, an administrator can change the
 * type of the IOMMU's domain (iommu_group/type) at any time, or bind a driver that attaches
 * a domain of its own: then the domain that a mapping was made in is freed, no notifier is
 * called, and unmapping would free addresses of another domain.  The address of the domain
 * does not tell them apart, since the next domain may be allocated there.  While a driver is
 * bound, the kernel refuses to change the type: 6.1 looks for the driver with the device's
 * lock held, later kernels count drivers in the group.  A driver that manages its own DMA,
 * which is not counted, is refused in map_locked().
 *
 * Without an IOMMU there is nothing to change on x86.  Elsewhere Linux sets up a device's DMA
 * when a driver is bound.
 */
static bool dma_is_settled(struct pci_dev *pdev)
{
	return pdev->driver || (IS_ENABLED(CONFIG_X86) && !device_iommu_mapped(&pdev->dev));
}

/*
 * Is the device still on the bus? When it is removed, it leaves the bus before devices.c
 * takes its mappings down.
 */
static bool on_the_bus(struct pci_dev *pdev)
{
	struct pci_dev *found = pci_get_domain_bus_and_slot(pci_domain_nr(pdev->bus),
							    pdev->bus->number, pdev->devfn);

	pci_dev_put(found);
	return found == pdev;
}

static int check_locked(struct pci_dev *pdev)
{
	if (pdev->driver && pdev->driver->driver_managed_dma)
		return -EOPNOTSUPP;
	return dma_is_settled(pdev) && on_the_bus(pdev) ? 0 : -ENODEV;
}

int peerdma_device_check(struct pci_dev *pdev)
{
	int err;

	device_lock(&pdev->dev);
	err = check_locked(pdev);
	device_unlock(&pdev->dev);
	return err;
}

/* The device's lock is held: no driver may be bound or unbound, as that may change its DMA. */
static struct peerdma_map *map_locked(struct peerdma_device_map *m, struct peerdma_room *room)
{
	struct peerdma_map *map;
	int err = check_locked(m->pdev);

	if (err)
		return ERR_PTR(err);
	err = peerdma_map_attach(m->pin, &m->pdev->dev, m->dir, room) ?:
	      peerdma_maps_lock_for(m->pin, &m->pdev->dev, room);
	if (err)
		return ERR_PTR(err);
	map = peerdma_map_create(m->pin, &m->pdev->dev, m->dir, 0, m->pin->pinned_length,
				 &peerdma_runs_ops, room);
	if (!IS_ERR(map)) {
		map->program = true;
		m->nsegs = map->nsegs;
	}
	peerdma_maps_unlock(m->pin);
	return map;
}

static int map_device(struct peerdma_device_map *m)
{
	/* What attaching maps is mapped, and unmapped, only while the device's DMA stays as it is. */
	bool maps = peerdma_map_attach_maps(m->pin);
	struct peerdma_room room = {};
	int err;

	do {
		err = maps ? peerdma_room_make(&room) :
		      peerdma_map_prepare(m->pin, &m->pdev->dev, m->dir, &room);
		if (err)
			break;
		device_lock(&m->pdev->dev);
		m->map = map_locked(m, &room);
		if (maps)
			peerdma_room_detach(&room);
		device_unlock(&m->pdev->dev);
		err = PTR_ERR_OR_ZERO(m->map);
	} while (err == -EAGAIN);
	peerdma_room_free(&room);
	return err;
}

int peerdma_device_map(struct peerdma_device_map *m, u32 space)
{
	return map_device(m) ?: name_or_end(m, space);
}
