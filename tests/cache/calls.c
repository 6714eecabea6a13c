// SPDX-License-Identifier: MIT
/* calls.c - what each call of peerdma_cache.h promises, one thing at a time. */
#include "toy.h"

static void arguments(void)
{
	struct peerdma_cached *hold;
	struct peerdma_cache_counters c = { .size = 8 };

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
	ops.add = toy_add;
	ops.size = 8;
	MUST(peerdma_cache_create(&ops, &toy, &options, &cache) == -EINVAL);
	ops.size = sizeof(ops);
	ops.monitors = PEERDMA_MONITOR_CHECK;
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
	MUST(invalidate(AT(0), 0) == 0);
	MUST(invalidate((void *)-1UL, SIZE_MAX) == 0);
	MUST(invalidate(NULL, SIZE_MAX) == 1);
	finish();
	peerdma_cache_close(NULL);
}

static void sharing(void)
{
	struct peerdma_cached *a, *b;
	struct peerdma_cache_entry e[4] = { { .size = sizeof(e[0]) } };

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
}

static void merging(void)
{
	struct peerdma_cached *old, *merged;

	begin();
	old = get(AT(0), 2 * PAGE);
	touch(AT(4), PAGE);
	merged = get(AT(1), 4 * PAGE);
	MUST(merged->addr == BASE && merged->length == 5 * PAGE && counters().merges == 2);
	/* Its holder keeps the old one, and no new get finds it. */
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
}

static void whole_allocations(void)
{
	ops.extent = toy_extent;
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
	MUST(invalidate(AT(0), 100) == 1);
	MUST(counters().regions == 2);
}

static void invalidation(void)
{
	struct peerdma_cached *held;
	struct peerdma_cached *again;

	begin();
	for (int i = 0; i < 100; i++)
		touch(AT(2 * i), PAGE);
	held = get(AT(10), PAGE);
	MUST(invalidate((char *)AT(9) + 4095, 2 + PAGE) == 1);
	MUST(toy.removes == 0 && counters().dead == 1);
	again = get(AT(10), PAGE);
	MUST(again != held && toy.adds == 101);
	peerdma_cache_put(cache, held);
	MUST(toy.removes == 1 && !counters().dead);
	peerdma_cache_put(cache, again);
	MUST(invalidate(AT(1), PAGE) == 0);
	/* The middle of a region ends it, too; its neighbours stay. */
	MUST(invalidate((char *)AT(20) + 7, 1) == 1);
	MUST(invalidate(AT(20), 41 * PAGE) == 20);
	MUST(counters().regions == 79 && counters().invalidations == 22);
	touch(AT(62), PAGE);
	touch(AT(18), PAGE);
	MUST(toy.adds == 101);
}

static void within_bytes(void)
{
	MUST(toy.adds - toy.removes <= 3);
}

static void limits(void)
{
	struct peerdma_cached *held[8];

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
	/* What was deferred does not count, and is removed before more is registered. */
	toy.in_add = within_bytes;
	for (int i = 0; i < 20; i++) {
		touch(AT(4 * i), 3 * PAGE);
		MUST(i % 3 || peerdma_cache_invalidate(cache, AT(0), 100 * PAGE) > 0);
	}
	finish();

	fresh();
	options.max_aperture = 4 * PAGE;
	ops.extent = toy_extent;
	begin();
	for (int i = 0; i < 20; i++) {
		toy.aperture = i & 1;
		touch(AT(2 * i), PAGE);
	}
	MUST(counters().aperture <= 4 * PAGE && counters().aperture > 0 && counters().bytes > 4 * PAGE);
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
}

static void monitors(void)
{
	uint32_t word = 7;
	struct peerdma_cached *held;

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
	ops.check = toy_check;
	begin();
	touch(AT(0), PAGE);
	touch(AT(0), PAGE);
	MUST(toy.adds == 1 && counters().monitors == (PEERDMA_MONITOR_CHECK | PEERDMA_MONITOR_CALLS));
}

/* More puts than gets are counted when the region ends, and do no harm to the next one of that number. */
static void puts_too_many(void)
{
	struct peerdma_cached *held;

#ifndef __OPTIMIZE__
	return;		/* the library aborts */
#endif
	begin();
	held = get(AT(0), PAGE);
	peerdma_cache_put(cache, held);
	peerdma_cache_put(cache, held);
	MUST(invalidate(AT(0), PAGE) == 1 && toy.removes == 1);
	MUST(counters().bad_puts == 1 && !counters().dead && !counters().regions);
	peerdma_cache_put(cache, held);
	MUST(counters().bad_puts == 2);
	for (int i = 0; i < 3; i++) {
		held = get(AT(2), PAGE);
		MUST(invalidate(AT(2), PAGE) == 1 && counters().dead == 1);
		peerdma_cache_put(cache, held);
		MUST(!counters().dead && toy.removes == 2 + i);
	}
	MUST(counters().bad_puts == 2);
}

/* usage: cache_calls [TEST] */
int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(arguments), TEST(sharing), TEST(merging), TEST(whole_allocations), TEST(invalidation), TEST(limits), TEST(out_of_room),
		TEST(monitors), TEST(puts_too_many), TEST(failed_gets), TEST(freed_while_merging), TEST(never_valid),
		TEST(adds_that_want_each_other), TEST(sliding_windows), TEST(aperture_pages), TEST(access_bits), TEST(access_of_overlapping), TEST(requests), TEST(payloads),
		TEST(kinds), TEST(held_ends), TEST(nothing_kept), TEST(logged), TEST(from_inside), TEST(threads), TEST(many_holds), TEST(forks), TEST(many_caches), TEST(big),
		TEST(many_regions), TEST(no_growth), TEST(no_address_space), TEST(each_option), TEST(each_errno), TEST(each_counter),
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	check_before = fresh;
	check_after = finish;
	return check_run(tests, CHECK_COUNT(tests), argc - 1, argv + 1);
}
