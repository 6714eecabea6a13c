// SPDX-License-Identifier: MIT
/*
 * staging.c - the back-end that uses a copy in host memory if no device can reach the GPU memory.
 * It is used only with PEERDMA_STAGING, because the program must copy with peerdma_sync(). A
 * program that does not would see memory that never changes.
 *
 * The copy is pinned as host memory. Mappings, views and dma-bufs of the region are those of the
 * copy.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "backend.h"
#include "base/component.h"

static void undo(struct peerdma_region *region)
{
	if (region->copy.pin)
		region->copy.pin->backend->unpin(region->copy.pin);
	free(region->copy.pin);
	munmap(region->copy.base, region->pinned_length);
}

static int check_memory(struct peerdma_region *region)
{
	int ret;

	if (!(region->flags & PEERDMA_STAGING))
		return fail(-ENODEV, "is off unless asked for (PEERDMA_STAGING)");
	if (region->flags & PEERDMA_PERSISTENT)
		return fail(-EOPNOTSUPP, "has no persistent pins");
	ret = allocations_find(region, NULL);
	for (size_t i = 0; !ret && i < region->allocation_count; i++) {
		if (!region->allocations[i].id)
			ret = fail(-ENXIO, "this is not CUDA memory");
	}
	return ret;
}

static void staging_describe(struct peerdma *ctx, struct peerdma_component *c)
{
	(void)ctx;
	c->state = PEERDMA_COMPONENT_UNKNOWN;
	component_why(c, "decided per allocation: a copy in host memory, for pins with PEERDMA_STAGING of GPU memory that no "
		      "earlier back-end pins and that cuMemcpy() reaches");
}

/* Pins the copy, by any back-end for host memory. */
static int pin_copy(struct peerdma_region *region)
{
	struct peerdma_region *pin = calloc(1, sizeof(*pin));
	int ret;

	if (!pin)
		return fail(-ENOMEM, "out of memory");
	pin->ctx = region->ctx;
	pin->addr = (uintptr_t)region->copy.base;
	pin->length = region->pinned_length;
	pin->flags = PEERDMA_HOST | (region->flags & PEERDMA_READONLY);
	ret = region->ctx->pin(pin);
	if (ret)
		free(pin);
	else
		region->copy.pin = pin;
	return ret;
}

/* Copies a part of one allocation, because one cuMemcpy() may be limited to one allocation. */
static int move_one(const struct allocation *piece, char *copy, uint64_t from, uint64_t to,
		    bool back)
{
	void *memory = (void *)(uintptr_t)from;
	int error = 0;

	if (!cuda_has_id(from, piece->id))
		return fail(-ESTALE, "the memory was freed");
	switch (back ? cuda_copy(memory, copy, to - from, &error) :
		       cuda_copy(copy, memory, to - from, &error)) {
	case CUDA_KNOWN:
		break;
	case CUDA_ABSENT:
		return fail(-EIO, "CUDA has been shut down");
	default:
		return fail(-EIO, "cuMemcpy failed with CUDA error %d%s", error,
			    error == CUDA_ERROR_INVALID_CONTEXT ?
			    ": the calling thread has no current context" : "");
	}
	return cuda_has_id(from, piece->id) ? 0 : fail(-ESTALE, "the memory was freed meanwhile");
}

static int move(struct peerdma_region *region, uint64_t offset, uint64_t length, bool back)
{
	uint64_t from = region->addr + offset, end = from + length;
	char *base = (char *)region->copy.base + region->offset;
	int ret = 0;

	for (size_t i = 0; !ret && i < region->allocation_count; i++) {
		const struct allocation *p = &region->allocations[i];
		uint64_t a = from > p->addr ? from : p->addr;
		uint64_t b = end < p->addr + p->length ? end : p->addr + p->length;

		if (a < b)
			ret = move_one(p, base + (a - region->addr), a, b, back);
	}
	return ret;
}

static int staging_pin(struct peerdma_region *region)
{
	uint64_t page = page_size();
	int ret = check_memory(region);

	if (ret)
		return ret;
	region->offset = region->addr & (page - 1);
	region->pinned_length = (region->offset + region->length + page - 1) & ~(page - 1);
	region->page_size = (uint32_t)page;
	region->provider = "cuda";
	region->copy.pin = NULL;
	region->copy.base = mmap(NULL, region->pinned_length, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (region->copy.base == MAP_FAILED)
		return fail(-ENOMEM, "no memory for a copy");
	madvise(region->copy.base, region->pinned_length, MADV_DONTFORK);
	ret = pin_copy(region);
	if (!ret)
		ret = move(region, 0, region->length, false);
	if (ret) {
		undo(region);
		return ret;
	}
	region->validity.slot = &region->word;
	region->validity.generation = 1;
	return 0;
}

static int staging_unpin(struct peerdma_region *region)
{
	int ret = region->copy.pin->backend->unpin(region->copy.pin);

	if (ret)
		return ret;
	free(region->copy.pin);
	region->copy.pin = NULL;
	munmap(region->copy.base, region->pinned_length);
	return 0;
}

static void staging_forget(struct peerdma_region *region)
{
	free(region->copy.pin);		/* in a child: the copy and its pin belong to the parent */
}

static int staging_status(struct peerdma_region *region, struct peerdma_status *status)
{
	(void)region;
	status->flags |= PEERDMA_DEVICE;
	return 0;
}

static int staging_map(struct peerdma_region *region, const char *pci,
		       struct peerdma_map_args *args, struct peerdma_mapping **out)
{
	struct peerdma_region *pin = region->copy.pin;

	return pin->backend->map ? pin->backend->map(pin, pci, args, out) :
	       backend_cannot(pin, "peerdma_map", "addresses for devices");
}

static int staging_unmap(struct peerdma_mapping *mapping)
{
	return mapping->region->copy.pin->backend->unmap(mapping);
}

static int staging_view(struct peerdma_region *region, bool writable, void **base)
{
	(void)writable;
	*base = region->copy.base;
	return 0;
}

static void staging_view_end(struct peerdma_region *region, void *base)
{
	(void)region;
	(void)base;
}

static int staging_export(struct peerdma_region *region, uint64_t offset, uint64_t length, int *fd)
{
	struct peerdma_region *pin = region->copy.pin;

	return pin->backend->export ? pin->backend->export(pin, offset, length, fd) :
	       backend_cannot(pin, "peerdma_export_dmabuf", "dma-bufs");
}

const struct backend backend_staging = {
	.name = "staging",
	.ends = ENDS_UNREPORTED,
	.ready = cuda_ready,
	.describe = staging_describe,
	.pin = staging_pin,
	.unpin = staging_unpin,
	.forget = staging_forget,
	.status = staging_status,
	.map = staging_map,
	.unmap = staging_unmap,
	.view = staging_view,
	.view_end = staging_view_end,
	.export = staging_export,
	.move = move,
};
