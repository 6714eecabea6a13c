// SPDX-License-Identifier: MIT OR GPL-2.0
/* file.c - file operations of /dev/peerdma, except ioctl: open to last close, events, mmap. */
#include <linux/miscdevice.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "core/charge.h"
#include "file.h"
#include "objects/map.h"
#include "objects/view.h"

/* ---- its pins ---- */

static struct peerdma_file *file_of(const struct peerdma_pin *pin)
{
	return container_of(pin->owner, struct peerdma_file, owner);
}

static void pin_revoked(struct peerdma_pin *pin)
{
	struct peerdma_file *file = file_of(pin);

	atomic64_inc(&file->user->revocations);
	spin_lock(&file->lock);
	list_add_tail(&pin->event_node, &file->events);
	spin_unlock(&file->lock);
	wake_up_interruptible_poll(&file->wait, EPOLLIN | EPOLLRDNORM);
}

/* Ends the mappings that programs made of this pin. */
static void end_maps(struct peerdma_file *file, struct peerdma_pin *pin)
{
	struct peerdma_object *object, *next;

	peerdma_maps_lock(pin, NULL);
	list_for_each_entry_safe(object, next, &pin->objects, node) {
		struct peerdma_map *map = peerdma_map_of(object);

		if (!map || !map->handle)
			continue;
		xa_erase(&file->maps, map->handle);
		peerdma_object_end(object);
	}
	peerdma_maps_unlock(pin);
}

static void pin_ended(struct peerdma_pin *pin)
{
	struct peerdma_file *file = file_of(pin);

	if (!list_empty_careful(&pin->objects))
		end_maps(file, pin);
	spin_lock(&file->lock);
	list_del_init(&pin->event_node);
	spin_unlock(&file->lock);
}

static const struct peerdma_owner_ops owner_ops = {
	.revoked = pin_revoked,
	.ended = pin_ended,
};

/* ---- events ---- */

/* The pin of the oldest event, taken off the queue, with a reference. */
static struct peerdma_pin *take_event(struct peerdma_file *file)
{
	struct peerdma_pin *pin;

	spin_lock(&file->lock);
	pin = list_first_entry_or_null(&file->events, struct peerdma_pin, event_node);
	if (pin) {
		list_del_init(&pin->event_node);
		kref_get(&pin->ref);
	}
	spin_unlock(&file->lock);
	return pin;
}

static int give_event(struct peerdma_file *file, struct peerdma_pin *pin, char __user *buf)
{
	struct peerdma_event event = {
		.type = PEERDMA_EVENT_REVOKED,
		.handle = pin->handle,
		.slot = peerdma_slot_index(pin->handle),
		.generation = pin->generation,
		.addr = pin->addr,
		.length = pin->length,
	};

	if (!copy_to_user(buf, &event, sizeof(event)))
		return 0;
	/*
	 * Put the event back, unless the pin was ended meanwhile: its end removes the event
	 * for good.
	 */
	spin_lock(&file->lock);
	if (READ_ONCE(pin->state) < PIN_ENDING)
		list_add(&pin->event_node, &file->events);
	spin_unlock(&file->lock);
	/* Another reader may have found the queue empty meanwhile. */
	wake_up_interruptible_poll(&file->wait, EPOLLIN | EPOLLRDNORM);
	return -EFAULT;
}

static ssize_t peerdma_read(struct file *filp, char __user *buf, size_t count, loff_t *pos)
{
	struct peerdma_file *file = filp->private_data;
	struct peerdma_pin *pin;
	size_t done = 0;
	int err;

	if (count < sizeof(struct peerdma_event))
		return -EINVAL;
	while (count - done >= sizeof(struct peerdma_event)) {
		pin = take_event(file);
		if (!pin) {
			if (done)
				break;
			if (filp->f_flags & O_NONBLOCK)
				return -EAGAIN;
			err = wait_event_interruptible(file->wait,
						       !list_empty_careful(&file->events));
			if (err)
				return err;
			continue;
		}
		err = give_event(file, pin, buf + done);
		peerdma_pin_put(pin);
		if (err)
			return done ?: err;
		done += sizeof(struct peerdma_event);
	}
	return done;
}

static __poll_t peerdma_poll(struct file *filp, poll_table *table)
{
	struct peerdma_file *file = filp->private_data;

	poll_wait(filp, &file->wait, table);
	return list_empty_careful(&file->events) ? 0 : EPOLLIN | EPOLLRDNORM;
}

/* ---- the file ---- */

static int peerdma_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct peerdma_file *file = filp->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u32 handle = offset >> 40;
	struct peerdma_pin *pin;
	int err;

	if (!handle)
		return peerdma_generations_mmap(&file->generations, vma);
	pin = peerdma_pin_find(&file->owner, handle);
	if (!pin)
		return -ENOENT;
	err = peerdma_view_mmap(pin, vma, offset - PEERDMA_MMAP_PIN(handle));
	peerdma_pin_put(pin);
	return err;
}

static int peerdma_open(struct inode *inode, struct file *filp)
{
	struct peerdma_file *file = peerdma_zalloc(sizeof(*file));
	struct inode *views;

	if (!file)
		return -ENOMEM;
	views = peerdma_view_inode();
	if (IS_ERR(views))
		goto no_views;
	file->user = peerdma_user_get();
	if (!file->user)
		goto no_user;
	file->owner.ops = &owner_ops;
	file->owner.generations = &file->generations;
	file->owner.views = views;
	INIT_HLIST_HEAD(&file->owner.pins);
	peerdma_generations_init(&file->generations);
	spin_lock_init(&file->lock);
	INIT_LIST_HEAD(&file->events);
	init_waitqueue_head(&file->wait);
	xa_init_flags(&file->maps, XA_FLAGS_ALLOC1);
	filp->private_data = file;
	filp->f_mapping = views->i_mapping;
	return stream_open(inode, filp);

no_user:
	iput(views);
no_views:
	kfree(file);
	return -ENOMEM;
}

static int peerdma_release(struct inode *inode, struct file *filp)
{
	struct peerdma_file *file = filp->private_data;
	struct peerdma_pin *pin;

	while ((pin = peerdma_pin_of(&file->owner))) {
		peerdma_pin_end(pin, false);
		peerdma_pin_put(pin);
		cond_resched();
	}
	xa_destroy(&file->maps);
	peerdma_generations_free(&file->generations);
	peerdma_user_put(file->user);
	iput(file->owner.views);
	kfree(file);
	return 0;
}

static const struct file_operations peerdma_fops = {
	.owner = THIS_MODULE,
	.open = peerdma_open,
	.release = peerdma_release,
	.unlocked_ioctl = peerdma_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.read = peerdma_read,
	.poll = peerdma_poll,
	.mmap = peerdma_mmap,
};

static struct miscdevice peerdma_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "peerdma",
	.fops = &peerdma_fops,
	.mode = 0600,	/* the package's udev rule gives a group access */
};

int peerdma_file_init(void)
{
	peerdma_users_init();
	return misc_register(&peerdma_misc);
}

void peerdma_file_exit(void)
{
	misc_deregister(&peerdma_misc);
	peerdma_users_exit();
}
