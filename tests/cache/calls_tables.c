// SPDX-License-Identifier: MIT
/*
 * calls_tables.c - tables of arguments, errors and counters: each bit and each limit of what a cache is made with, each errno that
 * add() may return, and all counters after each kind of call.
 */
#include "toy.h"

#define MANY(array) (sizeof(array) / sizeof((array)[0]))

/* What is asked for is refused with that text, or not at all. */
static void makes(int error, const char *says)
{
	int ret = peerdma_cache_create(&ops, &toy, &options, &cache);
	const char *text = peerdma_last_error();

	MUST(ret == error && (!error || (!strncmp(text, "peerdma_cache_create: ", 22) && strstr(text, says))), "%s: %d, \"%s\"",
	     says, ret, text);
	if (!ret)
		finish();
	fresh();
}

void each_option(void)
{
	static const struct {
		uint32_t granularity;
		bool right;
	} granularities[] = {
		{ 0, true }, { 1, false }, { 2048, false }, { 4095, false }, { 4096, true }, { 4097, false }, { 6144, false },
		{ 8192, true },
		{ 1U << 30, true }, { (1U << 30) - 4096, false }, { 1U << 31, false }, { UINT32_MAX, false },
	};

	for (unsigned int bit = 0; bit < 32; bit++) {
		options.flags = 1U << bit;
		makes(options.flags == PEERDMA_CACHE_OFF ? 0 : -EINVAL, "this kind of cache supports 0x8");
		options.access = 1U << bit;
		makes(bit < PEERDMA_ACCESS_BITS ? 0 : -EINVAL, "this kind of cache supports 0xffff");
		ops.monitors = 1U << bit;
		makes(ops.monitors & (PEERDMA_MONITOR_WORD | PEERDMA_MONITOR_CALLS | PEERDMA_MONITOR_HOST) ? 0 : -EINVAL,
		      bit == 1 ? "PEERDMA_MONITOR_CHECK is not set: give check()" :
		      bit == 3 ? "PEERDMA_MONITOR_HOOKS is not set: " : "unknown ops->monitors 0x");
	}
	for (size_t i = 0; i < MANY(options.reserved); i++) {
		options.reserved[i] = 1ULL << 63;
		makes(-EINVAL, "reserved fields of the options");
	}
	for (size_t i = 0; i < MANY(ops.reserved); i++) {
		ops.reserved[i] = 1U << 31;
		makes(-EINVAL, "reserved fields of the ops");
	}
	for (size_t i = 0; i < MANY(granularities); i++) {
		options.granularity = granularities[i].granularity;
		makes(granularities[i].right ? 0 : -EINVAL, "is not a power of two from 4096 to 1073741824");
	}
	options.granularity = 8192;
	ops.monitors = PEERDMA_MONITOR_HOST;
	makes(-EINVAL, "is above the page size");
	options.granularity = 4096;
	ops.monitors = PEERDMA_MONITOR_HOST;
	makes(0, "");
	ops.payload = 4096;
	makes(0, "");
	ops.payload = 4097;
	makes(-EINVAL, "ops->payload is 4097, above 4096");
	ops.add = NULL;
	makes(-EINVAL, "add() and remove() are needed");
	ops.remove = NULL;
	makes(-EINVAL, "add() and remove() are needed");
	options.size = sizeof(options) - 1;
	makes(-EINVAL, "size field is");
	ops.size = sizeof(ops) - 1;
	makes(-EINVAL, "size field is");
	options.size = 4097;
	makes(-E2BIG, "size field is 4097");
	ops.size = 4097;
	makes(-E2BIG, "size field is 4097");
	options.capacity = UINT32_MAX;
	makes(-EINVAL, "capacity 4294967295 is above");
}

/* Room is made for what says that there is none, and add() called again; of all else the get says what add() said. */
void each_errno(void)
{
	static const struct {
		int error;
		bool again;
	} errors[] = {
		{ ENOSPC, true }, { ENOMEM, true }, { EMFILE, true }, { ENFILE, true }, { EDQUOT, true }, { ENOBUFS, true },
		{ EPERM, false }, { EACCES, false }, { EINVAL, false }, { EBUSY, false }, { EFAULT, false }, { EIO, false },
		{ ENXIO, false },
		{ ENODEV, false }, { EOPNOTSUPP, false }, { ESTALE, false },
	};
	struct peerdma_cached *hold;

	for (size_t i = 0; i < MANY(errors); i++) {
		fresh();
		begin();
		touch(AT(0), PAGE);
		touch(AT(2), PAGE);
		toy.refuse = -errors[i].error;
		MUST(peerdma_cache_get(cache, AT(4), PAGE, &hold) == -errors[i].error);
		MUST(!strncmp(peerdma_last_error(), "peerdma_cache_get: ", 19) &&
		     strstr(peerdma_last_error(), errors[i].error == ESTALE ? "again and again" : "add() returned -"));
		MUST(counters().failures == 1 && counters().misses == 3);
		/* As long as there is something idle that it may help to end. */
		MUST(counters().evictions == (errors[i].again ? 2 : 0) && counters().regions == (errors[i].again ? 0 : 2));
		MUST((counters().retries > 0) == errors[i].again);
		toy.refuse = 0;
		touch(AT(4), PAGE);
		MUST(counters().failures == 1 && counters().regions == (errors[i].again ? 1 : 3));
		finish();
	}
}

static void counted(const struct peerdma_cache_counters *expected, int line)
{
	struct peerdma_cache_counters c;

	memset(&c, 0xff, sizeof(c));
	c.size = sizeof(c);
	MUST(!peerdma_cache_counters(cache, &c));
	for (size_t i = 0; i < sizeof(c) / 8; i++)
		MUST(((uint64_t *)&c)[i] == ((const uint64_t *)expected)[i], "line %d: the word %zu of the counters is %llu, not %llu",
		     line, i, (unsigned long long)((uint64_t *)&c)[i], (unsigned long long)((const uint64_t *)expected)[i]);
}

/* All of them, after each call: what one call counts nothing else does. */
void each_counter(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c), .monitors = PEERDMA_MONITOR_CALLS };
	struct peerdma_cache_entry e[3] = { { .size = sizeof(e[0]) } };
	struct peerdma_cached *a, *b, *hold;

	options.max_regions = 3;
	begin();
	counted(&c, __LINE__);
	a = get(AT(0), 100);
	c.gets = c.misses = c.regions = c.threads = 1;
	c.bytes = PAGE;
	counted(&c, __LINE__);
	b = get(AT(0), PAGE);
	MUST(a == b);
	c.gets = 2;
	c.hits = 1;
	c.hits_front = counters().hits_front;
	counted(&c, __LINE__);
	MUST(get(AT(0), PAGE) == a);
	c.gets = 3;
	c.hits = 2;
	c.hits_front++;
	counted(&c, __LINE__);
	peerdma_cache_put(cache, a);
	peerdma_cache_put(cache, a);
	counted(&c, __LINE__);
	MUST(peerdma_cache_list(cache, 0, e, 3) == 1);
	MUST(e[0].size == sizeof(e[0]) && !e[0].access && e[0].addr == BASE && e[0].length == PAGE && e[0].gets == 3 &&
	     e[0].holds == 1);
	/* The memory goes while it is held. */
	MUST(peerdma_cache_invalidate(cache, AT(0), 1) == 1);
	c.invalidations = c.dead = 1;
	counted(&c, __LINE__);
	peerdma_cache_put(cache, a);
	MUST(peerdma_cache_drain(cache) >= 0);
	c.dead = c.regions = c.bytes = 0;
	counted(&c, __LINE__);
	touch(AT(2), 2 * PAGE);
	c.gets = 4;
	c.misses = 2;
	c.regions = 1;
	c.bytes = 2 * PAGE;
	counted(&c, __LINE__);
	MUST(peerdma_cache_invalidate(cache, AT(2), 1) == 1);
	c.invalidations = 2;
	c.deferred = 1;
	c.regions = c.bytes = 0;
	counted(&c, __LINE__);
	MUST(peerdma_cache_drain(cache) == 1);
	c.deferred = 0;
	counted(&c, __LINE__);
	/* Two that a third one replaces. */
	touch(AT(4), PAGE);
	touch(AT(6), PAGE);
	touch(AT(4), 3 * PAGE);
	c.gets = 7;
	c.misses = 5;
	c.merges = 2;
	c.regions = 1;
	c.bytes = 3 * PAGE;
	counted(&c, __LINE__);
	touch(AT(10), PAGE);
	touch(AT(20), PAGE);
	c.gets = 9;
	c.misses = 7;
	c.regions = 3;
	c.bytes = 5 * PAGE;
	counted(&c, __LINE__);
	/* One more than there may be: of those the one that was used least lately goes. */
	touch(AT(30), PAGE);
	c = counters();
	MUST(c.gets == 10 && c.misses == 8 && c.regions == 3 && c.evictions == 1);
	toy.refuse = -EIO;
	MUST(peerdma_cache_get(cache, AT(40), PAGE, &hold) == -EIO);
	toy.refuse = 0;
	c.gets++;
	c.misses++;
	c.failures++;
	c.regions = counters().regions;		/* room was made for it */
	c.evictions = counters().evictions;
	c.bytes = counters().bytes;
	counted(&c, __LINE__);
	MUST(peerdma_cache_trim(cache, 1) == 1);
	c.regions--;
	c.evictions = counters().evictions;
	c.bytes = counters().bytes;
	counted(&c, __LINE__);
}
