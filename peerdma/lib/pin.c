// SPDX-License-Identifier: MIT
/*
 * pin.c - regions: peerdma_pin(), peerdma_unpin(), peerdma_status().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

#define PIN_FLAGS (PEERDMA_HOST | PEERDMA_DEVICE | PEERDMA_PERSISTENT | PEERDMA_READONLY | PEERDMA_NO_SYNC_MEMOPS | \
		   PEERDMA_DIRECT | PEERDMA_STAGING)

/* Only this process's side: the back-end has ended the pin, or will when it is closed. */
void region_free(struct peerdma_region *region)
{
	views_free(region);
	mappings_free(region);
	mrs_free(region);
	if (region->backend->forget && region->ctx->process != process_id())
		region->backend->forget(region);
	free(region);
}

/*
 * fresh: the caller of peerdma_pin() has not seen it yet.  The kernel may have told
 * of its revocation already, and if somebody has read that it meant nobody; but then
 * the generation is over as well.
 */
static int region_publish(struct peerdma_region *region, bool fresh)
{
	struct peerdma *ctx = region->ctx;
	int ret = 0;

	pthread_mutex_lock(&ctx->lock);
	if (region->backend == &backend_kernel) {
		if (!kernel_region_add(region)) {
			ret = -ENOMEM;
		} else if (fresh && !peerdma_valid(region)) {
			kernel_region_remove(region);
			ret = -ESTALE;
		}
	}
	if (!ret) {
		region->prev = NULL;
		region->next = ctx->regions;
		if (region->next)
			region->next->prev = region;
		ctx->regions = region;
		region->published = true;
		told_add(region);
		if (region->revoked)	/* before the caller had it */
			notice_put(region);
	}
	pthread_mutex_unlock(&ctx->lock);
	return ret;
}

static void region_unpublish(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;

	told_remove(region);
	if (region->backend == &backend_kernel)
		kernel_region_remove(region);
	if (region->next)
		region->next->prev = region->prev;
	if (region->prev)
		region->prev->next = region->next;
	else
		ctx->regions = region->next;
	region->published = false;
	notice_forget(region);
}

bool region_still(const struct peerdma_region *region)
{
	return region->by_id ? cuda_has_id(region->addr, region->buffer_id) : peerdma_valid(region);
}

/* What the library itself knows of it; mappings and views are counted under the lock. */
static void status_own(struct peerdma_region *region, struct peerdma_status *status)
{
	status->state = __atomic_load_n(&region->revoked, __ATOMIC_ACQUIRE) ? PEERDMA_STATE_REVOKED : PEERDMA_STATE_LIVE;
	status->flags = region->flags & ~(PEERDMA_NO_SYNC_MEMOPS | PEERDMA_DIRECT | PEERDMA_STAGING);
	status->page_size = region->page_size;
	status->addr = region->addr;
	status->length = region->length;
	status->pinned_addr = region->addr - region->offset;
	status->pinned_length = region->pinned_length;
	pthread_mutex_lock(&region->ctx->lock);
	for (const struct peerdma_mapping *m = region->mappings; m; m = m->next)
		status->mappings++;
	for (const struct view *v = region->views; v; v = v->next)
		status->views++;
	pthread_mutex_unlock(&region->ctx->lock);
	if (region->provider)
		strncpy(status->provider, region->provider, sizeof(status->provider) - 1);
}

int region_status(struct peerdma_region *region, struct peerdma_status *status)
{
	status_own(region, status);
	status->sync_memops = region->sync_memops;
	status->direct = region->backend->direct;
	status->by_id = region->by_id;
	strncpy(status->backend, region->backend->name, sizeof(status->backend) - 1);
	return region->backend->status ? region->backend->status(region, status) : 0;
}

/* After the pin: memory freed and allocated anew in between has revoked the pin, so the new one is never taken for it. */
static int set_sync_memops(struct peerdma_region *region, const void *ptr)
{
	struct peerdma_status status = { .size = sizeof(status) };
	int ret, error = 0;

	ret = region_status(region, &status);
	if (ret)
		return ret;
	if (status.flags & PEERDMA_HOST)
		return 0;
	switch (cuda_set_sync_memops(ptr, &error)) {
	case CUDA_KNOWN:
		region->sync_memops = true;
		return 0;
	case CUDA_ABSENT:	/* a GPU's memory without CUDA, or that cannot have it: the status says so */
		return 0;
	case CUDA_UNKNOWN:
		if (!peerdma_valid(region))
			return fail(-ESTALE, "peerdma_pin: [%p, +%llu): freed during the call", ptr,
				    (unsigned long long)region->length);
		return 0;	/* the memory of a provider that is not CUDA's */
	default:
		return fail(-EIO, "peerdma_pin: cuPointerSetAttribute(SYNC_MEMOPS, %p) failed with CUDA error %d; "
			    "without it devices may read stale data; PEERDMA_NO_SYNC_MEMOPS pins all the same",
			    ptr, error);
	}
}

int region_pin(struct peerdma *ctx, void *ptr, size_t length, unsigned int flags, void *cookie, bool cached,
	       struct peerdma_region **out)
{
	struct peerdma_region *region;
	int ret = check_owner(ctx, "peerdma_pin");

	if (ret)
		return ret;
	if (flags & ~PIN_FLAGS)
		return fail(-EINVAL, "peerdma_pin: unknown flags 0x%x", flags & ~PIN_FLAGS);
	if ((flags & PEERDMA_HOST && flags & PEERDMA_DEVICE) || !length || (uintptr_t)ptr + (length - 1) < (uintptr_t)ptr)
		return fail(-EINVAL, "peerdma_pin: [%p, +%zu), flags 0x%x: give one of PEERDMA_HOST and PEERDMA_DEVICE or neither, "
			    "and a length above 0 that does not wrap", ptr, length, flags);

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
		ret = set_sync_memops(region, ptr);
		if (ret)
			goto err_unpin;
	}
	ret = region_publish(region, true);
	if (ret) {
		fail(ret, "peerdma_pin: [%p, +%zu): %s", ptr, length, ret == -ESTALE ? "freed during the call" : "out of memory");
		goto err_unpin;
	}
	*out = region;
	return 0;

err_unpin:
	region->backend->unpin(region);
err_free:
	free(region);
	return ret;
}

EXPORT int peerdma_pin(struct peerdma *ctx, void *ptr, size_t length, unsigned int flags,
		       void *cookie, struct peerdma_region **out)
{
	return region_pin(ctx, ptr, length, flags, cookie, false, out);
}

EXPORT int peerdma_pin_dmabuf(struct peerdma *ctx, int fd, uint64_t offset, uint64_t length, unsigned int flags,
			      void *cookie, struct peerdma_region **out)
{
	struct peerdma_region *region;
	int ret = check_owner(ctx, "peerdma_pin_dmabuf");

	if (ret)
		return ret;
	if (flags & ~PEERDMA_READONLY)
		return fail(-EINVAL, "peerdma_pin_dmabuf: flags 0x%x: 0 or PEERDMA_READONLY", flags);
	if (ctx->kernel.fd < 0)
		return fail(-ENODEV, "peerdma_pin_dmabuf: only the kernel module can, and this context does without: "
			    "load it, and let PEERDMA_PROVIDER, if it is set, name 'kernel'");
	region = calloc(1, sizeof(*region));
	if (!region)
		return fail(-ENOMEM, "peerdma_pin_dmabuf: out of memory");
	region->ctx = ctx;
	region->backend = &backend_kernel;
	region->cookie = cookie;
	region->addr = offset;
	region->length = length;
	region->flags = flags | PEERDMA_DEVICE;
	region->imported = true;
	ret = kernel_pin_dmabuf(region, fd);
	if (ret) {
		char why[256];

		snprintf(why, sizeof(why), "%s", peerdma_last_error());
		fail(ret, "peerdma_pin_dmabuf: %s", why);
		goto err_free;
	}
	ret = region_publish(region, true);
	if (ret) {
		fail(ret, "peerdma_pin_dmabuf: %s", ret == -ESTALE ? "taken away during the call" : "out of memory");
		backend_kernel.unpin(region);
		goto err_free;
	}
	*out = region;
	return 0;

err_free:
	free(region);
	return ret;
}

/*
 * The region leaves the tree before its handle is given back: the kernel may
 * hand the same number to another thread's pin at once.
 */
EXPORT int peerdma_unpin(struct peerdma_region *region)
{
	struct peerdma *ctx;
	char why[128];
	int ret;

	if (!region)
		return 0;
	ctx = region->ctx;
	if (ctx->process != process_id()) {	/* a child: one thread, and the pin is the parent's */
		region_unpublish(region);
		region_free(region);
		return 0;
	}

	/* They hold the memory, so they go first. */
	ret = mrs_end(region, false);
	if (ret) {
		snprintf(why, sizeof(why), "%s", peerdma_last_error());
		return fail(ret, "peerdma_unpin: %s", why);
	}
	pthread_mutex_lock(&ctx->lock);
	region_unpublish(region);
	pthread_mutex_unlock(&ctx->lock);
	ret = region->backend->unpin(region);
	if (ret) {
		snprintf(why, sizeof(why), "%s", peerdma_last_error());
		if (region_publish(region, false))
			return fail(ret, "peerdma_unpin: %s; its revocation will not be told, out of memory", why);
		return fail(ret, "peerdma_unpin: %s", why);
	}
	region_free(region);
	return 0;
}

EXPORT int peerdma_status(struct peerdma_region *region, struct peerdma_status *out)
{
	struct peerdma_status status = { .size = out->size };
	int ret = check_owner(region->ctx, "peerdma_status");

	if (!ret)
		ret = check_size("peerdma_status", out->size, STATUS_FIRST);
	if (!ret)
		ret = region_status(region, &status);
	if (!ret)
		put_out(out, &status, sizeof(status));
	return ret;
}
