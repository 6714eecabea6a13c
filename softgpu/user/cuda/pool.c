// SPDX-License-Identifier: MIT
/*
 * pool.c - memory of pools: cuMemAllocAsync(), cuMemFreeAsync().
 *
 * It is cuMemAlloc()'s memory, but programs see another owner, and it belongs to no context of the
 * driver: it survives contexts. No free waits: cuMemFree() frees the memory at once,
 * cuMemFreeAsync() when the stream reaches it. The driver does not wait for other work that still
 * uses the memory either.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "hook.h"
#include "pool_int.h"

static void *pieces;		/* a tree (tsearch) */
static atomic_bool used;	/* set by the first allocation; until then no look-up is needed */

/* Allocations do not overlap, so the order treats overlapping ranges as equal. */
static int by_va(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->va + x->length <= y->va)
		return -1;
	return x->va >= y->va + y->length;
}

struct piece *sgu_piece_at(uint64_t va)
{
	struct piece key = { .va = va, .length = 1 };
	struct piece **node = tfind(&key, &pieces, by_va);

	return node ? *node : NULL;
}

/* NVIDIA's driver allocates for pools in this unit, and maxSize is rounded up to it */
#define POOL_CHUNK	(32u << 20)

/*
 * Counts an allocation in the statistics of its pool, before it is made: else two threads could
 * both take the last room of the pool. False: the pool has no room for it.
 */
static bool count(struct pool *pool, uint64_t length, bool limited)
{
	uint64_t most = (pool->props.maxSize + POOL_CHUNK - 1) & ~(uint64_t)(POOL_CHUNK - 1);
	bool full;

	pthread_mutex_lock(&sgu_pool_lock);
	full = limited && most && (length > most || pool->used > most - length);
	if (!full && pool->imported)
		pool->mapped++;
	else if (!full)
		pool->used += length;
	if (pool->high < pool->used)
		pool->high = pool->used;
	pthread_mutex_unlock(&sgu_pool_lock);
	return !full;
}

/* Caller holds sgu_pool_lock. */
static void uncount_locked(struct pool *pool, uint64_t length)
{
	if (pool->imported)
		pool->mapped--;
	else
		pool->used -= length;
}

static void uncount(struct pool *pool, uint64_t length)
{
	pthread_mutex_lock(&sgu_pool_lock);
	uncount_locked(pool, length);
	pthread_mutex_unlock(&sgu_pool_lock);
}

/*
 * Caller holds sgu_pool_lock. Removes the allocation from the tree and from the pool's statistics.
 */
static void unlist(struct piece *piece)
{
	tdelete(piece, &pieces, by_va);
	uncount_locked(piece->pool, piece->length);
}

static void free_piece(struct piece *piece)
{
	sgu_obj_put(&piece->pool->obj);
	free(piece);
}

static bool imported_again(const struct piece *old, const struct piece *piece)
{
	return piece->pool->imported && old->pool == piece->pool && old->va == piece->va;
}

int sgu_piece_add(const struct piece *piece)
{
	struct piece *copy = malloc(sizeof(*copy)), **node;
	int err = -ENOMEM;

	if (!copy)
		return -ENOMEM;
	*copy = *piece;
	pthread_mutex_lock(&sgu_pool_lock);
	while ((node = tsearch(copy, &pieces, by_va)) && *node != copy &&
	       !imported_again(*node, copy)) {
		struct piece *old = *node;

		/* the driver has reused the addresses: the old memory was lost with its GPU */
		unlist(old);
		free_piece(old);
	}
	if (node)
		err = *node == copy ? 0 : -EEXIST;
	pthread_mutex_unlock(&sgu_pool_lock);
	if (err)
		free(copy);
	else
		atomic_store(&used, true);
	return err;
}

bool sgu_pool_facts(uint64_t va, struct sgu_pool_facts *facts)
{
	const struct piece *piece;

	if (!atomic_load(&used))
		return false;
	pthread_mutex_lock(&sgu_pool_lock);
	piece = sgu_piece_at(va);
	if (piece) {
		facts->pool = piece->pool->obj.handle;
		facts->handle_types = piece->pool->props.handleTypes;
	}
	pthread_mutex_unlock(&sgu_pool_lock);
	return piece;
}

/* Removes the allocation that begins at va from the tree and from the statistics. NULL: none. */
static struct piece *remove_at(uint64_t va)
{
	struct piece *piece;

	if (!atomic_load(&used))
		return NULL;
	pthread_mutex_lock(&sgu_pool_lock);
	piece = sgu_piece_at(va);
	if (piece && piece->va != va)
		piece = NULL;
	if (piece)
		unlist(piece);
	pthread_mutex_unlock(&sgu_pool_lock);
	return piece;
}

/* Adds the allocation again after a failed free. */
static void reinsert(struct piece *piece)
{
	count(piece->pool, piece->length, false);
	if (sgu_piece_add(piece)) {
		uncount(piece->pool, piece->length);
		free_piece(piece);
	} else {
		free(piece);
	}
}

/* Frees the memory at once. */
static int end_now(const struct piece *piece, uint64_t va)
{
	struct softgpu_va end = { .size = sizeof(end), .va = va };

	return sgu_call_any(piece && piece->pool->imported ? SOFTGPU_IPC_CLOSE : SOFTGPU_MEM_FREE,
			    &end);
}

bool sgu_pool_free(uint64_t va, CUresult *result)
{
	struct piece *piece = remove_at(va);

	if (!piece)
		return false;
	*result = sgu_result(end_now(piece, va));
	free_piece(piece);
	return true;
}

/* ---- entry points ---- */

CUresult sgu_queue_alive(const struct sgu_queue *queue)
{
	struct softgpu_event_create event = { .size = sizeof(event), .ctx = queue->kctx };
	struct softgpu_handle destroy = { .size = sizeof(destroy) };
	int err = sgu_call(queue->gpu, SOFTGPU_EVENT_CREATE, &event);

	destroy.handle = event.event;
	if (!err)
		sgu_call(queue->gpu, SOFTGPU_EVENT_DESTROY, &destroy);
	return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

/* Takes over the reference to the pool. */
static CUresult alloc(struct pool *pool, size_t bytes, CUdeviceptr *dptr)
{
	struct softgpu_mem_alloc alloc = { .size = sizeof(alloc),
					   .length = bytes,
					   .flags = SOFTGPU_ALLOC_WAIT };
	struct softgpu_va undo = { .size = sizeof(undo) };
	struct piece piece = { .length = bytes, .pool = pool };
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!dptr || pool->imported)
		goto out;
	if (!bytes) {
		*dptr = 0;
		result = CUDA_SUCCESS;
		goto out;
	}
	result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!count(pool, bytes, true))
		goto out;
	switch (sgu_call(pool->gpu, SOFTGPU_MEM_ALLOC, &alloc)) {
	case 0:
		break;
	case -ENODEV:
		result = CUDA_ERROR_DEVICE_UNAVAILABLE;
		goto uncount;
	default:
		goto uncount;
	}
	piece.va = alloc.va;
	if (!sgu_piece_add(&piece)) {
		*dptr = alloc.va;
		return CUDA_SUCCESS;
	}
	undo.va = alloc.va;
	sgu_call(pool->gpu, SOFTGPU_MEM_FREE, &undo);
uncount:
	uncount(pool, bytes);
out:
	sgu_obj_put(&pool->obj);
	return result;
}

/* handle NULL: the current pool of the stream's GPU. */
static CUresult alloc_in_stream(CUdeviceptr *dptr, size_t bytes, const CUmemoryPool *handle,
				CUstream hStream)
{
	struct sgu_queue queue;
	CUresult result = sgu_enter();
	struct pool *pool;

	if (!result)
		result = sgu_queue_get(hStream, &queue);
	if (result)
		return result;
	result = sgu_queue_alive(&queue);
	if (!result) {
		pool = handle ? sgu_pool_get(*handle) : sgu_pool_current(queue.gpu);
		if (pool)
			result = alloc(pool, bytes, dptr);
		else
			result = handle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	}
	sgu_queue_put(&queue);
	return result;
}

SGU_HOOKED(cuMemAllocAsync, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return alloc_in_stream(dptr, bytesize, NULL, hStream);
}

SGU_HOOKED(cuMemAllocFromPoolAsync, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool handle,
	   CUstream hStream)
{
	return alloc_in_stream(dptr, bytesize, &handle, hStream);
}

/*
 * Removes the allocation from the tree before the call. As soon as the stream has freed it, other
 * memory may get its addresses. And during the call, clients may be notified of ended pins and make
 * queries that take the lock.
 */
static CUresult free_on(const struct sgu_queue *queue, uint64_t va)
{
	struct softgpu_mem_free_async on = {
		.size = sizeof(on), .ctx = queue->kctx, .stream = queue->stream, .va = va
	};
	struct softgpu_handle sync = { .size = sizeof(sync), .handle = queue->kctx };
	struct piece *piece = remove_at(va);
	int err = sgu_call(queue->gpu, SOFTGPU_MEM_FREE_ASYNC, &on);

	/* A free must not fail for lack of memory. */
	if (err == -ENOMEM) {
		err = sgu_call(queue->gpu, SOFTGPU_CTX_SYNC, &sync);
		if (!err)
			err = end_now(piece, va);
	}
	if (piece && err)
		reinsert(piece);
	else if (piece)
		free_piece(piece);
	return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

SGU_HOOKED(cuMemFreeAsync, CUdeviceptr dptr, CUstream hStream)
{
	struct sgu_queue queue;
	CUresult result = sgu_enter();

	if (!result)
		result = sgu_queue_get(hStream, &queue);
	if (result)
		return result;
	result = dptr ? free_on(&queue, dptr) : CUDA_SUCCESS;
	sgu_queue_put(&queue);
	return result;
}
