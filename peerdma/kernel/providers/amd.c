// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * amd.c - peerdma_amd.ko: GPU memory through any implementation of amd_rdma_interface, in
 * the version of the header that this is built with.
 *
 * What the interface leaves open, and what is done about it:
 *
 * - Version 2.0 maps for one device when it pins. peerdma pins first and maps later, for
 *   any number of devices.  So it passes a device of its own, for which no IOMMU
 *   translates: then the driver returns the memory's bus addresses, as version 1.0 does.
 *   The kernel's DMA API maps these for the real devices, without waiting for any lock of
 *   the driver.
 * - Version 2.0 returns 0 for a range that it does not know, and no table.
 * - put_pages must not be called after the free callback, and peerdma does not call it then
 *   (provider.h).  The callback's argument is a cookie, not a pointer.
 * - Newer drivers never call back: they keep the memory until put_pages.  So no device
 *   reaches memory of another owner, but the client is not notified when the memory is
 *   freed.  There is no way to know which kind of driver is loaded.
 */
#include <linux/dma-mapping.h>
#include <linux/ioport.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>

#include <drm/amd_rdma.h>

#include "core/charge.h"
#include "objects/map.h"

#define NAME "peerdma_amd: "

static const struct amd_rdma_interface *rdma;
static struct platform_device *plain;	/* no IOMMU translates for it */

struct amd_memory {
	struct amd_p2p_info *info;	/* freed by the driver when the callback returns */
	enum peerdma_memory memory;
	u32 nruns;
	struct peerdma_run *runs;
};

static void free_callback(void *data)
{
	peerdma_revoke((u64)data);
}

static int get_pages(struct peerdma_pin *pin, struct amd_p2p_info **info)
{
#ifdef AMD_RDMA_MAJOR
	return rdma->get_pages(pin->start, pin->pinned_length, NULL, &plain->dev, info,
			       free_callback, (void *)pin->cookie);
#else
	return rdma->get_pages(pin->start, pin->pinned_length, NULL, info, free_callback,
			       (void *)pin->cookie);
#endif
}

/* Translates the errno of get_pages into ours. */
static int pin_errno(const struct peerdma_pin *pin, int err)
{
	if (err == -ENOMEM)
		return -ENOSPC;		/* more likely a full BAR than no kernel memory */
	pr_info_ratelimited(NAME "[%#llx, %#llx) begins in GPU memory of this process, but is not within one allocation\n",
			    pin->start, pin->start + pin->pinned_length);
	return -ENXIO;
}

/* Whether the driver's page size is PAGE_SIZE: its table counts in these pages. */
static bool page_size_understood(const struct peerdma_pin *pin)
{
	unsigned long size = 0;
	int err = rdma->get_page_size(pin->start, pin->pinned_length, NULL, &size);

	if (!err && size == PAGE_SIZE)
		return true;
	pr_warn_once(NAME "the GPU driver reports pages of %lu bytes (error %d), which this module does not support\n",
		     size, err);
	return false;
}

/* Whether the table covers the pin, in whole pages; counts its runs. */
static bool understood(const struct peerdma_pin *pin, const struct amd_p2p_info *info, u32 *nruns)
{
	struct scatterlist *sg;
	u64 bytes = 0;
	int i;

	for_each_sg(info->pages->sgl, sg, info->pages->nents, i) {
		if (!PAGE_ALIGNED(sg_dma_address(sg) | sg_dma_len(sg)))
			break;
		bytes += sg_dma_len(sg);
	}
	*nruns = i;
	if (bytes == pin->pinned_length && i == info->pages->nents)
		return true;
	pr_warn_once(NAME "the GPU driver returned a page table in an unsupported format (%llu bytes of %llu, %u segments): build peerdma_amd for the driver that is loaded\n",
		     bytes, pin->pinned_length, info->pages->nents);
	return false;
}

static int count_runs(struct peerdma_pin *pin, u32 *nruns)
{
	const struct amd_memory *m = pin->priv;
	int err = -ESTALE;

	mutex_lock(&pin->lock);
	if (!pin->revoked)
		err = understood(pin, m->info, nruns) ? 0 : -EOPNOTSUPP;
	mutex_unlock(&pin->lock);
	return err;
}

static int fill_runs(struct peerdma_pin *pin, struct peerdma_run *runs, u32 nruns)
{
	struct amd_memory *m = pin->priv;
	struct scatterlist *sg;
	u32 page = 0;
	int i;

	mutex_lock(&pin->lock);
	if (pin->revoked) {
		mutex_unlock(&pin->lock);
		return -ESTALE;
	}
	for_each_sg(m->info->pages->sgl, sg, nruns, i) {
		runs[i].phys = sg_dma_address(sg);
		runs[i].first = page;
		page += sg_dma_len(sg) >> PAGE_SHIFT;
	}
	m->runs = runs;
	m->nruns = nruns;
	mutex_unlock(&pin->lock);
	return 0;
}

/* Copies the driver's table. */
static int amd_read(struct peerdma_pin *pin)
{
	struct amd_memory *m = pin->priv;
	struct peerdma_run *runs;
	u32 nruns;
	int err = count_runs(pin, &nruns);

	if (err)
		return err;
	runs = peerdma_kvarray(nruns, sizeof(*runs), false);
	if (!runs)
		return -ENOMEM;
	err = fill_runs(pin, runs, nruns);
	if (err) {
		kvfree(runs);
		return err;
	}
	if (region_intersects(runs[0].phys, PAGE_SIZE, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) ==
	    REGION_INTERSECTS)
		m->memory = MEMORY_CACHED;
	return 0;
}

static bool amd_claims(const struct peerdma_pin *pin)
{
	return rdma->is_gpu_address(pin->addr, NULL);
}

static int amd_get(struct peerdma_pin *pin)
{
	struct amd_p2p_info *info = NULL;
	struct amd_memory *m;
	int err;

	/* Only another vendor has tokens. */
	if (pin->token | pin->va_space || !rdma->is_gpu_address(pin->start, NULL))
		return -ENXIO;
	if (!page_size_understood(pin))
		return -EOPNOTSUPP;
	/* Not charged, as the pin itself is not: others wait for the group lock. */
	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return -ENOMEM;
	err = get_pages(pin, &info);
	if (err || !info) {
		kfree(m);
		return pin_errno(pin, err);
	}
	m->info = info;
	pin->priv = m;
	return 0;
}

static void amd_put(struct peerdma_pin *pin)
{
	const struct amd_memory *m = pin->priv;
	struct amd_p2p_info *info = m->info;
	int err = rdma->put_pages(&info);

	/* The callback may have come meanwhile: then there is nothing to put. */
	WARN_ONCE(err && !READ_ONCE(pin->revoked), NAME "the GPU driver failed to release a pin: error %d\n", err);
}

static void amd_release(struct peerdma_pin *pin)
{
	struct amd_memory *m = pin->priv;

	kvfree(m->runs);
	kfree(m);
	pin->priv = NULL;
}

static phys_addr_t amd_page(const struct peerdma_pin *pin, u32 i)
{
	const struct amd_memory *m = pin->priv;

	return peerdma_run_page(m->runs, m->nruns, i);
}

static enum peerdma_memory amd_memory(const struct peerdma_pin *pin)
{
	const struct amd_memory *m = pin->priv;

	return m->memory;
}

/* Memory that is not in a BAR has no bus addresses: only its driver can map it. */
static int amd_dma_map(struct peerdma_map *map)
{
	return amd_memory(map->pub.pin) != MEMORY_BAR ? -EOPNOTSUPP : peerdma_map_resource(map);
}

static struct peerdma_provider amd_provider = {
	.name = "amd",
	.owner = THIS_MODULE,
	.aperture = true,
	.page_shift = PAGE_SHIFT,
	.get = amd_get,
	.read = amd_read,
	.claims = amd_claims,
	.put = amd_put,
	.release = amd_release,
	.page = amd_page,
	.memory = amd_memory,
	.dma_map = amd_dma_map,
	.dma_unmap = peerdma_unmap_resource,
};

static int make_plain(void)
{
	struct iommu_domain *domain;
	int err;

	plain = platform_device_register_simple("peerdma_amd", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(plain))
		return PTR_ERR(plain);
	err = dma_coerce_mask_and_coherent(&plain->dev, DMA_BIT_MASK(64));
	domain = iommu_get_domain_for_dev(&plain->dev);
	if (!err && domain && domain->type & __IOMMU_DOMAIN_PAGING) {
		pr_err(NAME "not loaded: an IOMMU translates for every device, so the GPU driver cannot return bus addresses\n");
		err = -EOPNOTSUPP;
	}
	if (err)
		platform_device_unregister(plain);
	return err;
}

static int __init peerdma_amd_init(void)
{
	int err = amdkfd_query_rdma_interface(&rdma);

	if (err)
		return err;
	err = make_plain();
	if (err)
		return err;
	err = peerdma_register_provider(&amd_provider);
	if (err)
		platform_device_unregister(plain);
	return err;
}

static void __exit peerdma_amd_exit(void)
{
	peerdma_unregister_provider(&amd_provider);
	platform_device_unregister(plain);
}

module_init(peerdma_amd_init);
module_exit(peerdma_amd_exit);

MODULE_AUTHOR("peerdma developers");
MODULE_DESCRIPTION("peerdma: GPU memory through amd_rdma_interface");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
