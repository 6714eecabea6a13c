// SPDX-License-Identifier: MIT
/*
 * view.c - the CPU's view of a pin.
 */
#include <stdlib.h>

#include "backend.h"
#include "gpu/known_host.h"

EXPORT int peerdma_cpu_view(struct peerdma_region *region, void **addr)
{
	struct view *view;
	void *base;
	int ret = check_given("peerdma_cpu_view", "region", region, "addr", addr, NULL);

	if (!ret)
		ret = check_owner(region->ctx, "peerdma_cpu_view");
	if (ret)
		return ret;
	if (!region->backend->view)
		return backend_cannot(region, "peerdma_cpu_view", "view for the CPU");
	view = malloc(sizeof(*view));
	if (!view)
		return fail(-ENOMEM, "peerdma_cpu_view: out of memory");
	ret = region->backend->view(region, !(region->flags & PEERDMA_READONLY), &base);
	if (ret) {
		free(view);
		return ret;
	}
	view->base = base;
	known_host_forget();

	pthread_mutex_lock(&region->ctx->lock);
	view->next = region->views;
	LIST_STORE(&region->views, view);
	pthread_mutex_unlock(&region->ctx->lock);
	*addr = view->base + region->offset;
	return 0;
}

EXPORT int peerdma_cpu_view_end(struct peerdma_region *region, void *addr)
{
	struct view **p, *view = NULL;
	int ret = check_given("peerdma_cpu_view_end", "region", region, NULL);

	if (!ret)
		ret = check_owner(region->ctx, "peerdma_cpu_view_end");
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
		return fail(-EINVAL, "peerdma_cpu_view_end: %p is not a view of this region; pass the pointer that peerdma_cpu_view() "
			    "returned",
			    addr);
	region->backend->view_end(region, view->base);
	free(view);
	return 0;
}

/* A forked child has no views, and something else of its own may be at their addresses. */
