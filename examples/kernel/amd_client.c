// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * amd_client.c - a driver that gives its card access to AMD GPU memory, by
 * amd_rdma_interface 2.0 only.  A program writes "ADDRESS LENGTH" (of hipMalloc's
 * memory) to /dev/amd_client and reads back the card's DMA addresses, a line per
 * segment, or "revoked" once the memory was freed.  Closing the file unpins.
 *
 *	insmod amd_client.ko card=0000:01:00.0
 */
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <drm/amd_rdma.h>

static char *card;
module_param(card, charp, 0444);
MODULE_PARM_DESC(card, "PCI address of the card that does the DMA");

static const struct amd_rdma_interface *rdma;
static struct pci_dev *pdev;

struct client {
	spinlock_t lock;
	unsigned long used;		/* bit 0: get_pages has been called */
	struct amd_p2p_info *info;	/* ours until put_pages, or until freed() has returned */
	bool revoked;
};

/* In the thread that frees the memory: stop the card, return, and never touch info again. */
static void freed(void *priv)
{
	struct client *c = priv;

	spin_lock(&c->lock);
	/* A real driver stops its card's transfers here, and waits for those under way. */
	c->info = NULL;
	c->revoked = true;
	spin_unlock(&c->lock);
}

static ssize_t client_write(struct file *file, const char __user *buffer, size_t size, loff_t *pos)
{
	struct client *c = file->private_data;
	struct amd_p2p_info *info = NULL;	/* version 2.0: 0 and NULL is "no such memory" */
	char text[64] = "";
	u64 address, length;
	int err;

	if (size >= sizeof(text) || copy_from_user(text, buffer, size))
		return -EINVAL;
	if (sscanf(text, "%lli %lli", &address, &length) != 2)
		return -EINVAL;
	if (!rdma->is_gpu_address(address, NULL))
		return -ENXIO;
	if (test_and_set_bit(0, &c->used))
		return -EBUSY;
	/* Not under the lock: a driver may hold one of its own around get_pages and freed(). */
	err = rdma->get_pages(address, length, NULL, &pdev->dev, &info, freed, c);
	if (!err && !info)
		err = -ENXIO;
	if (err)
		clear_bit(0, &c->used);
	spin_lock(&c->lock);
	/* It may have gone already. */
	if (!err && !c->revoked)
		c->info = info;
	spin_unlock(&c->lock);
	return err ?: size;
}

static ssize_t client_read(struct file *file, char __user *buffer, size_t size, loff_t *pos)
{
	struct client *c = file->private_data;
	struct scatterlist *sg;
	char *text = (char *)get_zeroed_page(GFP_KERNEL);
	ssize_t n = 0;
	int i;

	if (!text)
		return -ENOMEM;
	spin_lock(&c->lock);
	if (c->revoked)
		n = scnprintf(text, PAGE_SIZE, "revoked\n");
	else if (c->info)
		for_each_sgtable_dma_sg(c->info->pages, sg, i)
			n += scnprintf(text + n, PAGE_SIZE - n, "%#llx %u\n", (u64)sg_dma_address(sg), sg_dma_len(sg));
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
	struct amd_p2p_info *info;

	/* Not under the lock: put_pages waits for a callback under way, and may sleep. */
	spin_lock(&c->lock);
	info = c->info;
	spin_unlock(&c->lock);
	if (info)
		rdma->put_pages(&info);
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
	.name = "amd_client",
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
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64)) ?: amdkfd_query_rdma_interface(&rdma) ?:
		misc_register(&client_misc);
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

MODULE_DESCRIPTION("Example: DMA addresses of an AMD GPU's memory for a card");
MODULE_AUTHOR("peerdma developers");
MODULE_LICENSE("Dual MIT/GPL");
