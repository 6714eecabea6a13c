// SPDX-License-Identifier: MIT
/*
 * The calls of /dev/peerdma as a program makes them: any number, any struct, at an address
 * that may end or vanish.  uapi.c and device_map.c are compiled over kernel.h; behind them
 * stands a bridge that makes pins, mappings and dma-bufs of nothing and counts them.
 *
 * What fails leaves nothing behind; nothing is written beyond the caller's struct; and
 * what was taken hold of is let go.
 */
#include "kernel/kernel.h"

/* Of gets and puts there are none here. */
#define PEERDMA_GROUP_LOCK_H
struct peerdma_group_lock {
	int none;
};
/* Slots have nothing but their pin, and dma-bufs are made of nothing. */
#define PEERDMA_GENERATIONS_H
struct peerdma_pin;
struct peerdma_generations {
	int none;
};
struct peerdma_slot {
	struct peerdma_pin *pin;
};
static inline u32 peerdma_slot_index(u32 handle)
{
	return handle - 1;
}
#define PEERDMA_EXPORT_H
struct file;
int peerdma_export(struct peerdma_pin *pin, u64 offset, u64 length, struct file **file);
/* Every caller is the one user. */
#define PEERDMA_ACCOUNT_H
enum peerdma_charge {
	CHARGE_PINS,
	CHARGE_MAPPINGS,
	CHARGE_VIEWS,
	CHARGE_EXPORTS,
	CHARGES,
};
struct peerdma_account {
	atomic_t used[CHARGES];
	atomic64_t aperture;
	atomic_long_t locked;
	atomic64_t revocations;
};
static unsigned int peerdma_limits[CHARGES];
static unsigned int peerdma_aperture_mib;
struct peerdma_account *peerdma_account(void);
static void charge(void);

/* A charge waits for the user, so no lock may be held; nor may it be a second one. */
#define PEERDMA_CHARGE_H
static inline void *peerdma_kvarray(size_t n, size_t size, bool now)
{
	MUST(!now);
	charge();
	return memory_short ? NULL : calloc(n ? n : 1, size);
}

static inline int peerdma_xa_reserve_cyclic(struct xarray *x, u32 *id, u32 *next)
{
	(void)x;
	charge();
	if (memory_short || *next >= XA_MAX - 1)
		return memory_short ? -ENOMEM : -EBUSY;
	*id = ++*next;
	return 0;
}

#include "../../peerdma/kernel/users/device_map.c"
#include "../../peerdma/kernel/users/uapi.c"

#define MEMORY	4096u

u8 *user_memory;
size_t user_size;
int user_accesses;
bool memory_short;
struct peerdma_stats peerdma_stats;
struct user_namespace init_user_ns;

static struct {
	u8 fail;		/* what of the bridge fails in this call: bits */
	u32 pins, maps, fds, installed, files, devices, dmabufs;
} now;

#define FAIL_START	1u
#define FAIL_MAP	2u
#define FAIL_EXPORT	4u
#define FAIL_FD		8u
#define REVOKED		16u
#define BUSY		32u
#define NO_MEMORY	64u
#define PLAIN_USER	128u

#define PINS	8
static struct peerdma_pin *pins[PINS + 1];
static struct peerdma_slot slots[PINS + 1];	/* by handle */
static struct peerdma_file open_file;
static struct peerdma_provider provider = { .name = "fuzz" };
static struct pci_bus pci_bus = { .number = 1 };
static struct pci_dev pdev = { .bus = &pci_bus };
static struct file dmabuf;
static char imported;		/* stands for a dma-buf of others */

static void charge(void)
{
	u32 i;

	MUST(!pdev.dev.locked && !open_file.maps.locked);
	for (i = 1; i <= PINS; i++)
		MUST(!pins[i] || !pins[i]->lock.locked);
}

u32 peerdma_provider_count(void)
{
	return 1;
}

struct peerdma_account *peerdma_account(void)
{
	static struct peerdma_account account;

	return now.fail & NO_MEMORY ? NULL : &account;
}

struct peerdma_pin *peerdma_pin_new(struct peerdma_owner *owner)
{
	struct peerdma_pin *pin;
	u32 i;

	for (i = 1; i <= PINS && pins[i]; i++)
		;
	if (i > PINS || now.fail & NO_MEMORY)
		return ERR_PTR(-ENOMEM);
	/* Not zeroed: the caller sets what it says that it does. */
	pin = malloc(sizeof(*pin));
	MUST(pin);
	memset(pin, 0xa5, sizeof(*pin));
	pin->ref.count = 1;
	pin->handle = i;
	pin->owner = owner;
	pin->slot = &slots[i];
	slots[i].pin = NULL;
	pin->lock.locked = 0;
	pin->objects.next = pin->objects.prev = &pin->objects;
	pin->state = PIN_LIVE;
	pin->import = NULL;
	pin->provider = &provider;
	pins[i] = pin;
	now.pins++;
	return pin;
}

void peerdma_pin_free(struct kref *ref)
{
	free(container_of(ref, struct peerdma_pin, ref));
}

static void forget(struct peerdma_pin *pin)
{
	MUST(pins[pin->handle] == pin);
	pins[pin->handle] = NULL;
	slots[pin->handle].pin = NULL;
	now.pins--;
	peerdma_pin_put(pin);
}

int peerdma_pin_start(struct peerdma_pin *pin)
{
	MUST(!strcmp(pin->client, "/dev/peerdma"));
	if (now.fail & FAIL_START || !pin->length || pin->addr + pin->length < pin->addr)
		return -EINVAL;
	pin->page_shift = 12;
	pin->start = pin->addr & ~0xfffULL;
	pin->pinned_length = pin->length;
	pin->generation = 7;
	return 0;
}

struct dma_buf *dma_buf_get(int fd)
{
	if (fd != 7)
		return ERR_PTR(-EBADF);
	now.dmabufs++;
	return (struct dma_buf *)&imported;
}

void dma_buf_put(struct dma_buf *dmabuf)
{
	MUST(dmabuf == (struct dma_buf *)&imported);
	now.dmabufs--;
}

int peerdma_pin_start_dmabuf(struct peerdma_pin *pin, struct dma_buf *dmabuf)
{
	int err;

	MUST(dmabuf == (struct dma_buf *)&imported && now.dmabufs);
	pin->addr &= 0xffffff;
	err = peerdma_pin_start(pin);
	return err;
}

/* No pin here is an import: what guards those is tested in the virtual machine. */
bool peerdma_map_attach_maps(struct peerdma_pin *pin)
{
	(void)pin;
	return false;
}

int peerdma_map_attach(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir,
		       struct peerdma_room *room)
{
	(void)dir;
	MUST(pin && dev == &pdev.dev && room && !room->import);
	return 0;
}

int peerdma_map_prepare(struct peerdma_pin *pin, struct device *dev, enum dma_data_direction dir,
			struct peerdma_room *room)
{
	(void)pin;
	(void)dev;
	(void)dir;
	return peerdma_room_make(room);
}

void peerdma_room_detach(struct peerdma_room *room)
{
	MUST(!room->import);
}

int peerdma_maps_lock_for(struct peerdma_pin *pin, struct device *dev, struct peerdma_room *room)
{
	(void)room;
	MUST(!pin->lock.locked && dev == &pdev.dev);
	mutex_lock(&pin->lock);
	return 0;
}

void peerdma_pin_leave(struct peerdma_pin *pin, bool held)
{
	MUST(!pin->slot->pin && !held && pins[pin->handle] == pin);
	pins[pin->handle] = NULL;
	now.pins--;
}

int peerdma_pin_end(struct peerdma_pin *pin, bool asked)
{
	if (asked && now.fail & BUSY)
		return -EBUSY;
	while (pin->objects.next != &pin->objects) {
		struct peerdma_map *map = container_of(pin->objects.next, struct peerdma_map, object.node);

		open_file.maps.entries[map->handle] = NULL;
		peerdma_object_end(&map->object);
	}
	forget(pin);
	return 0;
}

struct peerdma_pin *peerdma_pin_find(const struct peerdma_owner *owner, u32 handle)
{
	struct peerdma_pin *pin = handle <= PINS ? slots[handle].pin : NULL;

	MUST(owner == &open_file.owner);
	if (!pin)
		return NULL;
	pin->ref.count++;
	return pin;
}

int peerdma_pin_usable(const struct peerdma_pin *pin)
{
	MUST(pin->lock.locked);
	return now.fail & REVOKED ? -ESTALE : 0;
}

struct peerdma_map *peerdma_map_create(struct peerdma_pin *pin, struct device *dev,
				       enum dma_data_direction dir, u64 offset, u64 length,
				       const struct peerdma_object_ops *ops, struct peerdma_room *room)
{
	struct peerdma_map *map;
	u32 i;

	MUST(pin->lock.locked && dev == &pdev.dev && dev->locked && !offset && length == pin->pinned_length);
	MUST(dir == DMA_BIDIRECTIONAL || dir == DMA_TO_DEVICE || dir == DMA_FROM_DEVICE);
	if (now.fail & FAIL_MAP)
		return ERR_PTR(-EOPNOTSUPP);
	/* What it takes shows when it is made. */
	if (!room->map) {
		room->wants_map = true;
		return ERR_PTR(-EAGAIN);
	}
	map = calloc(1, sizeof(*map));
	MUST(map);
	map->pub.pin = pin;
	map->object.pin = pin;
	map->object.ops = ops;
	map->nsegs = 1 + (u32)(length / 4096 % 5);
	map->segs = calloc(map->nsegs, sizeof(*map->segs));
	MUST(map->segs);
	for (i = 0; i < map->nsegs; i++)
		map->segs[i] = (struct peerdma_segment){ .dma_addr = i / 2 * 0x100000 + i % 2 * 4096, .length = 4096 };
	map->live = true;
	map->object.node.next = &pin->objects;
	map->object.node.prev = pin->objects.prev;
	pin->objects.prev->next = &map->object.node;
	pin->objects.prev = &map->object.node;
	now.maps++;
	return map;
}

int peerdma_room_make(struct peerdma_room *room)
{
	charge();
	if (memory_short)
		return -ENOMEM;
	if (room->wants_map && !room->map) {
		room->map = malloc(1);
		MUST(room->map);
	}
	return 0;
}

void peerdma_room_free(struct peerdma_room *room)
{
	free(room->map);
	room->map = NULL;
}

const struct peerdma_object_ops peerdma_runs_ops = { .charge = CHARGE_MAPPINGS };

void peerdma_object_end(struct peerdma_object *object)
{
	struct peerdma_map *map = container_of(object, struct peerdma_map, object);

	MUST(!map->handle || !open_file.maps.entries[map->handle]);
	object->node.prev->next = object->node.next;
	object->node.next->prev = object->node.prev;
	free(map->segs);
	free(map);
	now.maps--;
}

int peerdma_export(struct peerdma_pin *pin, u64 offset, u64 length, struct file **file)
{
	(void)offset;
	(void)length;
	MUST(!pin->lock.locked);
	if (now.fail & FAIL_EXPORT)
		return -EINVAL;
	now.files++;
	*file = &dmabuf;
	return 0;
}

int peerdma_page_view(struct peerdma_pin *pin, const struct peerdma_page_view_args *args, struct file **file)
{
	(void)args;
	MUST(!pin->lock.locked);
	if (now.fail & FAIL_EXPORT)
		return -EINVAL;
	now.files++;
	*file = &dmabuf;
	return 0;
}

bool ns_capable_noaudit(struct user_namespace *ns, int cap)
{
	MUST(ns == &init_user_ns && cap == CAP_SYS_ADMIN);
	return !(now.fail & PLAIN_USER);
}

bool capable(int cap)
{
	MUST(cap == CAP_SYS_RAWIO);
	return !(now.fail & PLAIN_USER);
}

struct pci_dev *pci_get_domain_bus_and_slot(int domain, unsigned int bus, unsigned int devfn)
{
	MUST(domain >= 0 && bus <= 0xff && devfn <= 0xff);
	if (domain || bus != 1)
		return NULL;
	now.devices++;
	return &pdev;
}

void pci_dev_put(struct pci_dev *dev)
{
	MUST(!dev || dev == &pdev);
	now.devices -= !!dev;
}

int get_unused_fd_flags(int flags)
{
	MUST(flags == O_CLOEXEC);
	if (now.fail & FAIL_FD)
		return -EMFILE;
	now.fds++;
	return 5;
}

void put_unused_fd(int fd)
{
	MUST(fd == 5);
	now.fds--;
}

void fput(struct file *file)
{
	MUST(file == &dmabuf);
	now.files--;
}

void fd_install(int fd, struct file *file)
{
	put_unused_fd(fd);
	fput(file);
	now.installed++;
}

/* What the header says must be refused, whatever stands behind it. */
static bool malformed(u32 nr, const u8 *arg, u32 given)
{
	static const struct {
		u32 size, zero[2], zeros;	/* of the struct; words that must be 0 */
	} rules[] = {
		[_IOC_NR(PEERDMA_INFO)] = { offsetof(struct peerdma_info, user_pins), { 4 }, 1 },
		[_IOC_NR(PEERDMA_PIN)] = { sizeof(struct peerdma_pin_args),
					   { offsetof(struct peerdma_pin_args, reserved) }, 1 },
		[_IOC_NR(PEERDMA_UNPIN)] = { sizeof(struct peerdma_handle_args), { 0 }, 0 },
		[_IOC_NR(PEERDMA_QUERY)] = { sizeof(struct peerdma_query_args), { 0 }, 0 },
		[_IOC_NR(PEERDMA_MAP)] = { sizeof(struct peerdma_map_args), { 0 }, 0 },
		[_IOC_NR(PEERDMA_UNMAP)] = { sizeof(struct peerdma_handle_args), { 0 }, 0 },
		[_IOC_NR(PEERDMA_EXPORT)] = { sizeof(struct peerdma_export_args),
					      { offsetof(struct peerdma_export_args, flags) }, 1 },
		[_IOC_NR(PEERDMA_PIN_DMABUF_FD)] = { sizeof(struct peerdma_pin_dmabuf_args),
						     { offsetof(struct peerdma_pin_dmabuf_args, reserved) }, 1 },
		[_IOC_NR(PEERDMA_PAGES)] = { sizeof(struct peerdma_pages_args),
					     { offsetof(struct peerdma_pages_args, reserved) }, 1 },
	};
	u32 i, word;

	if (nr >= ARRAY_SIZE(rules) || given < rules[nr].size || given > PAGE_SIZE)
		return true;
	for (i = 0; i < rules[nr].zeros; i++) {
		memcpy(&word, arg + rules[nr].zero[i], sizeof(word));
		if (word)
			return true;
	}
	if (nr == _IOC_NR(PEERDMA_MAP)) {
		memcpy(&word, arg + offsetof(struct peerdma_map_args, flags), sizeof(word));
		if (!word || word > 3)
			return true;
	}
	/* INFO has grown since the first release. */
	for (i = nr == _IOC_NR(PEERDMA_INFO) ? sizeof(struct peerdma_info) : rules[nr].size; i < given; i++) {
		if (arg[i])
			return true;
	}
	return false;
}

static void one_call(const u8 *head, const u8 *bytes, size_t length)
{
	static u8 before[MEMORY];
	u32 pins_before = now.pins, maps_before = now.maps, nr = head[0] % 9, i, given = 0;
	struct file filp = { .private_data = &open_file };
	unsigned int cmd = head[0] & 0x80 ? head[0] : PEERDMA_IOC(nr);
	size_t at = head[2];
	long err;

	memset(user_memory, 0xee, MEMORY);
	memcpy(user_memory + at, bytes, length);
	/* Mostly enough, sometimes cut off in the struct or behind it. */
	user_size = head[3] < 0xc0 ? MEMORY : at + head[3] % 0x40;
	user_accesses = head[4] < 0x80 ? 1000 : head[4] % 16;
	now.fail = head[5];
	memory_short = now.fail & NO_MEMORY;
	now.installed = 0;
	memcpy(before, user_memory, MEMORY);
	memcpy(&given, user_memory + at, sizeof(given));

	err = peerdma_ioctl(&filp, cmd, (unsigned long)(user_memory + at));

	MUST(err <= 0 && err >= -4095);
	/* All is let go of but what has a name. */
	MUST(!now.fds && !now.files && !now.dmabufs && !now.devices && !pdev.dev.locked);
	MUST(!open_file.maps.locked);
	if (err) {
		MUST(now.pins == pins_before && now.maps == maps_before && !now.installed);
	} else {
		MUST(cmd == PEERDMA_IOC(nr) && !malformed(nr, before + at, given));
		MUST(now.pins <= pins_before + 1 && now.maps <= maps_before + 1);
	}
	for (i = 1; i <= PINS; i++)
		MUST(!pins[i] || (slots[i].pin == pins[i] && !pins[i]->lock.locked && pins[i]->ref.count == 1));
	/* MAP alone writes elsewhere: to the segments' place. */
	if (nr == _IOC_NR(PEERDMA_MAP))
		return;
	MUST(!memcmp(user_memory, before, at));
	MUST(given >= MEMORY - at || !memcmp(user_memory + at + given, before + at + given, MEMORY - at - given));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct device_driver_of_pci managed = { .driver_managed_dma = true };
	u32 i;

	/* As a caller's addresses are offsets here, and this is where they begin. */
	user_memory = malloc(MEMORY);
	MUST(user_memory);
	memset(&open_file, 0, sizeof(open_file));
	memset(&now, 0, sizeof(now));
	while (size >= 6) {
		size_t length = data[1] % 128;

		if (length > size - 6)
			length = size - 6;
		pdev.driver = data[5] == 0x77 ? &managed : NULL;
		one_call(data, data + 6, length);
		data += 6 + length;
		size -= 6 + length;
	}
	for (i = 1; i <= PINS; i++) {
		if (pins[i])
			peerdma_pin_end(pins[i], false);
	}
	MUST(!now.pins && !now.maps);
	free(user_memory);
	return 0;
}
