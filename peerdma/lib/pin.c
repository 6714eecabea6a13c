// SPDX-License-Identifier: MIT
/*
 * pin.c - regions: peerdma_pin(), peerdma_unpin(), peerdma_status().
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

_Static_assert(PEERDMA_HOST == PEERDMA_PIN_HOST && PEERDMA_DEVICE == PEERDMA_PIN_DEVICE &&
	       PEERDMA_PERSISTENT == PEERDMA_PIN_PERSISTENT && PEERDMA_READONLY == PEERDMA_PIN_READONLY,
	       "the library's pin flags are the kernel's");
_Static_assert(sizeof(((struct peerdma_status *)0)->provider) == PEERDMA_PROVIDER_NAME, "provider");

#define KERNEL_FLAGS (PEERDMA_HOST | PEERDMA_DEVICE | PEERDMA_PERSISTENT | PEERDMA_READONLY)

int by_handle(const void *a, const void *b)
{
	uint32_t x = ((const struct peerdma_region *)a)->handle;
	uint32_t y = ((const struct peerdma_region *)b)->handle;

	return (x > y) - (x < y);
}

static const char *remedy(int error, unsigned int flags)
{
	switch (error) {
	case -EINVAL:
		return "give one of PEERDMA_HOST and PEERDMA_DEVICE or neither, and a length above 0 that does not wrap";
	case -ENXIO:
		return "no provider knows it as its memory, or the range spans allocations; "
		       "check it with peerdma_query(), and that the provider's module is loaded (e.g. 'modprobe peerdma_nvidia')";
	case -EFAULT:
		return "part of the range has no memory behind it, or is read-only (then PEERDMA_READONLY)";
	case -ENOMEM:
		return flags & PEERDMA_DEVICE ? "the kernel or the GPU's driver is out of memory" :
		       "the locked-memory limit ('ulimit -l', RLIMIT_MEMLOCK) or the kernel's memory is used up";
	case -ENOSPC:
		return "the GPU's aperture (BAR1) is full; 'peerdma bar1' shows who holds it";
	case -EOPNOTSUPP:
		return flags & PEERDMA_PERSISTENT ? "its provider has no persistent pins" :
		       "its provider cannot pin this memory";
	case -EMFILE:
		return "this context holds as many pins as the kernel allows; unpin some, or open another context";
	case -ESTALE:
		return "the memory was freed meanwhile";
	default:
		return strerror(-error);
	}
}

int unpin_handle(struct peerdma *ctx, uint32_t handle)
{
	struct peerdma_handle_args args = { .size = sizeof(args), .handle = handle };

	return sys_ioctl(ctx->fd, PEERDMA_UNPIN, &args);
}

/* Only this process's side: the kernel has ended the pin, or will when the file is closed. */
void region_free(struct peerdma_region *region)
{
	views_free(region);
	mappings_free(region);
	free(region);
}

static int region_publish(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;
	bool ok;

	pthread_mutex_lock(&ctx->lock);
	ok = tsearch(region, &ctx->by_handle, by_handle);
	if (ok) {
		region->next = ctx->regions;
		if (region->next)
			region->next->prev = region;
		ctx->regions = region;
	}
	pthread_mutex_unlock(&ctx->lock);
	return ok ? 0 : -ENOMEM;
}

static void region_unpublish(struct peerdma_region *region)
{
	struct peerdma *ctx = region->ctx;

	tdelete(region, &ctx->by_handle, by_handle);
	if (region->next)
		region->next->prev = region->prev;
	if (region->prev)
		region->prev->next = region->next;
	else
		ctx->regions = region->next;
}

/* After the pin: memory freed and allocated anew in between has revoked the pin, so the new one is never taken for it. */
static int set_sync_memops(struct peerdma_region *region, const void *ptr)
{
	struct peerdma_status status = { .size = sizeof(status) };
	int ret, error = 0;

	ret = peerdma_status(region, &status);
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

EXPORT int peerdma_pin(struct peerdma *ctx, void *ptr, size_t length, unsigned int flags,
		       void *cookie, struct peerdma_region **out)
{
	struct peerdma_pin_args args = {
		.size = sizeof(args),
		.flags = flags & KERNEL_FLAGS,
		.addr = (uintptr_t)ptr,
		.length = length,
	};
	struct peerdma_region *region;
	int ret = check_owner(ctx, "peerdma_pin");

	if (ret)
		return ret;
	if (flags & ~(KERNEL_FLAGS | PEERDMA_NO_SYNC_MEMOPS))
		return fail(-EINVAL, "peerdma_pin: unknown flags 0x%x", flags & ~(KERNEL_FLAGS | PEERDMA_NO_SYNC_MEMOPS));

	region = calloc(1, sizeof(*region));
	if (!region)
		return fail(-ENOMEM, "peerdma_pin: out of memory");
	ret = sys_ioctl(ctx->fd, PEERDMA_PIN, &args);
	if (ret) {
		fail(ret, "peerdma_pin: [%p, +%zu): %s", ptr, length, remedy(ret, flags));
		goto err_free;
	}

	region->validity.slot = ctx->generations + args.slot;
	region->validity.generation = args.generation;
	region->ctx = ctx;
	region->cookie = cookie;
	region->addr = args.addr;
	region->length = args.length;
	region->offset = args.offset;
	region->pinned_length = args.pinned_length;
	region->handle = args.handle;
	region->slot = args.slot;
	region->flags = flags;

	if (!(flags & (PEERDMA_HOST | PEERDMA_NO_SYNC_MEMOPS))) {
		ret = set_sync_memops(region, ptr);
		if (ret)
			goto err_unpin;
	}
	ret = region_publish(region);
	if (ret) {
		fail(ret, "peerdma_pin: out of memory");
		goto err_unpin;
	}
	*out = region;
	return 0;

err_unpin:
	unpin_handle(ctx, args.handle);
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
	int ret;

	if (!region)
		return 0;
	ctx = region->ctx;
	if (ctx->process != process_id()) {	/* a child: one thread, and the pin is the parent's */
		region_unpublish(region);
		region_free(region);
		return 0;
	}

	pthread_mutex_lock(&ctx->lock);
	region_unpublish(region);
	pthread_mutex_unlock(&ctx->lock);
	ret = unpin_handle(ctx, region->handle);
	if (ret) {
		if (region_publish(region))
			return fail(ret, "peerdma_unpin: pin %u: %s; its revocation will not be told, out of memory",
				    region->handle, strerror(-ret));
		return fail(ret, "peerdma_unpin: pin %u: %s", region->handle, strerror(-ret));
	}
	region_free(region);
	return 0;
}

EXPORT int peerdma_status(struct peerdma_region *region, struct peerdma_status *out)
{
	struct peerdma_query_args args = { .size = sizeof(args), .handle = region->handle };
	struct peerdma_status status;
	int ret = check_owner(region->ctx, "peerdma_status");

	if (!ret)
		ret = check_size("peerdma_status", out->size, STATUS_FIRST);
	if (ret)
		return ret;
	ret = sys_ioctl(region->ctx->fd, PEERDMA_QUERY, &args);
	if (ret)
		return fail(ret, "peerdma_status: pin %u: %s", region->handle, strerror(-ret));

	memset(&status, 0, sizeof(status));
	status.size = out->size;
	status.state = args.state;
	status.flags = args.flags;
	status.page_size = 1U << args.page_shift;
	status.addr = args.addr;
	status.length = args.length;
	status.pinned_addr = args.addr - region->offset;
	status.pinned_length = args.pinned_length;
	status.mappings = args.mappings;
	status.views = args.cpu_views;
	status.exports = args.exports;
	status.sync_memops = region->sync_memops;
	memcpy(status.provider, args.provider, sizeof(status.provider));
	status.provider[sizeof(status.provider) - 1] = 0;
	put_out(out, &status, sizeof(status));
	return 0;
}
