// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * dmabuf_mover.ko - dma-bufs that move, are revoked, delay and refuse on command, for tests
 * of importers. docs/mover.md.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "../../include/dmabuf_mover.h"
#include "../compat.h"
#include "mover.h"

static long create(struct mover_create __user *u)
{
	struct mover_create a;
	struct buffer *b;
	int fd, err;

	if (copy_from_user(&a, u, sizeof(a)))
		return -EFAULT;
	if (a.size != sizeof(a) || a.flags)
		return -EINVAL;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	err = buffer_create(a.length, &b);
	if (err)
		goto put_fd;
	control_add(b);
	a.fd = fd;
	a.number = b->number;
	if (copy_to_user(u, &a, sizeof(a))) {
		dma_buf_put(b->dmabuf);
		err = -EFAULT;
		goto put_fd;
	}
	fd_install(fd, b->dmabuf->file);
	return 0;

put_fd:
	put_unused_fd(fd);
	return err;
}

static long mover_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return cmd == MOVER_CREATE ? create((void __user *)arg) : -ENOTTY;
}

static const struct file_operations mover_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = mover_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice mover_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "dmabuf_mover",
	.fops = &mover_fops,
	.mode = 0600,
};

static int __init mover_init(void)
{
	int err;

	control_init();
	err = misc_register(&mover_misc);
	if (err)
		control_exit();
	else
		pr_info("dmabuf_mover: this is for tests of importers\n");
	return err;
}

static void __exit mover_exit(void)
{
	misc_deregister(&mover_misc);
	control_exit();
}

module_init(mover_init);
module_exit(mover_exit);

MODULE_DESCRIPTION("dma-bufs that move on command, for tests of importers");
MODULE_AUTHOR("The peerdma authors");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("Dual MIT/GPL");
SOFTGPU_IMPORT_DMA_BUF;
