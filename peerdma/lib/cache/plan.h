/* SPDX-License-Identifier: MIT */
/*
 * plan.h - what shall be registered for a range that no region covers.
 *
 *	plan_extent()	what belongs to the range by itself: whole granules, or what the cache's extent() says
 *	plan_decide()	under the lock: what its neighbours make of that.  A region may have come that covers it, one that
 *			touches it may be PENDING, or the new region takes in those that it overlaps
 *	plan_narrow()	when that cannot be registered: less
 */
#pragma once

#include "regions.h"

struct plan {
	/* The request. */
	uint64_t addr, last;		/* inclusive */
	uint32_t access;
	const struct peerdma_cache_request *request;

	/* plan_extent() and plan_narrow(). */
	bool narrow;
	uint64_t own_from, own_to;	/* without neighbours */
	/* Neighbours are taken in as long as the new region stays within */
	uint64_t bound_from, bound_to;
	uint64_t properties;		/* of STATE_PROPERTIES, without the access */

	/* plan_decide(). */
	uint64_t from, to;		/* what to register */
	uint32_t with_access;		/* with the access of the regions that it replaces */
	bool overlapping;		/* with regions in the index */
	uint32_t replaced;		/* regions that end when this one is registered */
	uint64_t replaced_bytes;
	const char *why;		/* PLAN_DEADLOCK: text */
};

/* No lock.  0 or -errno with text.  A new plan; or again, if the memory was freed meanwhile. */
int plan_extent(struct peerdma_cache *cache, struct plan *plan);
/* No lock.  After what plan_decide() said could not be registered; false: there is no less. */
bool plan_narrow(const struct peerdma_cache *cache, struct plan *plan);

enum plan_step {
	PLAN_HIT,		/* *found covers the range by now */
	PLAN_REGISTER,		/* [from, to) */
	PLAN_AGAIN,		/* a PENDING region was waited for: decide again */
	PLAN_DEADLOCK,		/* waiting for one would never end: plan->why */
};

enum plan_step plan_around(struct peerdma_cache *cache, struct index_place *place,
			   struct plan *plan, struct region **found);

/* Lock, released during waits. */
static inline enum plan_step plan_decide(struct peerdma_cache *cache, struct index_place *place,
					 struct plan *plan, struct region **found)
{
	plan->from = plan->own_from;
	plan->to = plan->own_to;
	plan->with_access = plan->access;
	plan->overlapping = false;
	plan->replaced = 0;
	plan->replaced_bytes = 0;
	/* As usual: it has no neighbours.  In a cache that is off, no region has. */
	if (cache->off || (cache->overlapping == NO_REGION && regions_none(cache, place, plan->from,
		plan->to)))
		return PLAN_REGISTER;
	return plan_around(cache, place, plan, found);
}

/* Regions that a new one makes superfluous: those within it, and one that covers it with less access. */
struct replaced {
	struct peerdma_cache *cache;
	uint64_t from, to;
	uint32_t first, count;		/* through region->next */
	uint32_t access;
	uint64_t bytes;
};

/* Lock. */
struct replaced plan_replaced(struct peerdma_cache *cache, struct index_place *place, uint64_t from,
			      uint64_t to);

/*
 * What a function of the caller's returned: 0, or -errno with a text, its own or this one's.  texts: fail_count() before
 * the call.  A positive result is refused: it would pass as a success of the get.
 */
int callback_result(const char *function, int ret, uint32_t texts);
