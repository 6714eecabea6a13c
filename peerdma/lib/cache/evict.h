/* SPDX-License-Identifier: MIT */
/* evict.h - ends idle regions because of a limit, or to make room. */
#pragma once

#include "plan.h"
#include "teardown.h"

/*
 * When all region numbers are taken, 1/64 of the regions end at once.  Ending many costs little
 * more than ending one.
 */
#define EVICT_SHARE	64

/*
 * Lock.  Begins the teardown of idle regions, enough to register the planned region within the
 * limits if there are that many.
 */
void evict_for(struct peerdma_cache *cache, const struct plan *plan, struct teardown *list);
/* No lock.  Ends up to n idle regions, and returns how many. */
uint32_t evict_idle(struct peerdma_cache *cache, uint32_t n);
