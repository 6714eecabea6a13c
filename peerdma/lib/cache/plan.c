// SPDX-License-Identifier: MIT
/*
 * plan.c - see plan.h.
 *
 * The new region includes the regions that it overlaps, if the result stays within the bound and
 * within MERGE_TIMES the length of the plan's own range.  Otherwise it lies beside them.  No region
 * ends before the new one is registered (miss.c).
 */
#include "../internal.h"
#include "pending.h"
#include "plan.h"

/* Limit of merging: a region is at most this many times as long as the range that a get needs */
#define MERGE_TIMES	4

/* ---- the range by itself ---- */

int callback_result(const char *function, int ret, uint32_t texts)
{
	if (ret > 0)
		return fail(-EINVAL, "peerdma_cache_get: %s() returned %d; it returns 0 or -errno",
			    function, ret);
	/* If function() set no text, the last text belongs to an earlier failure. */
	if (ret < 0 && fail_count() == texts)
		return fail(ret, "peerdma_cache_get: %s() returned %d: %s", function, ret,
			    error_words(ret));
	return ret;
}

static uint64_t granule_mask(const struct peerdma_cache *cache)
{
	return (1ULL << cache->granule_shift) - 1;
}

/*
 * Takes whole granules.  If the cache has extent(), takes only the range of the get: extent() knows
 * better which memory belongs together.
 */
static void extent_least(const struct peerdma_cache *cache, struct plan *plan)
{
	uint64_t mask = cache->ops.extent ? 0 : granule_mask(cache);

	plan->own_from = plan->addr & ~mask;
	plan->own_to = (plan->last | mask) + 1;
	plan->bound_from = 0;
	plan->bound_to = UINT64_MAX;
}

static uint64_t properties_of(const struct peerdma_extent *e)
{
	uint64_t properties = 0;

	if (e->aperture)
		properties = (uint64_t)(__builtin_ctz(e->aperture) + 1) << STATE_BAR1_AT;
	if (e->kind == PEERDMA_KIND_HOST)
		properties |= STATE_IS_HOST;
	else if (e->kind == PEERDMA_KIND_DEVICE)
		properties |= STATE_IS_DEVICE;
	return properties;
}

static int extent_of_caller(struct peerdma_cache *cache, struct plan *plan)
{
	uint64_t mask = granule_mask(cache);
	struct peerdma_extent e = {
		.addr = plan->addr & ~mask,
		.length = (plan->last | mask) + 1 - (plan->addr & ~mask),
		.request = plan->request,
	};
	uint32_t texts = fail_count();
	int ret = cache->ops.extent(cache->arg, plan->addr, plan->last - plan->addr + 1, &e);

	ret = callback_result("extent", ret, texts);
	if (ret)
		return ret;
	if (e.aperture & (e.aperture - 1))
		return fail(-EINVAL, "peerdma_cache_get: extent() set the aperture's page size to %u, which is not a power of two",
			    e.aperture);
	plan->properties = properties_of(&e);
	if (e.addr <= plan->own_from && e.length >= plan->own_to - e.addr &&
	    e.addr + e.length > e.addr) {
		plan->own_from = e.addr;
		plan->own_to = e.addr + e.length;
	}
	if (e.bound_length && e.bound_addr <= UINT64_MAX - e.bound_length) {
		uint64_t bound_end = e.bound_addr + e.bound_length;

		plan->bound_from = e.bound_addr < plan->own_from ? e.bound_addr : plan->own_from;
		plan->bound_to = bound_end > plan->own_to ? bound_end : plan->own_to;
	}
	return 0;
}

int plan_extent(struct peerdma_cache *cache, struct plan *plan)
{
	if ((plan->last | granule_mask(cache)) == UINT64_MAX)
		return fail(-EINVAL,
			    "peerdma_cache_get: [0x%llx, 0x%llx] reaches the end of all addresses",
			    (unsigned long long)plan->addr, (unsigned long long)plan->last);
	plan->narrow = false;
	extent_least(cache, plan);
	return cache->ops.extent ? extent_of_caller(cache, plan) : 0;
}

/*
 * The part that cannot be registered may be the neighbours' memory, or the rest of the allocation.
 */
bool plan_narrow(const struct peerdma_cache *cache, struct plan *plan)
{
	if (plan->narrow)
		return false;
	plan->narrow = true;
	extent_least(cache, plan);
	return plan->own_from != plan->from || plan->own_to != plan->to;
}

/* ---- its neighbours ---- */

struct neighbours {
	struct peerdma_cache *cache;
	const struct plan *plan;
	/* of the plan's own range and all regions that touch it, together */
	uint64_t from, to;
	struct region *hit;		/* covers the request, with the access that it needs */
	/* The shortest region within the bound that covers the plan's own range */
	struct region *covering;
	struct region *pending;
	uint64_t pending_word;
	bool any;
};

static bool in_bounds(const struct plan *plan, uint64_t from, uint64_t to)
{
	return from >= plan->bound_from && to <= plan->bound_to;
}

/*
 * Reads the state word only once.  The region's maker makes it LIVE without the lock, so a second
 * read might differ.
 */
static bool neighbour(void *arg, uint32_t entry)
{
	struct neighbours *o = arg;
	const struct plan *plan = o->plan;
	struct region *r = &o->cache->regions[entry_number(entry)];
	uint64_t state_word = ord_load_acquire(&r->state_word);
	uint64_t from = r->pub.addr, to = from + r->pub.length;

	if (state_of(state_word) == STATE_PENDING) {
		o->pending = r;
		o->pending_word = state_word;
	} else if (state_of(state_word) == STATE_LIVE && region_covers(r, plan->addr, plan->last) &&
		   !(plan->access & ~state_access(state_word))) {
		o->hit = r;
	}
	if (region_covers(r, plan->own_from, plan->own_to - 1) && in_bounds(plan, from, to) &&
	    (!o->covering || r->pub.length < o->covering->pub.length))
		o->covering = r;
	if (from < o->from)
		o->from = from;
	if (to > o->to)
		o->to = to;
	o->any = true;
	return true;
}

static bool replace_one(void *arg, uint32_t entry)
{
	struct replaced *p = arg;
	uint32_t number = entry_number(entry);
	struct region *r = &p->cache->regions[number];

	if ((r->pub.addr < p->from || r->pub.addr + r->pub.length > p->to) &&
	    !region_covers(r, p->from, p->to - 1))
		return true;
	r->next = p->first;
	p->first = number;
	p->count++;
	p->bytes += r->pub.length;
	p->access |= state_access(ord_load(&r->state_word));
	return true;
}

struct replaced plan_replaced(struct peerdma_cache *cache, struct index_place *place, uint64_t from,
			      uint64_t to)
{
	struct replaced p = { .cache = cache, .from = from, .to = to, .first = NO_REGION };

	regions_touched(cache, place, from, to, replace_one, &p);
	return p;
}

static uint64_t merge_max(const struct peerdma_cache *cache, uint64_t length)
{
	uint64_t max = cache->options.max_region;

	if (!max && __builtin_mul_overflow(length, (uint64_t)MERGE_TIMES, &max))
		max = UINT64_MAX;
	return max;
}

/* Lock.  Chooses [from, to). */
static void choose_range(struct peerdma_cache *cache, struct plan *plan,
			 const struct neighbours *all)
{
	uint64_t max = merge_max(cache, plan->own_to - plan->own_from);

	/*
	 * A region with too little access may cover the plan's own range.  No region may lie within
	 * another.  So the new one becomes as long as that one.  If that one reaches beyond the
	 * bound, it is not `covering`, and the new one replaces it.
	 */
	if (all->covering) {
		plan->from = all->covering->pub.addr;
		plan->to = plan->from + all->covering->pub.length;
	}
	if (!plan->narrow && in_bounds(plan, all->from, all->to) && all->to - all->from <= max) {
		plan->from = all->from;
		plan->to = all->to;
	}
}

static enum plan_step wait_for(struct peerdma_cache *cache, struct plan *plan,
			       struct region *pending, uint64_t state_word)
{
	plan->why = pending_wait(cache, pending, state_word);
	return plan->why ? PLAN_DEADLOCK : PLAN_AGAIN;
}

enum plan_step plan_around(struct peerdma_cache *cache, struct index_place *place,
			   struct plan *plan, struct region **found)
{
	struct neighbours all = { .cache = cache, .plan = plan, .from = plan->own_from,
				  .to = plan->own_to };
	struct region *r;
	struct replaced replaced;

	regions_touched(cache, place, plan->own_from, plan->own_to, neighbour, &all);
	if (all.hit) {
		*found = all.hit;
		return PLAN_HIT;
	}
	if (all.pending)
		return wait_for(cache, plan, all.pending, all.pending_word);
	plan->overlapping = all.any;
	choose_range(cache, plan, &all);
	r = overlapping_find(cache, plan->from, plan->to);
	if (r)
		return wait_for(cache, plan, r, ord_load(&r->state_word));
	if (all.any) {
		replaced = plan_replaced(cache, place, plan->from, plan->to);
		plan->replaced = replaced.count;
		plan->replaced_bytes = replaced.bytes;
		plan->with_access |= replaced.access;
	}
	return PLAN_REGISTER;
}
