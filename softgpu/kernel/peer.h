/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* peer.h - GPU memory as a peer device addresses it. */
#ifndef SOFTGPU_PEER_H
#define SOFTGPU_PEER_H

#include <linux/dma-mapping.h>
#include <linux/iommu.h>

/* Does an IOMMU translate the device's addresses? */
static inline bool softgpu_is_translated(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	return domain && (domain->type & __IOMMU_DOMAIN_PAGING);
}

/*
 * The last physical address that the device can reach.  Beyond it, the DMA layer warns or
 * uses a bounce buffer, which would be no peer-to-peer access.
 */
static inline u64 softgpu_last_address(struct device *dev)
{
	return softgpu_is_translated(dev) ? U64_MAX : dma_get_mask(dev);
}

/*
 * Memory in a BAR is mapped as a resource, system memory as pages.  Neither is synced with
 * CPU caches: drivers that pin GPU memory do not sync either, and may map the same memory
 * again, which the DMA API allows only without sync.
 */
static inline dma_addr_t softgpu_peer_map(struct device *dev, u64 phys, size_t length,
					  enum dma_data_direction dir, bool resource)
{
	if (resource)
		return dma_map_resource(dev, phys, length, dir, DMA_ATTR_SKIP_CPU_SYNC);
	return dma_map_page_attrs(dev, pfn_to_page(PHYS_PFN(phys)), offset_in_page(phys), length,
				  dir, DMA_ATTR_SKIP_CPU_SYNC);
}

static inline void softgpu_peer_unmap(struct device *dev, dma_addr_t addr, size_t length,
				      enum dma_data_direction dir, bool resource)
{
	if (resource)
		dma_unmap_resource(dev, addr, length, dir, DMA_ATTR_SKIP_CPU_SYNC);
	else
		dma_unmap_page_attrs(dev, addr, length, dir, DMA_ATTR_SKIP_CPU_SYNC);
}

/*
 * After this call the device cannot reach memory that was unmapped.  By default Linux
 * flushes the IOMMU some milliseconds later, when the memory may have another owner.  So this
 * follows each unmap, also one that a client or an importer asks for: its pin, and with that the
 * memory's use, may end right after it.  The vendors' drivers do not flush.
 */
static inline void softgpu_peer_forget(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	if (domain && (domain->type & __IOMMU_DOMAIN_PAGING))
		iommu_flush_iotlb_all(domain);
}

#endif
