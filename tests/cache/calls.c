// SPDX-License-Identifier: MIT
/*
 * calls.c - what each call of peerdma_cache.h promises, one thing at a time.
 *
 * The memory is made up; what registers it counts, and fails when it is told to.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "peerdma_cache.h"

#define PAGE	4096ULL
#define BASE	(1ULL << 40)
#define AT(n)	((void *)(BASE + (n) * PAGE))

static struct peerdma_cache *cache;

static struct {
	int adds, removes;
	int room;			/* registrations at a time; 0: any number */
	uint64_t widest;		/* longer ones are -EINVAL */
	uint64_t last_addr, last_length;
	int valid;			/* check() */
	uint32_t aperture;
	uint64_t allocation, allocation_length;	/* extent() */
	void (*in_add)(void), (*in_remove)(void);
	const uint32_t *word;
} toy;

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	MUST(arg == &toy);
	if (toy.in_add)
		toy.in_add();
	if (toy.widest && length > toy.widest)
		return -EINVAL;
	if (toy.room && toy.adds - toy.removes >= toy.room)
		return -ENOSPC;
	toy.adds++;
	toy.last_addr = addr;
	toy.last_length = length;
	out->handle = (void *)(uintptr_t)(addr + 1);
	out->word = toy.word;
	out->expected = toy.word ? *toy.word : 0;
	return 0;
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	(void)arg;
	MUST(length && handle == (void *)(uintptr_t)(addr + 1));
	if (toy.in_remove)
		toy.in_remove();
	toy.removes++;
}

static int check(void *arg, const struct peerdma_cached *region, uint64_t addr, uint64_t length)
{
	(void)arg;
	MUST(addr >= region->addr && addr + length <= region->addr + region->length);
	return toy.valid;
}

static int extent(void *arg, uint64_t addr, uint64_t length, struct peerdma_extent *e)
{
	(void)arg;
	(void)length;
	MUST(e->addr <= addr);
	e->aperture = toy.aperture;
	if (toy.allocation_length) {
		e->addr = toy.allocation;
		e->length = toy.allocation_length;
	}
	return 0;
}

static struct peerdma_cache_options options;
static struct peerdma_cache_ops ops;

static void fresh(void)
{
	memset(&toy, 0, sizeof(toy));
	toy.valid = 1;
	options = (struct peerdma_cache_options){ .size = sizeof(options), .capacity = 4096 };
	ops = (struct peerdma_cache_ops){ .size = sizeof(ops), .add = add, .remove = end };
}

static void begin(void)
{
	MUST(!peerdma_cache_create(&ops, &toy, &options, &cache));
}

static void finish(void)
{
	toy.in_add = toy.in_remove = NULL;
	peerdma_cache_close(cache);
	MUST(toy.adds == toy.removes);
}

static struct peerdma_cached *get(const void *p, size_t length)
{
	struct peerdma_cached *hold = NULL;
	int ret = peerdma_cache_get(cache, p, length, &hold);

	if (ret) {
		fprintf(stderr, "get: %d, %s\n", ret, peerdma_last_error());
		abort();
	}
	MUST(hold->addr <= (uintptr_t)p && (uintptr_t)p + length <= hold->addr + hold->length);
	MUST(hold->registration == (void *)(uintptr_t)(hold->addr + 1));
	return hold;
}

static void touch(const void *p, size_t length)
{
	peerdma_cache_put(cache, get(p, length));
}

static struct peerdma_cache_counters counters(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };

	MUST(!peerdma_cache_counters(cache, &c));
	MUST(c.gets == c.hits + c.misses && c.hits_front <= c.hits);
	return c;
}

/* ---- one thing at a time ---- */

static void arguments(void)
{
	struct peerdma_cached *hold;
	struct peerdma_cache_counters c = { .size = 8 };

	fresh();
	options.granularity = 5000;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	options.granularity = 2048;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	options.granularity = 0;
	options.flags = 1U << 30;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	options.flags = 0;
	options.capacity = 1U << 30;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	options.capacity = 0;
	options.size = 4;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	options.size = sizeof(options);
	ops.add = NULL;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	ops.add = add;
	ops.size = 8;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	ops.size = sizeof(ops);
	ops.monitors = PEERDMA_MONITOR_CALLS;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	ops.monitors = 0;
	begin();
	MUST(peerdma_cache_get(cache, AT(0), 0, &hold) == -EINVAL);
	MUST(peerdma_cache_get(cache, (void *)-1UL, 1, &hold) == -EINVAL);
	MUST(peerdma_cache_get(cache, (void *)-8UL, 100, &hold) == -EINVAL);
	MUST(peerdma_cache_get(cache, AT(0), SIZE_MAX, &hold) == -EINVAL);
	touch(AT(0), PAGE);
	MUST(peerdma_cache_get(cache, AT(0), 0, &hold) == -EINVAL);
	MUST(peerdma_cache_counters(cache, &c) == -EINVAL);
	MUST(peerdma_cache_invalidate(cache, AT(0), 0) == 0);
	MUST(peerdma_cache_invalidate(cache, (void *)-1UL, SIZE_MAX) == 0);
	MUST(peerdma_cache_invalidate(cache, NULL, SIZE_MAX) == 1);
	finish();
	peerdma_cache_close(NULL);
}

static void sharing(void)
{
	struct peerdma_cached *a, *b;
	struct peerdma_cache_entry e[4];

	fresh();
	options.granularity = 65536;
	begin();
	a = get((char *)AT(0) + 100, 10);
	MUST(a->addr == BASE && a->length == 65536);
	b = get((char *)AT(15) + 4000, 96);
	MUST(a == b);
	MUST(get(AT(3), 1) == a);
	MUST(toy.adds == 1 && counters().misses == 1 && counters().hits == 2 && counters().bytes == 65536);
	touch(AT(16), PAGE);
	MUST(peerdma_cache_list(cache, 0, e, 4) == 2);
	MUST(e[0].addr == BASE && e[0].gets == 3 && e[0].holds == 3);
	MUST(e[1].addr == BASE + 65536 && e[1].gets == 1 && e[1].holds == 0);
	MUST(peerdma_cache_list(cache, BASE + 1, e, 4) == 1 && peerdma_cache_list(cache, 0, e, 1) == 1);
	for (int i = 0; i < 3; i++)
		peerdma_cache_put(cache, a);
	MUST(!toy.removes);
	finish();
}

static void merging(void)
{
	struct peerdma_cached *old, *merged;

	fresh();
	begin();
	old = get(AT(0), 2 * PAGE);
	touch(AT(4), PAGE);
	merged = get(AT(1), 4 * PAGE);
	MUST(merged->addr == BASE && merged->length == 5 * PAGE && counters().merges == 2);
	/* The old one is whoever's who holds it, and nobody's new. */
	MUST(old->length == 2 * PAGE && counters().dead == 1 && toy.removes == 1);
	MUST(get(AT(0), PAGE) == merged);
	peerdma_cache_put(cache, old);
	MUST(toy.removes == 2 && !counters().dead && counters().regions == 1);
	peerdma_cache_put(cache, merged);
	peerdma_cache_put(cache, merged);
	/* What cannot be registered as one is registered in parts. */
	toy.widest = 5 * PAGE;
	touch(AT(4), 2 * PAGE);
	MUST(toy.last_addr == BASE + 4 * PAGE && toy.last_length == 2 * PAGE && counters().retries == 1);
	finish();
}

static void whole_allocations(void)
{
	fresh();
	ops.extent = extent;
	begin();
	toy.allocation = BASE + 100;
	toy.allocation_length = 3 * PAGE;
	touch((char *)AT(1) + 5, 10);
	MUST(toy.last_addr == BASE + 100 && toy.last_length == 3 * PAGE);
	touch((char *)AT(0) + 100, 3 * PAGE);
	touch((char *)AT(3) + 99, 1);
	MUST(toy.adds == 1);
	/* The rest of the first page, and of the last, is another's. */
	toy.allocation = BASE;
	toy.allocation_length = 100;
	touch(AT(0), 100);
	MUST(toy.adds == 2 && toy.last_length == 100);
	touch((char *)AT(0) + 99, 1);
	touch((char *)AT(0) + 100, 1);
	MUST(toy.adds == 2);
	toy.allocation = BASE + 100 + 3 * PAGE;
	toy.allocation_length = PAGE;
	touch((char *)AT(3) + 100, 1);
	MUST(toy.adds == 3);
	MUST(peerdma_cache_invalidate(cache, AT(0), 100) == 1);
	MUST(counters().regions == 2);
	finish();
}

static void invalidation(void)
{
	struct peerdma_cached *held;
	struct peerdma_cached *again;

	fresh();
	begin();
	for (int i = 0; i < 100; i++)
		touch(AT(2 * i), PAGE);
	held = get(AT(10), PAGE);
	MUST(peerdma_cache_invalidate(cache, (char *)AT(9) + 4095, 2 + PAGE) == 1);
	MUST(toy.removes == 0 && counters().dead == 1);
	again = get(AT(10), PAGE);
	MUST(again != held && toy.adds == 101);
	peerdma_cache_put(cache, held);
	MUST(toy.removes == 1 && !counters().dead);
	peerdma_cache_put(cache, again);
	MUST(peerdma_cache_invalidate(cache, AT(1), PAGE) == 0);
	/* The middle of a region ends it, too; its neighbours stay. */
	MUST(peerdma_cache_invalidate(cache, (char *)AT(20) + 7, 1) == 1);
	MUST(peerdma_cache_invalidate(cache, AT(20), 41 * PAGE) == 20);
	MUST(counters().regions == 79 && counters().invalidations == 22);
	touch(AT(62), PAGE);
	touch(AT(18), PAGE);
	MUST(toy.adds == 101);
	finish();
}

static void limits(void)
{
	struct peerdma_cached *held[8];

	fresh();
	options.max_regions = 4;
	begin();
	for (int i = 0; i < 4; i++)
		touch(AT(2 * i), PAGE);
	/* The hand passes once over all; then those that are used again are spared. */
	touch(AT(100), PAGE);
	MUST(counters().regions == 4 && counters().evictions == 1);
	for (int n = 0; n < 50; n++) {
		touch(AT(100), PAGE);
		touch(AT(200 + 2 * n), PAGE);
		MUST(counters().regions == 4);
	}
	toy.adds += 1000;	/* it is there still: nothing is added */
	touch(AT(100), PAGE);
	MUST(toy.adds == 1000 + 55);
	toy.adds -= 1000;
	/* Held ones are not ended. */
	for (int i = 0; i < 8; i++)
		held[i] = get(AT(1000 + 2 * i), PAGE);
	MUST(counters().regions == 8);
	for (int i = 0; i < 8; i++)
		peerdma_cache_put(cache, held[i]);
	touch(AT(2000), PAGE);
	MUST(counters().regions <= 4);
	finish();

	fresh();
	options.max_bytes = 10 * PAGE;
	begin();
	for (int i = 0; i < 20; i++)
		touch(AT(4 * i), 3 * PAGE);
	MUST(counters().bytes == 9 * PAGE);
	MUST(peerdma_cache_trim(cache, 2) == 2 && counters().bytes == 3 * PAGE);
	finish();

	fresh();
	options.max_aperture = 4 * PAGE;
	ops.extent = extent;
	begin();
	for (int i = 0; i < 20; i++) {
		toy.aperture = i & 1;
		touch(AT(2 * i), PAGE);
	}
	MUST(counters().aperture <= 4 * PAGE && counters().aperture > 0 && counters().bytes > 4 * PAGE);
	finish();
}

static void out_of_room(void)
{
	struct peerdma_cached *held[5];
	struct peerdma_cached *hold;

	/* The provider has room for three: idle ones make way. */
	fresh();
	toy.room = 3;
	begin();
	for (int i = 0; i < 10; i++)
		touch(AT(2 * i), PAGE);
	MUST(toy.adds == 10 && counters().retries > 0);
	for (int i = 0; i < 3; i++)
		held[i] = get(AT(100 + 2 * i), PAGE);
	MUST(peerdma_cache_get(cache, AT(200), PAGE, &hold) == -ENOSPC);
	MUST(counters().failures == 1 && counters().regions == 3);
	peerdma_cache_put(cache, held[1]);
	touch(AT(200), PAGE);
	peerdma_cache_put(cache, held[0]);
	peerdma_cache_put(cache, held[2]);
	finish();

	/* The cache itself has room for four. */
	fresh();
	options.capacity = 4;
	begin();
	for (int i = 0; i < 100; i++)
		touch(AT(2 * i), PAGE);
	for (int i = 0; i < 4; i++)
		held[i] = get(AT(500 + 2 * i), PAGE);
	MUST(peerdma_cache_get(cache, AT(900), PAGE, &hold) == -ENOBUFS);
	MUST(strstr(peerdma_last_error(), "capacity"));
	for (int i = 0; i < 4; i++)
		peerdma_cache_put(cache, held[i]);
	touch(AT(900), PAGE);
	finish();
}

static void several_at_once(void)
{
	struct peerdma_range ranges[4];
	struct peerdma_cached *holds[4];

	fresh();
	begin();
	for (uint64_t i = 0; i < 4; i++)
		ranges[i] = (struct peerdma_range){ BASE + 2 * i * PAGE, PAGE };
	MUST(!peerdma_cache_get_many(cache, ranges, 4, holds));
	for (int i = 0; i < 4; i++)
		peerdma_cache_put(cache, holds[i]);
	ranges[3].length = 0;
	MUST(peerdma_cache_get_many(cache, ranges, 4, holds) == -EINVAL);
	MUST(!peerdma_cache_prefetch(cache, AT(50), PAGE) && toy.adds == 5);
	touch(AT(50), PAGE);
	MUST(toy.adds == 5);
	MUST(peerdma_cache_trim(cache, 100) == 5);	/* nobody holds any */
	finish();
}

static void monitors(void)
{
	uint32_t word = 7;
	struct peerdma_cached *held;

	fresh();
	ops.monitors = PEERDMA_MONITOR_WORD;
	toy.word = &word;
	begin();
	MUST(counters().monitors == (PEERDMA_MONITOR_WORD | PEERDMA_MONITOR_CALLS));
	touch(AT(0), PAGE);
	touch(AT(0), PAGE);
	held = get(AT(0), PAGE);
	MUST(toy.adds == 1);
	word = 8;
	touch(AT(0), PAGE);
	MUST(toy.adds == 2 && counters().stale == 1 && counters().dead == 1);
	peerdma_cache_put(cache, held);
	MUST(toy.removes == 1);
	finish();

	fresh();
	ops.check = check;
	begin();
	touch(AT(0), PAGE);
	touch(AT(0), PAGE);
	MUST(toy.adds == 1 && counters().monitors == (PEERDMA_MONITOR_CHECK | PEERDMA_MONITOR_CALLS));
	finish();
}

/* ---- calls from inside the functions ---- */

static int in_add_result;

static void get_in_add(void)
{
	struct peerdma_cached *hold;

	toy.in_add = NULL;
	in_add_result = peerdma_cache_get(cache, AT(0), PAGE, &hold);
	touch(AT(50), PAGE);
}

static void free_in_add(void)
{
	peerdma_cache_invalidate(cache, AT(0), PAGE);
}

static void free_once_in_add(void)
{
	toy.in_add = NULL;
	peerdma_cache_invalidate(cache, AT(0), PAGE);
}

static void free_in_remove(void)
{
	toy.in_remove = NULL;
	peerdma_cache_invalidate(cache, AT(0), 1000 * PAGE);
	touch(AT(2000), PAGE);
}

static void from_inside(void)
{
	struct peerdma_cached *hold;

	fresh();
	begin();
	toy.in_add = get_in_add;
	touch(AT(0), PAGE);
	MUST(in_add_result == -EDEADLK && toy.adds == 2);
	peerdma_cache_invalidate(cache, AT(0), PAGE);
	/* Freed while it is being registered: not kept; again and again: given up. */
	toy.in_add = free_once_in_add;
	touch(AT(0), PAGE);
	MUST(toy.adds == 4 && toy.removes == 2);
	peerdma_cache_invalidate(cache, AT(0), PAGE);
	toy.in_add = free_in_add;
	MUST(peerdma_cache_get(cache, AT(0), PAGE, &hold) == -ESTALE);
	toy.in_add = NULL;
	for (int i = 0; i < 20; i++)
		touch(AT(2 * i), PAGE);
	toy.in_remove = free_in_remove;
	peerdma_cache_invalidate(cache, AT(4), PAGE);
	MUST(counters().regions == 1);
	finish();
}

/* ---- threads and processes ---- */

static void *put_it(void *hold)
{
	peerdma_cache_put(cache, hold);
	return NULL;
}

static void *get_it(void *p)
{
	touch(p, PAGE);
	touch(p, PAGE);
	return get(p, PAGE);
}

static void *in_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;
	void *ret;

	MUST(!pthread_create(&t, NULL, fn, arg) && !pthread_join(t, &ret));
	return ret;
}

static void threads(void)
{
	struct peerdma_cached *hold;
	struct peerdma_cache_entry e;

	fresh();
	begin();
	/* A hold outlives its thread, and is anybody's to give back; so do the counts. */
	hold = in_thread(get_it, AT(0));
	MUST(peerdma_cache_list(cache, 0, &e, 1) == 1 && e.holds == 1 && e.gets == 3);
	MUST(counters().hits == 2 && counters().threads == 0);
	MUST(peerdma_cache_invalidate(cache, AT(0), PAGE) == 1 && toy.removes == 0);
	in_thread(put_it, hold);
	MUST(toy.removes == 1);

	hold = get(AT(0), PAGE);
	in_thread(put_it, hold);
	MUST(peerdma_cache_list(cache, 0, &e, 1) == 1 && e.holds == 0);
	MUST(peerdma_cache_invalidate(cache, AT(0), PAGE) == 1 && toy.removes == 2);
	finish();
}

static void *get_many(void *p)
{
	for (int i = 0; i < 100000; i++)
		get(p, PAGE);
	return NULL;
}

static void *put_many(void *p)
{
	struct peerdma_cached *hold = get(p, PAGE);

	for (int i = 0; i < 100001; i++)
		peerdma_cache_put(cache, hold);
	return NULL;
}

/* More than a record counts, up and down. */
static void many_holds(void)
{
	struct peerdma_cache_entry e;

	fresh();
	begin();
	in_thread(get_many, AT(0));
	get_many(AT(0));
	MUST(peerdma_cache_list(cache, 0, &e, 1) == 1 && e.holds == 200000 && e.gets == 200000);
	in_thread(put_many, AT(0));
	put_many(AT(0));
	MUST(peerdma_cache_list(cache, 0, &e, 1) == 1 && e.holds == 0 && e.gets == 200002);
	MUST(peerdma_cache_invalidate(cache, AT(0), 1) == 1 && toy.removes == 1);
	finish();
}

static void forks(void)
{
	struct peerdma_cached *hold, *other;
	int status;
	pid_t pid;

	fresh();
	begin();
	hold = get(AT(0), PAGE);
	touch(AT(0), PAGE);
	pid = fork();
	if (!pid) {
		struct peerdma_cache *parents = cache;

		if (peerdma_cache_get(cache, AT(0), PAGE, &other) != -EPERM ||
		    peerdma_cache_invalidate(cache, AT(0), PAGE) != -EPERM || peerdma_cache_trim(cache, 1) != -EPERM)
			_exit(1);
		peerdma_cache_put(cache, hold);
		if (!strstr(peerdma_last_error(), "parent"))
			_exit(2);
		/* One of its own; and of the parent's it gives back its copy only. */
		begin();
		touch(AT(0), PAGE);
		peerdma_cache_close(cache);
		peerdma_cache_close(parents);
		_exit(toy.removes == 1 ? 0 : 3);
	}
	MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
	MUST(WIFEXITED(status) && !WEXITSTATUS(status));
	MUST(get(AT(0), PAGE) == hold);
	peerdma_cache_put(cache, hold);
	peerdma_cache_put(cache, hold);
	MUST(peerdma_cache_invalidate(cache, AT(0), PAGE) == 1 && toy.removes == 1);
	finish();
}

static void *close_it(void *unused)
{
	(void)unused;
	finish();
	return NULL;
}

/* More caches than a thread has words for, closed here and by others, and new ones after them. */
static void many_caches(void)
{
	struct peerdma_cache *caches[10];

	fresh();
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 10; i++) {
			begin();
			caches[i] = cache;
			touch(AT(i), PAGE);
		}
		for (int n = 0; n < 100; n++) {
			cache = caches[n % 10];
			touch(AT(n % 10), PAGE);
			MUST(counters().misses == 1);
		}
		for (int i = 0; i < 10; i++) {
			cache = caches[i];
			toy.adds = toy.removes + 1;
			if (i & 1)
				in_thread(close_it, NULL);
			else
				finish();
		}
	}
}

static void big(void)
{
	fresh();
	begin();
	/* 64 GiB: more pages than an entry tells of. */
	touch(AT(0), 64ULL << 30);
	for (uint64_t i = 0; i < 1000; i++)
		touch((char *)AT(0) + (64ULL << 30) / 1000 * i, 100000);
	touch((char *)AT(0) + (64ULL << 30) - 5, 5);
	touch(AT(0), 64ULL << 30);
	MUST(toy.adds == 1);
	finish();
}

/* Tables grow, and what is in them is right. */
static void many_regions(void)
{
	fresh();
	options.capacity = 1 << 17;
	begin();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 100000; i++)
			touch(AT(2 * i), PAGE);
	}
	MUST(toy.adds == 100000 && counters().hits == 200000);
	MUST(peerdma_cache_invalidate(cache, AT(0), 100000 * PAGE) == 50000);
	for (int i = 50000; i < 100000; i++)
		touch(AT(2 * i), PAGE);
	MUST(toy.adds == 100000);
	finish();
}

/* No growth: the same regions made and ended, over and over. */
static void no_growth(void)
{
	long before = 0, after;
	struct rusage u;

	fresh();
	begin();
	for (int i = 0; i < 200000; i++) {
		touch(AT(2 * (i % 300)), PAGE);
		if (i % 3 == 0)
			peerdma_cache_invalidate(cache, AT(2 * (i % 300)), PAGE);
		if (i == 100000) {
			getrusage(RUSAGE_SELF, &u);
			before = u.ru_maxrss;
		}
	}
	getrusage(RUSAGE_SELF, &u);
	after = u.ru_maxrss;
	MUST(after - before < 1024);	/* KiB */
	finish();
}

static void no_address_space(void)
{
	struct rlimit old, small;
	int ret;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return;		/* their own memory is over any limit */
#endif
	if (getrlimit(RLIMIT_AS, &old))
		return;
	fresh();
	options.capacity = 1 << 24;
	small = old;
	small.rlim_cur = 256 << 20;
	if (setrlimit(RLIMIT_AS, &small))
		return;
	ret = peerdma_cache_create(&ops, &toy, &options, &cache);
	setrlimit(RLIMIT_AS, &old);
	MUST(ret == -ENOMEM && strstr(peerdma_last_error(), "capacity"));
}

int main(void)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {
#define T(name) { #name, name }
		T(arguments), T(sharing), T(merging), T(whole_allocations), T(invalidation), T(limits), T(out_of_room),
		T(several_at_once), T(monitors), T(from_inside), T(threads), T(many_holds), T(forks), T(many_caches), T(big),
		T(many_regions), T(no_growth), T(no_address_space),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		printf("%s\n", tests[i].name);
		tests[i].fn();
	}
	return 0;
}
