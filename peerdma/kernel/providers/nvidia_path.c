// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * nvidia_path.c - may a device reach a GPU's memory, in the view of the GPU's driver?
 *
 * Only nvidia_p2p_dma_map_pages() answers that, and for a pin that can be revoked it must
 * not be called (nvidia.c).  So the driver is asked with a persistent pin: the pin in
 * question if it is one, or a temporary one of one page of the same memory.  Only the
 * process that owns the memory can make that pin.  For other processes the answer given
 * before counts, or else the kernel's rules.
 *
 * An answer is about a GPU and a device in their slots: it is dropped when either is
 * removed.
 */
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include <nv-p2p.h>

#include "nvidia.h"

#if defined(NVIDIA_P2P_DMA_MAPPING_VERSION) && defined(NVIDIA_P2P_CAP_GET_PAGES_PERSISTENT_API)

#define PAGE_LENGTH	SZ_64K
#define MAX_ANSWERS	64	/* GPUs times devices; when full, the oldest is dropped */

struct answer {
	struct list_head node;
	u8 gpu[NVIDIA_P2P_GPU_UUID_LEN];
	phys_addr_t memory;	/* an address in the GPU's BAR */
	struct device *dev;	/* a reference, so its address is not reused */
	int err;
};

static LIST_HEAD(answers);		/* newest first */
static unsigned int nanswers;
static unsigned int nremovals;		/* of PCI devices, since this module was loaded */
static DEFINE_SPINLOCK(answers_lock);	/* innermost */

static unsigned int removals(void)
{
	unsigned int n;

	spin_lock(&answers_lock);
	n = nremovals;
	spin_unlock(&answers_lock);
	return n;
}

static void free_answers(struct list_head *list)
{
	struct answer *a, *next;

	list_for_each_entry_safe(a, next, list, node) {
		put_device(a->dev);
		kfree(a);
	}
}

static bool has_memory(struct pci_dev *pdev, phys_addr_t phys)
{
	int i;

	for (i = 0; i < PCI_STD_NUM_BARS; i++) {
		if (pci_resource_flags(pdev, i) & IORESOURCE_MEM &&
		    phys >= pci_resource_start(pdev, i) && phys <= pci_resource_end(pdev, i))
			return true;
	}
	return false;
}

static int device_removed(struct notifier_block *nb, unsigned long action, void *data)
{
	struct device *dev = data;
	struct answer *a, *next;
	LIST_HEAD(over);

	if (action != BUS_NOTIFY_REMOVED_DEVICE)
		return NOTIFY_DONE;
	spin_lock(&answers_lock);
	nremovals++;
	list_for_each_entry_safe(a, next, &answers, node) {
		/*
		 * The client was removed: drops the reference; a new device is another
		 * struct device.  Or the GPU was.
		 */
		if (a->dev == dev || has_memory(to_pci_dev(dev), a->memory)) {
			list_move(&a->node, &over);
			nanswers--;
		}
	}
	spin_unlock(&answers_lock);
	free_answers(&over);
	return NOTIFY_DONE;
}

static struct notifier_block removal = { .notifier_call = device_removed };

/* Returns whether the driver's answer is known; *err is that answer. */
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

/*
 * @then: the value of removals() before the driver was asked.  -EAGAIN: a device was removed
 * since then, perhaps the GPU or @dev; -ENODEV: @dev was removed; -ENOMEM.
 */
static int remember(const u8 *gpu, phys_addr_t memory, struct device *dev, int answer,
		    unsigned int then)
{
	struct answer *a = kzalloc(sizeof(*a), GFP_KERNEL);
	LIST_HEAD(over);
	int err = 0;

	if (!a)
		return -ENOMEM;
	memcpy(a->gpu, gpu, sizeof(a->gpu));
	a->memory = memory;
	a->dev = get_device(dev);
	a->err = answer;
	spin_lock(&answers_lock);
	if (nremovals != then)
		err = -EAGAIN;
	else if (!device_is_registered(dev))
		err = -ENODEV;
	list_add(&a->node, err ? &over : &answers);
	if (!err && nanswers++ == MAX_ANSWERS) {
		list_move(answers.prev, &over);
		nanswers--;
	}
	spin_unlock(&answers_lock);
	free_answers(&over);
	return err;
}

/* Asks with the table of a persistent pin. 0, -EOPNOTSUPP, or 1: the driver gives no answer. */
static int would_map(struct pci_dev *pdev, struct nvidia_p2p_page_table *table)
{
	struct nvidia_p2p_dma_mapping *m = NULL;
	int err = nvidia_p2p_dma_map_pages(pdev, table, &m);

	if (!err)
		nvidia_p2p_dma_unmap_pages(pdev, table, m);
	return err == -ENOTSUPP ? -EOPNOTSUPP : err ? 1 : 0;
}

/* As would_map(); also 1 if the driver cannot be asked. */
static int ask(const struct peerdma_pin *pin, struct pci_dev *pdev)
{
	struct nvidia_p2p_page_table *table = NULL;
	int err;

	/* No put runs meanwhile, so the pin's table stays. */
	if (pin->flags & PEERDMA_PIN_PERSISTENT)
		return would_map(pdev, pin->priv);
	if (pin->token | pin->va_space || current->tgid != pin->tgid ||
	    nvidia_p2p_get_pages_persistent(pin->start, PAGE_LENGTH, &table, 0))
		return 1;
	err = would_map(pdev, table);
	nvidia_p2p_put_pages_persistent(pin->start, table, 0);
	return err;
}

/*
 * Gets the UUID of a pin's GPU and the address of its first page.  False: the pin has
 * ended, and its table may be freed.
 */
static bool gpu_of(struct peerdma_pin *pin, u8 *gpu, phys_addr_t *memory)
{
	const struct nvidia_p2p_page_table *table;
	bool live;

	mutex_lock(&pin->lock);
	live = pin->state == PIN_LIVE;
	table = pin->priv;
	if (live) {
		memcpy(gpu, table->gpu_uuid, NVIDIA_P2P_GPU_UUID_LEN);
		*memory = table->pages[0]->physical_address;
	}
	mutex_unlock(&pin->lock);
	return live;
}

int peerdma_nvidia_reach(struct peerdma_pin *pin, struct device *dev)
{
	u8 gpu[NVIDIA_P2P_GPU_UUID_LEN];
	phys_addr_t memory;
	unsigned int then;
	int answer, err;

	if (!dev_is_pci(dev))
		return 0;
	do {
		then = removals();
		if (!gpu_of(pin, gpu, &memory))
			return 0;
		if (known(gpu, dev, &answer))
			break;
		answer = ask(pin, to_pci_dev(dev));
		if (answer > 0)
			return 0;
		err = remember(gpu, memory, dev, answer, then);
		if (err && err != -EAGAIN)
			return answer ?: err;
	} while (err);
	if (answer)
		pr_warn_ratelimited("peerdma_nvidia: the GPU driver denies %s access to this GPU's memory: because of the PCI topology, or its parameter NVreg_GrdmaPciTopoCheckOverride\n",
				    dev_name(dev));
	return answer;
}

bool peerdma_nvidia_vouches(const struct peerdma_pin *pin, struct device *dev)
{
	const struct nvidia_p2p_page_table *table = pin->priv;
	int err;

	lockdep_assert_held(&pin->lock);
	return known(table->gpu_uuid, dev, &err) && !err;
}

int peerdma_nvidia_path_init(void)
{
	return bus_register_notifier(&pci_bus_type, &removal);
}

void peerdma_nvidia_path_exit(void)
{
	bus_unregister_notifier(&pci_bus_type, &removal);
	free_answers(&answers);
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

int peerdma_nvidia_path_init(void)
{
	return 0;
}

void peerdma_nvidia_path_exit(void)
{
}

#endif
