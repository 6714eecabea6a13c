// SPDX-License-Identifier: MIT
/*
 * region.c - properties of a region: peerdma_status(), peerdma_segments(), peerdma_why().
 */
#include "backend.h"

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
