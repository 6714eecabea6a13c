// SPDX-License-Identifier: MIT
/*
 * pool.c - memory of pools: cuMemAllocAsync, cuMemFreeAsync.
 *
 * It is cuMemAlloc's memory with another owner as far as programs can see, and in no
 * context of the driver: contexts end without it.  No free waits: cuMemFree ends the memory at
 * once, cuMemFreeAsync when the stream comes to that.  Nor does the driver wait for other work
 * that still uses it.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "hook.h"
#include "pool_int.h"

static void *pieces;		/* tsearch */
static atomic_bool used;	/* there has been one: until then no look-up is needed */

/* Pieces do not overlap, so "overlaps" is an order's "equal". */
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

/* With sgu_pool_lock held: out of the tree and of the figures. */
static void unlist(struct piece *piece)
{
	tdelete(piece, &pieces, by_va);
	if (piece->pool->imported)
		piece->pool->mapped--;
	else
		piece->pool->used -= piece->length;
}

static void forget(struct piece *piece)
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
	while ((node = tsearch(copy, &pieces, by_va)) && *node != copy && !imported_again(*node, copy)) {
		struct piece *old = *node;

		/* the driver has given its addresses away: it went with its GPU */
		unlist(old);
		forget(old);
	}
	if (node)
		err = *node == copy ? 0 : -EEXIST;
	if (!err && !copy->pool->imported) {
		copy->pool->used += copy->length;
		if (copy->pool->high < copy->pool->used)
			copy->pool->high = copy->pool->used;
	}
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

/* The memory of a pool that begins at va, now out of the tree and of the figures; NULL: none does. */
static struct piece *take(uint64_t va)
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

/* It could not be freed. */
static void put_back(struct piece *piece)
{
	if (sgu_piece_add(piece))
		forget(piece);
	else
		free(piece);
}

/* At once. */
static int end(const struct piece *piece, uint64_t va)
{
	struct softgpu_va end = { .size = sizeof(end), .va = va };

	return sgu_call_any(piece && piece->pool->imported ? SOFTGPU_IPC_CLOSE : SOFTGPU_MEM_FREE, &end);
}

bool sgu_pool_free(uint64_t va, CUresult *result)
{
	struct piece *piece = take(va);

	if (!piece)
		return false;
	*result = sgu_result(end(piece, va));
	forget(piece);
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

#define POOL_CHUNK	(32u << 20)	/* NVIDIA's driver takes memory for pools in this unit, and maxSize counts it */

/* Takes over the reference to the pool. */
static CUresult alloc(struct pool *pool, size_t bytes, CUdeviceptr *dptr)
{
	struct softgpu_mem_alloc alloc = { .size = sizeof(alloc), .length = bytes, .flags = SOFTGPU_ALLOC_WAIT };
	struct softgpu_va undo = { .size = sizeof(undo) };
	struct piece piece = { .length = bytes, .pool = pool };
	uint64_t most = (pool->props.maxSize + POOL_CHUNK - 1) & ~(uint64_t)(POOL_CHUNK - 1);
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	bool full;

	if (!dptr || pool->imported)
		goto out;
	if (!bytes) {
		*dptr = 0;
		result = CUDA_SUCCESS;
		goto out;
	}
	result = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sgu_pool_lock);
	full = most && (bytes > most || pool->used > most - bytes);
	pthread_mutex_unlock(&sgu_pool_lock);
	if (full)
		goto out;
	switch (sgu_call(pool->gpu, SOFTGPU_MEM_ALLOC, &alloc)) {
	case 0:
		break;
	case -ENODEV:
		result = CUDA_ERROR_DEVICE_UNAVAILABLE;
		goto out;
	default:
		goto out;
	}
	piece.va = alloc.va;
	if (!sgu_piece_add(&piece)) {
		*dptr = alloc.va;
		return CUDA_SUCCESS;
	}
	undo.va = alloc.va;
	sgu_call(pool->gpu, SOFTGPU_MEM_FREE, &undo);
out:
	sgu_obj_put(&pool->obj);
	return result;
}

/* The pool is the stream's GPU's current one where handle is NULL. */
static CUresult alloc_in_stream(CUdeviceptr *dptr, size_t bytes, const CUmemoryPool *handle, CUstream hStream)
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

SGU_HOOKED(cuMemAllocFromPoolAsync, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool handle, CUstream hStream)
{
	return alloc_in_stream(dptr, bytesize, &handle, hStream);
}

/*
 * Out of the tree before the call: other memory may come to its place as soon as the stream has freed it, and in the call clients
 * may be told of pins that end, and ask for what the lock guards.
 */
static CUresult free_on(const struct sgu_queue *queue, uint64_t va)
{
	struct softgpu_mem_free_async on = { .size = sizeof(on), .ctx = queue->kctx, .stream = queue->stream, .va = va };
	struct softgpu_handle sync = { .size = sizeof(sync), .handle = queue->kctx };
	struct piece *piece = take(va);
	int err = sgu_call(queue->gpu, SOFTGPU_MEM_FREE_ASYNC, &on);

	/* For want of memory no free fails. */
	if (err == -ENOMEM) {
		err = sgu_call(queue->gpu, SOFTGPU_CTX_SYNC, &sync);
		if (!err)
			err = end(piece, va);
	}
	if (piece && err)
		put_back(piece);
	else if (piece)
		forget(piece);
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
