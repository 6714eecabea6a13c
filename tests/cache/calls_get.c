// SPDX-License-Identifier: MIT
/* calls_get.c - gets that fail, gets whose ranges overlap, and what regions cost. */
#include <pthread.h>

#include "toy.h"

#define MIB	(1ULL << 20)

/* ---- a get that fails has changed nothing ---- */

void failed_gets(void)
{
	struct peerdma_cached *held, *hold;

	begin();
	held = get(AT(0), 2 * PAGE);
	touch(AT(4), PAGE);
	/* Neither the merged range nor the range alone can be registered. */
	toy.refuse = -EFAULT;
	MUST(peerdma_cache_get(cache, AT(1), 4 * PAGE, &hold) == -EFAULT);
	MUST(toy.removes == 0 && counters().regions == 2 && counters().dead == 0 && counters().merges == 0);
	MUST(get(AT(0), PAGE) == held);
	touch(AT(4), PAGE);
	MUST(toy.adds == 2 && counters().failures == 1);
	/* add() has no text of its own: an older call's is not this one's. */
	MUST(strstr(peerdma_last_error(), "peerdma_cache_get: add() returned -14"));
	toy.refuse = -EIO;
	MUST(peerdma_cache_get(cache, AT(9), PAGE, &hold) == -EIO);
	MUST(strstr(peerdma_last_error(), "peerdma_cache_get: add() returned -5"));
	peerdma_cache_put(cache, held);
	peerdma_cache_put(cache, held);
	/* Freed during the call, again and again: likewise. */
	toy.refuse = -ESTALE;
	MUST(peerdma_cache_get(cache, AT(1), 4 * PAGE, &hold) == -ESTALE);
	toy.refuse = 0;
	MUST(toy.removes == 0 && counters().regions == 2);
	/* And then it can. */
	touch(AT(1), 4 * PAGE);
	MUST(toy.adds == 3 && toy.removes == 2 && counters().merges == 2 && counters().regions == 1);
	MUST(counters().bytes == 5 * PAGE);
}

static void hit_and_free_in_add(void)
{
	toy.in_add = NULL;
	/* What is to be merged can be used until it is merged. */
	touch(AT(0), PAGE);
	MUST(toy.removes == 0);
	MUST(invalidate(AT(4), PAGE) == 2);	/* the old one, and the one that is being made */
}

void freed_while_merging(void)
{
	begin();
	touch(AT(0), 2 * PAGE);
	touch(AT(4), PAGE);
	toy.in_add = hit_and_free_in_add;
	touch(AT(1), 4 * PAGE);
	MUST(counters().regions == 1 && counters().bytes == 5 * PAGE && counters().merges == 1);
	MUST(toy.adds == 4 && toy.removes == 3);
}

/* ---- a get ends ---- */

void never_valid(void)
{
	struct peerdma_cached *hold;

	ops.check = toy_check;
	toy.valid = 0;
	begin();
	MUST(peerdma_cache_get(cache, AT(0), PAGE, &hold) == -ESTALE);
	MUST(strstr(peerdma_last_error(), "check"));
	MUST(counters().failures == 1 && counters().regions == 0);
	toy.valid = 1;
	touch(AT(0), PAGE);
}

static pthread_barrier_t both;

/* Registers a page, and for that wants the other one. */
static int add_other(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	struct peerdma_cached *hold;
	int ret;

	out->handle = (void *)(uintptr_t)(addr + 1);
	if (addr >= BASE + 10 * PAGE)
		return 0;
	pthread_barrier_wait(&both);
	ret = peerdma_cache_get(cache, addr == BASE ? AT(2) : AT(0), PAGE, &hold);
	if (!ret)
		peerdma_cache_put(cache, hold);
	else if (ret != -EDEADLK || !strstr(peerdma_last_error(), "waits for"))
		return -EIO;
	return 0;
}

static void remove_other(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	MUST(handle == (void *)(uintptr_t)(addr + 1));
}

static void *touch_it(void *p)
{
	touch(p, PAGE);
	return NULL;
}

void adds_that_want_each_other(void)
{
	pthread_t a, b;

	ops.add = add_other;
	ops.remove = remove_other;
	begin();
	MUST(!pthread_barrier_init(&both, NULL, 2));
	alarm(20);
	MUST(!pthread_create(&a, NULL, touch_it, AT(0)) && !pthread_create(&b, NULL, touch_it, AT(2)));
	MUST(!pthread_join(a, NULL) && !pthread_join(b, NULL));
	alarm(0);
	pthread_barrier_destroy(&both);
	MUST(counters().regions == 2);
}

/* ---- overlapping ranges ---- */

/* What was registered, in bytes, for each byte that was asked for. */
static double registered_for(uint64_t window, uint64_t step, int n)
{
	fresh();
	begin();
	for (int i = 0; i < n; i++)
		touch((char *)AT(0) + (uint64_t)i * step, window);
	/* And what was registered is found. */
	toy.widest = 1;
	for (int i = 0; i < n; i++)
		touch((char *)AT(0) + (uint64_t)i * step, window);
	toy.widest = 0;
	printf("  %d windows of %llu KiB, %llu KiB apart: %.2f bytes registered for each asked for\n", n,
	       (unsigned long long)(window >> 10), (unsigned long long)(step >> 10),
	       (double)toy.bytes / ((double)n * (double)window));
	finish();
	return (double)toy.bytes / ((double)n * (double)window);
}

void sliding_windows(void)
{
	struct peerdma_cached *wide;

	MUST(registered_for(2 * MIB, MIB, 1000) <= 4);
	MUST(registered_for(2 * MIB, 64 << 10, 1000) <= 4);
	MUST(registered_for(2 * MIB, 3 * MIB / 2, 500) <= 4);
	MUST(registered_for(4 * PAGE, PAGE, 1000) <= 4);
	MUST(registered_for(2 * PAGE, PAGE, 1000) <= 4);

	/* Beside a wide one lies what sticks out of it; each is found, and each ends where its memory ends. */
	fresh();
	begin();
	wide = get(AT(0), 1000 * PAGE);
	touch(AT(999), 2 * PAGE);
	MUST(toy.last_addr == BASE + 999 * PAGE && toy.last_length == 2 * PAGE && toy.removes == 0);
	touch(AT(998), 3 * PAGE);
	MUST(toy.last_addr == BASE + 998 * PAGE && toy.last_length == 3 * PAGE && toy.removes == 1);
	MUST(counters().regions == 2 && counters().bytes == 1003 * PAGE && counters().merges == 1);
	toy.widest = 1;
	MUST(get(AT(997), 3 * PAGE) == wide);
	MUST(get(AT(998), 3 * PAGE) != wide);
	toy.widest = 0;
	MUST(invalidate(AT(999), 1) == 2);
	MUST(counters().dead == 2 && counters().regions == 2);
	finish();

	/* Neighbours on both sides. */
	fresh();
	begin();
	touch(AT(0), 1000 * PAGE);
	touch(AT(1001), 1000 * PAGE);
	touch(AT(999), 3 * PAGE);
	MUST(toy.last_length == 3 * PAGE && counters().regions == 3);
	MUST(invalidate(AT(1000), 1) == 1);
	touch(AT(999), 3 * PAGE);
	MUST(invalidate(AT(1001), 1) == 2 && counters().regions == 1);
	touch(AT(999), 3 * PAGE);
	MUST(invalidate(AT(0), 1) == 1 && counters().regions == 1);
	finish();

	/* The caller's own limit. */
	fresh();
	options.max_region = 2000 * PAGE;
	begin();
	touch(AT(0), 1000 * PAGE);
	touch(AT(999), 2 * PAGE);
	MUST(toy.last_length == 1001 * PAGE && counters().regions == 1);
	touch(AT(1000), 999 * PAGE);
	MUST(toy.last_length == 1999 * PAGE && counters().regions == 1);
	touch(AT(1998), 3 * PAGE);
	MUST(toy.last_length == 3 * PAGE && counters().regions == 2);
	touch(AT(5000), 3000 * PAGE);	/* what one get asks for is not limited */
	MUST(toy.last_length == 3000 * PAGE);
}

/* ---- the aperture's pages ---- */

#define GPU_PAGE	(64ULL << 10)

/* How many of the GPU's pages are registered. */
static uint64_t pages_in_use(void)
{
	uint64_t n = 0;

	for (uint64_t p = 0; p < TOY_PAGES; p++)
		n += toy.page_uses[p] != 0;
	return n * GPU_PAGE;
}

static void aperture(uint64_t length, uint64_t apart)
{
	fresh();
	options.max_aperture = 1 * MIB;
	ops.extent = toy_extent;
	toy.aperture = GPU_PAGE;
	toy.exact = true;
	begin();
	for (uint64_t i = 0; i < 200; i++) {
		touch((char *)AT(0) + i * apart, length);
		MUST(pages_in_use() <= MIB && counters().aperture == pages_in_use());
	}
	printf("  %llu bytes each, %llu apart: %llu KiB in use\n", (unsigned long long)length, (unsigned long long)apart,
	       (unsigned long long)pages_in_use() >> 10);
	MUST(pages_in_use() > MIB / 2 || 200 * apart < MIB);
	for (uint64_t i = 0; i < 100; i++) {
		invalidate((char *)AT(0) + 2 * i * apart, 1);
		MUST(counters().aperture == pages_in_use());
	}
	invalidate(NULL, SIZE_MAX);
	MUST(!counters().aperture && !counters().regions);
	finish();
}

void aperture_pages(void)
{
	struct peerdma_cached *held;

	aperture(36 << 10, 36 << 10);
	aperture(70000, 70000);
	aperture(70000, 40000);
	aperture(512, 512);
	aperture(GPU_PAGE, GPU_PAGE);
	aperture(200 << 10, 300 << 10);

	/* No get finds it any more, but it is held: its pages are still registered. */
	fresh();
	ops.extent = toy_extent;
	toy.aperture = GPU_PAGE;
	toy.exact = true;
	begin();
	held = get(AT(0), 36 << 10);
	invalidate(AT(0), 1);
	MUST(counters().aperture == GPU_PAGE);
	peerdma_cache_put(cache, held);
	MUST(counters().aperture == 0);
}
