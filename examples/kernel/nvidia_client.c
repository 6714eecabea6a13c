// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * nvidia_client.c - a driver that gives its card access to NVIDIA GPU memory, by
 * <nv-p2p.h> only.  A program writes "ADDRESS LENGTH" (of cudaMalloc's memory) to
 * /dev/nvidia_client and reads back the card's DMA addresses, a line per GPU page, or
 * "revoked" once the memory was freed.  Closing the file unpins.
 *
 *	insmod nvidia_client.ko card=0000:01:00.0
 */
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <nv-p2p.h>

#define GPU_PAGE SZ_64K		/* what is pinned starts and ends with such a page */

static char *card;
module_param(card, charp, 0444);
MODULE_PARM_DESC(card, "PCI address of the card that does the DMA");

static struct pci_dev *pdev;

struct client {
	unsigned long used;		/* bit 0: get_pages has been called */
	u64 start;
	spinlock_t lock;		/* what follows */
	struct nvidia_p2p_page_table *table;	/* ours until put_pages, or until freed() has returned */
	struct nvidia_p2p_dma_mapping *map;
	bool revoked;
};

/* In the thread that frees the memory, and never after put_pages. */
static void freed(void *data)
{
	struct client *c = data;
	struct nvidia_p2p_dma_mapping *map;
	struct nvidia_p2p_page_table *table;

	spin_lock(&c->lock);
	/* A real driver stops its card's transfers here, and waits for those under way. */
	map = c->map;
	table = c->table;
	c->map = NULL;
	c->table = NULL;
	c->revoked = true;
	spin_unlock(&c->lock);
	/* Of all calls only these may be made here: no put_pages, no dma_unmap_pages. */
	if (map)
		nvidia_p2p_free_dma_mapping(map);
	if (table)
		nvidia_p2p_free_page_table(table);
}

/*
 * The program must not free the memory until this has returned: nvidia_p2p_dma_map_pages()
 * reads the table, and no lock of ours may be held around it and in freed().
 */
static ssize_t client_write(struct file *file, const char __user *buffer, size_t size, loff_t *pos)
{
	struct client *c = file->private_data;
	struct nvidia_p2p_dma_mapping *map = NULL;
	struct nvidia_p2p_page_table *table;
	u64 address, length, end;
	char text[64] = "";
	int err;

	if (size >= sizeof(text) || copy_from_user(text, buffer, size))
		return -EINVAL;
	if (sscanf(text, "%lli %lli", &address, &length) != 2 || !length || address + length < address)
		return -EINVAL;
	if (test_and_set_bit(0, &c->used))
		return -EBUSY;
	c->start = ALIGN_DOWN(address, GPU_PAGE);
	end = ALIGN(address + length, GPU_PAGE);
	/* Tokens are 0 for the calling process's own memory. */
	err = nvidia_p2p_get_pages(0, 0, c->start, end - c->start, &table, freed, c);
	if (err) {
		clear_bit(0, &c->used);
		return err;
	}
	if (NVIDIA_P2P_PAGE_TABLE_VERSION_COMPATIBLE(table) && table->page_size == NVIDIA_P2P_PAGE_SIZE_64KB)
		err = nvidia_p2p_dma_map_pages(pdev, table, &map);
	else
		err = -EINVAL;
	/* Its pages are counted as 64 KiB below. */
	if (!err && !(NVIDIA_P2P_DMA_MAPPING_VERSION_COMPATIBLE(map) && map->page_size_type == NVIDIA_P2P_PAGE_SIZE_64KB))
		err = -EINVAL;
	spin_lock(&c->lock);
	if (!c->revoked) {
		c->table = table;
		c->map = err ? NULL : map;
	}
	spin_unlock(&c->lock);
	/* What failed is let go of when the file is closed: put_pages takes a mapping along. */
	return err ?: size;
}

static ssize_t client_read(struct file *file, char __user *buffer, size_t size, loff_t *pos)
{
	struct client *c = file->private_data;
	char *text = (char *)get_zeroed_page(GFP_KERNEL);
	ssize_t n = 0;
	u32 i;

	if (!text)
		return -ENOMEM;
	spin_lock(&c->lock);
	if (c->revoked)
		n = scnprintf(text, PAGE_SIZE, "revoked\n");
	for (i = 0; c->map && i < c->map->entries; i++)
		n += scnprintf(text + n, PAGE_SIZE - n, "%#llx %u\n", c->map->dma_addresses[i], GPU_PAGE);
	spin_unlock(&c->lock);
	n = simple_read_from_buffer(buffer, size, pos, text, n);
	free_page((unsigned long)text);
	return n;
}

static int client_open(struct inode *inode, struct file *file)
{
	struct client *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (!c)
		return -ENOMEM;
	spin_lock_init(&c->lock);
	file->private_data = c;
	return 0;
}

static int client_release(struct inode *inode, struct file *file)
{
	struct client *c = file->private_data;
	struct nvidia_p2p_page_table *table;

	spin_lock(&c->lock);
	table = c->table;
	spin_unlock(&c->lock);
	/*
	 * Not under the lock: it waits for freed(), where that is under way.  It takes the table's
	 * address for a name, and ends the mapping as well; nvidia_p2p_dma_unmap_pages() reads the
	 * table, which a free of the memory may have ended meanwhile.
	 */
	if (table)
		nvidia_p2p_put_pages(0, 0, c->start, table);
	kfree(c);
	return 0;
}

static const struct file_operations client_fops = {
	.owner = THIS_MODULE,
	.open = client_open,
	.release = client_release,
	.read = client_read,
	.write = client_write,
};

static struct miscdevice client_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "nvidia_client",
	.fops = &client_fops,
};

static int __init client_init(void)
{
	unsigned int domain, bus, device, function;
	int err;

	if (!card || sscanf(card, "%x:%x:%x.%u", &domain, &bus, &device, &function) != 4)
		return -EINVAL;
	pdev = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(device, function));
	if (!pdev)
		return -ENODEV;
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64)) ?: misc_register(&client_misc);
	if (err)
		pci_dev_put(pdev);
	return err;
}

static void __exit client_exit(void)
{
	misc_deregister(&client_misc);
	pci_dev_put(pdev);
}

module_init(client_init);
module_exit(client_exit);

MODULE_DESCRIPTION("Example: DMA addresses of an NVIDIA GPU's memory for a card");
MODULE_AUTHOR("peerdma developers");
MODULE_LICENSE("Dual MIT/GPL");
