/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * known_drivers.h - drivers of RDMA adapters that use no struct page of a umem: for the core,
 * and for `peerdma doctor', which reports what the core does for them.
 */
#ifndef PEER_CORE_KNOWN_DRIVERS_H
#define PEER_CORE_KNOWN_DRIVERS_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#endif

static const struct {
	const char *name;	/* of the module */
	bool can_stop;		/* it can stop its device when a umem's memory is freed */
} known_drivers[] = {
	{ "peerdma_hca", true },
	/*
	 * By their sources (7.2) they use only DMA addresses and lengths of a umem. They
	 * cannot stop their device for a umem that ib_umem_get() returned, so they get only
	 * memory that is never revoked. Not tried on hardware.
	 */
	{ "bnxt_re", false },
	{ "efa", false },
	{ "mlx4_ib", false },
	{ "mlx5_ib", false },
};

#endif
