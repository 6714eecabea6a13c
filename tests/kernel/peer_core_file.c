// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * peer_core_file.c - /dev/peer_core_test: a program registers memory with an adapter that does
 * no DMA, to try the clients of others.
 *
 *	write "ADDRESS LENGTH"	registers; -errno as ibv_reg_mr() would report. Once per open file.
 *				With " stays" behind it, as an adapter that cannot invalidate
 *	read			"running" or "stopped", then the device's table: ADDRESS LENGTH
 *	close			deregisters
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/ib_verbs.h>

#include "peer_core_test.h"

struct registration {
	struct mutex lock;	/* for umem */
	struct ib_umem *umem;
	bool stopped;
};

static void stop(void *cookie, struct ib_umem *umem, unsigned long addr, size_t size)
{
	struct registration *mr = cookie;

	WRITE_ONCE(mr->stopped, true);
}

static int file_open(struct inode *inode, struct file *file)
{
	struct registration *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	if (!mr)
		return -ENOMEM;
	mutex_init(&mr->lock);
	file->private_data = mr;
	return 0;
}

static int file_release(struct inode *inode, struct file *file)
{
	struct registration *mr = file->private_data;

	ib_umem_release(mr->umem);
	kfree(mr);
	return 0;
}

static int register_memory(struct registration *mr, unsigned long addr, size_t length,
			   unsigned long flags)
{
	struct ib_umem *umem;
	int err = 0;

	umem = ib_umem_get_peer(adapter, addr, length, IB_ACCESS_LOCAL_WRITE, flags);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	if (ib_umem_is_peer(umem))
		err = ib_umem_activate_invalidation_notifier(umem, stop, mr);
	if (err)
		ib_umem_release(umem);
	else
		mr->umem = umem;
	return err;
}

static ssize_t file_write(struct file *file, const char __user *data, size_t size, loff_t *pos)
{
	struct registration *mr = file->private_data;
	unsigned long addr, length, flags;
	char text[64] = "", stays[8] = "";
	int err;

	if (size >= sizeof(text) || copy_from_user(text, data, size))
		return -EINVAL;
	if (sscanf(text, "%lu %lu %7s", &addr, &length, stays) < 2)
		return -EINVAL;
	flags = strcmp(stays, "stays") ? ALL_FLAGS : IB_PEER_MEM_ALLOW;
	mutex_lock(&mr->lock);
	err = mr->umem ? -EBUSY : register_memory(mr, addr, length, flags);
	mutex_unlock(&mr->lock);
	return err ?: size;
}

static ssize_t file_read(struct file *file, char __user *data, size_t size, loff_t *pos)
{
	struct registration *mr = file->private_data;
	struct scatterlist *sg;
	size_t length = 0;
	char *text;
	ssize_t ret;
	int i;

	text = kzalloc(PAGE_SIZE, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	mutex_lock(&mr->lock);
	if (mr->umem) {
		length = scnprintf(text, PAGE_SIZE, "%s%s\n",
				   READ_ONCE(mr->stopped) ? "stopped" : "running",
				   ib_umem_is_peer(mr->umem) ? "" : " host");
		for_each_sgtable_dma_sg(&mr->umem->sgt_append.sgt, sg, i)
			length += scnprintf(text + length, PAGE_SIZE - length, "%#llx %u\n",
					    sg_dma_address(sg), sg_dma_len(sg));
	}
	mutex_unlock(&mr->lock);
	ret = simple_read_from_buffer(data, size, pos, text, length);
	kfree(text);
	return ret;
}

static const struct file_operations file_ops = {
	.owner = THIS_MODULE,
	.open = file_open,
	.release = file_release,
	.read = file_read,
	.write = file_write,
	.llseek = default_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "peer_core_test",
	.fops = &file_ops,
};

int test_file_init(void)
{
	return misc_register(&device);
}

void test_file_exit(void)
{
	misc_deregister(&device);
}
