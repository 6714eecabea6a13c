/* SPDX-License-Identifier: MIT */
/*
 * bar1.h - how much of a GPU's BAR1 the regions take.
 *
 * A region takes each page that it touches, as a whole.  A page that several regions of the index
 * share is counted once.  A region outside the index is counted separately.
 */
#pragma once

#include "cache.h"

/* Lock.  Returns by how many bytes a region at [from, to) increases the BAR1 use of the index. */
uint64_t bar1_added(struct peerdma_cache *cache, uint64_t from, uint64_t to, uint64_t state_word);
/* Lock.  Adds a region that is outside the index to the BAR1 use, or subtracts it. */
void bar1_charge(struct peerdma_cache *cache, const struct region *region);
void bar1_uncharge(struct peerdma_cache *cache, const struct region *region);
