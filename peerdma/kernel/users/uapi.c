// SPDX-License-Identifier: MIT OR GPL-2.0
/* uapi.c - the ioctls of /dev/peerdma: peerdma_ioctl.h says what each does. */
#include <linux/capability.h>
#include <linux/dma-buf.h>
#include <linux/nospec.h>
#include <linux/file.h>
#include <linux/pci.h>
#include <linux/uaccess.h>

#include "device_map.h"
#include "file.h"
#include "objects/export.h"
#include "objects/map.h"
#include "objects/pages.h"
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

/* A reference, or NULL. */
static struct pci_dev *find_device(u32 domain, u32 bus, u32 devfn)
{
	if (domain > INT_MAX || bus > 0xff || devfn > 0xff)
		return NULL;
	return pci_get_domain_bus_and_slot(domain, bus, devfn);
}

static int map_for(const struct call *c, struct peerdma_map_args *a, struct peerdma_device_map *m)
{
	int err = peerdma_device_map(m, a->segment_count);

	a->segment_count = m->count;
	a->mapping = m->map ? m->handle : 0;
	if (!err && a->mapping &&
	    copy_to_user(u64_to_user_ptr(a->segments), m->segs,
			 (size_t)m->count * sizeof(*m->segs)))
		err = -EFAULT;
	err = err ?: GIVE(c, a);
	if (err && a->mapping)
		peerdma_device_unmap(c->file, a->mapping);
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
	struct peerdma_device_map m = { .file = c->file };
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
	m.pdev = find_device(a.domain, a.bus, a.devfn);
	err = m.pdev ? map_for(c, &a, &m) : -ENODEV;
	pci_dev_put(m.pdev);
	peerdma_pin_put(m.pin);
	return err;
}

static int call_unmap(const struct call *c)
{
	struct peerdma_handle_args a;

	return FETCH(c, &a, handle) ?: peerdma_device_unmap(c->file, a.handle);
}

static int drop_fd(int fd, int err)
{
	if (fd >= 0)
		put_unused_fd(fd);
	return err;
}

/* The last step of a call that makes a file: err is what the copy of its results returned. */
static int install_or_drop(int fd, struct file *file, int err)
{
	if (err) {
		fput(file);
		return drop_fd(fd, err);
	}
	fd_install(fd, file);
	return 0;
}

/* offset and length both 0: the whole pin. */
static int export(struct peerdma_pin *pin, const struct peerdma_export_args *a, struct file **file)
{
	return peerdma_export(pin, a->offset,
			      a->offset | a->length ? a->length : pin->pinned_length, file);
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
		return drop_fd(fd, err);
	a.fd = fd;
	return install_or_drop(fd, file, GIVE(c, &a));
}

/* With FOR_DEVICE, *user is a reference to that device. */
static int find_peer(const struct peerdma_pages_args *a, struct pci_dev **user)
{
	*user = NULL;
	if (!(a->flags & PEERDMA_PAGES_FOR_DEVICE))
		return a->domain | a->bus | a->devfn ? -EINVAL : 0;
	*user = find_device(a->domain, a->bus, a->devfn);
	return *user ? peerdma_device_check(*user) : -ENODEV;
}

static int page_view(struct peerdma_pin *pin, const struct peerdma_pages_args *a,
		     struct file **file)
{
	struct peerdma_page_view_args v = {
		.offset = a->offset,
		.length = a->offset | a->length ? a->length : pin->pinned_length,
		.persistent = a->flags & PEERDMA_PAGES_PERSISTENT,
	};
	int err = find_peer(a, &v.user);

	err = err ?: peerdma_page_view(pin, &v, file);
	pci_dev_put(v.user);
	return err;
}

static int call_pages(const struct call *c)
{
	struct peerdma_pages_args a;
	struct peerdma_pin *pin;
	struct file *file;
	int fd, err = FETCH(c, &a, reserved);

	if (err)
		return err;
	if (a.flags & ~(PEERDMA_PAGES_PERSISTENT | PEERDMA_PAGES_FOR_DEVICE) || a.reserved)
		return -EINVAL;
	pin = find(c, a.handle);
	if (IS_ERR(pin))
		return PTR_ERR(pin);
	fd = get_unused_fd_flags(O_CLOEXEC);
	err = fd < 0 ? fd : page_view(pin, &a, &file);
	peerdma_pin_put(pin);
	if (err)
		return drop_fd(fd, err);
	a.fd = fd;
	return install_or_drop(fd, file, GIVE(c, &a));
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
	[_IOC_NR(PEERDMA_PAGES)] = call_pages,
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
