// SPDX-License-Identifier: MIT
/*
 * backend.c - what back-ends and the calls above them share: facts about a region, its views,
 * and why a back-end was passed over.
 */
#include <stdlib.h>
#include <string.h>

#include "backend.h"

/*
 * Fills in the facts that the library knows itself. Mappings and views are counted under the lock.
 */
static void status_own(struct peerdma_region *region, struct peerdma_status *status)
{
	status->state = __atomic_load_n(&region->revoked, __ATOMIC_ACQUIRE) ?
				PEERDMA_STATE_REVOKED :
				PEERDMA_STATE_LIVE;
	status->flags = region->flags &
			~(PEERDMA_NO_SYNC_MEMOPS | PEERDMA_DIRECT | PEERDMA_STAGING);
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

int region_facts(struct peerdma_region *region, struct peerdma_status *status)
{
	status_own(region, status);
	status->sync_memops = region->sync_memops;
	status->direct = region->backend->direct;
	status->segments = region->segments ? (uint32_t)region->segment_count : 1;
	status->by_id = region->ends == ENDS_UNREPORTED;
	status->notified = region_notified(region);
	strncpy(status->backend, region->backend->name, sizeof(status->backend) - 1);
	return region->backend->status ? region->backend->status(region, status) : 0;
}

void page_view_end(struct peerdma_region *region, struct page_view *view)
{
	if (view->base && view->by_backend)
		region->backend->view_end(region, view->base);
	else if (view->base)
		sys_munmap(view->base, region->pinned_length);
	free(view);
}

/*
 * A forked child has not inherited the views. Its own memory may be at their addresses, so it must
 * not unmap them.
 */
void views_free(struct peerdma_region *region)
{
	bool child = !is_owner(region->ctx);
	struct page_view *page_view;
	struct view *view;

	while ((page_view = region->page_views)) {
		region->page_views = page_view->next;
		if (child)
			free(page_view);
		else
			page_view_end(region, page_view);
	}
	while ((view = region->views)) {
		region->views = view->next;
		if (!child)
			region->backend->view_end(region, view->base);
		free(view);
	}
}

int refuse_export(const struct peerdma_region *region, uint64_t offset, uint64_t length)
{
	return fail(-EINVAL,
		    "peerdma_export_dmabuf: offset %llu and length %llu must be multiples of the CPU's page "
		    "within the %llu pinned bytes",
		    (unsigned long long)offset, (unsigned long long)length,
		    (unsigned long long)region->pinned_length);
}

int check_export(const struct peerdma_region *region, uint64_t offset, uint64_t length)
{
	if (!length || (offset | length) & (page_size() - 1) || offset >= region->pinned_length ||
	    length > region->pinned_length - offset)
		return refuse_export(region, offset, length);
	return 0;
}

int backend_cannot(const struct peerdma_region *region, const char *call, const char *what)
{
	return fail(-EOPNOTSUPP, "%s: this pin is of back-end '%s', which has no %s%s%s%s", call,
		    region->backend->name, what, region->why ? " (" : "",
		    region->why ? region->why : "", region->why ? ")" : "");
}

/* ---- reasons ---- */

const char *reason_keep(struct peerdma *ctx, const char *text)
{
	struct reason *r;

	if (!*text)
		return NULL;
	pthread_mutex_lock(&ctx->lock);
	for (r = ctx->reasons; r && strcmp(r->text, text) != 0; r = r->next)
		;
	if (!r) {
		r = malloc(sizeof(*r) + strlen(text) + 1);
		if (r) {
			strcpy(r->text, text);
			r->next = ctx->reasons;
			LIST_STORE(&ctx->reasons, r);
		}
	}
	pthread_mutex_unlock(&ctx->lock);
	return r ? r->text : NULL;
}

const char *backend_refused(const struct peerdma *ctx, const struct backend *backend)
{
	for (unsigned int i = 0; i < ctx->offer_count; i++) {
		if (ctx->offers[i].backend == backend)
			return ctx->offers[i].error ? ctx->offers[i].why : NULL;
	}
	return "not among the back-ends that PEERDMA_PROVIDER names";
}

int fail_not_capable(struct peerdma_region *region)
{
	region->recognized = true;
	return fail(-ENXIO,
		    "this memory is not capable of GPUDirect RDMA, as CUDA says (CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE is 0): "
		    "its driver does not pin it; give cuMemCreate() allocFlags.gpuDirectRDMACapable = 1, or use CUDA's dma-bufs (back-end 'dmabuf')");
}
