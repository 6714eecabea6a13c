// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * reserve.c - keeps a device's addresses after the memory behind them was taken away.
 *
 * When memory is revoked, the owner of a mapping still knows its addresses, and its device
 * may still use them.  If they were free, the device's next mapping would get them, and a
 * late access would reach that memory in place of a fault.  So a revocation only takes the
 * translations away.  The addresses stay allocated until the owner ends the mapping.
 *
 * The DMA API has no such call: dma_unmap_resource() takes the translations and frees the
 * addresses, and warns if there are no translations.  So they are taken with
 * iommu_unmap_fast(), and before dma_unmap_resource() is called, the range is filled again,
 * with translations to zeroes that the device can only read.  (Since 6.16 dma_iova_unlink()
 * takes translations only.  It works with addresses of dma_iova_try_alloc() alone, and one
 * way for all kernels is less code.)
 *
 * Never call iommu_unmap() for a range without translations: VT-d's driver may then take
 * away those of the next gigabyte.
 */
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/iommu.h>
#include <linux/mm.h>

#include "core/compat.h"
#include "reserve.h"

/* Zeroes, as long as an IOMMU's large page if there was so much memory in one piece. */
static struct page *zeroes;
static unsigned int order;

void peerdma_unmap_segment(struct peerdma_map *map, const struct peerdma_segment *seg)
{
	dma_unmap_resource(map->pub.dev, seg->dma_addr, seg->length, map->pub.dir,
			   PEERDMA_MAP_ATTRS);
}

bool peerdma_reserve(struct peerdma_map *map)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(map->pub.dev);
	struct iommu_iotlb_gather gather;
	u32 i;

	if (!map->resource || map->bus || !domain || !iommu_is_dma_domain(domain))
		return false;
	iommu_iotlb_gather_init(&gather);
	/* object.c flushes the whole domain.  A driver that cannot do that flushes here. */
	gather.queued = domain->ops->flush_iotlb_all;
	for (i = 0; i < map->nsegs; i++) {
		struct peerdma_segment *seg = &map->segs[i];

		WARN_ON(iommu_unmap_fast(domain, seg->dma_addr, seg->length, &gather) !=
			seg->length);
		cond_resched();
	}
	if (!gather.queued)
		iommu_iotlb_sync(domain, &gather);
	list_splice(peerdma_freelist(&gather), &map->object.tables);
	map->domain = domain;
	map->reserved = map->nsegs;
	map->nsegs = 0;
	return true;
}

/* Translates the range to zeroes. */
static int fill(struct iommu_domain *domain, u64 start, u64 length)
{
	u64 block = PAGE_SIZE << order, at, n, offset;
	int err;

	for (at = start; at < start + length; at += n) {
		offset = at & (block - 1);
		n = min(block - offset, start + length - at);
		err = peerdma_iommu_map_readable(domain, at, page_to_phys(zeroes) + offset, n);
		if (err) {
			if (at > start)
				iommu_unmap(domain, start, at - start);
			return err;
		}
		cond_resched();
	}
	return 0;
}

void peerdma_unreserve(struct peerdma_map *map)
{
	struct device *dev = map->pub.dev;
	/*
	 * If not: the device was given to VFIO, or has lost its driver, and an administrator
	 * has changed the type of its domain before devices.c came here.  Then that of
	 * peerdma_reserve() may not exist any more.
	 */
	bool same = iommu_get_domain_for_dev(dev) == map->domain;
	u32 i;

	for (i = 0; i < map->reserved; i++) {
		struct peerdma_segment *seg = &map->segs[i];

		if (same && !fill(map->domain, seg->dma_addr, seg->length))
			peerdma_unmap_segment(map, seg);
		else
			dev_warn_ratelimited(dev, "peerdma: its DMA addresses from %#llx on, %llu bytes, are never used again: %s\n",
					     (u64)seg->dma_addr, (u64)seg->length,
					     same ? "no memory for the IOMMU's page tables" : "its IOMMU domain has changed");
	}
	map->reserved = 0;
}

int peerdma_reserve_init(void)
{
	for (order = get_order(SZ_2M); ; order--) {
		zeroes = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN |
				     (order ? __GFP_NORETRY : 0), order);
		if (zeroes || !order)
			return zeroes ? 0 : -ENOMEM;
	}
}

/* No mapping is left, and the flush at the end of each one has removed the zeroes from IOTLBs. */
void peerdma_reserve_exit(void)
{
	__free_pages(zeroes, order);
}
