/* SPDX-License-Identifier: MIT */
/* invalidate.h - beside peerdma_cache_invalidate(). */
#pragma once

#include "cache.h"

/*
 * No lock.  Ends the regions in ranges that signal handlers left.  On return, no hit finds a region
 * whose memory they freed before the call.
 */
void invalidate_left(struct peerdma_cache *cache);
