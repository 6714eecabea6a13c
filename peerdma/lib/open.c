// SPDX-License-Identifier: MIT
/*
 * open.c - contexts: peerdma_open(), peerdma_close().
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

#define DEVICE "/dev/peerdma"

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
			    "join the group that 'ls -l " DEVICE "' shows, or run as root");
	default:
		return fail(error, DEVICE ": cannot open: %s", strerror(-error));
	}
}

static int check_abi(int fd)
{
	struct peerdma_info info = { .size = sizeof(info) };
	int ret = sys_ioctl(fd, PEERDMA_INFO, &info);

	if (ret)
		return fail(-EPROTO, DEVICE ": does not answer as peerdma.ko does (%s); "
			    "install the module that belongs to libpeerdma %s", strerror(-ret), peerdma_version());
	if (info.abi != PEERDMA_ABI)
		return fail(-EPROTO, DEVICE ": the module speaks ABI %u, libpeerdma %s speaks %u; "
			    "install both from the same release", info.abi, peerdma_version(), PEERDMA_ABI);
	return 0;
}

EXPORT int peerdma_open(struct peerdma **out, unsigned int flags)
{
	struct peerdma *ctx;
	void *generations;
	int ret;

	if (flags & ~PEERDMA_OPEN_CUDA)
		return fail(-EINVAL, "peerdma_open: unknown flags 0x%x", flags);
	if (flags & PEERDMA_OPEN_CUDA) {
		ret = cuda_load();
		if (ret)
			return ret;
	}

	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return fail(-ENOMEM, "peerdma_open: out of memory");
	pthread_mutex_init(&ctx->lock, NULL);
	ctx->process = process_id();

	ctx->fd = sys_open(DEVICE);
	if (ctx->fd < 0) {
		ret = open_failed(ctx->fd);
		goto err_free;
	}
	ret = check_abi(ctx->fd);
	if (ret)
		goto err_close;
	ctx->generations_size = PEERDMA_MMAP_GENERATIONS_SIZE;
	ret = sys_mmap(ctx->fd, PEERDMA_MMAP_GENERATIONS, ctx->generations_size, PROT_READ, &generations);
	if (ret) {
		ret = fail(ret, DEVICE ": cannot map the generation page: %s", strerror(-ret));
		goto err_close;
	}
	ctx->generations = generations;
	*out = ctx;
	return 0;

err_close:
	sys_close(ctx->fd);
err_free:
	pthread_mutex_destroy(&ctx->lock);
	free(ctx);
	return ret;
}

static void ignore(void *node)
{
	(void)node;	/* the tree does not own the regions */
}

/*
 * Pins are ended one by one, not left to the last close of the file: a forked
 * child may have it open still.  In such a child only the child's copies go.
 * The lock is not taken: the caller is the last user, and a child may have
 * inherited it locked by a thread that it does not have.
 */
EXPORT void peerdma_close(struct peerdma *ctx)
{
	struct peerdma_region *region;
	bool owner;

	if (!ctx)
		return;
	owner = ctx->process == process_id();
	while ((region = ctx->regions)) {
		ctx->regions = region->next;
		if (owner)
			unpin_handle(ctx, region->handle);	/* -EBUSY: the last close waits for it */
		region_free(region);
	}
	tdestroy(ctx->by_handle, ignore);
	sys_munmap((void *)ctx->generations, ctx->generations_size);
	sys_close(ctx->fd);
	if (owner)
		pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}
