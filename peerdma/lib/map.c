// SPDX-License-Identifier: MIT
/*
 * map.c - pins made usable for a PCI device, and as a dma-buf for importers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

_Static_assert(PEERDMA_TO_DEVICE == PEERDMA_MAP_TO_DEVICE && PEERDMA_FROM_DEVICE == PEERDMA_MAP_FROM_DEVICE,
	       "the library's directions are the kernel's");
_Static_assert(sizeof(struct peerdma_range) == sizeof(struct peerdma_segment) &&
	       offsetof(struct peerdma_range, addr) == offsetof(struct peerdma_segment, dma_addr) &&
	       offsetof(struct peerdma_range, length) == offsetof(struct peerdma_segment, length),
	       "the kernel writes its segments where the caller reads ranges");

static uint64_t device_number(const struct peerdma_map_args *args)
{
	return (uint64_t)args->domain << 16 | args->bus << 8 | args->devfn;
}

static int map_failed(int error, const char *pci)
{
	switch (error) {
	case -ENODEV:
		return fail(error, "peerdma_map: %s: no such device, or no driver has enabled it for DMA; see 'lspci -k -s %s'",
			    pci, pci);
	case -EPERM:
		return fail(error, "peerdma_map: %s: DMA addresses need CAP_SYS_RAWIO; run as root, or let the device's driver map the pin",
			    pci);
	case -EOPNOTSUPP:
		return fail(error, "peerdma_map: %s: no path from this device to the memory; put both behind one PCIe switch, or copy through host memory",
			    pci);
	case -ESTALE:
		return fail(error, "peerdma_map: %s: the pin is revoked, its memory was freed", pci);
	case -EINVAL:
		return fail(error, "peerdma_map: %s: flags must be PEERDMA_TO_DEVICE, PEERDMA_FROM_DEVICE or both", pci);
	default:
		return fail(error, "peerdma_map: %s: %s", pci, strerror(-error));
	}
}

static int unmap_handle(struct peerdma *ctx, uint32_t handle)
{
	struct peerdma_handle_args args = { .size = sizeof(args), .handle = handle };

	return sys_ioctl(ctx->fd, PEERDMA_UNMAP, &args);
}

EXPORT int peerdma_map(struct peerdma_region *region, const char *pci, unsigned int flags,
		       struct peerdma_mapping **out)
{
	struct peerdma_map_args args = { .size = sizeof(args), .handle = region->handle, .flags = flags };
	struct peerdma_mapping *m = NULL, *bigger;
	uint32_t room = 16;
	int ret = check_owner(region->ctx, "peerdma_map");

	if (ret)
		return ret;
	if (!map_parse_pci(pci, &args))
		return fail(-EINVAL, "peerdma_map: '%s' is not a PCI address like 0000:03:00.0", pci);

	for (;;) {	/* until there is room for all segments */
		bigger = realloc(m, sizeof(*m) + room * sizeof(m->ranges[0]));
		if (!bigger) {
			free(m);
			return fail(-ENOMEM, "peerdma_map: %s: no memory for %u segments", pci, room);
		}
		m = bigger;
		args.segment_count = room;
		args.segments = (uintptr_t)m->ranges;
		ret = sys_ioctl(region->ctx->fd, PEERDMA_MAP, &args);
		if (ret) {
			free(m);
			return map_failed(ret, pci);
		}
		if (args.mapping)
			break;
		room = args.segment_count;
	}

	m->region = region;
	m->device = device_number(&args);
	m->flags = flags;
	m->shared = false;
	m->handle = args.mapping;
	m->count = args.segment_count;
	pthread_mutex_lock(&region->ctx->lock);
	m->next = region->mappings;
	region->mappings = m;
	pthread_mutex_unlock(&region->ctx->lock);
	*out = m;
	return 0;
}

static struct peerdma_mapping *find_shared(struct peerdma_region *region, uint64_t device, unsigned int flags)
{
	struct peerdma_mapping *m;

	for (m = region->mappings; m && !(m->shared && m->device == device && m->flags == flags); m = m->next)
		;
	return m;
}

int map_shared(struct peerdma_region *region, const char *pci, unsigned int flags, struct peerdma_mapping **out)
{
	struct peerdma_map_args args = { .size = sizeof(args) };
	struct peerdma_mapping *m = NULL, *first;
	int ret = check_owner(region->ctx, "peerdma_cache_map");

	if (ret)
		return ret;
	if (map_parse_pci(pci, &args)) {
		pthread_mutex_lock(&region->ctx->lock);
		m = find_shared(region, device_number(&args), flags);
		pthread_mutex_unlock(&region->ctx->lock);
	}
	if (!m) {
		ret = peerdma_map(region, pci, flags, &m);
		if (ret)
			return ret;
		/* Two may have come this far. */
		pthread_mutex_lock(&region->ctx->lock);
		first = find_shared(region, m->device, flags);
		m->shared = !first;
		pthread_mutex_unlock(&region->ctx->lock);
		if (first) {
			peerdma_unmap(m);
			m = first;
		}
	}
	*out = m;
	return 0;
}

EXPORT const struct peerdma_range *peerdma_ranges(const struct peerdma_mapping *mapping, size_t *count)
{
	*count = mapping->count;
	return mapping->ranges;
}

static void mapping_unlink(struct peerdma_mapping *mapping)
{
	struct peerdma_mapping **p = &mapping->region->mappings;

	while (*p != mapping)
		p = &(*p)->next;
	*p = mapping->next;
}

EXPORT int peerdma_unmap(struct peerdma_mapping *mapping)
{
	struct peerdma *ctx;
	int ret;

	if (!mapping)
		return 0;
	ctx = mapping->region->ctx;
	if (ctx->process != process_id()) {
		mapping_unlink(mapping);
		free(mapping);
		return 0;
	}
	ret = unmap_handle(ctx, mapping->handle);
	if (ret)
		return fail(ret, "peerdma_unmap: mapping %u: %s", mapping->handle, strerror(-ret));
	pthread_mutex_lock(&ctx->lock);
	mapping_unlink(mapping);
	pthread_mutex_unlock(&ctx->lock);
	free(mapping);
	return 0;
}

void mappings_free(struct peerdma_region *region)
{
	struct peerdma_mapping *m;

	while ((m = region->mappings)) {
		region->mappings = m->next;
		free(m);
	}
}

EXPORT int peerdma_export_dmabuf(struct peerdma_region *region, uint64_t offset, uint64_t length, int *fd)
{
	struct peerdma_export_args args = {
		.size = sizeof(args), .handle = region->handle, .offset = offset, .length = length,
	};
	int ret = check_owner(region->ctx, "peerdma_export_dmabuf");

	if (ret)
		return ret;
	ret = sys_ioctl(region->ctx->fd, PEERDMA_EXPORT, &args);
	switch (ret) {
	case 0:
		*fd = args.fd;
		return 0;
	case -EINVAL:
		return fail(ret, "peerdma_export_dmabuf: offset %" PRIu64 " and length %" PRIu64
			    " must be multiples of the CPU's page within the %" PRIu64 " pinned bytes",
			    offset, length, region->pinned_length);
	case -ESTALE:
		return fail(ret, "peerdma_export_dmabuf: the pin is revoked, its memory was freed");
	case -EOPNOTSUPP:
		return fail(ret, "peerdma_export_dmabuf: this provider's memory cannot be exported as a dma-buf");
	default:
		return fail(ret, "peerdma_export_dmabuf: %s", strerror(-ret));
	}
}
