// SPDX-License-Identifier: MIT
/*
 * dmabuf.c - the back-end that uses CUDA's export of memory as a dma-buf
 * (cuMemGetHandleForAddressRange). It needs no kernel module of this project. The descriptor is the
 * pin.
 *
 * The export keeps the memory allocated after the program has freed it, so importers never reach
 * other memory. But frees are not reported, and another allocation may then be at the address. So
 * peerdma_valid() returns 0 for such a region. peerdma_status() asks CUDA whether each allocation
 * of the range still has its buffer id, which CUDA never gives to another allocation.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend.h"
#include "base/component.h"

int cuda_dmabuf_error(int error)
{
	switch (error) {
	case CUDA_ERROR_NOT_SUPPORTED:
		return fail(-EOPNOTSUPP,
			    "this GPU, its driver or its kind of memory has no dma-bufs "
			    "(NVIDIA: the open kernel modules are needed)");
	case CUDA_ERROR_INVALID_VALUE:
		return fail(-ENXIO, "CUDA exports no dma-buf of this memory");
	case CUDA_ERROR_INVALID_CONTEXT:
		return fail(-ENODEV, "the calling thread has no CUDA context that is current; call cuCtxSetCurrent()");
	case CUDA_ERROR_OUT_OF_MEMORY:
		return fail(-ENOMEM, "CUDA is out of memory");
	default:
		return fail(-EIO, "cuMemGetHandleForAddressRange failed with CUDA error %d", error);
	}
}

static int dmabuf_ready(void)
{
	int ret = cuda_ready();

	if (!ret && !cuda_exports_dmabufs())
		ret = fail(-ENODEV, "no dma-bufs: this libcuda cannot export them (CUDA 11.7 can)");
	return ret;
}

static void dmabuf_describe(struct peerdma *ctx, struct peerdma_component *c)
{
	(void)ctx;
	c->state = PEERDMA_COMPONENT_UNKNOWN;
	component_why(c, "decided per allocation: CUDA exports it as a dma-buf (cuMemGetHandleForAddressRange), if the GPU, "
		      "its driver (NVIDIA: the open kernel modules) and this kind of memory have dma-bufs");
}

static int export(uint64_t from, uint64_t length, int *fd)
{
	int error = 0, ret = dmabuf_ready();

	if (!ret && cuda_dmabuf(from, length, fd, &error) != CUDA_KNOWN)
		ret = cuda_dmabuf_error(error);
	return ret;
}

/*
 * Some drivers export memory only from the start of an allocation on. For these the dma-buf begins
 * there: changes *from.
 */
static int export_from(const struct peerdma_region *region, uint64_t *from, uint64_t to, int *fd)
{
	int ret = export(*from, to - *from, fd);
	uint64_t base, size;

	if (ret != -ENXIO || cuda_range(region->addr, &base, &size) != CUDA_KNOWN)
		return ret;
	base &= ~(page_size() - 1);
	if (base >= *from)
		return ret;
	ret = export(base, to - base, fd);
	if (!ret)
		*from = base;
	return ret;
}

static int fail_freed(int *fd)
{
	close(*fd);
	*fd = -1;
	return fail(-ESTALE, "the memory was freed meanwhile");
}

/* Checks the memory. One dma-buf may span several adjacent allocations. */
static int check_memory(struct peerdma_region *region)
{
	int ret;

	if (region->flags & PEERDMA_HOST)
		return fail(-ENXIO, "has no host memory");
	ret = allocations_find(region, NULL);
	for (size_t i = 0; !ret && i < region->allocation_count; i++) {
		const struct allocation *piece = &region->allocations[i];

		if (piece->kind == PEERDMA_KIND_MANAGED)
			ret = fail(-ENXIO, "does not pin managed memory");
		else if (!piece->id)
			ret = fail(-ENXIO, "this is not CUDA memory");
	}
	return ret;
}

static int dmabuf_pin(struct peerdma_region *region)
{
	uint64_t from = region->addr & ~(page_size() - 1);
	uint64_t to = (region->addr + region->length + page_size() - 1) & ~(page_size() - 1);
	int ret = check_memory(region), fd;

	if (!ret)
		ret = export_from(region, &from, to, &fd);
	if (ret)
		return ret;
	/* Check that the allocations are the same as before the export. */
	if (!allocations_valid(region, region->addr, region->length))
		return fail_freed(&fd);
	region->dmabuf = own_fd(fd);
	region->offset = region->addr - from;
	region->pinned_length = to - from;
	region->page_size = (uint32_t)page_size();
	region->provider = "cuda";
	region->validity.slot = &region->word;
	region->validity.generation = 1;
	if (region->flags & PEERDMA_PERSISTENT) {
		region->validity.generation = 0;
		region->ends = ENDS_NEVER;
	}
	return 0;
}

static int dmabuf_unpin(struct peerdma_region *region)
{
	own_fd_close(&region->dmabuf);
	return 0;
}

static int dmabuf_status(struct peerdma_region *region, struct peerdma_status *status)
{
	(void)region;
	status->flags |= PEERDMA_DEVICE;
	return 0;
}

/* A driver's mmap() may return an errno that only the kernel defines. */
static int no_view(const struct peerdma_region *region, int error)
{
	char what[160];

	if (error == -ENOMEM)
		return fail(error, "peerdma_cpu_view: no memory or address space for it");
	snprintf(what, sizeof(what),
		 "view for the CPU: the GPU's driver does not allow its dma-bufs to be mapped (%s)",
		 error_words(error));
	return backend_cannot(region, "peerdma_cpu_view", what);
}

static int dmabuf_view(struct peerdma_region *region, bool writable, void **base)
{
	void *p;

	if (!own_fd_still(&region->dmabuf))
		return fail(-EBADF,
			    "peerdma_cpu_view: the program has closed the region's descriptor; unpin the memory, and pin it again");
	p = mmap(NULL, region->pinned_length, writable ? PROT_READ | PROT_WRITE : PROT_READ,
		 MAP_SHARED, region->dmabuf.fd, 0);
	if (p == MAP_FAILED)
		return no_view(region, -errno);
	madvise(p, region->pinned_length, MADV_DONTFORK);
	*base = p;
	return 0;
}

static void dmabuf_view_end(struct peerdma_region *region, void *base)
{
	munmap(base, region->pinned_length);
}

/*
 * Whether the memory is still valid. A cache's region may be partly freed, so for it only the
 * exported part is checked.
 */
static bool part_still(const struct peerdma_region *region, uint64_t from, uint64_t length)
{
	return region_usable(region) &&
	       (!region->cached || allocations_valid(region, from, length));
}

static int dmabuf_export(struct peerdma_region *region, uint64_t offset, uint64_t length, int *fd)
{
	int ret;

	if (!offset && (!length || length == region->pinned_length)) {
		if (!own_fd_still(&region->dmabuf))
			return fail(-EBADF, "peerdma_export_dmabuf: the program has closed the region's descriptor; unpin the memory, and pin "
				    "it again");
		ret = fcntl(region->dmabuf.fd, F_DUPFD_CLOEXEC, 0);
		if (ret < 0)
			return fail(-errno, "peerdma_export_dmabuf: %s", strerror(errno));
		*fd = ret;
		return 0;
	}
	ret = check_export(region, offset, length);
	if (ret)
		return ret;
	if (region->ends == ENDS_NEVER)
		return fail(-EOPNOTSUPP, "peerdma_export_dmabuf: back-end 'dmabuf' cannot export a part of persistent memory");
	ret = export(region->addr - region->offset + offset, length, fd);
	if (!ret && !part_still(region, region->addr - region->offset + offset, length))
		ret = fail_freed(fd);
	return ret ? fail(ret, "peerdma_export_dmabuf: %s", peerdma_last_error()) : 0;
}

const struct backend backend_dmabuf = {
	.name = "dmabuf",
	.ends = ENDS_UNREPORTED,
	.one_allocation = true,
	.direct = true,
	.ready = dmabuf_ready,
	.describe = dmabuf_describe,
	.pin = dmabuf_pin,
	.unpin = dmabuf_unpin,
	.status = dmabuf_status,
	.view = dmabuf_view,
	.view_end = dmabuf_view_end,
	.export = dmabuf_export,
};
