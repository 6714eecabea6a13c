/* SPDX-License-Identifier: MIT */
/* invalidate.h - beside peerdma_cache_invalidate(). */
#pragma once

#include "cache.h"

/* No lock.  Ends what signal handlers left.  When it returns, no region is found whose memory they freed before the call. */
void invalidate_left(struct peerdma_cache *cache);
