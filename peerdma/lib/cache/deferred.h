/* SPDX-License-Identifier: MIT */
/* deferred.h - regions that were invalidated where remove() could not be called (deferred.c). */
#pragma once

#include "thread_cache.h"

/*
 * No lock.  Deregisters all deferred regions, and returns their number.  tc: the thread's own,
 * which is unmarked, or NULL.
 */
uint32_t deferred_drain(struct peerdma_cache *cache, struct thread_cache *tc);
