// SPDX-License-Identifier: MIT
/* direct.c - page views: peerdma_page_view(), and those of regions that files are read into. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../backend.h"
#include "file.h"

EXPORT int peerdma_page_view(struct peerdma_region *region, uint64_t offset, uint64_t length,
			     unsigned int flags, const char *pci, int *fd)
{
	struct peerdma_map_args device = { 0 };
	int ret = check_given("peerdma_page_view", "region", region, "fd", fd, NULL);

	if (!ret)
		ret = check_owner(region->ctx, "peerdma_page_view");
	if (ret)
		return ret;
	if (flags & ~PEERDMA_PAGE_VIEW_PERSISTENT)
		return fail(-EINVAL, "peerdma_page_view: unknown flags 0x%x", flags);
	if (pci && !map_parse_pci(pci, &device))
		return fail(-EINVAL, "peerdma_page_view: '%s' is no PCI address", pci);
	if (!region->backend->pages)
		return backend_cannot(region, "peerdma_page_view", "page view");
	return region->backend->pages(region, flags, offset, length, pci ? &device : NULL, fd);
}

/* ---- of a region that is read into ---- */

/* The list only grows as long as the region lives: no lock. */
static const struct page_view *seen(const struct peerdma_region *region, uint64_t id)
{
	const struct page_view *v = __atomic_load_n(&region->page_views, __ATOMIC_ACQUIRE);

	while (v && v->id != id)
		v = v->next;
	return v;
}

/* One view is made for each disk, so the kernel has checked the path to each. */
static int open_view(struct peerdma_file *file, struct peerdma_region *region, int *fd)
{
	int ret = 0;

	*fd = -1;
	for (unsigned int i = 0; !ret && i < file->disks.count; i++) {
		if (*fd >= 0)
			close(*fd);
		ret = peerdma_page_view(region, 0, 0, 0, file->disks.pci[i], fd);
		if (ret)
			*fd = -1;
	}
	return ret;
}

static int map_view(struct peerdma_file *file, struct peerdma_region *region, void **base)
{
	int prot = region->flags & PEERDMA_READONLY ? PROT_READ : PROT_READ | PROT_WRITE;
	int fd, ret = open_view(file, region, &fd);

	if (ret)
		return ret;
	ret = sys_mmap(fd, 0, region->pinned_length, prot, base);
	close(fd);
	if (!ret)
		sys_dont_fork(*base, region->pinned_length);
	return ret;
}

/* Another thread may have added one meanwhile: then that one is used. */
static char *add_view(struct peerdma_region *region, struct page_view *view)
{
	const struct page_view *first;

	pthread_mutex_lock(&region->ctx->lock);
	first = seen(region, view->id);
	if (!first) {
		view->next = region->page_views;
		LIST_STORE(&region->page_views, view);
	}
	pthread_mutex_unlock(&region->ctx->lock);
	if (!first)
		return view->base;
	page_view_end(region, view);
	return first->base;
}

/* file: NULL, or: the view is for its disks. */
static int fill_view(struct peerdma_file *file, struct peerdma_region *region,
		     struct page_view *view)
{
	void *base = NULL;
	int ret;

	view->by_backend = !file || region->backend->view_is_memory;
	ret = view->by_backend ?
	      region->backend->view(region, !(region->flags & PEERDMA_READONLY), &base) :
	      map_view(file, region, &base);
	view->base = base;
	return ret;
}

#define NO_PAGES	"the memory has no struct pages that the disk can transfer to"

static char *make_view(struct peerdma_file *file, struct peerdma_region *region, uint64_t id,
		       const char **why)
{
	struct page_view *view = calloc(1, sizeof(*view));
	int ret = -ENOMEM;

	if (view) {
		view->id = id;
		ret = fill_view(file, region, view);
	}
	/* Nor will it have them: it is not asked again. */
	if (ret == -EOPNOTSUPP)
		*why = NO_PAGES;
	if (!ret || ret == -EOPNOTSUPP)
		return add_view(region, view);
	free(view);
	*why = "no page view of the memory: it was freed, a limit is reached, or there is no memory for it";
	return NULL;
}

static char *find_view(struct peerdma_file *file, struct peerdma_region *region, uint64_t id,
		       const char **why)
{
	const struct page_view *view = seen(region, id);

	if (!view)
		return make_view(file, region, id, why);
	if (!view->base)
		*why = NO_PAGES;
	return view->base;
}

char *cpu_base(struct peerdma_region *region)
{
	const char *why;

	/* Ordinary memory has one view for all. */
	return find_view(NULL, region, region->backend->view_is_memory ? 0 : UINT64_MAX, &why);
}

char *direct_base(struct peerdma_file *file, struct peerdma_region *region, const char **why)
{
	bool ordinary = region->backend->view_is_memory;
	uint64_t id = ordinary ? 0 : file->id;

	*why = NULL;
	if (file->direct < 0)
		*why = file->not_direct;
	else if (!ordinary && !region->backend->pages)
		*why = "the back-end that has pinned the memory makes no page views";
	else if (!ordinary && file->disks.unknown)
		*why = file->disks.unknown;
	if (*why)
		return NULL;
	return find_view(file, region, id, why);
}
