/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* peer.h - how far a peer device's DMA reaches. */
#ifndef SOFTGPU_PEER_H
#define SOFTGPU_PEER_H

#include <linux/dma-mapping.h>
#include <linux/iommu.h>

/* Whether the IOMMU gives the device addresses of its own. */
static inline bool softgpu_is_translated(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	return domain && (domain->type & __IOMMU_DOMAIN_PAGING);
}

/*
 * The last physical address that it can reach.  Beyond, the DMA layer warns, or
 * bounces; a bounced copy is no peer-to-peer.
 */
static inline u64 softgpu_last_address(struct device *dev)
{
	return softgpu_is_translated(dev) ? U64_MAX : dma_get_mask(dev);
}

#endif
