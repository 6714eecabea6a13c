/* SPDX-License-Identifier: MIT */
/* deferred.h - regions that were invalidated where remove() could not be called (deferred.c). */
#pragma once

#include "thread_cache.h"

/* No lock.  Deregisters what was deferred by now, and returns how many.  tc: the thread's, or NULL; it is marked no more. */
uint32_t deferred_drain(struct peerdma_cache *cache, struct thread_cache *tc);
