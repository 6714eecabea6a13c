// SPDX-License-Identifier: MIT
/*
 * validity.c - whether a region still is what was pinned.
 *
 *	ENDS_BY_KERNEL		the kernel's word; of several segments, the words of all: words.c
 *	ENDS_BY_CALLBACK	the region's own word, which region_revoked() changes: event_queue.c
 *	ENDS_UNREPORTED		CUDA's buffer ids: allocations.c; hook_frees.c ends such pins where
 *				libpeerdma-hooks sees all frees
 *	ENDS_NEVER		its word, which never changes
 */
#include "internal.h"

bool region_still(const struct peerdma_region *region)
{
	return region->ends == ENDS_UNREPORTED ? allocations_valid(region, region->addr, region->length) : peerdma_valid(region);
}

bool region_usable(const struct peerdma_region *region)
{
	bool asked = region->cached && region->ends == ENDS_UNREPORTED && region->allocation_count > 1;

	return asked ? allocations_present(region, 0, 0) : region_still(region);
}

bool region_notified(const struct peerdma_region *region)
{
	switch (region->ends) {
	case ENDS_BY_KERNEL:
	case ENDS_BY_CALLBACK:
		return true;
	case ENDS_UNREPORTED:
		return region->ctx->hooked && !region->cached;
	case ENDS_NEVER:
		break;
	}
	return false;
}
