// SPDX-License-Identifier: MIT
/* cache_subjects.c - what bench/cache.c measures: our cache, and UCX's where it is there. Registration does nothing. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef HAVE_UCX
#include <ucs/memory/rcache.h>
#endif

#include "cache_subjects.h"

void die(const char *what)
{
	fprintf(stderr, "bench-cache: %s\n", what);
	exit(1);
}

static void *our_cache(bool words)
{
	struct peerdma_cache *cache;

	if (empty_cache_open(words, 0, &cache))
		die(peerdma_last_error());
	return cache;
}

static void *our_open(size_t n)
{
	(void)n;
	return our_cache(false);
}

void *our_open_words(size_t n)
{
	(void)n;
	return our_cache(true);
}

static void our_close(void *cache)
{
	peerdma_cache_close(cache);
}

static void our_forget(void *cache, size_t n)
{
	if (peerdma_cache_invalidate(cache, BASE, n * STRIDE) != (int)n)
		die("not all were invalidated");
	peerdma_cache_drain(cache);
}

static void our_touch(void *cache, uint64_t addr, uint64_t length)
{
	if (empty_cache_touch(cache, addr, length))
		die(peerdma_last_error());
}

static void our_hit(void *cache, const uint32_t *which, size_t n)
{
	for (size_t i = 0; i < n; i++)
		our_touch(cache, (uintptr_t)BASE + which[i] * STRIDE, LENGTH);
}

static void our_hit_at(void *cache, const uint32_t *which, size_t n)
{
	for (size_t i = 0; i < n; i++)
		our_touch(cache, (uintptr_t)BASE + which[i] * LINE, LINE);
}

static void our_end_each(void *cache, const uint32_t *which, size_t n)
{
	for (size_t i = 0; i < n; i++)
		peerdma_cache_invalidate(cache, BASE + which[i] * STRIDE, LENGTH);
	peerdma_cache_drain(cache);
}

#ifdef HAVE_UCX
static ucs_status_t ucx_add(void *context, ucs_rcache_t *rcache, void *arg, ucs_rcache_region_t *region, uint16_t flags)
{
	(void)context;
	(void)rcache;
	(void)arg;
	(void)region;
	(void)flags;
	return UCS_OK;
}

static void ucx_end(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region)
{
	(void)context;
	(void)rcache;
	(void)region;
}

static void ucx_dump(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region, char *buf, size_t max)
{
	(void)context;
	(void)rcache;
	(void)region;
	if (max)
		*buf = 0;
}

static void *ucx_open(size_t n)
{
	static const ucs_rcache_ops_t ops = { ucx_add, ucx_end, ucx_dump };
	ucs_rcache_params_t params;
	ucs_rcache_t *rcache;

	(void)n;
	memset(&params, 0, sizeof(params));
	params.region_struct_size = sizeof(ucs_rcache_region_t);
	params.alignment = UCS_RCACHE_MIN_ALIGNMENT;
	params.max_alignment = 4096;
	params.ops = &ops;
	params.flags = UCS_RCACHE_FLAG_NO_PFN_CHECK;
	params.max_regions = (unsigned long)-1;
	params.max_size = (size_t)-1;
	params.max_unreleased = (size_t)-1;
	if (ucs_rcache_create(&params, "bench", NULL, &rcache) != UCS_OK)
		die("ucs_rcache_create");
	return rcache;
}

static void ucx_close(void *cache)
{
	ucs_rcache_destroy(cache);
}

static void ucx_gone(void *arg)
{
	(void)arg;
}

static void ucx_end_each(void *cache, const uint32_t *which, size_t n)
{
	ucs_rcache_region_t *region;

	for (size_t i = 0; i < n; i++) {
		if (ucs_rcache_get(cache, BASE + which[i] * STRIDE, LENGTH, PROT_READ | PROT_WRITE, NULL, &region) != UCS_OK)
			die("ucs_rcache_get");
		ucs_rcache_region_invalidate(cache, region, ucx_gone, NULL);
		ucs_rcache_region_put(cache, region);
	}
}

static void ucx_forget(void *cache, size_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ucx_end_each(cache, &i, 1);
}

static void ucx_touch(void *cache, uint64_t addr, uint64_t length)
{
	ucs_rcache_region_t *region;

	if (ucs_rcache_get(cache, (void *)(uintptr_t)addr, length, PROT_READ | PROT_WRITE, NULL, &region) != UCS_OK)
		die("ucs_rcache_get");
	ucs_rcache_region_put(cache, region);
}

static void ucx_hit(void *cache, const uint32_t *which, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ucx_touch(cache, (uintptr_t)BASE + which[i] * STRIDE, LENGTH);
}

static void ucx_hit_at(void *cache, const uint32_t *which, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ucx_touch(cache, (uintptr_t)BASE + which[i] * LINE, LINE);
}
#endif

const struct subject subjects[] = {
	{ "peerdma", our_open, our_close, our_hit, our_forget, our_end_each, our_touch, our_hit_at },
#ifdef HAVE_UCX
	{ "ucx", ucx_open, ucx_close, ucx_hit, ucx_forget, ucx_end_each, ucx_touch, ucx_hit_at },
#endif
};

const int subjects_count = sizeof(subjects) / sizeof(subjects[0]);
