/* SPDX-License-Identifier: MIT */
/* miss.h - a get of a range that no region covers (miss.c). */
#pragma once

#include "thread_cache.h"

/* Memory that is freed during each of so many attempts is not worth another */
#define MISS_TRIES	16

/* What a get asks for. */
struct request {
	uint64_t addr, length;
	uint32_t access;
	bool counted;			/* as a miss */
	const struct peerdma_cache_request *request;
};

/*
 * No lock.  Registers a region for the request and takes a ref; or takes one of a region that has come meanwhile: then
 * the request is not counted as a miss.  tc: the thread's, or NULL.  0 or -errno with text.
 */
int miss(struct peerdma_cache *cache, struct thread_cache *tc, struct request *request,
	 struct region **out);
/* No lock.  The get fails; counted: as a miss, already. */
void miss_failed(struct peerdma_cache *cache, bool counted);
/* No lock.  The region that had come meanwhile is stale: that was no hit. */
void miss_found_stale(struct peerdma_cache *cache);
