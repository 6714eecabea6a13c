// SPDX-License-Identifier: MIT
/*
 * cache.c - making caches and closing them, and what is in one.
 */
#include <stdlib.h>
#include <string.h>

#include "../internal.h"
#include "cache.h"
#include "calls.h"
#include "totals.h"

#define CAPACITY_DEFAULT	(1U << 20)
#define CAPACITY_MAX		ENTRY_NUMBERS
#define GRANULARITY_MIN		(1U << RANGE_SHIFT)
#define GRANULARITY_MAX		(1U << 30)

#define OPTIONS_FIRST	END_OF(struct peerdma_cache_options, reserved)
#define OPS_FIRST	END_OF(struct peerdma_cache_ops, check)
#define COUNTERS_FIRST	END_OF(struct peerdma_cache_counters, reserved)

/* ---- making and closing ---- */

static int options_check(const struct peerdma_cache_options *o)
{
	int ret = check_size("peerdma_cache_create", o->size, OPTIONS_FIRST);

	if (ret)
		return ret;
	if (o->flags & ~(PEERDMA_CACHE_WHOLE | PEERDMA_CACHE_READONLY | PEERDMA_CACHE_CALLS | PEERDMA_CACHE_STAGING))
		return fail(-EINVAL, "peerdma_cache_create: unknown flags 0x%x", o->flags);
	if (o->granularity && (o->granularity & (o->granularity - 1) || o->granularity < GRANULARITY_MIN ||
			       o->granularity > GRANULARITY_MAX))
		return fail(-EINVAL, "peerdma_cache_create: granularity %u is not a power of two from %u to %u",
			    o->granularity, GRANULARITY_MIN, GRANULARITY_MAX);
	if (o->capacity > CAPACITY_MAX)
		return fail(-EINVAL, "peerdma_cache_create: capacity %u is above %u", o->capacity, CAPACITY_MAX);
	return 0;
}

EXPORT int peerdma_cache_create(const struct peerdma_cache_ops *ops, void *arg,
			 const struct peerdma_cache_options *options, struct peerdma_cache **out)
{
	static uint64_t serials;
	struct peerdma_cache_options o = { .size = sizeof(o) };
	struct peerdma_cache *cache;
	void *nodes;
	int ret;

	if (options) {
		ret = options_check(options);
		if (ret)
			return ret;
		memcpy(&o, options, END_OF(struct peerdma_cache_options, reserved));
	}
	ret = check_size("peerdma_cache_create", ops->size, OPS_FIRST);
	if (ret)
		return ret;
	if (ops->monitors & ~PEERDMA_MONITOR_WORD)
		return fail(-EINVAL, "peerdma_cache_create: ops->monitors is 0 or PEERDMA_MONITOR_WORD");
	if (!ops->add || !ops->remove)
		return fail(-EINVAL, "peerdma_cache_create: add() and remove() are needed");
	if (!o.capacity)
		o.capacity = CAPACITY_DEFAULT;
	if (!o.granularity)
		o.granularity = GRANULARITY_MIN;

	cache = aligned_alloc(64, (sizeof(*cache) + 63) / 64 * 64);
	if (!cache)
		return fail(-ENOMEM, "peerdma_cache_create: out of memory");
	memset(cache, 0, sizeof(*cache));
	cache->regions = memory_get(o.capacity * sizeof(struct region), false);
	nodes = memory_get(index_size(o.capacity), false);
	if (!cache->regions || !nodes) {
		memory_put(nodes, index_size(o.capacity));
		memory_put(cache->regions, o.capacity * sizeof(struct region));
		free(cache);
		return fail(-ENOMEM, "peerdma_cache_create: no address space for %u regions (ulimit -v?); give a smaller capacity",
			    o.capacity);
	}
	index_init(&cache->index, nodes, o.capacity);
	memcpy(&cache->ops, ops, OPS_FIRST);
	cache->arg = arg;
	cache->options = o;
	cache->capacity = o.capacity;
	cache->granule_shift = (uint8_t)__builtin_ctz(o.granularity);
	cache->process = process_id();
	cache->fence = !ord_fence_others_works();
	cache->monitored = ops->check || ops->monitors;
	cache->limited = o.max_regions || o.max_bytes || o.max_aperture;
	cache->free = cache->returned = NO_REGION;
	cache->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	pthread_mutex_init(&cache->lock, NULL);
	pthread_cond_init(&cache->settled, NULL);
	/* Last: it may be told of a free at once. */
	cache->hooked = cache_hooks_begin(cache);
	cache_seen_begin(cache);
	*out = cache;
	return 0;
}

EXPORT void peerdma_cache_close(struct peerdma_cache *cache)
{
	bool owner;

	if (!cache)
		return;
	owner = !cache_foreign(cache);
	if (cache->hooked)
		cache_hooks_end(cache);
	if (owner) {
		cache_seen_end(cache);
		fronts_orphan(cache);
		for (uint32_t i = 0; i < cache->used; i++) {
			struct region *r = &cache->regions[i];

			if (life_state(r->life) == STATE_LIVE || life_state(r->life) == STATE_DEAD)
				cache->ops.remove(cache->arg, r->pub.addr, r->pub.length, r->pub.registration);
		}
	}
	if (cache->closed)
		cache->closed(cache->arg);
	memory_put(cache->index.hints, index_size(cache->capacity));
	memory_put(cache->regions, cache->capacity * sizeof(struct region));
	if (owner) {
		pthread_cond_destroy(&cache->settled);
		pthread_mutex_destroy(&cache->lock);
	}
	free(cache);
}

/* ---- counters ---- */

void cache_count(const struct peerdma_cache *cache, struct peerdma_cache_counters *out)
{
	totals_begin(cache, out);
	for (const struct front *f = cache->fronts; f; f = f->next)
		totals_add(f, out);
	totals_end(out);
}

EXPORT int peerdma_cache_counters(struct peerdma_cache *cache, struct peerdma_cache_counters *out)
{
	struct peerdma_cache_counters c;
	int ret = check_size("peerdma_cache_counters", out->size, COUNTERS_FIRST);

	if (ret)
		return ret;
	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_counters");
	ord_lock(&cache->lock);
	cache_count(cache, &c);
	ord_unlock(&cache->lock);
	c.size = out->size;
	put_out(out, &c, sizeof(c));
	return 0;
}

struct listing {
	struct peerdma_cache *cache;
	struct peerdma_cache_entry *entries;
	size_t n, max;
};

static bool list_one(void *arg, uint32_t entry)
{
	struct listing *l = arg;
	uint32_t number = entry_number(entry);
	const struct region *r = &l->cache->regions[number];

	if (l->n == l->max)
		return false;
	l->entries[l->n++] = (struct peerdma_cache_entry){
		.addr = r->pub.addr, .length = r->pub.length,
		.gets = region_gets(l->cache, number), .holds = region_holds(l->cache, number),
	};
	return true;
}

EXPORT int peerdma_cache_list(struct peerdma_cache *cache, uint64_t addr, struct peerdma_cache_entry *entries,
		       size_t n)
{
	struct listing l = { cache, entries, 0, n > INT32_MAX ? INT32_MAX : n };

	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_list");
	ord_lock(&cache->lock);
	index_visit(&cache->index, addr, UINT64_MAX, list_one, &l);
	ord_unlock(&cache->lock);
	return (int)l.n;
}
