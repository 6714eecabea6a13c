// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dma.c - maps a pin's pages for a peer device.
 *
 * Pages of the table are mapped one by one, through the peer's IOMMU if it has one.
 * Mappings are in a list of their table, so that those that a client leaves behind end with
 * the pin.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sysfs.h>
#include "../charge.h"
#include "../peer.h"
#include "p2p.h"

static int topology_set(const char *text, const struct kernel_param *param)
{
	unsigned int override;
	int err = kstrtouint(text, 0, &override);

	if (err)
		return err;
	if (override > SOFTGPU_TOPO_DENY)
		return -EINVAL;
	/* softgpu.ko applies it to dma-bufs. */
	softgpu_topology_set(override);
	return 0;
}

static int topology_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%u\n", softgpu_topology());
}

static const struct kernel_param_ops topology_ops = {
	.set = topology_set,
	.get = topology_get,
};
module_param_cb(NVreg_GrdmaPciTopoCheckOverride, &topology_ops, NULL, 0644);
MODULE_PARM_DESC(NVreg_GrdmaPciTopoCheckOverride,
		 "0: every topology is supported (default), 1: likewise, 2: none is, dma_map_pages fails with ENOTSUPP, and so does attaching to a dma-buf");

struct nvp2p_mapping {
	struct nvidia_p2p_dma_mapping mapping;	/* the client's */
	struct list_head node;			/* table->mappings */
	bool resource;				/* mapped as a resource, not as pages */
	u32 page_size;
	u32 mapped;				/* addresses that are valid */
	u64 addresses[];
};

/*
 * A page must lie in the BAR completely; system memory has no such bounds.  NVIDIA's driver
 * treats a resource's last byte as outside of it, so the BAR's last page is outside, too.
 */
static bool in_backing(const struct softgpu_backing *backing, u64 phys, u32 size)
{
	if (!backing->pdev)
		return true;
	return phys >= backing->start && phys - backing->start < backing->size - size;
}

static int map_page(struct device *dev, struct nvp2p_mapping *m, u64 phys, u64 last)
{
	dma_addr_t addr;

	if (phys + m->page_size - 1 > last) {
		pr_err_ratelimited("%s cannot address GPU memory at %#llx: its DMA mask is %#llx\n",
				   dev_name(dev), phys, last);
		return -EIO;
	}
	addr = softgpu_peer_map(dev, phys, m->page_size, DMA_BIDIRECTIONAL, m->resource);
	if (dma_mapping_error(dev, addr))
		return -EIO;
	m->addresses[m->mapped++] = addr;
	return 0;
}

/* Unmaps the addresses, then frees the mapping. */
static void mapping_destroy(struct nvp2p_mapping *m)
{
	struct device *dev = &m->mapping.pci_dev->dev;

	while (m->mapped)
		softgpu_peer_unmap(dev, m->addresses[--m->mapped], m->page_size, DMA_BIDIRECTIONAL,
				   m->resource);
	softgpu_peer_forget(dev);
	pci_dev_put(m->mapping.pci_dev);
	kvfree(m);
}

/* The caller holds the pin of t. */
static int mapping_create(struct pci_dev *peer, struct nvp2p_table *t, struct nvp2p_mapping **out)
{
	const struct softgpu_backing *backing = softgpu_pin_backing(&t->pin);
	u32 i, entries = t->table.entries;
	u64 last = softgpu_last_address(&peer->dev);
	struct nvp2p_mapping *m;
	int err;

	m = softgpu_kvzalloc(struct_size(m, addresses, entries));
	if (!m)
		return -ENOMEM;
	m->resource = backing->pdev;
	m->page_size = 1U << t->page_shift;
	m->mapping.version = nvp2p_mapping_version();
	m->mapping.page_size_type = nvp2p_page_size_type(t->page_shift);
	m->mapping.entries = entries;
	m->mapping.dma_addresses = m->addresses;
	m->mapping.private = m;
	m->mapping.pci_dev = pci_dev_get(peer);
	for (i = 0; i < entries; i++) {
		u64 phys = t->pages[i].physical_address;

		err = in_backing(backing, phys, m->page_size) ?
		      map_page(&peer->dev, m, phys, last) : -EIO;
		if (err) {
			mapping_destroy(m);
			return err;
		}
	}
	*out = m;
	return 0;
}

static int map_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *page_table,
		     struct nvidia_p2p_dma_mapping **dma_mapping)
{
	struct nvp2p_mapping *m;
	struct nvp2p_table *t;
	int err;

	if (softgpu_topology() == SOFTGPU_TOPO_DENY)
		return -ENOTSUPP;
	t = nvp2p_hold(page_table);
	if (!t)
		return -EINVAL;
	/* In the callback a new mapping is of no use any more. */
	err = sg_pin_live(&t->pin) ? sg_chaos_map(softgpu_core()) : -EINVAL;
	if (t->force_bar1)
		err = -ENOTSUPP;
	if (!err)
		err = mapping_create(peer, t, &m);
	if (!err) {
		mutex_lock(&t->lock);
		list_add(&m->node, &t->mappings);
		mutex_unlock(&t->lock);
		*dma_mapping = &m->mapping;
	}
	sg_pin_unhold(&t->pin);
	return err;
}

int nvidia_p2p_dma_map_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *page_table,
			     struct nvidia_p2p_dma_mapping **dma_mapping)
{
	enum nvp2p_locked locked;
	int err;

	if (!dma_mapping)
		return -EINVAL;
	*dma_mapping = NULL;
	if (!peer || !page_table)
		return -EINVAL;
	locked = nvp2p_call(__func__, __builtin_return_address(0));
	err = map_pages(peer, page_table, dma_mapping);
	nvp2p_unlock(locked);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_map_pages);

/*
 * Removes a mapping from its table's list, and returns it; NULL: it is not in the list.
 * @mapping is not dereferenced before it is found there.
 */
static struct nvp2p_mapping *unlink_mapping(struct nvp2p_table *t,
					    const struct nvidia_p2p_dma_mapping *mapping)
{
	struct nvp2p_mapping *m, *found = NULL;

	mutex_lock(&t->lock);
	list_for_each_entry(m, &t->mappings, node) {
		if (&m->mapping == mapping) {
			list_del(&m->node);
			found = m;
			break;
		}
	}
	mutex_unlock(&t->lock);
	return found;
}

int nvidia_p2p_dma_unmap_pages(struct pci_dev *peer, struct nvidia_p2p_page_table *page_table,
			       struct nvidia_p2p_dma_mapping *dma_mapping)
{
	const void *caller = __builtin_return_address(0);
	enum nvp2p_locked locked;
	struct nvp2p_mapping *m;
	struct nvp2p_table *t;

	if (!peer || !page_table || !dma_mapping)
		return -EINVAL;
	locked = nvp2p_call(__func__, caller);
	/* Without the pin, the mapping has ended with it or is about to. */
	t = nvp2p_hold(page_table);
	m = t ? unlink_mapping(t, dma_mapping) : NULL;
	if (m && m->mapping.pci_dev != peer)
		nvp2p_mistake(NVP2P_OTHER_PEER, caller, "dma_unmap_pages for %s of what is mapped for %s",
			      pci_name(peer), pci_name(m->mapping.pci_dev));
	if (m)
		mapping_destroy(m);
	if (t)
		sg_pin_unhold(&t->pin);
	nvp2p_unlock(locked);
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_unmap_pages);

void nvp2p_dma_sweep(struct nvp2p_table *t)
{
	struct nvp2p_mapping *m, *next;

	list_for_each_entry_safe(m, next, &t->mappings, node) {
		list_del(&m->node);
		mapping_destroy(m);
	}
}

int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping *dma_mapping)
{
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_dma_mapping);
