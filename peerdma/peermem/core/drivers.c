// SPDX-License-Identifier: MIT OR GPL-2.0
/* drivers.c - the table of drivers. Others get nothing: they may need struct pages. */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/string.h>
#include <rdma/ib_umem_peer.h>
#include <rdma/ib_verbs.h>

#include "drivers.h"

static const struct {
	const char *name;
	unsigned long flags;
} drivers[] = {
	{ "peerdma_hca", IB_PEER_MEM_ALLOW | IB_PEER_MEM_INVAL_SUPP },
	/*
	 * Their sources (7.2) use nothing of a umem but DMA addresses and lengths. They cannot
	 * stop their device for a umem that they have got in this way, so they get memory that
	 * stays. Not tried on hardware.
	 */
	{ "bnxt_re", IB_PEER_MEM_ALLOW },
	{ "efa", IB_PEER_MEM_ALLOW },
	{ "mlx4_ib", IB_PEER_MEM_ALLOW },
	{ "mlx5_ib", IB_PEER_MEM_ALLOW },
};

static char *more_drivers;
module_param_named(drivers, more_drivers, charp, 0444);
MODULE_PARM_DESC(drivers,
		 "More drivers that need no struct page: NAME,... (NAME+inval: it can invalidate)");

/* Among the names that the administrator added. */
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
	for (i = 0; i < ARRAY_SIZE(drivers); i++)
		if (!strcmp(drivers[i].name, name))
			return drivers[i].flags;
	return added_flags(name);
}

struct device *peer_bus_device(const struct ib_device *ibdev)
{
	struct device *dev = ibdev->dma_device ?: ibdev->dev.parent;

	return dev && dev_is_pci(dev) ? dev : NULL;
}
