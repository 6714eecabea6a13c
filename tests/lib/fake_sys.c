// SPDX-License-Identifier: MIT
/*
 * fake_sys.c - see fake_sys.h.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_sys.h"
#include "internal.h"

#define PAGE 65536ULL

struct fake_kernel fake;
static uint32_t *generations;		/* PEERDMA_MMAP_GENERATIONS_SIZE, most of it never touched */
static struct peerdma_event events[FAKE_PINS];
static int event_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* guards all of it */

void fake_reset(void)
{
	if (generations)
		munmap(generations, PEERDMA_MMAP_GENERATIONS_SIZE);
	generations = NULL;
	memset(&fake, 0, sizeof(fake));
	fake.abi = PEERDMA_ABI;
	fake.segments = 1;
	fake.full_error = -ENFILE;
	fake.memlock = 8 << 20;
	event_count = 0;
}

static uint32_t next_generation(uint32_t slot)
{
	return __atomic_add_fetch(&generations[slot], 1, __ATOMIC_RELEASE);
}

/* Unpinned: its event, if it has one, is gone. */
static void forget_event(uint32_t handle)
{
	int n = 0;

	for (int i = 0; i < event_count; i++) {
		if (events[i].handle != handle)
			events[n++] = events[i];
	}
	event_count = n;
}

void fake_revoke(uint32_t handle)
{
	pthread_mutex_lock(&lock);
	if (!fake.pins[handle].live || fake.pins[handle].revoked || event_count == FAKE_PINS)
		goto out;
	events[event_count++] = (struct peerdma_event){
		.type = PEERDMA_EVENT_REVOKED, .handle = handle, .slot = handle,
		.generation = fake.pins[handle].generation,
		.addr = fake.pins[handle].addr, .length = fake.pins[handle].length,
	};
	fake.pins[handle].revoked = 1;
	next_generation(handle);
out:
	pthread_mutex_unlock(&lock);
}

int sys_open(const char *path)
{
	if (fake.open_error)
		return fake.open_error;
	fake.opens++;
	return FAKE_FD;
}

int sys_close(int fd)
{
	fake.closes++;
	return 0;
}

/* As the module: a caller's struct may be longer if the surplus is zero, or shorter. */
static int do_info(struct peerdma_info *a)
{
	const size_t known = fake.old ? offsetof(struct peerdma_info, user_pins) : sizeof(*a);
	struct peerdma_info info = fake.info;
	uint32_t size = a->size;

	if (fake.info_error)
		return fake.info_error;
	for (size_t i = known; i < size; i++)
		if (((char *)a)[i])
			return -E2BIG;
	info.size = size;
	info.abi = fake.abi;
	memcpy(a, &info, size < known ? size : known);
	return 0;
}

static int do_pin(struct peerdma_pin_args *a)
{
	uint32_t h;

	fake.last_pin = *a;
	if (fake.pin_error)
		return fake.pin_error;
	if (fake.allocation && (a->addr - fake.origin) / fake.allocation != (a->addr + a->length - 1 - fake.origin) / fake.allocation)
		return -ENXIO;
	if (fake.fail_nth && !--fake.fail_nth)
		return fake.nth_error;
	for (h = 1; h < FAKE_PINS && fake.pins[h].live; h++)
		;
	if (h == FAKE_PINS)
		return fake.full_error;
	a->handle = a->slot = h;
	a->generation = next_generation(h);
	a->page_shift = 16;
	a->offset = a->addr % PAGE;
	a->pinned_length = (a->offset + a->length + PAGE - 1) / PAGE * PAGE;
	fake.pins[h].live = 1;
	fake.pins[h].revoked = 0;
	fake.pins[h].flags = a->flags | (fake.device_memory ? PEERDMA_PIN_DEVICE : PEERDMA_PIN_HOST);
	fake.pins[h].generation = a->generation;
	fake.pins[h].addr = a->addr;
	fake.pins[h].length = a->length;
	fake.pins[h].pinned_length = a->pinned_length;
	if (fake.revoked_at_once) {
		fake.revoked_at_once--;
		fake.pins[h].revoked = 1;
		next_generation(h);
	}
	return 0;
}

static int do_pin_dmabuf(struct peerdma_pin_dmabuf_args *a)
{
	struct peerdma_pin_args pin = { .flags = PEERDMA_PIN_DEVICE, .addr = a->offset, .length = a->length };
	int ret;

	fake.last_dmabuf = *a;
	ret = do_pin(&pin);
	if (ret)
		return ret;
	a->handle = pin.handle;
	a->slot = pin.slot;
	a->generation = pin.generation;
	a->page_shift = 12;
	a->page_offset = pin.offset;
	a->pinned_length = pin.pinned_length;
	return 0;
}

static int do_unpin(struct peerdma_handle_args *a)
{
	if (fake.unpin_error)
		return fake.unpin_error;
	if (a->handle && a->handle == fake.busy)
		return -EBUSY;
	if (a->handle >= FAKE_PINS || !fake.pins[a->handle].live)
		return -ENOENT;
	fake.pins[a->handle].live = 0;
	if (!fake.keep_events)
		forget_event(a->handle);
	next_generation(a->handle);
	fake.unpins++;
	return 0;
}

static int do_query(struct peerdma_query_args *a)
{
	if (fake.query_error)
		return fake.query_error;
	if (a->handle >= FAKE_PINS || !fake.pins[a->handle].live)
		return -ENOENT;
	a->state = fake.pins[a->handle].revoked ? PEERDMA_STATE_REVOKED : PEERDMA_STATE_LIVE;
	a->flags = fake.pins[a->handle].flags;
	a->addr = fake.pins[a->handle].addr;
	a->length = fake.pins[a->handle].length;
	a->pinned_length = fake.pins[a->handle].pinned_length;
	a->page_shift = 16;
	a->mappings = fake.mappings_of;
	a->cpu_views = fake.views_of;
	a->exports = fake.exports_of;
	strcpy(a->provider, fake.device_memory ? "nvidia" : "host");
	return 0;
}

static int do_map(struct peerdma_map_args *a)
{
	struct peerdma_segment *s = (void *)(uintptr_t)a->segments;

	fake.last_map = *a;
	if (fake.map_error)
		return fake.map_error;
	fake.last_domain = a->domain;
	fake.last_bus = a->bus;
	fake.last_devfn = a->devfn;
	a->mapping = 0;
	if (a->segment_count >= fake.segments) {
		for (unsigned int i = 0; i < fake.segments; i++)
			s[i] = (struct peerdma_segment){ 0x1000000 + i * 2 * PAGE, PAGE };
		a->mapping = 500 + fake.mappings++;
	}
	a->segment_count = fake.segments;
	return 0;
}

/* The descriptor is of a file in memory, as long as the pin. */
static int do_export(struct peerdma_export_args *a)
{
	fake.last_export = *a;
	if (fake.export_error)
		return fake.export_error;
	a->fd = memfd_create("fake-export", MFD_CLOEXEC);
	return a->fd < 0 || ftruncate(a->fd, (off_t)fake.pins[a->handle].pinned_length) ? -errno : 0;
}

/* As the module, which knows what each call's struct is; INFO's may have another size. */
static size_t size_of(unsigned long request)
{
	switch (request) {
	case PEERDMA_PIN:
		return sizeof(struct peerdma_pin_args);
	case PEERDMA_PIN_DMABUF_FD:
		return sizeof(struct peerdma_pin_dmabuf_args);
	case PEERDMA_QUERY:
		return sizeof(struct peerdma_query_args);
	case PEERDMA_EXPORT:
		return sizeof(struct peerdma_export_args);
	case PEERDMA_MAP:
		return sizeof(struct peerdma_map_args);
	default:
		return sizeof(struct peerdma_handle_args);
	}
}

static bool nth_fails(unsigned long call)
{
	return fake.nth_call == call && fake.nth && !--fake.nth;
}

static int do_ioctl(unsigned long request, void *arg)
{
	if (request != PEERDMA_INFO && *(uint32_t *)arg != size_of(request))
		return -EINVAL;
	if (nth_fails(request))
		return fake.nth_error;
	switch (request) {
	case PEERDMA_INFO:
		return do_info(arg);
	case PEERDMA_PIN:
		return do_pin(arg);
	case PEERDMA_PIN_DMABUF_FD:
		return do_pin_dmabuf(arg);
	case PEERDMA_UNPIN:
		return do_unpin(arg);
	case PEERDMA_QUERY:
		return do_query(arg);
	case PEERDMA_EXPORT:
		return do_export(arg);
	case PEERDMA_MAP:
		return do_map(arg);
	case PEERDMA_UNMAP:
		if (fake.unmap_error)
			return fake.unmap_error;
		fake.mappings--;
		fake.unmaps++;
		return 0;
	default:
		return -ENOTTY;
	}
}

int sys_ioctl(int fd, unsigned long request, void *arg)
{
	int ret;

	pthread_mutex_lock(&lock);
	ret = do_ioctl(request, arg);
	pthread_mutex_unlock(&lock);
	return ret;
}

int sys_mmap(int fd, uint64_t offset, size_t length, int prot, void **addr)
{
	bool at = offset != PEERDMA_MMAP_GENERATIONS && fake.view_at;
	void *p;

	if (offset == PEERDMA_MMAP_GENERATIONS ? fake.generations_error : fake.view_error)
		return offset == PEERDMA_MMAP_GENERATIONS ? fake.generations_error : fake.view_error;
	p = mmap(at ? fake.view_at : NULL, length, at ? PROT_NONE : PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	pthread_mutex_lock(&lock);
	fake.mmaps++;
	fake.last_offset = offset;
	fake.last_length = length;
	fake.last_prot = prot;
	pthread_mutex_unlock(&lock);
	if (offset == PEERDMA_MMAP_GENERATIONS)
		generations = p;
	*addr = p;
	return 0;
}

int sys_mmap_at(int fd, uint64_t offset, size_t length, int prot, void *addr)
{
	if (fake.view_error)
		return fake.view_error;
	if (nth_fails(FAKE_VIEW))
		return fake.nth_error;
	if (mmap(addr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -ENOMEM;
	pthread_mutex_lock(&lock);
	fake.mmaps++;
	pthread_mutex_unlock(&lock);
	return 0;
}

int sys_munmap(void *addr, size_t length)
{
	pthread_mutex_lock(&lock);
	fake.munmaps++;
	pthread_mutex_unlock(&lock);
	if (addr == generations)
		generations = NULL;
	return munmap(addr, length);
}

int sys_dont_fork(void *addr, size_t length)
{
	return madvise(addr, length, MADV_DONTFORK);
}

int sys_read(int fd, void *buf, size_t length)
{
	int ret = -EAGAIN;

	if (length < sizeof(events[0]))
		return -EINVAL;
	if (fake.read_error)
		return fake.read_error;
	if (fake.short_read)
		return sizeof(events[0]) / 2;
	pthread_mutex_lock(&lock);
	if (event_count) {
		memcpy(buf, &events[0], sizeof(events[0]));
		memmove(&events[0], &events[1], --event_count * sizeof(events[0]));
		ret = sizeof(events[0]);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

int sys_poll_in(int fd, int timeout_ms)
{
	int ret;

	if (fake.poll_error)
		return fake.poll_error;
	pthread_mutex_lock(&lock);
	if (!fake.polls++)
		fake.first_timeout = timeout_ms;
	fake.last_timeout = timeout_ms;
	if (fake.spurious) {
		bool last = !--fake.spurious;

		pthread_mutex_unlock(&lock);
		if (last && timeout_ms > 0)
			usleep(((unsigned int)timeout_ms + 2) * 1000);
		return 1;
	}
	ret = event_count > 0;
	pthread_mutex_unlock(&lock);
	return ret;
}

uint64_t sys_memlock_limit(void)
{
	return fake.memlock;
}
