// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * file.c - /dev/softgpuN: an open file is a client of the core. softgpu_uapi.h documents
 * the calls.
 *
 * Each GPU has a second name, /dev/dri/renderD(160+N), with the same calls.  HSA opens it,
 * because AMD's driver maps GPU memory from such files: programs look for "/dev/dri" in
 * /proc/self/maps.  DRM numbers real GPUs from 128 on, and the first 32 of them stay free,
 * so that the name of a real GPU's file is never taken.
 *
 * A client belongs to the process that opened the file: its thread group, and the mm that
 * it had then.  Both are referenced until the client is closed, so their addresses cannot
 * be reused before.
 *
 * The core identifies processes by their thread group only, since an exiting process has no
 * mm any more.  After exec, which changes the mm, a new program must not share an address
 * space with the old one.  So open fails as long as a file of the old program is open.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cdev.h>
#include <linux/cred.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include "../include/softgpu_uapi.h"
#include "charge.h"
#include "compat.h"
#include "softgpu.h"

struct softgpu_file {
	struct sg_client *client;
	struct pid *process;
	struct softgpu_host host;
	struct address_space *mapping;	/* to find mappings made through this file */
	struct list_head node;		/* files */
};

/* All open files.  The core's lock is taken inside files_lock, never the other way. */
static DEFINE_MUTEX(files_lock);
static LIST_HEAD(files);

static struct class *class;
static struct cdev cdev;
static dev_t first;

/* Has a program that this process ran before exec left a file open? */
static bool is_taken(const struct softgpu_file *f)
{
	const struct softgpu_file *other;

	list_for_each_entry(other, &files, node) {
		if (other->process == f->process && other->host.mm != f->host.mm)
			return true;
	}
	return false;
}

static int client_open(struct softgpu_file *f, u32 index)
{
	int err = -EBUSY;

	mutex_lock(&files_lock);
	if (!is_taken(f))
		err = sg_client_open(softgpu_sg, index, f->process, &softgpu_host_ops, &f->host,
				     &f->client);
	if (!err) {
		sg_client_set_user(f->client, from_kuid(&init_user_ns, current_euid()));
		list_add(&f->node, &files);
	}
	mutex_unlock(&files_lock);
	return err;
}

/* Minor numbers from here on are those of render nodes. */
#define RENDER_MINORS	SOFTGPU_MAX_GPUS
#define MINORS		(2 * SOFTGPU_MAX_GPUS)

static int file_open(struct inode *inode, struct file *filp)
{
	u32 index = (iminor(inode) - MINOR(first)) % SOFTGPU_MAX_GPUS;
	struct softgpu_room room;
	struct softgpu_file *f;
	int err;

	if (!softgpu_device_ready(index))
		return -ENODEV;
	if (!current->mm)
		return -EINVAL;
	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;
	err = softgpu_host_init(&f->host);
	if (err) {
		kfree(f);
		return err;
	}
	f->process = get_pid(task_tgid(current));
	f->mapping = filp->f_mapping;
	softgpu_room_begin(&room);
	do {
		err = client_open(f, index);
	} while (err == -ENOMEM && softgpu_room_make(&room));
	softgpu_room_end(&room);
	if (err)
		goto drop;
	filp->private_data = f;
	return nonseekable_open(inode, filp);

drop:
	softgpu_host_uninit(&f->host);
	put_pid(f->process);
	kfree(f);
	return err;
}

static int file_release(struct inode *inode, struct file *filp)
{
	struct softgpu_file *f = filp->private_data;

	sg_client_close(f->client);
	/*
	 * Only now may another program of the process open a file: before, the old address
	 * space still existed.
	 */
	mutex_lock(&files_lock);
	list_del(&f->node);
	mutex_unlock(&files_lock);
	softgpu_host_uninit(&f->host);
	put_pid(f->process);
	kfree(f);
	return 0;
}

/* A process may have mapped its memory through any of its files. */
void softgpu_file_hide(void *priv, const void *proc_key, u64 va, u64 length)
{
	const struct softgpu_file *f;

	mutex_lock(&files_lock);
	list_for_each_entry(f, &files, node) {
		if (f->process == proc_key)
			unmap_mapping_range(f->mapping, va, length, 1);
	}
	mutex_unlock(&files_lock);
}

/* After exec the mm differs, and the old addresses have no meaning. */
static bool is_owner(const struct softgpu_file *f)
{
	return task_tgid(current) == f->process && current->mm == f->host.mm;
}

/* Large enough for every struct of softgpu_uapi.h; an array of u64, for alignment. */
#define ARG_MAX_SIZE	256
/* Longer structs are refused instead of checked for zero bytes. */
#define ARG_MAX_GIVEN	4096

/* Copies all but the size field, which stays as the caller set it. */
static int put_arg(void __user *uarg, const void *arg, u32 size)
{
	if (copy_to_user(uarg + sizeof(u32), arg + sizeof(u32), size - sizeof(u32)))
		return -EFAULT;
	return 0;
}

/* The core implements all calls but one. */
static u32 call_size(u32 nr, u32 *least)
{
	if (nr != _IOC_NR(SOFTGPU_DMABUF))
		return sg_call_size(nr, least);
	*least = sizeof(struct softgpu_dmabuf);
	return *least;
}

static long call(struct file *filp, unsigned int cmd, unsigned long argp)
{
	struct softgpu_file *f = filp->private_data;
	void __user *uarg = (void __user *)argp;
	u64 arg[ARG_MAX_SIZE / sizeof(u64)];
	u32 nr = _IOC_NR(cmd), known, least, given, size;
	int ret;

	if (!is_owner(f))
		return -EPERM;
	known = call_size(nr, &least);
	if (cmd != SOFTGPU_IOC(nr) || !known)
		return -ENOTTY;
	if (SG_WARN_ON(known > sizeof(arg)))
		return -ENOTTY;
	if (get_user(given, (u32 __user *)uarg))
		return -EFAULT;
	if (given < least)
		return -EINVAL;
	if (given > ARG_MAX_GIVEN)
		return -E2BIG;
	size = min(given, known);
	/*
	 * Zeroes fields that the caller does not know; E2BIG for nonzero fields that we do
	 * not know.
	 */
	ret = copy_struct_from_user(arg, known, uarg, given);
	if (ret)
		return ret;
	/*
	 * The caller may have changed the size since; the core gets at most the size that
	 * it knows.
	 */
	*(u32 *)arg = size;

	/* Check that the struct is writable before anything is done. */
	if (put_arg(uarg, arg, size))
		return -EFAULT;
	if (cmd == SOFTGPU_DMABUF)
		return softgpu_dmabuf_call(f->client, (void *)arg,
					   &((struct softgpu_dmabuf __user *)uarg)->fd);
	ret = sg_call(f->client, nr, arg, size);
	if (ret || !sg_call_answers(nr))
		return ret;
	ret = put_arg(uarg, arg, size);
	if (ret)
		sg_call_undo(f->client, nr, arg);
	return ret;
}

static long file_ioctl(struct file *filp, unsigned int cmd, unsigned long argp)
{
	struct softgpu_room room;
	long ret;

	softgpu_room_begin(&room);
	do {
		ret = call(filp, cmd, argp);
	} while (ret == -ENOMEM && softgpu_room_make(&room));
	softgpu_room_end(&room);
	return ret;
}

static int file_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct softgpu_file *f = filp->private_data;

	if (!is_owner(f))
		return -EPERM;
	if (vma->vm_pgoff == SOFTGPU_MMAP_WRITE_COMBINED >> PAGE_SHIFT)
		return softgpu_hostmem_mmap(vma);
	if (vma->vm_pgoff == SOFTGPU_MMAP_MANAGED >> PAGE_SHIFT)
		return softgpu_managed_mmap(vma);
	return softgpu_view_mmap(f->client, vma);
}

static const struct file_operations file_ops = {
	.owner = THIS_MODULE,
	.open = file_open,
	.release = file_release,
	.unlocked_ioctl = file_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = file_mmap,
};

int softgpu_file_add(const struct softgpu_device *device)
{
	dev_t number = first + device->index;
	struct device *dev;

	dev = device_create(class, device->parent, number, NULL, "softgpu%u", device->index);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	dev = device_create(class, device->parent, number + RENDER_MINORS, NULL, "renderD%u",
			    SOFTGPU_RENDER_FIRST + device->index);
	if (IS_ERR(dev))
		device_destroy(class, number);
	return PTR_ERR_OR_ZERO(dev);
}

void softgpu_file_remove(const struct softgpu_device *device)
{
	device_destroy(class, first + device->index + RENDER_MINORS);
	device_destroy(class, first + device->index);
}

/* Any program may use a GPU, as with a real one.  Render nodes are in a folder. */
static char *softgpu_devnode(SOFTGPU_DEVNODE_CONST struct device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0666;
	if (MINOR(dev->devt) - MINOR(first) < RENDER_MINORS)
		return NULL;
	return kasprintf(GFP_KERNEL, "dri/%s", dev_name(dev));
}

int softgpu_file_init(void)
{
	int err;

	err = alloc_chrdev_region(&first, 0, MINORS, KBUILD_MODNAME);
	if (err)
		return err;
	class = softgpu_class_create(KBUILD_MODNAME);
	if (IS_ERR(class)) {
		err = PTR_ERR(class);
		goto unregister;
	}
	class->devnode = softgpu_devnode;
	cdev_init(&cdev, &file_ops);
	cdev.owner = THIS_MODULE;
	err = cdev_add(&cdev, first, MINORS);
	if (err)
		goto destroy_class;
	return 0;

destroy_class:
	class_destroy(class);
unregister:
	unregister_chrdev_region(first, MINORS);
	return err;
}

void softgpu_file_uninit(void)
{
	cdev_del(&cdev);
	class_destroy(class);
	unregister_chrdev_region(first, MINORS);
}
