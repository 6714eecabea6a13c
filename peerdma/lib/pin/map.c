// SPDX-License-Identifier: MIT
/*
 * map.c - pins made usable for a PCI device, and as a dma-buf for importers.
 */
#include <stdlib.h>

#include "backend.h"

static uint64_t device_number(const struct peerdma_map_args *args)
{
	return (uint64_t)args->domain << 16 | args->bus << 8 | args->devfn;
}

EXPORT int peerdma_map(struct peerdma_region *region, const char *pci, unsigned int flags,
		       struct peerdma_mapping **out)
{
	struct peerdma_map_args args = { .size = sizeof(args), .flags = flags };
	struct peerdma_mapping *m;
	int ret = check_given("peerdma_map", "region", region, "pci", pci, "mapping", out, NULL);

	if (!ret)
		ret = check_owner(region->ctx, "peerdma_map");
	if (ret)
		return ret;
	if (!map_parse_pci(pci, &args))
		return fail(-EINVAL, "peerdma_map: '%s' is not a PCI address like 0000:03:00.0", pci);
	if (!flags || flags & ~(PEERDMA_TO_DEVICE | PEERDMA_FROM_DEVICE))
		return fail(-EINVAL, "peerdma_map: %s: flags 0x%x: give PEERDMA_TO_DEVICE, PEERDMA_FROM_DEVICE or both", pci, flags);
	if (!region->backend->map)
		return backend_cannot(region, "peerdma_map", "addresses for devices");
	ret = region->backend->map(region, pci, &args, &m);
	if (ret)
		return ret;

	m->region = region;
	m->device = device_number(&args);
	m->flags = flags;
	m->shared = false;
	pthread_mutex_lock(&region->ctx->lock);
	m->next = region->mappings;
	LIST_STORE(&region->mappings, m);
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
	if (count)
		*count = mapping ? mapping->count : 0;
	return mapping ? mapping->ranges : NULL;
}

static void mapping_unlink(struct peerdma_mapping *mapping)
{
	struct peerdma_mapping **p = &mapping->region->mappings;

	while (*p != mapping)
		p = &(*p)->next;
	*p = mapping->next;
}

static void mapping_free(struct peerdma_mapping *mapping)
{
	if (mapping->each) {
		while (mapping->each_count)
			free(mapping->each[--mapping->each_count]);
		free(mapping->each);
	}
	free(mapping);
}

EXPORT int peerdma_unmap(struct peerdma_mapping *mapping)
{
	struct peerdma *ctx;
	int ret;

	if (!mapping)
		return 0;
	ctx = mapping->region->ctx;
	if (!is_owner(ctx))
		return 0;
	ret = mapping->region->backend->unmap(mapping);
	if (ret)
		return ret;
	pthread_mutex_lock(&ctx->lock);
	mapping_unlink(mapping);
	pthread_mutex_unlock(&ctx->lock);
	mapping_free(mapping);
	return 0;
}

void mappings_free(struct peerdma_region *region)
{
	struct peerdma_mapping *m;

	while ((m = region->mappings)) {
		region->mappings = m->next;
		mapping_free(m);
	}
}

EXPORT int peerdma_export_dmabuf(struct peerdma_region *region, uint64_t offset, uint64_t length, int *fd)
{
	int ret = check_given("peerdma_export_dmabuf", "region", region, "fd", fd, NULL);

	if (!ret)
		ret = check_owner(region->ctx, "peerdma_export_dmabuf");
	if (ret)
		return ret;
	if (!region->backend->export)
		return backend_cannot(region, "peerdma_export_dmabuf", "dma-bufs");
	return region->backend->export(region, offset, length, fd);
}
