/* SPDX-License-Identifier: MIT */
/* pool.h - memory pools, for other files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"

struct sgu_pool_facts {
	uint64_t pool;		/* the CUmemoryPool */
	uint32_t handle_types;	/* of the pool */
};

/*
 * Whether va is in memory of a pool. Before the first use of a pool, this costs nothing; after it,
 * a lock and a look-up.
 */
bool sgu_pool_facts(uint64_t va, struct sgu_pool_facts *facts);

/*
 * Frees the memory of a pool that begins at va, after all work of this process. False: va is not
 * memory of a pool.
 */
bool sgu_pool_free(uint64_t va, CUresult *result);
