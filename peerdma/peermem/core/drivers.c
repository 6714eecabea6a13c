// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * drivers.c - looks drivers up in the table. Drivers that are not in it get no peer memory:
 * they may need struct pages.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/string.h>
#include <rdma/ib_umem_peer.h>
#include <rdma/ib_verbs.h>

#include "drivers.h"
#include "known_drivers.h"

static char *more_drivers;
module_param_named(drivers, more_drivers, charp, 0444);
MODULE_PARM_DESC(drivers,
		 "More drivers that need no struct page: NAME,... (NAME+inval: it can invalidate)");

/* Flags of a driver that the administrator added with the module parameter. */
static unsigned long added_flags(const char *name)
{
	size_t length = strlen(name);
	const char *entry, *end;

	for (entry = more_drivers; entry && *entry; entry = *end ? end + 1 : end) {
		end = strchrnul(entry, ',');
		if (strncmp(entry, name, length))
			continue;
		if (end == entry + length)
			return IB_PEER_MEM_ALLOW;
		if (end - entry == length + 6 && !strncmp(entry + length, "+inval", 6))
			return IB_PEER_MEM_ALLOW | IB_PEER_MEM_INVAL_SUPP;
	}
	return 0;
}

unsigned long peer_driver_flags(const struct ib_device *ibdev)
{
	const char *name = ibdev->ops.owner ? module_name(ibdev->ops.owner) : NULL;
	int i;

	if (!name)
		return 0;
	for (i = 0; i < ARRAY_SIZE(known_drivers); i++)
		if (!strcmp(known_drivers[i].name, name))
			return known_drivers[i].can_stop ?
				       IB_PEER_MEM_ALLOW | IB_PEER_MEM_INVAL_SUPP :
				       IB_PEER_MEM_ALLOW;
	return added_flags(name);
}

struct device *peer_bus_device(const struct ib_device *ibdev)
{
	struct device *dev = ibdev->dma_device ?: ibdev->dev.parent;

	return dev && dev_is_pci(dev) ? dev : NULL;
}
