/* SPDX-License-Identifier: MIT */
/*
 * plan.h - plans which memory to register for a range that no region covers.
 *
 *	plan_extent()	plans the range without its neighbours: whole granules, or the range that
 *			the cache's extent() returns
 *	plan_decide()	under the lock: adapts the plan to the neighbours.  Another thread may have
 *			added a region that covers the range.  A region that touches the range may
 *			be PENDING.  Otherwise the new region may include those that it overlaps
 *	plan_narrow()	plans a smaller range, if that one cannot be registered
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
	/* The new region may include neighbours within this range */
	uint64_t bound_from, bound_to;
	uint64_t properties;		/* STATE_PROPERTIES, without the access */

	/* plan_decide(). */
	uint64_t from, to;		/* what to register */
	/* the access needed, and that of the regions that this one replaces */
	uint32_t with_access;
	bool overlapping;		/* overlaps regions in the index */
	uint32_t replaced;		/* regions that end when this one is registered */
	uint64_t replaced_bytes;
	const char *why;		/* PLAN_DEADLOCK: text */
};

/* No lock.  Begins a plan, or renews it after the memory was freed.  0 or -errno with text. */
int plan_extent(struct peerdma_cache *cache, struct plan *plan);
/*
 * No lock.  The range of plan_decide() could not be registered: plans a smaller one.  False: there
 * is none.
 */
bool plan_narrow(const struct peerdma_cache *cache, struct plan *plan);

enum plan_step {
	PLAN_HIT,		/* *found is a region that covers the range */
	PLAN_REGISTER,		/* [from, to) */
	PLAN_AGAIN,		/* the call waited for a PENDING region; call again */
	PLAN_DEADLOCK,		/* a wait would never end; plan->why is the reason */
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
	/*
	 * The usual case: the range has no neighbours.  A cache that is off has no regions in the
	 * index.
	 */
	if (cache->off || (cache->overlapping == NO_REGION &&
			   regions_none(cache, place, plan->from, plan->to)))
		return PLAN_REGISTER;
	return plan_around(cache, place, plan, found);
}

/* Regions that a new one replaces: those within it, and one that covers it with less access. */
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
 * Checks the return value of a function that the caller supplied.  Returns 0, or -errno with a
 * text, set by that function or here.  texts: fail_count() before the call.  Refuses a positive
 * value, which would look like a success of the get.
 */
int callback_result(const char *function, int ret, uint32_t texts);
