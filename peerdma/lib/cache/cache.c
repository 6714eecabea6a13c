// SPDX-License-Identifier: MIT
/*
 * cache.c - creates and closes caches, trims and drains them, and reports what is in them.
 */
#include <stdlib.h>
#include <string.h>

#include "../internal.h"
#include "../base/memory.h"
#include "../base/variables.h"
#include "calls.h"
#include "deferred.h"
#include "evict.h"
#include "lock.h"
#include "monitored.h"

#define CAPACITY_DEFAULT	(1U << 20)
#define CAPACITY_MAX		ENTRY_NUMBERS
#define GRANULARITY_MIN		(1U << RANGE_SHIFT)
#define GRANULARITY_MAX		(1U << 30)
#define PAYLOAD_MAX		4096U

#define MONITORS_KNOWN								\
	(PEERDMA_MONITOR_WORD | PEERDMA_MONITOR_CHECK | PEERDMA_MONITOR_CALLS |	\
	 PEERDMA_MONITOR_HOOKS | PEERDMA_MONITOR_HOST)

#define OPTIONS_FIRST	END_OF(struct peerdma_cache_options, reserved)
#define OPS_FIRST	END_OF(struct peerdma_cache_ops, reserved)
#define ENTRY_FIRST	END_OF(struct peerdma_cache_entry, holds)
#define COUNTERS_FIRST	END_OF(struct peerdma_cache_counters, reserved)

/* ---- making and closing ---- */

/* call: the name of the function that the program called, for error texts. */
static int options_take(const char *call, struct peerdma_cache_options *o,
			const struct peerdma_cache_options *from, uint32_t flags, uint32_t access)
{
	int ret = take_in(call, o, sizeof(*o), OPTIONS_FIRST, from);

	if (ret)
		return ret;
	if (o->flags & ~flags)
		return fail(-EINVAL, "%s: flags 0x%x: this kind of cache supports 0x%x", call,
			    o->flags, flags);
	if (o->access & ~access)
		return fail(-EINVAL, "%s: access 0x%x: this kind of cache supports 0x%x", call,
			    o->access, access);
	if (!all_zero(o->reserved, sizeof(o->reserved)))
		return fail(-EINVAL, "%s: reserved fields of the options are not zero", call);
	if (o->granularity && (o->granularity & (o->granularity - 1) ||
			       o->granularity < GRANULARITY_MIN ||
			       o->granularity > GRANULARITY_MAX))
		return fail(-EINVAL, "%s: granularity %u is not a power of two from %u to %u", call,
			    o->granularity, GRANULARITY_MIN, GRANULARITY_MAX);
	if (o->capacity > CAPACITY_MAX)
		return fail(-EINVAL, "%s: capacity %u is above %u", call, o->capacity,
			    CAPACITY_MAX);
	return 0;
}

/*
 * The cache has pages of its own.  If malloc() had allocated it, a monitor could report its free()
 * to the cache itself.
 *
 * The struct does not begin at the start of a page, because each thread's first refs begin there in
 * their mapping.  Some processors first compare only the low 12 bits of addresses, so a hit's load
 * of the gate would wait for the store to the refs.
 */
#define CACHE_AT	1536

static struct peerdma_cache *cache_get(void)
{
	char *p = memory_get(CACHE_AT + sizeof(struct peerdma_cache), false);

	return p ? (struct peerdma_cache *)(p + CACHE_AT) : NULL;
}

static void cache_put(struct peerdma_cache *cache)
{
	memory_put((char *)cache - CACHE_AT, CACHE_AT + sizeof(*cache));
}

static uint64_t words_taken;

static uint64_t serial_take(void)
{
	static uint64_t serials;
	uint64_t taken = __atomic_load_n(&words_taken, __ATOMIC_RELAXED),
		n = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	uint32_t word;

	do {
		word = ~taken ? (uint32_t)__builtin_ctzll(~taken) : (uint32_t)(n % SERIAL_WORDS);
	} while (!__atomic_compare_exchange_n(&words_taken, &taken, taken | 1ULL << word, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return n * SERIAL_WORDS + word;
}

static void serial_give(uint64_t serial)
{
	__atomic_fetch_and(&words_taken, ~(1ULL << serial % SERIAL_WORDS), __ATOMIC_RELAXED);
}

static int no_space(const char *call, const struct peerdma_cache_options *o)
{
	return fail(-ENOMEM,
		    "%s: no address space for %u regions (ulimit -v?); give a smaller capacity",
		    call, o->capacity);
}

EXPORT int peerdma_cache_create(const struct peerdma_cache_ops *ops, void *arg,
			 const struct peerdma_cache_options *options, struct peerdma_cache **out)
{
	return cache_make("peerdma_cache_create", ops, arg, options, PEERDMA_CACHE_OFF,
			  (1U << PEERDMA_ACCESS_BITS) - 1, out);
}

/* Refuses monitors that a program may not set. */
static int monitors_check(uint32_t monitors)
{
	if (monitors & ~MONITORS_KNOWN)
		return fail(-EINVAL, "peerdma_cache_create: unknown ops->monitors 0x%x",
			    monitors & ~MONITORS_KNOWN);
	if (monitors & PEERDMA_MONITOR_CHECK)
		return fail(-EINVAL,
			    "peerdma_cache_create: PEERDMA_MONITOR_CHECK is not set: give check()");
	if (monitors & PEERDMA_MONITOR_HOOKS)
		return fail(-EINVAL, "peerdma_cache_create: PEERDMA_MONITOR_HOOKS is not set: a cache uses the hooks where they are");
	return 0;
}

static int ops_take(struct peerdma_cache_ops *ops, const struct peerdma_cache_ops *from)
{
	int ret = take_in("peerdma_cache_create", ops, sizeof(*ops), OPS_FIRST, from);

	if (ret)
		return ret;
	ret = monitors_check(ops->monitors);
	if (ret)
		return ret;
	if (!ops->add || !ops->remove)
		return fail(-EINVAL, "peerdma_cache_create: add() and remove() are needed");
	if (ops->payload > PAYLOAD_MAX)
		return fail(-EINVAL, "peerdma_cache_create: ops->payload is %u, above %u",
			    ops->payload, PAYLOAD_MAX);
	if (!all_zero(ops->reserved, sizeof(ops->reserved)))
		return fail(-EINVAL,
			    "peerdma_cache_create: reserved fields of the ops are not zero");
	return 0;
}

/*
 * Reserves address space for the regions, the payloads and the index.  False: there is not enough.
 */
static bool memory_take(struct peerdma_cache *cache)
{
	void *nodes = memory_reserve(index_size(cache->capacity));

	cache->regions = memory_reserve(cache->capacity * sizeof(struct region));
	if (cache->payload_step)
		cache->payload = memory_reserve((size_t)cache->capacity * cache->payload_step);
	if (nodes && cache->regions && (cache->payload || !cache->payload_step) &&
	    regions_begin(cache, nodes))
		return true;
	if (nodes)
		memory_put(nodes, index_size(cache->capacity));
	cache->index.hints = NULL;
	return false;
}

static void memory_give(struct peerdma_cache *cache)
{
	if (cache->payload)
		memory_put(cache->payload, (size_t)cache->capacity * cache->payload_step);
	if (cache->index.hints)
		memory_put(cache->index.hints, index_size(cache->capacity));
	if (cache->regions)
		memory_put(cache->regions, cache->capacity * sizeof(struct region));
	cache_put(cache);
}

static bool turned_off(void)
{
	return variable_is(VARIABLE_CACHE, "off");
}

int cache_make(const char *call, const struct peerdma_cache_ops *ops_in, void *arg,
	       const struct peerdma_cache_options *options, uint32_t flags, uint32_t access,
	       struct peerdma_cache **out)
{
	struct peerdma_cache_options o = { .size = sizeof(o) };
	struct peerdma_cache_ops own, *ops = &own;
	struct peerdma_cache *cache;
	int ret = check_given(call, "ops", ops_in, "cache", out, NULL);

	if (ret)
		return ret;
	if (options) {
		ret = options_take(call, &o, options, flags, access);
		if (ret)
			return ret;
	}
	ret = ops_take(ops, ops_in);
	if (ret)
		return ret;
	if (ops->monitors & PEERDMA_MONITOR_HOST && o.granularity > (uint32_t)getpagesize())
		return fail(-EINVAL, "peerdma_cache_create: PEERDMA_MONITOR_HOST: granularity %u is above the page size: it would "
			    "also register memory beside the buffer, which can be freed independently", o.granularity);
	if (!o.capacity)
		o.capacity = CAPACITY_DEFAULT;
	if (!o.granularity)
		o.granularity = GRANULARITY_MIN;

	cache = cache_get();
	if (!cache)
		return no_space(call, &o);
	cache->capacity = o.capacity;
	cache->payload_step = (ops->payload + 15) / 16 * 16;
	if (!memory_take(cache)) {
		memory_give(cache);
		return no_space(call, &o);
	}
	cache->ops = *ops;
	cache->arg = arg;
	cache->options = o;
	cache->access_all = access;
	cache->off = o.flags & PEERDMA_CACHE_OFF || turned_off();
	cache->granule_shift = (uint8_t)__builtin_ctz(o.granularity);
	cache->process = process_id();
	cache->fence = !ord_fence_others_works();
	cache->monitored = ops->check || ops->monitors & PEERDMA_MONITOR_WORD;
	cache->limited = o.max_regions || o.max_bytes || o.max_host || o.max_device ||
		o.max_aperture;
	cache->free = cache->returned = cache->deferred = cache->unsettled = cache->overlapping =
		NO_REGION;
	cache->gate = serial_take();
	cache->stats.monitors = ops->monitors | PEERDMA_MONITOR_CALLS |
		(ops->check ? PEERDMA_MONITOR_CHECK : 0);
	pthread_mutex_init(&cache->lock, NULL);
	pthread_cond_init(&cache->settled, NULL);
	inspect_begin(cache);
	/* This comes last: events may call the cache from now on. */
	ret = cache_monitors_begin(cache);
	if (ret) {
		peerdma_cache_close(cache);
		return ret;
	}
	*out = cache;
	return 0;
}

EXPORT void peerdma_cache_close(struct peerdma_cache *cache)
{
	bool owner;

	if (!cache)
		return;
	owner = !cache_foreign(cache);
	cache_monitors_end(cache);
	/*
	 * A monitor may report a free in remove() to this cache.  That would defer teardowns that
	 * no later call finishes.
	 */
	ord_store(&cache->closing, true);
	if (owner) {
		inspect_end(cache);
		thread_caches_orphan(cache);
		while (deferred_drain(cache, NULL) + teardown_all(cache))
			;
	}
	serial_give(cache_serial(cache));
	if (owner) {
		pthread_cond_destroy(&cache->settled);
		pthread_mutex_destroy(&cache->lock);
	}
	memory_give(cache);
}

/* ---- ending idle and deferred regions ---- */

EXPORT int peerdma_cache_drain(struct peerdma_cache *cache)
{
	int ret = check_given("peerdma_cache_drain", "cache", cache, NULL);
	uint32_t n;

	if (ret)
		return ret;
	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_drain");
	n = deferred_drain(cache, thread_cache_find(cache));
	return n > INT32_MAX ? INT32_MAX : (int)n;
}

EXPORT int peerdma_cache_trim(struct peerdma_cache *cache, uint32_t n)
{
	int ret = check_given("peerdma_cache_trim", "cache", cache, NULL);

	if (ret)
		return ret;
	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_trim");
	deferred_drain(cache, thread_cache_find(cache));
	return (int)evict_idle(cache, n);
}

/* ---- counters ---- */

EXPORT int peerdma_cache_counters(struct peerdma_cache *cache, struct peerdma_cache_counters *out)
{
	struct peerdma_cache_counters c;
	int ret = check_given("peerdma_cache_counters", "cache", cache, "out", out, NULL);

	if (!ret)
		ret = check_size("peerdma_cache_counters", out->size, COUNTERS_FIRST);
	if (ret)
		return ret;
	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_counters");
	cache_lock(cache);
	cache_count(cache, &c);
	cache_unlock(cache);
	c.size = out->size;
	put_out(out, &c, sizeof(c));
	return 0;
}

struct listing {
	struct peerdma_cache *cache;
	char *entries;
	/* size of an entry in the header that the caller was compiled with */
	uint32_t size;
	size_t n, max;
};

static bool list_one(void *arg, uint32_t entry)
{
	struct listing *l = arg;
	uint32_t number = entry_number(entry);
	const struct region *r = &l->cache->regions[number];
	struct peerdma_cache_entry e;

	if (l->n == l->max)
		return false;
	e = (struct peerdma_cache_entry){
		.size = l->size, .access = state_access(ord_load(&r->state_word)),
		.addr = r->pub.addr, .length = r->pub.length,
		.gets = region_gets(l->cache, number), .holds = region_refs(l->cache, number),
	};
	put_out(l->entries + l->n++ * l->size, &e, sizeof(e));
	return true;
}

EXPORT int peerdma_cache_list(struct peerdma_cache *cache, uint64_t addr,
			      struct peerdma_cache_entry *entries,
		       size_t n)
{
	struct listing l = { cache, (char *)entries, 0, 0, n > INT32_MAX ? INT32_MAX : n };
	int ret = check_given("peerdma_cache_list", "cache", cache, "entries",
			      n ? (void *)entries : &l, NULL);

	if (!ret && n)
		ret = check_size("peerdma_cache_list", entries->size, ENTRY_FIRST);
	if (ret)
		return ret;
	l.size = n ? entries->size : 0;
	if (cache_foreign(cache))
		return cache_refuse("peerdma_cache_list");
	cache_lock(cache);
	index_visit(&cache->index, addr, UINT64_MAX, list_one, &l);
	cache_unlock(cache);
	return (int)l.n;
}
