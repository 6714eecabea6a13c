/* SPDX-License-Identifier: MIT */
/*
 * evict.h - ends idle regions: because of a limit, or to make room.
 */
#pragma once

#include "plan.h"
#include "teardown.h"

/*
 * One in so many of the regions ends at once where their number is the limit: the end of many costs little more than
 * that of one.
 */
#define EVICT_SHARE	64

/* Lock.  Begins the teardown of enough idle regions for the planned one to keep the limits, if there are enough. */
void evict_for(struct peerdma_cache *cache, const struct plan *plan, struct teardown *list);
/* No lock.  Ends up to n idle regions, and returns how many. */
uint32_t evict_idle(struct peerdma_cache *cache, uint32_t n);
