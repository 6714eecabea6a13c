// SPDX-License-Identifier: MIT
/*
 * test_leaving.c - while another thread unmaps or frees an allocation, NVIDIA's libcuda may
 * crash when it is asked about it.  So a call asks about no memory that it does not name,
 * though a cache's region has more; and what is known of a part only is not said of all.
 */
#include "side_by_side.h"
#include "peerdma_cache.h"
#include "peerdma_verbs.h"

static struct peerdma_cache *cache;

static int over(void **state)
{
	peerdma_cache_close(cache);
	peerdma_close(ctx);
	return 0;
}

static void begin(const char *provider)
{
	open_with(provider);
	assert_int_equal(peerdma_cache_open(ctx, NULL, &cache), 0);
}

/* From one allocation on, so many. */
static struct peerdma_cached *get(int first, int count)
{
	struct peerdma_cached *hold;

	if (peerdma_cache_get(cache, memory + first * PAGE, count * PAGE, &hold))
		fail_msg("%s", peerdma_last_error());
	return hold;
}

static void touch(int first, int count)
{
	peerdma_cache_put(cache, get(first, count));
}

static void leaves(int i)
{
	cuda->leaving = (uintptr_t)memory + i * PAGE;
}

static uint64_t misses(void)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };

	assert_int_equal(peerdma_cache_counters(cache, &c), 0);
	return c.misses;
}

/* ---- nothing else is asked about ---- */

static void hits(void)
{
	struct peerdma_cached *hold = get(0, 4), *again;
	const struct peerdma_mr *mr;

	leaves(3);
	again = get(0, 2);
	assert_ptr_equal(again, hold);
	assert_int_equal(peerdma_cache_mr(cache, again, pd, PEERDMA_ACCESS_READ, &mr), 0);
	peerdma_cache_put(cache, again);
	peerdma_cache_put(cache, hold);
	assert_int_equal(cuda->asked_leaving, 0);
}

/* The get's range overlaps a region that has more. */
static void misses_beside(void)
{
	touch(0, 4);
	leaves(0);
	touch(2, 4);
	assert_int_equal(cuda->asked_leaving, 0);
	leaves(5);
	touch(0, 4);
	assert_true(misses() == 2 && !cuda->asked_leaving);
}

static void more_access(void)
{
	struct peerdma_cache_request r = { .size = sizeof(r), .access = PEERDMA_ACCESS_READ };
	struct peerdma_cached *hold;

	assert_int_equal(peerdma_cache_get_with(cache, memory, 4 * PAGE, &r, &hold), 0);
	peerdma_cache_put(cache, hold);
	leaves(3);
	hold = get(0, 1);
	assert_int_equal(hold->length, PAGE);
	peerdma_cache_put(cache, hold);
	touch(0, 1);		/* none of the two hides the other */
	assert_true(misses() == 2 && !cuda->asked_leaving);
	cuda->leaving = 0;
	touch(1, 1);
	touch(0, 1);
	assert_int_equal(misses(), 3);
}

static void with(const char *provider, void (*test)(void))
{
	begin(provider);
	test();
}

#define BOTH(test) \
	CASE(test##_dmabuf) { with("dmabuf", test); } \
	CASE(test##_kernel) { with("kernel", test); }

FIXTURE(reset, over)

BOTH(hits)
BOTH(misses_beside)
BOTH(more_access)

/* One allocation was where two are now: the get is of the second. */
CASE(other_in_its_place)
{
	allocations(1, 4 * PAGE);
	fake.allocation = 0;
	begin("dmabuf");
	touch(0, 4);
	allocations(2, 2 * PAGE);
	cuda->memory[0].id = 500;
	cuda->memory[1].id = 501;
	leaves(0);
	touch(3, 1);
	assert_true(misses() == 2 && !cuda->asked_leaving);
}

/* The caller's mistake costs an error. */
CASE(past_the_end)
{
	struct peerdma_cached *hold;

	allocations(4, PAGE);
	begin("dmabuf");
	touch(0, 3);
	leaves(0);
	assert_int_equal(peerdma_cache_get(cache, memory + 2 * PAGE, 3 * PAGE, &hold), -ENXIO);
	assert_int_equal(cuda->asked_leaving, 0);
}

/* Host memory that CUDA allocated is asked about, too. */
CASE(host_memory)
{
	for (int i = 0; i < N; i++)
		cuda->memory[i].type = 1;
	fake.device_memory = 0;
	begin("host");
	touch(0, 2);
	leaves(0);
	touch(1, 2);
	assert_true(misses() == 2 && !cuda->asked_leaving);
}

CASE(copies)
{
	struct peerdma_cache_options o = { .size = sizeof(o), .flags = PEERDMA_CACHE_STAGING };
	const struct peerdma_mr *mr;
	struct peerdma_cached *hold;

	open_with("dmabuf,host,staging");
	assert_int_equal(peerdma_cache_open(ctx, &o, &cache), 0);
	touch(0, 4);
	verbs->dmabuf_error = EOPNOTSUPP;
	verbs->not_memory = memory;
	leaves(3);
	hold = get(0, 1);
	assert_int_equal(peerdma_cache_mr(cache, hold, pd, PEERDMA_ACCESS_READ, &mr), -EOPNOTSUPP);
	peerdma_cache_put(cache, hold);
	assert_int_equal(cuda->asked_leaving, 0);
}

/* ---- what is known of a part ---- */

CASE(gone)
{
	struct peerdma_cached *hold;

	begin("dmabuf");
	touch(0, 4);
	cuda->memory[3].size = 0;
	hold = get(0, 2);	/* ends the region, or its dma-buf would keep what was freed */
	assert_int_equal(hold->length, 2 * PAGE);
	peerdma_cache_put(cache, hold);
	assert_int_equal(misses(), 2);
}

static int unknown_to_the_host(const void *addr)
{
	return 1;
}

/* A peer-memory client ends the MR as a whole when any of its memory goes. */
CASE(mr_over)
{
	const struct peerdma_mr *mr, *next;
	struct peerdma_cached *hold;

	begin("dmabuf");
	verbs->dmabuf_error = EOPNOTSUPP;
	hold = get(0, 4);
	assert_int_equal(peerdma_cache_mr(cache, hold, pd, PEERDMA_ACCESS_READ, &mr), 0);
	assert_string_equal(mr->way, "peer");
	peerdma_cache_put(cache, hold);
	cuda->memory[3].id += 1000;	/* unmapped, and another mapped */
	hold = get(0, 1);
	assert_int_equal(peerdma_cache_mr(cache, hold, pd, PEERDMA_ACCESS_READ, &next), 0);
	assert_int_equal(next->length, PAGE);
	peerdma_cache_put(cache, hold);
}

/* No MR can be made of what is half gone; the next get has one of its own. */
CASE(no_mr)
{
	const struct peerdma_mr *mr;
	struct peerdma_cached *hold;

	begin("dmabuf");
	verbs->dmabuf_error = EOPNOTSUPP;
	verbs->not_host = unknown_to_the_host;
	hold = get(0, 4);
	cuda->memory[3].size = 0;
	assert_int_equal(peerdma_cache_mr(cache, hold, pd, PEERDMA_ACCESS_READ, &mr), -ESTALE);
	peerdma_cache_put(cache, hold);
	verbs->not_host = NULL;
	hold = get(0, 1);
	assert_int_equal(peerdma_cache_mr(cache, hold, pd, PEERDMA_ACCESS_READ, &mr), 0);
	peerdma_cache_put(cache, hold);
}

CASE(exported_part)
{
	struct peerdma_cached *hold;
	int fd;

	begin("dmabuf");
	hold = get(0, 4);
	cuda->memory[1].id = 700;
	assert_int_equal(peerdma_export_dmabuf(hold->registration, PAGE, PAGE, &fd), -ESTALE);
	assert_int_equal(peerdma_export_dmabuf(hold->registration, 0, PAGE, &fd), 0);
	close(fd);
	peerdma_cache_put(cache, hold);
}

int main(void)
{
	return side_by_side() ? cases_run(NULL, NULL) : 1;
}
