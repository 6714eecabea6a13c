/* SPDX-License-Identifier: MIT */
/* miss.h - gets of a range that no region covers (miss.c). */
#pragma once

#include "thread_cache.h"

/* Number of attempts of a get, if the memory is freed during each */
#define MISS_TRIES	16

/* The arguments of a get. */
struct request {
	uint64_t addr, length;
	uint32_t access;
	bool counted;			/* as a miss */
	const struct peerdma_cache_request *request;
};

/*
 * No lock.  Registers a region for the request, and takes a ref.  If another thread has added such
 * a region meanwhile, takes a ref of that one, and counts no miss.  tc: the thread's own, or NULL.
 * 0 or -errno with text.
 */
int miss(struct peerdma_cache *cache, struct thread_cache *tc, struct request *request,
	 struct region **out);
/* No lock.  Counts a failed get.  counted: its miss was already counted. */
void miss_failed(struct peerdma_cache *cache, bool counted);
/* No lock.  The region that another thread added is stale, so the get was not a hit. */
void miss_found_stale(struct peerdma_cache *cache);
