// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf_client.c - a driver that gives its card access to the memory of any dma-buf, as
 * a dynamic importer: the exporter may move or revoke the memory at any time.
 * A program writes a dma-buf's file descriptor to /dev/dmabuf_client.  A read maps
 * the memory, unless it is mapped, and returns the card's addresses, a line per
 * segment; after a move they differ.  Closing the file detaches.
 *
 *	insmod dmabuf_client.ko card=0000:01:00.0
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"

static char *card;
module_param(card, charp, 0444);
MODULE_PARM_DESC(card, "PCI address of the card that does the DMA");

static struct pci_dev *pdev;

struct client {
	struct mutex lock;		/* of attach, which is set once */
	struct dma_buf_attachment *attach;
	struct sg_table *table;		/* the dma-buf's reservation lock; NULL: not mapped */
};

/* The reservation lock is held.  Stop the card, unmap, return soon: the exporter waits. */
static void moved(struct dma_buf_attachment *attach)
{
	struct client *c = attach->importer_priv;

	/* A real driver stops its card's transfers here, and waits for those under way. */
	if (c->table)
		dma_buf_unmap_attachment(attach, c->table, DMA_BIDIRECTIONAL);
	c->table = NULL;
}

static const struct dma_buf_attach_ops ops = {
	.allow_peer2peer = true,	/* addresses are all that is used, never struct pages */
	.invalidate_mappings = moved,
};

static int attach(struct client *c, int fd)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	struct dma_buf_attachment *attach;
	int err = 0;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	mutex_lock(&c->lock);
	attach = c->attach ? ERR_PTR(-EBUSY) : dma_buf_dynamic_attach(dmabuf, &pdev->dev, &ops, c);
	if (IS_ERR(attach))
		err = PTR_ERR(attach);
	else
		c->attach = attach;
	mutex_unlock(&c->lock);
	/* The attachment does not hold it: the reference is given up after the detach. */
	if (err)
		dma_buf_put(dmabuf);
	return err;
}

static ssize_t client_write(struct file *file, const char __user *buffer, size_t size, loff_t *pos)
{
	int fd, err = kstrtoint_from_user(buffer, size, 0, &fd);

	return err ?: attach(file->private_data, fd) ?: size;
}

static ssize_t addresses(struct client *c, char *text)
{
	struct dma_resv *resv = c->attach->dmabuf->resv;
	struct scatterlist *sg;
	ssize_t n = 0;
	int i;

	dma_resv_lock(resv, NULL);
	if (!c->table) {
		/* It may call moved() for other importers, and for this one. */
		struct sg_table *table = dma_buf_map_attachment(c->attach, DMA_BIDIRECTIONAL);

		if (IS_ERR_OR_NULL(table))
			n = table ? PTR_ERR(table) : -ENOMEM;
		else
			c->table = table;
	}
	if (c->table)
		for_each_sgtable_dma_sg(c->table, sg, i)
			n += scnprintf(text + n, PAGE_SIZE - n, "%#llx %u\n", (u64)sg_dma_address(sg), sg_dma_len(sg));
	dma_resv_unlock(resv);
	return n;
}

static ssize_t client_read(struct file *file, char __user *buffer, size_t size, loff_t *pos)
{
	struct client *c = file->private_data;
	char *text = (char *)get_zeroed_page(GFP_KERNEL);
	ssize_t n = -EINVAL;

	if (!text)
		return -ENOMEM;
	mutex_lock(&c->lock);
	if (c->attach)
		n = addresses(c, text);
	mutex_unlock(&c->lock);
	if (n >= 0)
		n = simple_read_from_buffer(buffer, size, pos, text, n);
	free_page((unsigned long)text);
	return n;
}

static int client_open(struct inode *inode, struct file *file)
{
	struct client *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (!c)
		return -ENOMEM;
	mutex_init(&c->lock);
	file->private_data = c;
	return 0;
}

static int client_release(struct inode *inode, struct file *file)
{
	struct client *c = file->private_data;

	if (c->attach) {
		struct dma_buf *dmabuf = c->attach->dmabuf;

		dma_resv_lock(dmabuf->resv, NULL);
		moved(c->attach);
		dma_resv_unlock(dmabuf->resv);
		dma_buf_detach(dmabuf, c->attach);
		dma_buf_put(dmabuf);
	}
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
	.name = "dmabuf_client",
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

MODULE_DESCRIPTION("Example: DMA addresses of a dma-buf for a card");
MODULE_AUTHOR("peerdma developers");
MODULE_LICENSE("Dual MIT/GPL");
IMPORT_DMA_BUF;
