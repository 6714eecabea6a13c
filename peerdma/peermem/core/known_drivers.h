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
	bool can_stop;		/* its device, for a umem whose memory was freed */
} known_drivers[] = {
	{ "peerdma_hca", true },
	/*
	 * Their sources (7.2) use nothing of a umem but DMA addresses and lengths. They cannot
	 * stop their device for a umem that they have got in this way, so they get memory that
	 * stays. Not tried on hardware.
	 */
	{ "bnxt_re", false },
	{ "efa", false },
	{ "mlx4_ib", false },
	{ "mlx5_ib", false },
};

#endif
