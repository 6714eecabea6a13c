// SPDX-License-Identifier: MIT OR GPL-2.0
/* dma.c - maps a table's pages for a device. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/slab.h>

#include "../charge.h"
#include "../peer.h"
#include "../softgpu_kapi.h"
#include "tegra.h"

static unsigned int mapping_version;
module_param(mapping_version, uint, 0644);
MODULE_PARM_DESC(mapping_version, "FAULT INJECTION, for tests: the version that DMA mappings say they have (default 0: the right one)");

static bool short_mapping;
module_param(short_mapping, bool, 0644);
MODULE_PARM_DESC(short_mapping, "FAULT INJECTION, for tests: DMA mappings say that they have a run less than they do (default N)");

struct mapping {
	struct nvidia_p2p_dma_mapping pub;	/* the client's */
	struct sg_table table;
	struct table *of;
	struct list_head node;			/* table->mappings */
	struct list_head all;			/* mappings */
};

/* Mappings of all tables, since a client names a mapping without its table. */
static LIST_HEAD(mappings);

static void mapping_free(struct mapping *m)
{
	dma_unmap_sgtable(m->pub.dev, &m->table, m->pub.direction, DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(&m->table);
	put_device(m->pub.dev);
	kvfree(m->pub.hw_address);
	kvfree(m->pub.hw_len);
	kfree(m);
}

/* A client may still name them to dma_unmap_pages, so each leaves the lists first. */
static struct mapping *first_of(struct table *t)
{
	struct mapping *m;

	spin_lock(&tegra_lock);
	m = list_first_entry_or_null(&t->mappings, struct mapping, node);
	if (m) {
		list_del(&m->node);
		list_del(&m->all);
	}
	spin_unlock(&tegra_lock);
	return m;
}

/* Ends mappings that the client has left.  The table is on no list any more. */
static void mappings_end(struct table *t)
{
	struct mapping *m;

	while ((m = first_of(t)))
		mapping_free(m);
}

/*
 * The DMA layer would bounce memory that the device cannot address, which is no
 * peer-to-peer access.
 */
static int check_reach(struct device *dev, const struct table *t)
{
	u64 last = softgpu_last_address(dev);
	u32 i;

	for (i = 0; i < t->npages; i++) {
		u64 phys = page_to_phys(t->pages[i]);

		if (phys + PAGE_SIZE - 1 > last) {
			pr_err_ratelimited("%s cannot address memory at %#llx: its DMA mask is %#llx\n",
					   dev_name(dev), phys, last);
			return -EIO;
		}
	}
	return 0;
}

static int fill(struct mapping *m)
{
	struct scatterlist *sg;
	u32 i;

	m->pub.hw_address = kvcalloc(m->table.nents, sizeof(*m->pub.hw_address), GFP_KERNEL);
	m->pub.hw_len = kvcalloc(m->table.nents, sizeof(*m->pub.hw_len), GFP_KERNEL);
	if (!m->pub.hw_address || !m->pub.hw_len)
		return -ENOMEM;
	for_each_sgtable_dma_sg(&m->table, sg, i) {
		m->pub.hw_address[i] = sg_dma_address(sg);
		m->pub.hw_len[i] = sg_dma_len(sg);
	}
	m->pub.entries = m->table.nents - READ_ONCE(short_mapping);
	return 0;
}

/* Clients map with locks held, so as charge.h says. */
static int alloc_entries(struct mapping *m, const struct table *t, struct device *dev, gfp_t gfp)
{
	/*
	 * NVIDIA's driver does not limit the length of a segment, and a kernel with DMA API
	 * debugging reports that.
	 */
	return sg_alloc_table_from_pages_segment(&m->table, t->pages, t->npages, 0, t->size,
						 max_t(u32, dma_get_max_seg_size(dev), PAGE_SIZE),
						 gfp);
}

static int mapping_create(struct device *dev, struct table *t, enum dma_data_direction direction,
			  struct mapping **out)
{
	struct mapping *m = kzalloc(sizeof(*m), GFP_KERNEL);
	int err;

	if (!m)
		return -ENOMEM;
	err = alloc_entries(m, t, dev, SOFTGPU_CHARGED_AT_ONCE);
	if (err == -ENOMEM)
		err = alloc_entries(m, t, dev, SOFTGPU_CHARGED);
	if (err)
		goto free;
	err = dma_map_sgtable(dev, &m->table, direction, DMA_ATTR_SKIP_CPU_SYNC);
	if (err) {
		sg_free_table(&m->table);
		goto free;
	}
	m->pub.version = READ_ONCE(mapping_version) ?: NVIDIA_P2P_DMA_MAPPING_VERSION;
	m->pub.sgt = &m->table;
	m->pub.dev = get_device(dev);
	m->pub.page_table = t->pub;
	m->of = t;
	m->pub.direction = direction;
	err = fill(m);
	if (err) {
		mapping_free(m);
		return err;
	}
	*out = m;
	return 0;

free:
	kfree(m);
	return err;
}

/* False: the pin has ended while it was mapped. */
static bool mapping_publish(struct mapping *m, struct table *t)
{
	bool live;

	spin_lock(&tegra_lock);
	live = t->state == TABLE_LIVE;
	if (live) {
		list_add(&m->node, &t->mappings);
		t->end_mappings = mappings_end;
		list_add(&m->all, &mappings);
	}
	spin_unlock(&tegra_lock);
	return live;
}

static int map_table(struct device *dev, struct table *t, struct nvidia_p2p_dma_mapping **map,
		     enum dma_data_direction direction)
{
	struct mapping *m;
	int err;

	if (READ_ONCE(t->state) != TABLE_LIVE)
		return -EINVAL;
	err = protection_check(t) ?: sg_chaos_map(softgpu_core()) ?: check_reach(dev, t) ?:
		mapping_create(dev, t, direction, &m);
	if (err)
		return err;
	if (!mapping_publish(m, t)) {
		mapping_free(m);
		return -EINVAL;
	}
	*map = &m->pub;
	return 0;
}

int nvidia_p2p_dma_map_pages(struct device *dev, struct nvidia_p2p_page_table *page_table,
			     struct nvidia_p2p_dma_mapping **map, enum dma_data_direction direction)
{
	struct table *t;
	int err;

	if (!map)
		return -EINVAL;
	*map = NULL;
	if (!dev || !dev->dma_mask || !valid_dma_direction(direction))
		return -EINVAL;
	t = table_get(page_table);
	if (!t)
		return -EINVAL;
	err = map_table(dev, t, map, direction);
	table_put(t);
	return err;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_map_pages);

/* The mapping at this address, which may be any value, off the lists, and its table; or NULL. */
static struct mapping *take(const struct nvidia_p2p_dma_mapping *map, struct table **t)
{
	struct mapping *m;

	spin_lock(&tegra_lock);
	list_for_each_entry(m, &mappings, all) {
		if (&m->pub != map)
			continue;
		*t = m->of;
		table_check_sleep(*t, "dma_unmap_pages");
		kref_get(&(*t)->ref);
		list_del(&m->node);
		list_del(&m->all);
		spin_unlock(&tegra_lock);
		return m;
	}
	spin_unlock(&tegra_lock);
	return NULL;
}

int nvidia_p2p_dma_unmap_pages(struct nvidia_p2p_dma_mapping *map)
{
	struct mapping *m;
	struct table *t;

	might_sleep();
	m = take(map, &t);
	if (!m)
		return -EINVAL;
	if (READ_ONCE(t->state) == TABLE_LIVE)
		protection_check(t);
	mapping_free(m);
	table_put(t);
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_dma_unmap_pages);

int nvidia_p2p_free_dma_mapping(struct nvidia_p2p_dma_mapping *dma_mapping)
{
	return nvidia_p2p_dma_unmap_pages(dma_mapping);
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_dma_mapping);
