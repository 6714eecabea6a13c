// SPDX-License-Identifier: MIT
/* header.c - the public headers compile alone, as C99 and (header.cpp) as C++. */
#include "peerdma.h"
#include "peerdma_cache.h"

int header_compiles(const struct peerdma_region *region);
int header_compiles(const struct peerdma_region *region)
{
	return peerdma_valid(region);
}
