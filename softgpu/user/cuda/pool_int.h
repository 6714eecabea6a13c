/* SPDX-License-Identifier: MIT */
/* pool_int.h - shared by pool.c (memory of pools), pool_set.c (pools) and pool_ipc.c (sharing). */
#pragma once

#include "internal.h"
#include "pool.h"

struct pool {
	struct sgu_obj obj;
	int gpu;
	bool imported;			/* of another process: cannot allocate */
	CUmemPoolProps props;
	uint64_t secret[2];		/* ties exported pointers to the exported pool */
	/* the fields below are protected by sgu_pool_lock */
	uint64_t threshold, used, high;
	int reuse[3];
	uint8_t access[SOFTGPU_MAX_GPUS];
	/*
	 * imported pools: imports minus cuMemPoolDestroy() calls; imported allocations, including
	 * those being imported; list of all imported pools
	 */
	unsigned int imports, mapped;
	struct pool *next;
};

/* An allocation from a pool, or imported by a pool. */
struct piece {
	uint64_t va, length;
	struct pool *pool; /* a reference; in an imported pool also a count in pool->mapped */
};

/*
 * Protects the allocations and the pools' statistics. Taken before the lock of the object table.
 * Not held across a call of the driver.
 */
extern pthread_mutex_t sgu_pool_lock;

/* Returns a reference to the pool of a handle, or NULL. */
struct pool *sgu_pool_get(CUmemoryPool handle);
/* Makes a pool with a handle. NULL: out of memory. */
struct pool *sgu_pool_new(int gpu, const CUmemPoolProps *props);
/*
 * Imports another process's pool. Repeated imports return the same handle, until the pool was
 * destroyed as often. NULL: out of memory.
 */
CUmemoryPool sgu_pool_import(const CUmemPoolProps *props, const uint64_t secret[2]);
/* Returns a reference to the pool that is used for allocations on this GPU. */
struct pool *sgu_pool_current(int gpu);

/*
 * Records an allocation. On success (0), takes over the caller's reference to the pool, and its
 * count in pool->mapped or pool->used. -EEXIST: already recorded; -ENOMEM.
 */
int sgu_piece_add(const struct piece *piece);
/* Caller holds sgu_pool_lock. Returns the allocation at va. */
struct piece *sgu_piece_at(uint64_t va);
/*
 * Checks that no fault has killed the queue's context. The driver does not check this for memory of
 * pools, which belongs to no context.
 */
CUresult sgu_queue_alive(const struct sgu_queue *queue);
