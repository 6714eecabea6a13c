// SPDX-License-Identifier: MIT
/* pin.c - makes and ends regions: peerdma_pin(), peerdma_unpin(). */
#include <stdlib.h>

#include "backend.h"

#define PIN_FLAGS (PEERDMA_HOST | PEERDMA_DEVICE | PEERDMA_PERSISTENT | PEERDMA_READONLY | \
		   PEERDMA_NO_SYNC_MEMOPS | PEERDMA_DIRECT | PEERDMA_STAGING)

/*
 * Frees this process's objects only. The back-end has ended the pin, or ends it at the context's
 * close.
 */
void region_free(struct peerdma_region *region)
{
	views_free(region);
	mappings_free(region);
	mrs_free(region);
	if (region->backend->forget && !is_owner(region->ctx))
		region->backend->forget(region);
	for (size_t i = 0; i < region->segment_count; i++)
		region_free(region->segments[i]);
	free(region->segments);
	free(region->words);
	free(region->allocations);
	free(region);
}

/*
 * Removes the first n pins from the back-end's list, by which it finds regions for its events. Each
 * segment is a pin.
 */
static void unlist_pins(struct peerdma_region *region, size_t n)
{
	struct peerdma_region *const *pins = peerdma_segments(region, &(size_t){ 0 });
	const struct backend *backend = pinned_by(region);

	while (backend->unlist && n--) {
		if (!pins[n]->ended)
			backend->unlist(pins[n]);
	}
}

static int list_pins(struct peerdma_region *region, size_t *n)
{
	const struct backend *backend = pinned_by(region);
	struct peerdma_region *const *pins;
	size_t count;

	pins = peerdma_segments(region, &count);
	for (*n = 0; backend->list && *n < count; ++*n) {
		if (!pins[*n]->ended && !backend->list(pins[*n]))
			return -ENOMEM;
	}
	return 0;
}

/*
 * fresh: peerdma_pin() has not returned the region yet. The kernel may already have revoked it. A
 * thread that read this event did not find the region in the list. But then the region's generation
 * is no longer valid, which this function checks.
 */
static int region_publish(struct peerdma_region *region, bool fresh)
{
	struct peerdma *ctx = region->ctx;
	size_t n;
	int ret;

	pthread_mutex_lock(&ctx->lock);
	region->one = region;
	ret = list_pins(region, &n);
	if (!ret && fresh && pinned_by(region)->list && !peerdma_valid(region))
		ret = -ESTALE;
	if (ret) {
		unlist_pins(region, n);
	} else {
		region->prev = NULL;
		region->next = ctx->regions;
		if (region->next)
			region->next->prev = region;
		LIST_STORE(&ctx->regions, region);
		region->published = true;
		hook_frees_add(region);
		if (region->revoked)	/* revoked before peerdma_pin() returned it */
			event_queue_add(region);
	}
	pthread_mutex_unlock(&ctx->lock);
	return ret;
}

static void region_unpublish(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;
	size_t n;

	hook_frees_remove(region);
	peerdma_segments(region, &n);
	unlist_pins(region, n);
	if (region->next)
		region->next->prev = region->prev;
	if (region->prev)
		region->prev->next = region->next;
	else
		ctx->regions = region->next;
	region->published = false;
	event_queue_remove(region);
}

static int set_on_one(struct peerdma_region *region, uint64_t addr)
{
	int error = 0;

	switch (cuda_set_sync_memops((void *)(uintptr_t)addr, &error)) {
	case CUDA_KNOWN:
		region->sync_memops = true;
		return 0;
	/* GPU memory without CUDA, or without this attribute: status.sync_memops is 0 */
	case CUDA_ABSENT:
		return 0;
	case CUDA_UNKNOWN:
		if (!peerdma_valid(region))
			return fail(-ESTALE, "peerdma_pin: [%p, +%llu): freed during the call",
				    (void *)(uintptr_t)region->addr,
				    (unsigned long long)region->length);
		return 0;	/* memory of another vendor's provider */
	default:
		return fail(-EIO, "peerdma_pin: cuPointerSetAttribute(SYNC_MEMOPS, %p) failed with CUDA error %d; "
			    "without it devices may read stale data; PEERDMA_NO_SYNC_MEMOPS pins all the same",
			    (void *)(uintptr_t)addr, error);
	}
}

/*
 * Sets the attribute on each allocation, after the pin. If the memory was freed and allocated again
 * before, this has revoked the pin. So the new allocation is never taken for the pinned one.
 */
static int set_sync_memops(struct peerdma_region *region)
{
	struct peerdma_status status = { .size = sizeof(status) };
	int ret;

	if (region->backend->host)
		return 0;
	ret = region_facts(region, &status);
	if (ret || status.flags & PEERDMA_HOST)
		return ret;
	ret = set_on_one(region, region->addr);
	for (size_t i = 1; !ret && i < region->allocation_count; i++)
		ret = set_on_one(region, region->allocations[i].addr);
	return ret;
}

int region_pin(struct peerdma *ctx, void *ptr, size_t length, unsigned int flags, void *cookie,
	       bool cached, struct peerdma_region **out)
{
	struct peerdma_region *region;
	int ret = check_given("peerdma_pin", "ctx", ctx, "region", out, NULL);

	if (!ret)
		ret = check_owner(ctx, "peerdma_pin");
	if (!ret)
		ret = check_range("peerdma_pin", (uintptr_t)ptr, length);
	if (ret)
		return ret;
	if (flags & ~PIN_FLAGS)
		return fail(-EINVAL, "peerdma_pin: unknown flags 0x%x", flags & ~PIN_FLAGS);
	if (flags & PEERDMA_HOST && flags & (PEERDMA_STAGING | PEERDMA_NO_SYNC_MEMOPS))
		return fail(-EINVAL, "peerdma_pin: flags 0x%x: PEERDMA_STAGING and PEERDMA_NO_SYNC_MEMOPS are for GPU memory, not with "
			    "PEERDMA_HOST", flags);
	if (flags & PEERDMA_HOST && flags & PEERDMA_DEVICE)
		return fail(-EINVAL, "peerdma_pin: flags 0x%x: memory is not both; give PEERDMA_HOST, PEERDMA_DEVICE or neither", flags);

	region = calloc(1, sizeof(*region));
	if (!region)
		return fail(-ENOMEM, "peerdma_pin: out of memory");
	region->ctx = ctx;
	region->cookie = cookie;
	region->addr = (uintptr_t)ptr;
	region->length = length;
	region->flags = flags;
	region->cached = cached;
	ret = backends_pin(region);
	if (ret)
		goto err_free;

	if (!(flags & (PEERDMA_HOST | PEERDMA_NO_SYNC_MEMOPS))) {
		ret = set_sync_memops(region);
		if (ret)
			goto err_unpin;
	}
	ret = region_publish(region, true);
	if (ret) {
		fail(ret, "peerdma_pin: [%p, +%zu): %s", ptr, length,
		     ret == -ESTALE ? "freed during the call" : "out of memory");
		goto err_unpin;
	}
	*out = region;
	return 0;

err_unpin:
	region->backend->unpin(region);
	region_free(region);
	return ret;
err_free:
	free(region->allocations);
	free(region);
	return ret;
}

EXPORT int peerdma_pin(struct peerdma *ctx, void *ptr, size_t length, unsigned int flags,
		       void *cookie, struct peerdma_region **out)
{
	return region_pin(ctx, ptr, length, flags, cookie, false, out);
}

int region_pin_dmabuf(struct peerdma *ctx, int fd, uint64_t offset, uint64_t length,
		      unsigned int flags, void *cookie, bool cached, struct peerdma_region **out)
{
	struct peerdma_region *region;
	int ret = check_given("peerdma_pin_dmabuf", "ctx", ctx, "region", out, NULL);

	if (!ret)
		ret = check_owner(ctx, "peerdma_pin_dmabuf");
	if (ret)
		return ret;
	if (flags & ~PEERDMA_READONLY)
		return fail(-EINVAL, "peerdma_pin_dmabuf: flags 0x%x: give 0 or PEERDMA_READONLY",
			    flags);
	if (offset + length < offset)
		return fail(-EINVAL, "peerdma_pin_dmabuf: [%llu, +%llu) is not in any dma-buf; lseek(fd, 0, SEEK_END) returns its length",
			    (unsigned long long)offset, (unsigned long long)length);
	if (fd < 0)
		return fail(-EBADF, "peerdma_pin_dmabuf: descriptor %d is no dma-buf", fd);
	if (ctx->kernel.fd < 0)
		return fail(-ENODEV, "peerdma_pin_dmabuf: only back-end 'kernel' pins dma-bufs, and this context does not have it: "
			    "load peerdma.ko and, if PEERDMA_PROVIDER is set, name 'kernel' in it");
	region = calloc(1, sizeof(*region));
	if (!region)
		return fail(-ENOMEM, "peerdma_pin_dmabuf: out of memory");
	region->ctx = ctx;
	region_set_backend(region, &backend_kernel);
	region->cookie = cookie;
	region->addr = offset;
	region->length = length;
	region->flags = flags | PEERDMA_DEVICE;
	region->imported = true;
	region->cached = cached;
	ret = kernel_pin_dmabuf(region, fd);
	if (ret) {
		fail(ret, "peerdma_pin_dmabuf: %s", peerdma_last_error());
		goto err_free;
	}
	ret = region_publish(region, true);
	if (ret) {
		fail(ret, "peerdma_pin_dmabuf: %s",
		     ret == -ESTALE ? "taken away during the call" : "out of memory");
		backend_kernel.unpin(region);
		goto err_free;
	}
	*out = region;
	return 0;

err_free:
	free(region);
	return ret;
}

EXPORT int peerdma_pin_dmabuf(struct peerdma *ctx, int fd, uint64_t offset, uint64_t length,
			      unsigned int flags, void *cookie, struct peerdma_region **out)
{
	return region_pin_dmabuf(ctx, fd, offset, length, flags, cookie, false, out);
}

/*
 * Removes the region from the back-end's list before the handle is released, because the kernel may
 * give the same handle to another thread's pin at once.
 */
EXPORT int peerdma_unpin(struct peerdma_region *region)
{
	struct peerdma *ctx;
	int ret;

	if (!region)
		return 0;
	ctx = region->ctx;
	if (region->whole)
		return fail(-EINVAL,
			    "peerdma_unpin: this is a segment of a region; unpin the region");
	if (!is_owner(ctx))	/* the pin belongs to the parent */
		return 0;

	/* MRs use the memory, so they end first. */
	ret = mrs_end(region, false);
	if (ret)
		return fail(ret, "peerdma_unpin: %s", peerdma_last_error());
	pthread_mutex_lock(&ctx->lock);
	region_unpublish(region);
	pthread_mutex_unlock(&ctx->lock);
	ret = region->backend->unpin(region);
	if (ret) {
		fail(ret, "peerdma_unpin: %s", peerdma_last_error());
		if (!region_publish(region, false))
			return ret;
		return fail(ret,
			    "%s; and out of memory, so that its revocation will not be reported",
			    peerdma_last_error());
	}
	region_free(region);
	return 0;
}
