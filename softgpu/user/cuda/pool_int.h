/* SPDX-License-Identifier: MIT */
/* pool_int.h - what pool.c (memory of pools), pool_set.c (pools) and pool_ipc.c (in other processes) share. */
#ifndef SGU_POOL_INT_H
#define SGU_POOL_INT_H

#include "internal.h"
#include "pool.h"

struct pool {
	struct sgu_obj obj;
	int gpu;
	bool imported;			/* another process's: gives no memory */
	CUmemPoolProps props;
	uint64_t secret[2];		/* ties exported pointers to the exported pool */
	/* the rest under sgu_pool_lock */
	uint64_t threshold, used, high;
	int reuse[3];
	uint8_t access[SOFTGPU_MAX_GPUS];
	/* imported: how often, less cuMemPoolDestroy(); its pieces, and imports of pieces under way; all such pools */
	unsigned int imports, mapped;
	struct pool *next;
};

/* A piece of memory: allocated from a pool, or imported by one. */
struct piece {
	uint64_t va, length;
	struct pool *pool;		/* a reference; imported: a count in pool->mapped, too */
};

/* Guards the pieces and the pools' figures.  Before the table of objects' lock; not held across a call of the driver. */
extern pthread_mutex_t sgu_pool_lock;

/* A reference to the pool behind a handle, or NULL. */
struct pool *sgu_pool_get(CUmemoryPool handle);
/* A new pool with a handle, or NULL. */
struct pool *sgu_pool_new(int gpu, const CUmemPoolProps *props);
/* Imports another process's pool once more: the same handle each time, until it was destroyed as often; NULL: no memory. */
CUmemoryPool sgu_pool_import(const CUmemPoolProps *props, const uint64_t secret[2]);
/* A reference to the pool that allocations on the GPU come from now. */
struct pool *sgu_pool_current(int gpu);

/*
 * Records a piece, taking over the caller's reference to the pool, and its count, when it succeeds: 0.
 * -EEXIST: one is there; -ENOMEM.
 */
int sgu_piece_add(const struct piece *piece);
/* The piece at va, with sgu_pool_lock held. */
struct piece *sgu_piece_at(uint64_t va);
/* That a fault has not killed the queue's context, which the driver does not ask: memory of pools is in none. */
CUresult sgu_queue_alive(const struct sgu_queue *queue);

#endif
