// SPDX-License-Identifier: MIT
/* header.c - each public header compiles alone, as C99 and (header.cpp) as C++. */
#include "peerdma.h"
#include "peerdma_cache.h"
#include "peerdma_copy.h"
#include "peerdma_file.h"
#include "peerdma_ipc.h"
#include "peerdma_verbs.h"

int header_compiles(const struct peerdma_region *region);
int header_compiles(const struct peerdma_region *region)
{
	return peerdma_valid(region);
}
