// SPDX-License-Identifier: MIT
/*
 * view.c - the CPU's view of a pin.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

static int view_failed(int error)
{
	switch (error) {
	case -EOPNOTSUPP:
		return fail(error, "peerdma_cpu_view: the CPU cannot reach this provider's memory");
	case -ESTALE:
		return fail(error, "peerdma_cpu_view: the pin is revoked, its memory was freed");
	default:
		return fail(error, "peerdma_cpu_view: cannot map the pin: %s", strerror(-error));
	}
}

EXPORT int peerdma_cpu_view(struct peerdma_region *region, void **addr)
{
	struct view *view;
	void *base;
	int prot = region->flags & PEERDMA_READONLY ? PROT_READ : PROT_READ | PROT_WRITE;
	int ret = check_owner(region->ctx, "peerdma_cpu_view");

	if (ret)
		return ret;
	view = malloc(sizeof(*view));
	if (!view)
		return fail(-ENOMEM, "peerdma_cpu_view: out of memory");
	ret = sys_mmap(region->ctx->fd, PEERDMA_MMAP_PIN(region->handle), region->pinned_length, prot, &base);
	if (ret) {
		free(view);
		return view_failed(ret);
	}
	sys_dont_fork(base, region->pinned_length);
	view->base = base;

	pthread_mutex_lock(&region->ctx->lock);
	view->next = region->views;
	region->views = view;
	pthread_mutex_unlock(&region->ctx->lock);
	*addr = view->base + region->offset;
	return 0;
}

EXPORT int peerdma_cpu_view_end(struct peerdma_region *region, void *addr)
{
	struct view **p, *view = NULL;
	int ret = check_owner(region->ctx, "peerdma_cpu_view_end");

	if (ret)
		return ret;
	pthread_mutex_lock(&region->ctx->lock);
	for (p = &region->views; *p; p = &(*p)->next) {
		if ((*p)->base + region->offset == addr) {
			view = *p;
			*p = view->next;
			break;
		}
	}
	pthread_mutex_unlock(&region->ctx->lock);
	if (!view)
		return fail(-EINVAL, "peerdma_cpu_view_end: %p is not a view of this region; give what peerdma_cpu_view() gave",
			    addr);
	sys_munmap(view->base, region->pinned_length);
	free(view);
	return 0;
}

/* A forked child has no views, and something else of its own may be at their addresses. */
void views_free(struct peerdma_region *region)
{
	bool child = region->ctx->process != process_id();
	struct view *view;

	while ((view = region->views)) {
		region->views = view->next;
		if (!child)
			sys_munmap(view->base, region->pinned_length);
		free(view);
	}
}
