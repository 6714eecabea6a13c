/* SPDX-License-Identifier: MIT */
/* pool.h - what the other files need to know of memory pools. */
#ifndef SGU_POOL_H
#define SGU_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda.h"

struct sgu_pool_facts {
	uint64_t pool;		/* the CUmemoryPool */
	uint32_t handle_types;	/* its */
};

/* Is va in memory of a pool?  Costs a lock and a look-up once a pool has been used, nothing before. */
bool sgu_pool_facts(uint64_t va, struct sgu_pool_facts *facts);

/* Frees the memory of a pool that begins at va, after all work of this process; false: it is none. */
bool sgu_pool_free(uint64_t va, CUresult *result);

#endif
