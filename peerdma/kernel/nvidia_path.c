// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * nvidia_path.c - may a device have a GPU's memory, as the GPU's driver sees it?
 *
 * Only nvidia_p2p_dma_map_pages() tells, and for a pin that can be revoked it must not be
 * called (nvidia.c).  So the driver is asked with a persistent pin: the one in question, or
 * one of one page of the same memory, which lasts as long as the question.  That takes the
 * process whose memory it is; from another one the answer that was given before counts, or
 * else the kernel's rules.
 */
#include <linux/pci.h>
#include <linux/slab.h>

#include <nv-p2p.h>

#include "nvidia.h"

#if defined(NVIDIA_P2P_DMA_MAPPING_VERSION) && defined(NVIDIA_P2P_CAP_GET_PAGES_PERSISTENT_API)

#define PAGE_LENGTH	SZ_64K
#define MAX_ANSWERS	64	/* GPUs times devices; beyond, the oldest is forgotten */

struct answer {
	struct list_head node;
	u8 gpu[NVIDIA_P2P_GPU_UUID_LEN];
	struct device *dev;	/* a reference: no other device has this address meanwhile */
	int err;
};

static LIST_HEAD(answers);		/* newest first */
static unsigned int nanswers;
static DEFINE_SPINLOCK(answers_lock);	/* innermost */

/* It is off the list, or the list is over. */
static void forget(struct answer *a)
{
	put_device(a->dev);
	kfree(a);
}

/* True: *err is what the driver said. */
static bool known(const u8 *gpu, const struct device *dev, int *err)
{
	struct answer *a;
	bool found = false;

	spin_lock(&answers_lock);
	list_for_each_entry(a, &answers, node) {
		if (a->dev != dev || memcmp(a->gpu, gpu, sizeof(a->gpu)))
			continue;
		*err = a->err;
		found = true;
		break;
	}
	spin_unlock(&answers_lock);
	return found;
}

static void remember(const u8 *gpu, struct device *dev, int err)
{
	struct answer *a = kzalloc(sizeof(*a), GFP_KERNEL), *old = NULL;

	/* Asked again, then. */
	if (!a)
		return;
	memcpy(a->gpu, gpu, sizeof(a->gpu));
	a->dev = get_device(dev);
	a->err = err;
	spin_lock(&answers_lock);
	list_add(&a->node, &answers);
	if (nanswers == MAX_ANSWERS) {
		old = list_last_entry(&answers, struct answer, node);
		list_del(&old->node);
	} else {
		nanswers++;
	}
	spin_unlock(&answers_lock);
	if (old)
		forget(old);
}

/* With the table of a persistent pin.  1: the driver does not say. */
static int would_map(struct pci_dev *pdev, struct nvidia_p2p_page_table *table)
{
	struct nvidia_p2p_dma_mapping *m = NULL;
	int err = nvidia_p2p_dma_map_pages(pdev, table, &m);

	if (!err)
		nvidia_p2p_dma_unmap_pages(pdev, table, m);
	return err == -ENOTSUPP ? -EOPNOTSUPP : err ? 1 : 0;
}

/* 1: the driver cannot be asked. */
static int ask(const struct peerdma_pin *pin, struct pci_dev *pdev)
{
	struct nvidia_p2p_page_table *table = NULL;
	int err;

	/* No put runs while we are asked, so its table stays. */
	if (pin->flags & PEERDMA_PIN_PERSISTENT)
		return would_map(pdev, pin->priv);
	if (pin->token | pin->va_space || current->tgid != pin->tgid ||
	    nvidia_p2p_get_pages_persistent(pin->start, PAGE_LENGTH, &table, 0))
		return 1;
	err = would_map(pdev, table);
	nvidia_p2p_put_pages_persistent(pin->start, table, 0);
	return err;
}

/* The GPU of a pin; false: the pin is over.  The table goes when it is. */
static bool gpu_of(struct peerdma_pin *pin, u8 *gpu)
{
	const struct nvidia_p2p_page_table *table;
	bool live;

	mutex_lock(&pin->lock);
	live = pin->state == PIN_LIVE;
	table = pin->priv;
	if (live)
		memcpy(gpu, table->gpu_uuid, NVIDIA_P2P_GPU_UUID_LEN);
	mutex_unlock(&pin->lock);
	return live;
}

int peerdma_nvidia_reach(struct peerdma_pin *pin, struct device *dev)
{
	u8 gpu[NVIDIA_P2P_GPU_UUID_LEN];
	int err;

	if (!dev_is_pci(dev) || !gpu_of(pin, gpu))
		return 0;
	if (!known(gpu, dev, &err)) {
		err = ask(pin, to_pci_dev(dev));
		if (err > 0)
			return 0;
		remember(gpu, dev, err);
	}
	if (err)
		pr_warn_ratelimited("peerdma_nvidia: the GPU driver allows %s no access to this GPU's memory: PCI topology, or its parameter NVreg_GrdmaPciTopoCheckOverride\n",
				    dev_name(dev));
	return err;
}

bool peerdma_nvidia_vouches(const struct peerdma_pin *pin, struct device *dev)
{
	const struct nvidia_p2p_page_table *table = pin->priv;
	int err;

	lockdep_assert_held(&pin->lock);
	return known(table->gpu_uuid, dev, &err) && !err;
}

void peerdma_nvidia_path_exit(void)
{
	struct answer *a, *next;

	list_for_each_entry_safe(a, next, &answers, node)
		forget(a);
}

#else /* a driver that cannot be asked */

int peerdma_nvidia_reach(struct peerdma_pin *pin, struct device *dev)
{
	return 0;
}

bool peerdma_nvidia_vouches(const struct peerdma_pin *pin, struct device *dev)
{
	return false;
}

void peerdma_nvidia_path_exit(void)
{
}

#endif
