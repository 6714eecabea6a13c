// SPDX-License-Identifier: MIT
/*
 * kernel.c - the back-end that uses peerdma.ko, through /dev/peerdma.
 */
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend.h"
#include "peerdma_file.h"
#include "base/clean.h"
#include "base/component.h"
#include "user_limits.h"

#define DEVICE "/dev/peerdma"

_Static_assert(PEERDMA_HOST == PEERDMA_PIN_HOST && PEERDMA_DEVICE == PEERDMA_PIN_DEVICE &&
		       PEERDMA_PERSISTENT == PEERDMA_PIN_PERSISTENT &&
		       PEERDMA_READONLY == PEERDMA_PIN_READONLY,
	       "the library's pin flags are the kernel's");
_Static_assert(PEERDMA_TO_DEVICE == PEERDMA_MAP_TO_DEVICE &&
		       PEERDMA_FROM_DEVICE == PEERDMA_MAP_FROM_DEVICE,
	       "the library's directions are the kernel's");
_Static_assert(sizeof(((struct peerdma_status *)0)->provider) == PEERDMA_PROVIDER_NAME, "provider");
_Static_assert(sizeof(struct peerdma_range) == sizeof(struct peerdma_segment) &&
	       offsetof(struct peerdma_range, addr) == offsetof(struct peerdma_segment, dma_addr) &&
	       offsetof(struct peerdma_range, length) == offsetof(struct peerdma_segment, length),
	       "the kernel writes its segments where the caller reads ranges");

#define KERNEL_FLAGS (PEERDMA_HOST | PEERDMA_DEVICE | PEERDMA_PERSISTENT | PEERDMA_READONLY)

/* ---- opening ---- */

static int open_failed(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		return fail(-ENODEV, DEVICE ": not there, the kernel module peerdma is not loaded; "
			    "load it with 'modprobe peerdma' (as root), and a provider's module, e.g. 'modprobe peerdma_nvidia'");
	case -EACCES:
	case -EPERM:
		return fail(-EACCES, DEVICE ": this user may not open it; "
			    "join the group that 'ls -l " DEVICE
			    "' shows, run as root, or let the container have the device");
	default:
		return fail(error, DEVICE ": cannot open: %s", error_words(error));
	}
}

static int check_abi(int fd)
{
	struct peerdma_info info = { .size = sizeof(info) };
	int ret = sys_ioctl(fd, PEERDMA_INFO, &info);

	if (ret)
		return fail(-EPROTO, DEVICE ": does not answer as peerdma.ko does (%s); "
			    "install the module that belongs to libpeerdma %s", error_words(ret),
			    peerdma_version());
	if (info.abi != PEERDMA_ABI)
		return fail(-EPROTO, DEVICE ": the module speaks ABI %u, libpeerdma %s speaks %u; "
			    "install both from the same release", info.abi, peerdma_version(),
			    PEERDMA_ABI);
	return 0;
}

static int kernel_open(struct peerdma *ctx)
{
	void *generations;
	int fd = sys_open(DEVICE), ret;

	if (fd < 0)
		return open_failed(fd);
	ret = check_abi(fd);
	if (!ret) {
		ret = sys_mmap(fd, PEERDMA_MMAP_GENERATIONS, PEERDMA_MMAP_GENERATIONS_SIZE,
			       PROT_READ, &generations);
		if (ret)
			fail(ret, DEVICE ": cannot map the generation page: %s", error_words(ret));
	}
	if (ret) {
		sys_close(fd);
		return ret;
	}
	ctx->kernel.fd = fd;
	ctx->kernel.file = own_fd(fd);
	ctx->kernel.generations = generations;
	ctx->kernel.generations_size = PEERDMA_MMAP_GENERATIONS_SIZE;
	return 0;
}

static void kernel_describe(struct peerdma *ctx, struct peerdma_component *c)
{
	struct peerdma_info info = { .size = sizeof(info) };
	int ret = sys_ioctl(ctx->kernel.fd, PEERDMA_INFO, &info);

	clean_copy(c->file, sizeof(c->file), DEVICE);
	snprintf(c->version, sizeof(c->version), "ABI %u", PEERDMA_ABI);
	if (ret) {
		c->state = PEERDMA_COMPONENT_UNKNOWN;
		component_why(c, "opened, but it does not answer any more (%s)", error_words(ret));
	} else if (info.providers > 1) {
		component_why(c, "pins memory of %u providers, host memory among them", info.providers);
	} else {
		c->flags &= ~PEERDMA_COMPONENT_DIRECT;
		component_why(c, "pins host memory only, because no GPU's provider is loaded; load it, e.g. with 'modprobe peerdma_nvidia' "
			      "(as root)");
	}
}

static void ignore(void *node)
{
	(void)node;	/* the tree does not own the regions */
}

static void kernel_close(struct peerdma *ctx, bool owner)
{
	/*
	 * in a child, the tree may be inconsistent: a thread of the parent may have been changing
	 * it
	 */
	if (owner)
		tdestroy(ctx->kernel.by_handle, ignore);
	sys_munmap((void *)ctx->kernel.generations, ctx->kernel.generations_size);
	/*
	 * The program may have closed the descriptor and opened another file with its number. That
	 * file must stay open.
	 */
	if (!ctx->kernel.file.inode || own_fd_still(&ctx->kernel.file))
		sys_close(ctx->kernel.fd);
}

/* ---- pins ---- */

/*
 * No provider accepted the range, and it may be invalid as host memory. If it is GPU memory,
 * returns an error with the reason; otherwise 0.
 */
static int no_provider(struct peerdma_region *region)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	const void *ptr = (const void *)(uintptr_t)region->addr;
	const char *module = "peerdma_nvidia";
	char path[64];
	int error = 0;

	if (region->imported || region->flags & PEERDMA_HOST)
		return 0;
	if (cuda_query(ptr, &m, &error) != CUDA_KNOWN) {
		if (!hsa_query(ptr, &m))
			return 0;
		module = "peerdma_amd";
	}
	if (m.kind != PEERDMA_KIND_DEVICE)
		return 0;
	region->recognized = true;
	if (m.length && region->length > m.length - (region->addr - m.base))
		return fail(-ENXIO,
			    "the range passes the end of its allocation, [0x%" PRIx64 ", +%" PRIu64
			    "); pin %" PRIu64 " bytes at most",
			    m.base, m.length, m.length - (region->addr - m.base));
	if (!(m.flags & PEERDMA_MEMORY_PINNABLE))
		return fail_not_capable(region);
	snprintf(path, sizeof(path), "/sys/module/%s", module);
	if (access(path, F_OK))
		return fail(-ENXIO,
			    "no provider for this GPU memory is loaded; load it with 'modprobe %s' (as root)",
			    module);
	return fail(-ENXIO,
		    "provider %s does not know this GPU memory; 'dmesg' may have the reason",
		    module);
}

/* Sets the text for a failed pin. Returns the error. */
static int pin_failed(int error, struct peerdma_region *region)
{
	int fd = region->ctx->kernel.fd, ret;
	char text[LIMIT_TEXT];

	if (error == -ENXIO || error == -EFAULT) {
		ret = no_provider(region);
		if (ret)
			return ret;
	}
	switch (error) {
	case -EINVAL:
		return fail(error, "give PEERDMA_HOST, PEERDMA_DEVICE or neither, and a length above 0 that does not wrap");
	case -ENXIO:
		return fail(error,
			    "no loaded provider owns this memory, or the range spans allocations; "
			    "check it with peerdma_query(), and that the provider's module is loaded (e.g. 'modprobe peerdma_nvidia')");
	case -EFAULT:
		return fail(error, "part of the range has no memory behind it, or is read-only (then pass PEERDMA_READONLY)");
	case -ENOMEM:
		if (region->imported || region->flags & PEERDMA_DEVICE)
			return fail(error, "the kernel or the device's driver is out of memory; or the generations of thousands of "
				    "pins, or memory pinned on a Tegra, take more than RLIMIT_MEMLOCK ('ulimit -l')");
		return fail(error, "%s",
			    limit_locked(fd, region->addr, region->length, text, sizeof(text)));
	case -EDQUOT:
		return fail(error, "%s", limit_quota(fd, QUOTA_PINS, text, sizeof(text)));
	case -ENOBUFS:
		return fail(error, "%s", limit_aperture(fd, region->length, text, sizeof(text)));
	case -ENOSPC:
		return fail(error,
			    "the GPU's aperture (BAR1) is full; 'peerdma bar1' shows who holds it");
	case -EOPNOTSUPP:
		return fail(error, region->flags & PEERDMA_PERSISTENT ?
					   "its provider has no persistent pins" :
					   "its provider cannot pin this memory");
	case -ENFILE:
		return fail(error, "all %u pins of peerdma.ko are taken, but for those reserved for root (its parameter reserved_pins); "
			    "'peerdma pins' shows whose they are", PEERDMA_MAX_PINS);
	case -ESTALE:
		return fail(error, "the memory was freed meanwhile");
	default:
		return fail(error, "%s", error_words(error));
	}
}

/*
 * For managed memory, the module would pin the host pages, which CUDA stops using when a GPU
 * accesses the memory.
 */
static bool is_managed(const struct peerdma_region *region)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	int error = 0;

	return !(region->flags & PEERDMA_HOST) &&
	       cuda_query((const void *)(uintptr_t)region->addr, &m, &error) == CUDA_KNOWN &&
	       m.kind == PEERDMA_KIND_MANAGED;
}

static int kernel_pin(struct peerdma_region *region)
{
	struct peerdma_pin_args args = {
		.size = sizeof(args),
		.flags = region->flags & KERNEL_FLAGS,
		.addr = region->addr,
		.length = region->length,
	};
	int ret;

	if (is_managed(region))
		return fail(-ENXIO, "this is managed memory, which CUDA moves between host and GPU; PEERDMA_HOST pins its host pages, "
			    "which hold the data only while CUDA keeps it there");
	ret = sys_ioctl(region->ctx->kernel.fd, PEERDMA_PIN, &args);
	if (ret)
		return pin_failed(ret, region);
	region->validity.slot = region->ctx->kernel.generations + args.slot;
	region->validity.generation = args.generation;
	region->offset = args.offset;
	region->pinned_length = args.pinned_length;
	region->page_size = 1U << args.page_shift;
	region->kernel.handle = args.handle;
	region->kernel.slot = args.slot;
	return 0;
}

int kernel_pin_dmabuf(struct peerdma_region *region, int dmabuf)
{
	struct peerdma_pin_dmabuf_args args = {
		.size = sizeof(args),
		.flags = region->flags & PEERDMA_READONLY,
		.fd = dmabuf,
		.offset = region->addr,
		.length = region->length,
	};
	int ret = sys_ioctl(region->ctx->kernel.fd, PEERDMA_PIN_DMABUF_FD, &args);

	switch (ret) {
	case 0:
		break;
	case -EBADF:
		return fail(ret, "descriptor %d is no dma-buf", dmabuf);
	case -EACCES:
		return fail(ret, "descriptor %d is open for reading only; pass PEERDMA_READONLY, or export the dma-buf for writing, too",
			    dmabuf);
	case -ENXIO:
	case -EINVAL:
		return fail(ret, "the range is not in the dma-buf; lseek(fd, 0, SEEK_END) returns its length");
	case -ENOTTY:
		return fail(-EOPNOTSUPP, "the module that is loaded does not import dma-bufs; install the one that belongs to libpeerdma %s",
			    peerdma_version());
	default:
		return pin_failed(ret, region);
	}
	region->validity.slot = region->ctx->kernel.generations + args.slot;
	region->validity.generation = args.generation;
	region->length = args.length;
	region->offset = args.page_offset;
	region->pinned_length = args.pinned_length;
	region->page_size = 1U << args.page_shift;
	region->kernel.handle = args.handle;
	region->kernel.slot = args.slot;
	return 0;
}

static int kernel_unpin(struct peerdma_region *region)
{
	struct peerdma_handle_args args = { .size = sizeof(args), .handle = region->kernel.handle };
	int ret = sys_ioctl(region->ctx->kernel.fd, PEERDMA_UNPIN, &args);

	return ret ? fail(ret, "handle %u: %s", args.handle, error_words(ret)) : 0;
}

static int kernel_status(struct peerdma_region *region, struct peerdma_status *status)
{
	struct peerdma_query_args args = { .size = sizeof(args), .handle = region->kernel.handle };
	int ret = sys_ioctl(region->ctx->kernel.fd, PEERDMA_QUERY, &args);

	if (ret)
		return fail(ret, "peerdma_status: handle %u: %s", args.handle, error_words(ret));
	status->state = args.state;
	status->flags = args.flags & KERNEL_FLAGS;
	status->page_size = 1U << args.page_shift;
	status->addr = args.addr;
	status->length = args.length;
	status->pinned_addr = args.addr - region->offset;
	status->pinned_length = args.pinned_length;
	status->mappings = args.mappings;
	status->views = args.cpu_views;
	status->exports = args.exports;
	memcpy(status->provider, args.provider, sizeof(status->provider));
	status->provider[sizeof(status->provider) - 1] = 0;
	return 0;
}

/* ---- for a device ---- */

static int map_failed(int error, int fd, const char *pci)
{
	char text[LIMIT_TEXT];

	switch (error) {
	case -ENODEV:
		return fail(error, "peerdma_map: %s: no such device, or no driver is bound to it; see 'lspci -k -s %s', and bind one, such as uio_pci_generic",
			    pci, pci);
	case -EPERM:
		return fail(error, "peerdma_map: %s: DMA addresses need CAP_SYS_RAWIO; run as root, or let the device's driver map the pin",
			    pci);
	case -EOPNOTSUPP:
		return fail(error, "peerdma_map: %s: no path from this device to the memory; put both behind one PCIe switch, or copy through host memory",
			    pci);
	case -EIO:
		return fail(error, "peerdma_map: %s: the GPU's driver does not map this memory: it is being freed, or the kernel's log says why",
			    pci);
	case -ESTALE:
		return fail(error, "peerdma_map: %s: the pin is revoked, its memory was freed",
			    pci);
	case -EDQUOT:
		return fail(error, "peerdma_map: %s: %s", pci,
			    limit_quota(fd, QUOTA_MAPPINGS, text, sizeof(text)));
	case -EINVAL:
		return fail(error, "peerdma_map: %s: flags must be PEERDMA_TO_DEVICE, PEERDMA_FROM_DEVICE or both", pci);
	default:
		return fail(error, "peerdma_map: %s: %s", pci, error_words(error));
	}
}

static int kernel_map(struct peerdma_region *region, const char *pci, struct peerdma_map_args *args,
		      struct peerdma_mapping **out)
{
	struct peerdma_mapping *m = NULL, *bigger;
	uint32_t room = 16;
	int ret;

	args->handle = region->kernel.handle;
	for (;;) {	/* until all segments fit */
		bigger = realloc(m, sizeof(*m) + room * sizeof(m->ranges[0]));
		if (!bigger) {
			free(m);
			return fail(-ENOMEM, "peerdma_map: %s: no memory for %u segments", pci,
				    room);
		}
		m = bigger;
		args->segment_count = room;
		args->segments = (uintptr_t)m->ranges;
		ret = sys_ioctl(region->ctx->kernel.fd, PEERDMA_MAP, args);
		if (ret) {
			free(m);
			return map_failed(ret, region->ctx->kernel.fd, pci);
		}
		if (args->mapping)
			break;
		room = args->segment_count;
	}
	m->each = NULL;
	m->handle = args->mapping;
	m->count = args->segment_count;
	*out = m;
	return 0;
}

static int kernel_unmap(struct peerdma_mapping *mapping)
{
	struct peerdma_handle_args args = { .size = sizeof(args), .handle = mapping->handle };
	int ret = sys_ioctl(mapping->region->ctx->kernel.fd, PEERDMA_UNMAP, &args);

	if (ret)
		return fail(ret, "peerdma_unmap: mapping %u: %s", mapping->handle,
			    error_words(ret));
	return 0;
}

/* ---- for the CPU, other drivers, and as a dma-buf ---- */

static int view_failed(const struct peerdma_region *region, int ret)
{
	int fd = region->ctx->kernel.fd;
	char text[LIMIT_TEXT];

	switch (ret) {
	case -EOPNOTSUPP:
		return fail(ret, "peerdma_cpu_view: the CPU cannot reach this provider's memory");
	case -ESTALE:
		return fail(ret, "peerdma_cpu_view: the pin is revoked, its memory was freed");
	case -EDQUOT:
		return fail(ret, "peerdma_cpu_view: %s",
			    limit_quota(fd, QUOTA_VIEWS, text, sizeof(text)));
	default:
		return fail(ret, "peerdma_cpu_view: cannot map the pin: %s", error_words(ret));
	}
}

static int kernel_view(struct peerdma_region *region, bool writable, void **base)
{
	int ret = sys_mmap(region->ctx->kernel.fd, PEERDMA_MMAP_PIN(region->kernel.handle),
			   region->pinned_length, writable ? PROT_READ | PROT_WRITE : PROT_READ,
			   base);

	if (ret)
		return view_failed(region, ret);
	sys_dont_fork(*base, region->pinned_length);
	return 0;
}

static int kernel_view_at(struct peerdma_region *region, bool writable, void *base)
{
	int ret = sys_mmap_at(region->ctx->kernel.fd, PEERDMA_MMAP_PIN(region->kernel.handle),
			      region->pinned_length, writable ? PROT_READ | PROT_WRITE : PROT_READ,
			      base);

	if (ret)
		return view_failed(region, ret);
	sys_dont_fork(base, region->pinned_length);
	return 0;
}

static void kernel_view_end(struct peerdma_region *region, void *base)
{
	sys_munmap(base, region->pinned_length);
}

static int pages_failed(const struct peerdma_region *region, int ret)
{
	int fd = region->ctx->kernel.fd;
	char text[LIMIT_TEXT];

	switch (ret) {
	case -EINVAL:
		return fail(ret, "peerdma_page_view: offset and length must be multiples of the CPU's page within the %llu pinned bytes",
			    (unsigned long long)region->pinned_length);
	case -EOPNOTSUPP:
		return fail(ret, "peerdma_page_view: no usable struct pages, or the device does not reach the memory: dmesg says "
			    "which (softgpu makes pages if it is loaded with pages=generic or pages=p2pdma)");
	case -ENXIO:
		return fail(ret, "peerdma_page_view: the memory is another process's");
	case -ENODEV:
		return fail(ret, "peerdma_page_view: there is no such PCI device");
	case -ESTALE:
		return fail(ret, "peerdma_page_view: the pin is revoked, its memory was freed");
	case -EDQUOT:
		return fail(ret, "peerdma_page_view: %s",
			    limit_quota(fd, QUOTA_VIEWS, text, sizeof(text)));
	case -ENOTTY:
		return fail(-EOPNOTSUPP, "peerdma_page_view: the peerdma.ko that is loaded is older than this call");
	default:
		return fail(ret, "peerdma_page_view: %s", error_words(ret));
	}
}

static int kernel_pages(struct peerdma_region *region, unsigned int flags, uint64_t offset,
			uint64_t length, const struct peerdma_map_args *device, int *fd)
{
	struct peerdma_pages_args args = {
		.size = sizeof(args),
		.handle = region->kernel.handle,
		.flags = flags & PEERDMA_PAGE_VIEW_PERSISTENT ? PEERDMA_PAGES_PERSISTENT : 0,
		.offset = offset,
		.length = length,
	};
	int ret;

	if (device) {
		args.flags |= PEERDMA_PAGES_FOR_DEVICE;
		args.domain = device->domain;
		args.bus = device->bus;
		args.devfn = device->devfn;
	}
	ret = sys_ioctl(region->ctx->kernel.fd, PEERDMA_PAGES, &args);
	if (ret)
		return pages_failed(region, ret);
	*fd = args.fd;
	return 0;
}

static int kernel_export(struct peerdma_region *region, uint64_t offset, uint64_t length, int *fd)
{
	struct peerdma_export_args args = {
		.size = sizeof(args),
		.handle = region->kernel.handle,
		.offset = offset,
		.length = length,
	};
	int ret = sys_ioctl(region->ctx->kernel.fd, PEERDMA_EXPORT, &args);
	char text[LIMIT_TEXT];

	switch (ret) {
	case 0:
		*fd = args.fd;
		return 0;
	case -EINVAL:
		return refuse_export(region, offset, length);
	case -ESTALE:
		return fail(ret, "peerdma_export_dmabuf: the pin is revoked, its memory was freed");
	case -EDQUOT:
		return fail(ret, "peerdma_export_dmabuf: %s",
			    limit_quota(region->ctx->kernel.fd, QUOTA_EXPORTS, text, sizeof(text)));
	case -EOPNOTSUPP:
		return fail(ret, "peerdma_export_dmabuf: this provider's memory cannot be exported as a dma-buf");
	default:
		return fail(ret, "peerdma_export_dmabuf: %s", error_words(ret));
	}
}

/* ---- events ---- */

static int by_handle(const void *a, const void *b)
{
	uint32_t x = ((const struct peerdma_region *)a)->kernel.handle;
	uint32_t y = ((const struct peerdma_region *)b)->kernel.handle;

	return (x > y) - (x < y);
}

static bool kernel_list(struct peerdma_region *region)
{
	return tsearch(region, &region->ctx->kernel.by_handle, by_handle);
}

static void kernel_unlist(struct peerdma_region *region)
{
	tdelete(region, &region->ctx->kernel.by_handle, by_handle);
}

/*
 * Fills in the notice. False: the pin was unpinned after its event; another pin may have its handle
 * by now.
 */
static bool notice_from(struct peerdma *ctx, const struct peerdma_event *event,
			struct peerdma_notice *notice)
{
	struct peerdma_region key = { .kernel.handle = event->handle }, **found, *whole;
	bool there;

	pthread_mutex_lock(&ctx->lock);
	found = tfind(&key, &ctx->kernel.by_handle, by_handle);
	there = found && (*found)->kernel.slot == event->slot &&
		(*found)->validity.generation == event->generation;
	whole = there ? (*found)->whole : NULL;
	if (whole) {		/* report the whole region once, with the first revoked segment */
		there = !whole->revoked;
		__atomic_store_n(&whole->revoked, true, __ATOMIC_RELEASE);
	}
	if (there)
		notice_fill(notice, whole ? whole : *found);
	pthread_mutex_unlock(&ctx->lock);
	return there;
}

static int kernel_event(struct peerdma *ctx, struct peerdma_notice *notice)
{
	struct peerdma_event event;
	int ret;

	for (;;) {
		ret = sys_read(ctx->kernel.fd, &event, sizeof(event));
		if (ret != sizeof(event))
			return ret < 0 ? ret : -EIO;
		if (event.type == PEERDMA_EVENT_REVOKED && notice_from(ctx, &event, notice))
			return 0;
	}
}

const struct backend backend_kernel = {
	.name = "kernel",
	.direct = true,
	.ends = ENDS_BY_KERNEL,
	.one_allocation = true,
	.open = kernel_open,
	.describe = kernel_describe,
	.close = kernel_close,
	.pin = kernel_pin,
	.unpin = kernel_unpin,
	.status = kernel_status,
	.map = kernel_map,
	.unmap = kernel_unmap,
	.view = kernel_view,
	.view_end = kernel_view_end,
	.view_at = kernel_view_at,
	.pages = kernel_pages,
	.export = kernel_export,
	.list = kernel_list,
	.unlist = kernel_unlist,
	.event = kernel_event,
};
