// SPDX-License-Identifier: MIT OR GPL-2.0
/* uapi.c - the ioctls of /dev/peerdma: peerdma_ioctl.h says what each does. */
#include <linux/capability.h>
#include <linux/dma-buf.h>
#include <linux/nospec.h>
#include <linux/file.h>
#include <linux/pci.h>
#include <linux/uaccess.h>

#include "core/charge.h"
#include "file.h"
#include "objects/export.h"
#include "objects/map.h"
#include "providers/dmabuf.h"

/* One ioctl: its file, and the address and size of its struct in user space. */
struct call {
	struct peerdma_file *file;
	void __user *arg;
	size_t size;
};

/*
 * Copy the caller's struct in and out.  It nearly always has our size; then it is copied
 * with a size that is known at compile time.
 */
static __always_inline int fetch(const struct call *c, void *args, size_t size, size_t first_size)
{
	if (likely(c->size == size))
		return copy_from_user(args, c->arg, size) ? -EFAULT : 0;
	if (c->size < first_size)
		return -EINVAL;
	if (c->size > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(args, size, c->arg, c->size);
}

static __always_inline int give(const struct call *c, const void *args, size_t size)
{
	if (likely(c->size >= size))
		return copy_to_user(c->arg, args, size) ? -EFAULT : 0;
	return copy_to_user(c->arg, args, c->size) ? -EFAULT : 0;
}

/*
 * @last: the last field that the struct had in the first release; a shorter struct is refused.
 */
#define FETCH(c, args, last)								\
	fetch(c, args, sizeof(*(args)) + BUILD_BUG_ON_ZERO(sizeof(*(args)) % 8),	\
	      offsetofend(typeof(*(args)), last))
#define GIVE(c, args)	give(c, args, sizeof(*(args)))

static struct peerdma_pin *find(const struct call *c, u32 handle)
{
	return peerdma_pin_find(&c->file->owner, handle) ?: ERR_PTR(-ENOENT);
}

/* No audit: a user without the capability gets less, not an error. */
static bool may_see_all(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
}

static int account_info(struct peerdma_info *a)
{
	struct peerdma_account *account = peerdma_account();
	bool all = may_see_all();

	if (!account)
		return -ENOMEM;
	a->pins = all ? peerdma_pins_live() : (u32)atomic_read(&account->used[CHARGE_PINS]);
	a->revocations = atomic64_read(all ? &peerdma_stats.revocations : &account->revocations);
	a->user_pins = atomic_read(&account->used[CHARGE_PINS]);
	a->user_mappings = atomic_read(&account->used[CHARGE_MAPPINGS]);
	a->user_views = atomic_read(&account->used[CHARGE_VIEWS]);
	a->user_exports = atomic_read(&account->used[CHARGE_EXPORTS]);
	a->max_user_pins = READ_ONCE(peerdma_limits[CHARGE_PINS]);
	a->max_user_mappings = READ_ONCE(peerdma_limits[CHARGE_MAPPINGS]);
	a->max_user_views = READ_ONCE(peerdma_limits[CHARGE_VIEWS]);
	a->max_user_exports = READ_ONCE(peerdma_limits[CHARGE_EXPORTS]);
	a->user_aperture = atomic64_read(&account->aperture);
	a->max_user_aperture = (u64)READ_ONCE(peerdma_aperture_mib) << 20;
	a->user_locked = (u64)atomic_long_read(&account->locked) << PAGE_SHIFT;
	return 0;
}

static int call_info(const struct call *c)
{
	struct peerdma_info a;
	int err = FETCH(c, &a, revocations);

	if (err)
		return err;
	if (a.flags)
		return -EINVAL;
	a.abi = PEERDMA_ABI;
	a.providers = peerdma_provider_count();
	err = account_info(&a);
	return err ?: GIVE(c, &a);
}

static struct peerdma_pin *new_pin(struct peerdma_file *file)
{
	struct peerdma_pin *pin = peerdma_pin_new(&file->owner);

	if (!IS_ERR(pin))
		pin->client = "/dev/peerdma";
	return pin;
}

static void drop(struct peerdma_pin *pin)
{
	peerdma_pin_leave(pin, false);
	peerdma_pin_put(pin);
}

/* The last step of a call that pins: err is what the copy of its results to user space returned. */
static int publish_or_end(struct peerdma_pin *pin, int err)
{
	if (err)
		peerdma_pin_end(pin, false);
	else
		/* Release: from here on another thread may find the pin, and end it. */
		smp_store_release(&pin->slot->pin, pin);
	return err;
}

static int call_pin(const struct call *c)
{
	struct peerdma_pin_args a;
	struct peerdma_pin *pin;
	int err = FETCH(c, &a, pinned_length);

	if (err)
		return err;
	if (a.reserved)
		return -EINVAL;
	pin = new_pin(c->file);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	pin->flags = a.flags;
	pin->addr = a.addr;
	pin->length = a.length;
	pin->token = a.p2p_token;
	pin->va_space = a.va_space_token;
	err = peerdma_pin_start(pin);
	if (err) {
		drop(pin);
		return err;
	}
	a.handle = pin->handle;
	a.page_shift = pin->page_shift;
	a.slot = peerdma_slot_index(pin->handle);
	a.generation = pin->generation;
	a.offset = pin->addr - pin->start;
	a.pinned_length = pin->pinned_length;
	return publish_or_end(pin, GIVE(c, &a));
}

static int call_pin_dmabuf(const struct call *c)
{
	struct peerdma_pin_dmabuf_args a;
	struct peerdma_pin *pin;
	struct dma_buf *dmabuf;
	int err = FETCH(c, &a, pinned_length);

	if (err)
		return err;
	if (a.reserved)
		return -EINVAL;
	dmabuf = dma_buf_get(a.fd);
	if (IS_ERR(dmabuf))
		return -EBADF;
	pin = new_pin(c->file);
	if (IS_ERR(pin)) {
		dma_buf_put(dmabuf);
		return PTR_ERR(pin);
	}
	pin->flags = a.flags;
	pin->addr = a.offset;
	pin->length = a.length;
	err = peerdma_pin_start_dmabuf(pin, dmabuf);
	dma_buf_put(dmabuf);
	if (err) {
		drop(pin);
		return err;
	}
	a.handle = pin->handle;
	a.page_shift = pin->page_shift;
	a.slot = peerdma_slot_index(pin->handle);
	a.generation = pin->generation;
	a.length = pin->length;
	a.page_offset = pin->addr - pin->start;
	a.pinned_length = pin->pinned_length;
	return publish_or_end(pin, GIVE(c, &a));
}

static int call_unpin(const struct call *c)
{
	struct peerdma_handle_args a;
	struct peerdma_pin *pin;
	int err = FETCH(c, &a, handle);

	if (err)
		return err;
	pin = find(c, a.handle);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	err = peerdma_pin_end(pin, true);
	peerdma_pin_put(pin);
	return err;
}

static int call_query(const struct call *c)
{
	struct peerdma_query_args a;
	struct peerdma_pin *pin;
	int err = FETCH(c, &a, provider);

	if (err)
		return err;
	pin = find(c, a.handle);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	mutex_lock(&pin->lock);
	err = peerdma_pin_usable(pin);
	if (!err || err == -ESTALE) {
		struct peerdma_object *object;

		a.state = err ? PEERDMA_STATE_REVOKED : PEERDMA_STATE_LIVE;
		a.flags = pin->flags;
		a.addr = pin->addr;
		a.length = pin->length;
		a.pinned_length = pin->pinned_length;
		a.page_shift = pin->page_shift;
		a.mappings = 0;
		a.cpu_views = 0;
		a.exports = 0;
		list_for_each_entry(object, &pin->objects, node) {
			a.mappings += peerdma_map_of(object) && peerdma_map_of(object)->live;
			a.cpu_views += object->ops->charge == CHARGE_VIEWS;
			a.exports += object->ops->charge == CHARGE_EXPORTS;
		}
		memset(a.provider, 0, sizeof(a.provider));
		strscpy(a.provider, pin->provider->name, sizeof(a.provider));
		err = 0;
	}
	mutex_unlock(&pin->lock);
	peerdma_pin_put(pin);
	return err ?: GIVE(c, &a);
}

/*
 * One MAP: what is allocated and looked up before the device is locked, and what becomes of
 * it.
 */
struct map_call {
	struct peerdma_file *file;
	struct peerdma_pin *pin;
	struct pci_dev *pdev;
	enum dma_data_direction dir;
	u32 handle;			/* reserved in file->maps, or 0 */
	struct peerdma_map *map;
	u32 nsegs;			/* of the mapping, not merged */
	struct peerdma_segment *segs;	/* room for a merged copy */
	u32 count;			/* of segs */
};

/* Copies the segments, with adjacent ones merged. */
static void copy_segments(struct map_call *m)
{
	const struct peerdma_segment *from = m->map->segs;
	u32 i, n = 0;

	for (i = 0; i < m->nsegs; i++) {
		if (n && m->segs[n - 1].dma_addr + m->segs[n - 1].length == from[i].dma_addr)
			m->segs[n - 1].length += from[i].length;
		else
			m->segs[n++] = from[i];
	}
	m->count = n;
}

/* Gives the mapping its handle, if its segments fit into the caller's `space'; else ends it. */
static int name_map(struct map_call *m, u32 space)
{
	struct peerdma_map *map = m->map;
	int err = 0;

	peerdma_maps_lock(m->pin, NULL);
	/* The pin has ended meanwhile, or the device has lost its driver (devices.c). */
	if (!map->live)
		err = peerdma_pin_usable(m->pin) ?: -ENODEV;
	else
		copy_segments(m);
	if (err || m->count > space) {
		peerdma_object_end(&map->object);
		m->map = NULL;
	} else {
		map->handle = m->handle;
		/* The place is reserved, so nothing is allocated. */
		xa_store(&m->file->maps, m->handle, map, GFP_NOWAIT);
	}
	peerdma_maps_unlock(m->pin);
	return err;
}

static int name_or_end(struct map_call *m, u32 space)
{
	int err;

	m->segs = peerdma_kvarray(m->nsegs, sizeof(*m->segs), false);
	err = m->segs ? peerdma_xa_reserve_cyclic(&m->file->maps, &m->handle, &m->file->next_map) : -ENOMEM;
	if (!err)
		return name_map(m, space);
	peerdma_maps_lock(m->pin, NULL);
	peerdma_object_end(&m->map->object);
	peerdma_maps_unlock(m->pin);
	m->map = NULL;
	return err;
}

static int unmap(struct peerdma_file *file, u32 handle)
{
	struct peerdma_map *map;
	struct peerdma_pin *pin = NULL;
	int err = -ENOENT;

	xa_lock(&file->maps);
	map = xa_load(&file->maps, handle);
	if (map) {
		pin = map->object.pin;
		kref_get(&pin->ref);
	}
	xa_unlock(&file->maps);
	if (!pin)
		return err;
	peerdma_maps_lock(pin, NULL);
	/* Look again, since the lock was not held; handles are not reused. */
	if (xa_load(&file->maps, handle) == map) {
		xa_erase(&file->maps, handle);
		peerdma_object_end(&map->object);
		err = 0;
	}
	peerdma_maps_unlock(pin);
	peerdma_pin_put(pin);
	return err;
}

/*
 * Does the device's DMA stay set up as it is, until devices.c has taken its mappings down?
 *
 * Behind an IOMMU only while it has a driver.  Without one, an administrator can change the
 * type of the IOMMU's domain (iommu_group/type) at any time, or bind a driver that attaches
 * a domain of its own: then the domain that a mapping was made in is freed, no notifier is
 * called, and unmapping would free addresses of another domain.  The address of the domain
 * does not tell them apart, since the next domain may be allocated there.  While a driver is
 * bound, the kernel refuses to change the type: 6.1 looks for the driver with the device's
 * lock held, later kernels count drivers in the group.  A driver that manages its own DMA,
 * which is not counted, is refused in map_locked().
 *
 * Without an IOMMU there is nothing to change on x86.  Elsewhere Linux sets up a device's DMA
 * when a driver is bound.
 */
static bool dma_is_settled(struct pci_dev *pdev)
{
	return pdev->driver || (IS_ENABLED(CONFIG_X86) && !device_iommu_mapped(&pdev->dev));
}

/*
 * Is the device still on the bus? When it is removed, it leaves the bus before devices.c
 * takes its mappings down.
 */
static bool on_the_bus(struct pci_dev *pdev)
{
	struct pci_dev *found = pci_get_domain_bus_and_slot(pci_domain_nr(pdev->bus), pdev->bus->number,
							    pdev->devfn);

	pci_dev_put(found);
	return found == pdev;
}

/* The device's lock is held: no driver may be bound or unbound, as that may change its DMA. */
static struct peerdma_map *map_locked(struct map_call *m, struct peerdma_room *room)
{
	struct peerdma_map *map;
	int err;

	if (m->pdev->driver && m->pdev->driver->driver_managed_dma)
		return ERR_PTR(-EOPNOTSUPP);
	if (!dma_is_settled(m->pdev) || !on_the_bus(m->pdev))
		return ERR_PTR(-ENODEV);
	err = peerdma_map_attach(m->pin, &m->pdev->dev, m->dir, room) ?:
	      peerdma_maps_lock_for(m->pin, &m->pdev->dev, room);
	if (err)
		return ERR_PTR(err);
	map = peerdma_map_create(m->pin, &m->pdev->dev, m->dir, 0, m->pin->pinned_length, &peerdma_runs_ops, room);
	if (!IS_ERR(map)) {
		map->program = true;
		m->nsegs = map->nsegs;
	}
	peerdma_maps_unlock(m->pin);
	return map;
}

static int map_device(struct map_call *m)
{
	/* What attaching maps is mapped, and unmapped, only while the device's DMA stays as it is. */
	bool maps = peerdma_map_attach_maps(m->pin);
	struct peerdma_room room = {};
	int err;

	do {
		err = maps ? peerdma_room_make(&room) :
		      peerdma_map_prepare(m->pin, &m->pdev->dev, m->dir, &room);
		if (err)
			break;
		device_lock(&m->pdev->dev);
		m->map = map_locked(m, &room);
		if (maps)
			peerdma_room_detach(&room);
		device_unlock(&m->pdev->dev);
		err = PTR_ERR_OR_ZERO(m->map);
	} while (err == -EAGAIN);
	peerdma_room_free(&room);
	return err;
}

static int map_for(const struct call *c, struct peerdma_map_args *a, struct map_call *m)
{
	int err = map_device(m) ?: name_or_end(m, a->segment_count);

	a->segment_count = m->count;
	a->mapping = m->map ? m->handle : 0;
	if (!err && a->mapping &&
	    copy_to_user(u64_to_user_ptr(a->segments), m->segs, (size_t)m->count * sizeof(*m->segs)))
		err = -EFAULT;
	err = err ?: GIVE(c, a);
	if (err && a->mapping)
		unmap(c->file, a->mapping);
	else if (!a->mapping && m->handle)
		xa_erase(&c->file->maps, m->handle);
	kvfree(m->segs);
	return err;
}

static int call_map(const struct call *c)
{
	static const enum dma_data_direction dirs[] = {
		[PEERDMA_MAP_TO_DEVICE] = DMA_TO_DEVICE,
		[PEERDMA_MAP_FROM_DEVICE] = DMA_FROM_DEVICE,
		[PEERDMA_MAP_TO_DEVICE | PEERDMA_MAP_FROM_DEVICE] = DMA_BIDIRECTIONAL,
	};
	struct map_call m = { .file = c->file };
	struct peerdma_map_args a;
	int err = FETCH(c, &a, segments);

	if (err)
		return err;
	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	if (!a.flags || a.flags >= ARRAY_SIZE(dirs))
		return -EINVAL;
	m.dir = dirs[a.flags];
	m.pin = find(c, a.handle);
	if (IS_ERR(m.pin))
		return PTR_ERR(m.pin);
	m.pdev = a.domain > INT_MAX || a.bus > 0xff || a.devfn > 0xff ? NULL :
		 pci_get_domain_bus_and_slot(a.domain, a.bus, a.devfn);
	err = m.pdev ? map_for(c, &a, &m) : -ENODEV;
	pci_dev_put(m.pdev);
	peerdma_pin_put(m.pin);
	return err;
}

static int call_unmap(const struct call *c)
{
	struct peerdma_handle_args a;

	return FETCH(c, &a, handle) ?: unmap(c->file, a.handle);
}

/* offset and length both 0: the whole pin. */
static int export(struct peerdma_pin *pin, const struct peerdma_export_args *a, struct file **file)
{
	return peerdma_export(pin, a->offset, a->offset | a->length ? a->length : pin->pinned_length,
			      file);
}

static int call_export(const struct call *c)
{
	struct peerdma_export_args a;
	struct peerdma_pin *pin;
	struct file *file;
	int fd, err = FETCH(c, &a, length);

	if (err)
		return err;
	if (a.flags)
		return -EINVAL;
	pin = find(c, a.handle);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	fd = get_unused_fd_flags(O_CLOEXEC);
	err = fd < 0 ? fd : export(pin, &a, &file);
	peerdma_pin_put(pin);
	if (err)
		goto put_fd;
	a.fd = fd;
	err = GIVE(c, &a);
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

static int (*const calls[])(const struct call *c) = {
	[_IOC_NR(PEERDMA_INFO)] = call_info,
	[_IOC_NR(PEERDMA_PIN)] = call_pin,
	[_IOC_NR(PEERDMA_UNPIN)] = call_unpin,
	[_IOC_NR(PEERDMA_QUERY)] = call_query,
	[_IOC_NR(PEERDMA_MAP)] = call_map,
	[_IOC_NR(PEERDMA_UNMAP)] = call_unmap,
	[_IOC_NR(PEERDMA_EXPORT)] = call_export,
	[_IOC_NR(PEERDMA_PIN_DMABUF_FD)] = call_pin_dmabuf,
};

long peerdma_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct call c = { .file = filp->private_data, .arg = (void __user *)arg };
	u32 size;

	if (_IOC_NR(cmd) >= ARRAY_SIZE(calls) || cmd != PEERDMA_IOC(_IOC_NR(cmd)))
		return -ENOTTY;
	/* Every struct begins with its size. */
	if (get_user(size, (u32 __user *)c.arg))
		return -EFAULT;
	c.size = size;
	return calls[array_index_nospec(_IOC_NR(cmd), ARRAY_SIZE(calls))](&c);
}
