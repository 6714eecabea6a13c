/* SPDX-License-Identifier: MIT */
/*
 * bar1.h - how much of a GPU's BAR1 the regions take.
 *
 * A region takes the whole pages that it touches.  Pages that several regions in the index
 * share count once; a region outside the index counts for itself.
 */
#pragma once

#include "cache.h"

/* Lock.  Bytes that a region at [from, to) adds to what the regions in the index take. */
uint64_t bar1_added(struct peerdma_cache *cache, uint64_t from, uint64_t to, uint64_t state_word);
/* Lock.  Counts a region that is outside the index; and no more. */
void bar1_charge(struct peerdma_cache *cache, const struct region *region);
void bar1_uncharge(struct peerdma_cache *cache, const struct region *region);
