// SPDX-License-Identifier: MIT OR GPL-2.0
/* uapi.c - /dev/peerdma: peerdma_ioctl.h says what each call does. */
#include <linux/capability.h>
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/miscdevice.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "pin.h"

struct peerdma_file {
	spinlock_t lock;
	struct list_head pins;		/* lock: peerdma_pin.file_node */
	struct list_head events;	/* lock: peerdma_pin.event_node, oldest first */
	wait_queue_head_t wait;		/* for events */
	struct xarray maps;		/* handle -> peerdma_map; erased under its pin->lock */
	u32 next_map;
};

/* One call under way: its struct here, and where the answer goes. */
struct call {
	struct peerdma_file *file;
	void __user *arg;
	size_t user_size;
	size_t size;
	union {
		u32 first;
		struct peerdma_info info;
		struct peerdma_pin_args pin;
		struct peerdma_handle_args handle;
		struct peerdma_query_args query;
		struct peerdma_map_args map;
		struct peerdma_export_args export;
	};
};

static int reply(struct call *c)
{
	return copy_to_user(c->arg, &c->first, min(c->user_size, c->size)) ? -EFAULT : 0;
}

static struct peerdma_pin *find(struct call *c, u32 handle)
{
	return peerdma_pin_find(c->file, handle) ?: ERR_PTR(-ENOENT);
}

static int call_info(struct call *c)
{
	if (c->info.flags)
		return -EINVAL;
	c->info.abi = PEERDMA_ABI;
	c->info.providers = peerdma_provider_count();
	c->info.pins = atomic64_read(&peerdma_stats.live);
	c->info.revocations = atomic64_read(&peerdma_stats.revocations);
	return reply(c);
}

static int call_pin(struct call *c)
{
	struct peerdma_pin_args *a = &c->pin;
	struct peerdma_request req = {
		.addr = a->addr,
		.length = a->length,
		.token = a->p2p_token,
		.va_space = a->va_space_token,
		.flags = a->flags,
		.file = c->file,
	};
	struct peerdma_pin *pin;
	int err;

	if (a->reserved)
		return -EINVAL;
	pin = peerdma_pin_create(&req);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	a->handle = pin->handle;
	a->page_shift = pin->page_shift;
	a->slot = pin->handle;
	a->generation = pin->generation;
	a->offset = pin->addr - pin->start;
	a->pinned_length = pin->pinned_length;
	err = reply(c);
	if (err)
		peerdma_pin_end(pin, NULL);
	else
		/* Release: from here on another thread may find it, and end it. */
		smp_store_release(&pin->published, true);
	return err;
}

static int call_unpin(struct call *c)
{
	struct peerdma_pin *pin = find(c, c->handle.handle);
	bool busy = false;
	int err = 0;

	if (IS_ERR(pin))
		return PTR_ERR(pin);
	if (!peerdma_pin_end(pin, &busy))
		err = busy ? -EBUSY : -ENOENT;
	peerdma_pin_put(pin);
	return err;
}

static int call_query(struct call *c)
{
	struct peerdma_query_args *a = &c->query;
	struct peerdma_pin *pin = find(c, a->handle);
	int err;

	if (IS_ERR(pin))
		return PTR_ERR(pin);
	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err || err == -ESTALE) {
		struct peerdma_map *map;

		a->state = err ? PEERDMA_STATE_REVOKED : PEERDMA_STATE_LIVE;
		a->flags = pin->flags;
		a->addr = pin->addr;
		a->length = pin->length;
		a->pinned_length = pin->pinned_length;
		a->page_shift = pin->page_shift;
		a->mappings = 0;
		list_for_each_entry(map, &pin->maps, node)
			a->mappings += map->live;
		a->cpu_views = pin->views;
		a->exports = pin->exports;
		memset(a->provider, 0, sizeof(a->provider));
		strscpy(a->provider, pin->provider->name, sizeof(a->provider));
		err = 0;
	}
	mutex_unlock(&pin->lock);
	peerdma_pin_put(pin);
	return err ?: reply(c);
}

/* The segments with neighbours merged, in memory of their own. */
static struct peerdma_segment *merged(const struct peerdma_map *map, u32 *count)
{
	struct peerdma_segment *segs;
	u32 i, n = 0;

	segs = kvmalloc_array(map->nsegs, sizeof(*segs), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!segs)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < map->nsegs; i++) {
		if (n && segs[n - 1].dma_addr + segs[n - 1].length == map->segs[i].dma_addr)
			segs[n - 1].length += map->segs[i].length;
		else
			segs[n++] = map->segs[i];
	}
	*count = n;
	return segs;
}

/*
 * Maps and names the mapping, if its segments fit into `room'.  Returns them
 * and their number.  *handle is 0 if nothing is mapped.
 */
static struct peerdma_segment *map_and_name(struct peerdma_file *file, struct peerdma_pin *pin,
					    struct pci_dev *pdev, enum dma_data_direction dir,
					    u32 room, u32 *handle, u32 *count)
{
	struct peerdma_segment *segs;
	struct peerdma_map *map;
	int err = 0;

	*handle = 0;
	mutex_lock(&pin->lock);
	map = peerdma_map_create(pin, &pdev->dev, dir, 0, pin->pinned_length);
	if (IS_ERR(map)) {
		mutex_unlock(&pin->lock);
		return ERR_CAST(map);
	}
	segs = merged(map, count);
	if (!IS_ERR(segs) && *count <= room) {
		err = xa_alloc_cyclic(&file->maps, &map->handle, map, xa_limit_32b,
				      &file->next_map, GFP_KERNEL_ACCOUNT);
		if (err >= 0)
			*handle = map->handle;
	}
	if (!*handle) {
		map->handle = 0;
		peerdma_map_destroy(map);
	}
	mutex_unlock(&pin->lock);
	if (err < 0) {
		kvfree(segs);
		return ERR_PTR(-ENOMEM);
	}
	return segs;
}

static int unmap(struct peerdma_file *file, u32 handle)
{
	struct peerdma_map *map;
	struct peerdma_pin *pin = NULL;
	int err = -ENOENT;

	xa_lock(&file->maps);
	map = xa_load(&file->maps, handle);
	if (map) {
		pin = map->pub.pin;
		kref_get(&pin->ref);
	}
	xa_unlock(&file->maps);
	if (!pin)
		return err;
	mutex_lock(&pin->lock);
	/* Again, for the lock was not ours; handles are not used twice. */
	if (xa_load(&file->maps, handle) == map) {
		peerdma_map_destroy(map);
		err = 0;
	}
	mutex_unlock(&pin->lock);
	peerdma_pin_put(pin);
	return err;
}

static int map_for(struct call *c, struct peerdma_pin *pin, struct pci_dev *pdev,
		   enum dma_data_direction dir)
{
	struct peerdma_map_args *a = &c->map;
	struct peerdma_segment *segs;
	u32 count = 0;
	int err = 0;

	/* No driver comes or goes meanwhile: it may change the device's DMA. */
	device_lock(&pdev->dev);
	if (pdev->driver && pdev->driver->driver_managed_dma)
		segs = ERR_PTR(-EOPNOTSUPP);
	else
		segs = map_and_name(c->file, pin, pdev, dir, a->segment_count, &a->mapping,
				    &count);
	device_unlock(&pdev->dev);
	if (IS_ERR(segs))
		return PTR_ERR(segs);

	a->segment_count = count;
	if (a->mapping &&
	    copy_to_user(u64_to_user_ptr(a->segments), segs, (size_t)count * sizeof(*segs)))
		err = -EFAULT;
	kvfree(segs);
	err = err ?: reply(c);
	if (err && a->mapping)
		unmap(c->file, a->mapping);
	return err;
}

static int call_map(struct call *c)
{
	static const enum dma_data_direction dirs[] = {
		[PEERDMA_MAP_TO_DEVICE] = DMA_TO_DEVICE,
		[PEERDMA_MAP_FROM_DEVICE] = DMA_FROM_DEVICE,
		[PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE] = DMA_BIDIRECTIONAL,
	};
	struct peerdma_map_args *a = &c->map;
	struct peerdma_pin *pin;
	struct pci_dev *pdev;
	int err;

	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	if (!a->flags || a->flags >= ARRAY_SIZE(dirs))
		return -EINVAL;
	pin = find(c, a->handle);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	pdev = a->domain > INT_MAX || a->bus > 0xff || a->devfn > 0xff ? NULL :
		pci_get_domain_bus_and_slot(a->domain, a->bus, a->devfn);
	if (pdev) {
		err = map_for(c, pin, pdev, dirs[a->flags]);
		pci_dev_put(pdev);
	} else {
		err = -ENODEV;
	}
	peerdma_pin_put(pin);
	return err;
}

static int call_unmap(struct call *c)
{
	return unmap(c->file, c->handle.handle);
}

static int call_export(struct call *c)
{
	struct peerdma_export_args *a = &c->export;
	struct peerdma_pin *pin;
	struct file *file;
	int err, fd;

	if (a->flags)
		return -EINVAL;
	pin = find(c, a->handle);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	fd = get_unused_fd_flags(O_CLOEXEC);
	err = fd < 0 ? fd : peerdma_export(pin, a, &file);
	peerdma_pin_put(pin);
	if (err)
		goto put_fd;
	a->fd = fd;
	err = reply(c);
	if (err)
		goto put_file;
	fd_install(fd, file);
	return 0;

put_file:
	fput(file);
put_fd:
	if (fd >= 0)
		put_unused_fd(fd);
	return err;
}

struct call_desc {
	int (*call)(struct call *c);
	u16 size;
	u16 min_size;	/* of the first release */
};

#define CALL(nr, function, type, last)						\
	[_IOC_NR(nr)] = {							\
		.call = function,						\
		.size = sizeof(struct type) + BUILD_BUG_ON_ZERO(		\
			offsetof(struct type, size) || sizeof(struct type) % 8),	\
		.min_size = offsetofend(struct type, last),			\
	}

static const struct call_desc calls[] = {
	CALL(PEERDMA_INFO, call_info, peerdma_info, revocations),
	CALL(PEERDMA_PIN, call_pin, peerdma_pin_args, pinned_length),
	CALL(PEERDMA_UNPIN, call_unpin, peerdma_handle_args, handle),
	CALL(PEERDMA_QUERY, call_query, peerdma_query_args, provider),
	CALL(PEERDMA_MAP, call_map, peerdma_map_args, segments),
	CALL(PEERDMA_UNMAP, call_unmap, peerdma_handle_args, handle),
	CALL(PEERDMA_EXPORT, call_export, peerdma_export_args, length),
};

static long peerdma_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct call c = { .file = filp->private_data, .arg = (void __user *)arg };
	const struct call_desc *desc;
	u32 size;
	int err;

	if (_IOC_NR(cmd) >= ARRAY_SIZE(calls) || cmd != PEERDMA_IOC(_IOC_NR(cmd)))
		return -ENOTTY;
	desc = &calls[_IOC_NR(cmd)];
	if (get_user(size, (u32 __user *)c.arg))
		return -EFAULT;
	if (size < desc->min_size)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	/* Not &c.first: the kernel checks the size of what it is told to fill. */
	err = copy_struct_from_user((void *)&c + offsetof(struct call, first), desc->size, c.arg,
				    size);
	if (err)
		return err;
	c.user_size = size;
	c.size = desc->size;
	return desc->call(&c);
}

void peerdma_file_adopt(struct peerdma_pin *pin)
{
	struct peerdma_file *file = pin->file;

	spin_lock(&file->lock);
	list_add_tail(&pin->file_node, &file->pins);
	spin_unlock(&file->lock);
}

void peerdma_file_forget(struct peerdma_pin *pin)
{
	struct peerdma_file *file = pin->file;

	spin_lock(&file->lock);
	list_del_init(&pin->file_node);
	list_del_init(&pin->event_node);
	spin_unlock(&file->lock);
}

void peerdma_file_forget_map(struct peerdma_map *map)
{
	xa_erase(&map->pub.pin->file->maps, map->handle);
}

void peerdma_file_event(struct peerdma_pin *pin)
{
	struct peerdma_file *file = pin->file;

	spin_lock(&file->lock);
	list_add_tail(&pin->event_node, &file->events);
	spin_unlock(&file->lock);
	wake_up_interruptible_poll(&file->wait, EPOLLIN | EPOLLRDNORM);
}

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
		.slot = pin->handle,
		.generation = pin->generation,
		.addr = pin->addr,
		.length = pin->length,
	};

	if (!copy_to_user(buf, &event, sizeof(event)))
		return 0;
	/* Not lost, unless the pin was ended meanwhile. */
	spin_lock(&file->lock);
	if (!list_empty(&pin->file_node))
		list_add(&pin->event_node, &file->events);
	spin_unlock(&file->lock);
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

static int peerdma_mmap(struct file *filp, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u32 handle = offset >> 40;
	struct peerdma_pin *pin;
	int err;

	if (!handle)
		return peerdma_generation_mmap(vma);
	pin = handle < PEERDMA_MAX_PINS ? peerdma_pin_find(filp->private_data, handle) : NULL;
	if (!pin)
		return -ENOENT;
	err = peerdma_view_mmap(pin, vma, offset - PEERDMA_MMAP_PIN(handle));
	peerdma_pin_put(pin);
	return err;
}

static int peerdma_open(struct inode *inode, struct file *filp)
{
	struct peerdma_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return -ENOMEM;
	spin_lock_init(&file->lock);
	INIT_LIST_HEAD(&file->pins);
	INIT_LIST_HEAD(&file->events);
	init_waitqueue_head(&file->wait);
	xa_init_flags(&file->maps, XA_FLAGS_ALLOC1);
	filp->private_data = file;
	filp->f_mapping = peerdma_view_mapping();
	return stream_open(inode, filp);
}

static struct peerdma_pin *first_pin(struct peerdma_file *file)
{
	struct peerdma_pin *pin;

	spin_lock(&file->lock);
	pin = list_first_entry_or_null(&file->pins, struct peerdma_pin, file_node);
	if (pin)
		kref_get(&pin->ref);
	spin_unlock(&file->lock);
	return pin;
}

static int peerdma_release(struct inode *inode, struct file *filp)
{
	struct peerdma_file *file = filp->private_data;
	struct peerdma_pin *pin;

	while ((pin = first_pin(file))) {
		peerdma_pin_end(pin, NULL);
		peerdma_pin_put(pin);
		cond_resched();
	}
	xa_destroy(&file->maps);
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
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	.get_unmapped_area = peerdma_view_area,
#endif
};

static struct miscdevice peerdma_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "peerdma",
	.fops = &peerdma_fops,
	.mode = 0666,
};

int peerdma_uapi_init(void)
{
	return misc_register(&peerdma_misc);
}

void peerdma_uapi_exit(void)
{
	misc_deregister(&peerdma_misc);
}
