// SPDX-License-Identifier: MIT
/*
 * truth.c - threads use memory while others free it and get the same addresses
 * anew; every use is held against the truth.
 *
 * The memory is a row of pages, each with a number: odd while it is free, even
 * while it is allocated, and another each time.  To register a page reads its
 * number.  What a get returns must have been registered with the number that the
 * page had when the get began, or a later one, and stays registered while held.
 *
 * sandbox: as calls; and in the midst of it all threads enter a sandbox without membarrier().
 *
 * usage: cache_truth calls|check|word|sandbox [OPERATIONS [SEED [THREADS [SHIFT]]]]
 *
 * SHIFT: pages are of 1 << SHIFT bytes; gets are of parts of them.
 */
#include <pthread.h>

#include "../check.h"
#include "sandbox.h"
#include "peerdma_cache.h"

#define PAGES		64
#define LONGEST		4
#define THREADS_MAX	16
#define BASE		(1ULL << 40)
#define HELD		3		/* at a time, by one thread */

struct registration {
	bool there;
	uint32_t access;
	uint32_t first, count;
	uint32_t number[PAGES];
};

static uint64_t page_size = 4096;
static uint32_t truth[PAGES];
static struct peerdma_cache *cache;
static enum { CALLS, CHECK, WORD } monitor;
static int64_t registered;
static uint64_t operations;
static int thread_count = 3;
static bool sandbox;

static uint32_t number_of(uint32_t page)
{
	return __atomic_load_n(&truth[page], __ATOMIC_ACQUIRE);
}

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	struct registration *r = malloc(sizeof(*r));

	MUST(r);
	r->first = (uint32_t)((addr - BASE) / page_size);
	r->count = (uint32_t)(length / page_size);
	r->there = true;
	MUST(r->first + r->count <= PAGES);
	for (uint32_t i = 0; i < r->count; i++) {
		r->number[i] = number_of(r->first + i);
		if (r->number[i] & 1) {
			free(r);
			return -EFAULT;
		}
	}
	r->access = out->access;
	__atomic_add_fetch(&registered, 1, __ATOMIC_RELAXED);
	out->handle = r;
	if (monitor == WORD) {
		MUST(r->count == 1);
		out->word = &truth[r->first];
		out->expected = r->number[0];
	}
	return 0;
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	struct registration *r = handle;

	MUST(r->there && addr == BASE + r->first * page_size && length == r->count * page_size);
	__atomic_store_n(&r->there, false, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&registered, 1, __ATOMIC_RELAXED);
	free(r);
}

static int check(void *arg, const struct peerdma_cached *region, uint64_t addr, uint64_t length)
{
	const struct registration *r = region->registration;

	for (uint64_t page = (addr - BASE) / page_size; page <= (addr + length - 1 - BASE) / page_size; page++) {
		if (r->number[page - r->first] != number_of((uint32_t)page))
			return 0;
	}
	return 1;
}

static void free_and_allocate(uint32_t page, uint32_t count)
{
	uint32_t locked = 0;

	/* Each page is taken by one of the threads; none waits for another. */
	for (; locked < count; locked++) {
		uint32_t n = number_of(page + locked);

		if (n & 1 || !__atomic_compare_exchange_n(&truth[page + locked], &n, n + 1, false, __ATOMIC_ACQ_REL,
							  __ATOMIC_RELAXED))
			break;
	}
	if (monitor == CALLS && locked)
		MUST(peerdma_cache_invalidate(cache, (void *)(BASE + page * page_size), locked * page_size) >= 0);
	while (locked--)
		__atomic_add_fetch(&truth[page + locked], 1, __ATOMIC_RELEASE);
}

static struct peerdma_cached *use(uint32_t page, uint32_t count, uint64_t offset)
{
	struct peerdma_cached *hold;
	const struct registration *r;
	struct peerdma_cache_request q = { .size = sizeof(q) };
	/* From somewhere in the first of them to somewhere in the last. */
	uint64_t skip = offset % (page_size / 2), left = (offset >> 32) % (page_size / 2);
	uint32_t before[LONGEST];
	int ret;

	for (uint32_t i = 0; i < count; i++)
		before[i] = number_of(page + i) & ~1U;	/* odd: that free has not returned */
	q.access = (page + count) & 3;
	if (q.access)
		ret = peerdma_cache_get_with(cache, (void *)(BASE + page * page_size + skip), count * page_size - skip - left, &q, &hold);
	else
		ret = peerdma_cache_get(cache, (void *)(BASE + page * page_size + skip), count * page_size - skip - left, &hold);
	if (ret) {
		MUST(ret == -EFAULT || ret == -ESTALE);
		return NULL;
	}
	r = hold->registration;
	MUST(__atomic_load_n(&r->there, __ATOMIC_RELAXED));
	MUST(!(q.access & ~r->access));
	MUST(r->first <= page && page + count <= r->first + r->count);
	for (uint32_t i = 0; i < count; i++)
		MUST((int32_t)(r->number[page + i - r->first] - before[i]) >= 0);
	return hold;
}

static void let_go(struct peerdma_cached *hold)
{
	const struct registration *r = hold->registration;

	MUST(__atomic_load_n(&r->there, __ATOMIC_RELAXED));
	peerdma_cache_put(cache, hold);
}

static void *thread(void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	struct peerdma_cached *held[HELD] = { NULL };

	for (uint64_t n = 0; n < operations; n++) {
		uint32_t count = monitor == WORD ? 1 : 1 + (uint32_t)below(&seed, LONGEST);
		/* Few pages most of the time, so that threads meet. */
		uint32_t page = (uint32_t)below(&seed, below(&seed, 4) ? 8 : PAGES - LONGEST);
		struct peerdma_cached **h = &held[below(&seed, HELD)];
		uint64_t what = below(&seed, 64);

		if (n == operations / 4 && __atomic_exchange_n(&sandbox, false, __ATOMIC_RELAXED))
			sandbox_enter();

		if (what < 4) {
			free_and_allocate(page, 1 + (uint32_t)below(&seed, LONGEST));
		} else if (what == 4) {
			MUST(peerdma_cache_trim(cache, 3) >= 0);
		} else {
			if (*h)
				let_go(*h);
			*h = use(page, count, rnd(&seed));
		}
	}
	for (int i = 0; i < HELD; i++) {
		if (held[i])
			let_go(held[i]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = end };
	struct peerdma_cache_options options = { .size = sizeof(options), .max_regions = 24, .capacity = 4096 };
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	const char *name = argc > 1 ? argv[1] : "calls";
	pthread_t threads[THREADS_MAX];
	uint64_t seed = check_seed(argc, argv, 3);

	monitor = !strcmp(name, "word") ? WORD : !strcmp(name, "check") ? CHECK : CALLS;
	sandbox = !strcmp(name, "sandbox");
	if (monitor == WORD)
		ops.monitors = PEERDMA_MONITOR_WORD;
	if (monitor == CHECK)
		ops.check = check;
	if (argc > 4)
		thread_count = atoi(argv[4]);
	if (argc > 5)
		page_size = 1ULL << atoi(argv[5]);
	options.granularity = (uint32_t)page_size;
	MUST(thread_count > 0 && thread_count <= THREADS_MAX);
	operations = (argc > 2 ? strtoull(argv[2], NULL, 0) : 1000000) / (uint64_t)thread_count;

	MUST(!peerdma_cache_create(&ops, NULL, &options, &cache));
	for (int i = 0; i < thread_count; i++)
		MUST(!pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)(seed * 1000 + (uint64_t)i)));
	for (int i = 0; i < thread_count; i++)
		MUST(!pthread_join(threads[i], NULL));

	MUST(!peerdma_cache_counters(cache, &c));
	printf("%llu gets: %llu hits, %llu in a thread's own table; %llu misses, %llu failed; %llu merged, %llu evicted, "
	       "%llu invalidated, %llu stale; %llu fences\n", (unsigned long long)c.gets, (unsigned long long)c.hits,
	       (unsigned long long)c.hits_front, (unsigned long long)c.misses, (unsigned long long)c.failures,
	       (unsigned long long)c.merges, (unsigned long long)c.evictions, (unsigned long long)c.invalidations,
	       (unsigned long long)c.stale, (unsigned long long)c.fences);
	/* Nobody holds anything: no region waits for a last put. */
	MUST(!c.stuck);
	MUST(!c.dead && c.regions + c.deferred == (uint64_t)registered);
	MUST(peerdma_cache_invalidate(cache, (void *)BASE, PAGES * page_size) == (int)c.regions);
	MUST(peerdma_cache_drain(cache) == (int)(c.regions + c.deferred));
	MUST(!registered);
	peerdma_cache_close(cache);
	return 0;
}
