// SPDX-License-Identifier: MIT
/*
 * region.c - properties of a region: peerdma_status(), peerdma_segments(), peerdma_why().
 */
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

EXPORT int peerdma_status(struct peerdma_region *region, struct peerdma_status *out)
{
	struct peerdma_status status = { 0 };
	int ret = check_given("peerdma_status", "region", region, "out", out, NULL);

	if (!ret)
		ret = check_owner(region->ctx, "peerdma_status");
	if (!ret)
		ret = check_size("peerdma_status", out->size, STATUS_FIRST);
	if (ret)
		return ret;
	status.size = out->size;
	ret = region_facts(region, &status);
	if (!ret && region->ends == ENDS_UNREPORTED && !region_usable(region))
		status.state = PEERDMA_STATE_REVOKED;
	if (!ret)
		put_out(out, &status, sizeof(status));
	return ret;
}

EXPORT struct peerdma_region *const *peerdma_segments(const struct peerdma_region *region,
						      size_t *count)
{
	if (count)
		*count = !region ? 0 : region->segments ? region->segment_count : 1;
	return !region ? NULL : region->segments ? region->segments : &region->one;
}

EXPORT const char *peerdma_why(const struct peerdma_region *region)
{
	return region && region->why ? region->why : "";
}

int backend_cannot(const struct peerdma_region *region, const char *call, const char *what)
{
	return fail(-EOPNOTSUPP, "%s: this pin is of back-end '%s', which has no %s%s%s%s", call,
		    region->backend->name, what, region->why ? " (" : "",
		    region->why ? region->why : "", region->why ? ")" : "");
}
