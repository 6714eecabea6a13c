/* SPDX-License-Identifier: MIT */
/* nothing.h - a registration that does nothing, for tests of what a cache does around it. */
#pragma once

#include "peerdma_cache.h"

static inline int add_nothing(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	return 0;
}

static inline void remove_nothing(void *arg, uint64_t addr, uint64_t length, void *handle)
{
}
