/* SPDX-License-Identifier: MIT */
/*
 * given.h - the MRs that programs have from this library. Each is a copy of the device's, in
 * memory of its own: the device's MR may be shared, and may go before the program's.
 * Thread-safe.
 */
#pragma once

#include <stdbool.h>

#include "libibverbs.h"

struct peerdma_cache;
struct peerdma_cached;
struct peerdma_region;

struct given {
	struct ibv_mr mr;		/* first: what the program has */
	int type, access;		/* as libibverbs keeps them behind each MR */
	/* One of these is set. */
	struct peerdma_region *region;	/* a pin for this MR alone */
	struct peerdma_cached *hold;	/* a hold of this cache */
	struct peerdma_cache *cache;
};

/* 0 or -ENOMEM. given stays the caller's to free, after given_take(). */
int given_add(struct given *given);

/* NULL: the MR is not one of these. Else it is no longer. */
struct given *given_take(const struct ibv_mr *mr);

bool given_has(const struct ibv_mr *mr);
