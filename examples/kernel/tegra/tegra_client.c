// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * tegra_client.c - a driver that gives its card access to memory of cudaHostAlloc() on a
 * Tegra, by <linux/nv-p2p.h> only.  A program writes "ADDRESS LENGTH" to
 * /dev/tegra_client and reads back the card's DMA addresses, a line per contiguous piece,
 * or "revoked" once the memory was freed.  Closing the file unpins.
 *
 *	insmod tegra_client.ko card=0000:01:00.0
 */
#include <linux/completion.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nv-p2p.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

static char *card;
module_param(card, charp, 0444);
MODULE_PARM_DESC(card, "PCI address of the card that does the DMA");

static struct pci_dev *pdev;

struct client {
	unsigned long used;			/* bit 0: get_pages has been called */
	struct nvidia_p2p_page_table *table;	/* ours until the file is closed */
	struct completion got;			/* get_pages has returned, and what follows it is done */
	struct work_struct end;
	bool revoked;
	struct mutex lock;			/* what follows */
	struct nvidia_p2p_dma_mapping *map;
};

/*
 * Once for each pin: the memory goes, or put_pages was called.  The caller is an MMU notifier,
 * with mmap_lock or other locks of the process's memory held.  It may be reclaiming memory,
 * or be the OOM killer, which does not let its callees sleep.  So this only takes a note.
 * There is time for the rest: the pages are referenced until the table is freed.
 */
static void let_go(void *data)
{
	struct client *c = data;

	WRITE_ONCE(c->revoked, true);
	schedule_work(&c->end);
}

static void client_end(struct work_struct *work)
{
	struct client *c = container_of(work, struct client, end);

	wait_for_completion(&c->got);
	mutex_lock(&c->lock);
	/* A real driver stops its card's transfers here, and waits for those under way. */
	if (c->map)
		nvidia_p2p_free_dma_mapping(c->map);
	c->map = NULL;
	mutex_unlock(&c->lock);
	/* The pages may be used for something else from here on. */
	nvidia_p2p_free_page_table(c->table);
}

static ssize_t client_write(struct file *file, const char __user *buffer, size_t size, loff_t *pos)
{
	struct client *c = file->private_data;
	struct nvidia_p2p_page_table *table;
	u64 address, length;
	char text[64] = "";
	int err;

	if (size >= sizeof(text) || copy_from_user(text, buffer, size))
		return -EINVAL;
	if (sscanf(text, "%lli %lli", &address, &length) != 2)
		return -EINVAL;
	if (test_and_set_bit(0, &c->used))
		return -EBUSY;
	/*
	 * Multiples of 4 KiB, or it fails.  It takes mmap_lock, and waits for pages as long as
	 * their file system makes it wait.  So no lock is held.
	 */
	err = nvidia_p2p_get_pages(address, length, &table, let_go, c);
	if (err) {
		clear_bit(0, &c->used);
		return err;
	}
	c->table = table;
	mutex_lock(&c->lock);
	err = NVIDIA_P2P_PAGE_TABLE_VERSION_COMPATIBLE(table) ?
		nvidia_p2p_dma_map_pages(&pdev->dev, table, &c->map, DMA_BIDIRECTIONAL) : -EINVAL;
	mutex_unlock(&c->lock);
	/* From here on client_end() may run.  What failed is let go of when the file is closed. */
	complete_all(&c->got);
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
	mutex_lock(&c->lock);
	if (READ_ONCE(c->revoked))
		n = scnprintf(text, PAGE_SIZE, "revoked\n");
	else
		for (i = 0; c->map && i < c->map->entries; i++)
			n += scnprintf(text + n, PAGE_SIZE - n, "%#llx %u\n", (u64)c->map->hw_address[i], c->map->hw_len[i]);
	mutex_unlock(&c->lock);
	n = simple_read_from_buffer(buffer, size, pos, text, n);
	free_page((unsigned long)text);
	return n;
}

static int client_open(struct inode *inode, struct file *file)
{
	struct client *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (!c)
		return -ENOMEM;
	init_completion(&c->got);
	INIT_WORK(&c->end, client_end);
	mutex_init(&c->lock);
	file->private_data = c;
	return 0;
}

static int client_release(struct inode *inode, struct file *file)
{
	struct client *c = file->private_data;

	/* put_pages calls let_go(), if it has not been called.  After it, put_pages must not be called. */
	if (c->table && !READ_ONCE(c->revoked))
		nvidia_p2p_put_pages(c->table);
	flush_work(&c->end);
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
	.name = "tegra_client",
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

MODULE_DESCRIPTION("Example: DMA addresses of a Tegra's memory for a card");
MODULE_AUTHOR("peerdma developers");
MODULE_LICENSE("Dual MIT/GPL");
