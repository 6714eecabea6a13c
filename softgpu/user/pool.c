// SPDX-License-Identifier: MIT
/*
 * pool.c - memory of pools: cuMemAllocAsync, cuMemFreeAsync.
 *
 * It is cuMemAlloc's memory with another owner as far as programs can see.  A free waits
 * for the work that may be using it, as the driver does at the end of any allocation, so
 * memory never goes from one stream to another before its time.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "hook.h"
#include "pool_int.h"

pthread_mutex_t sgu_pool_lock = PTHREAD_MUTEX_INITIALIZER;
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

bool sgu_piece_add(const struct piece *piece)
{
	struct piece *copy = malloc(sizeof(*copy));
	void *node = NULL;

	if (!copy)
		return false;
	*copy = *piece;
	pthread_mutex_lock(&sgu_pool_lock);
	node = tsearch(copy, &pieces, by_va);
	if (node && !copy->opens) {
		copy->pool->used += copy->length;
		if (copy->pool->high < copy->pool->used)
			copy->pool->high = copy->pool->used;
	}
	pthread_mutex_unlock(&sgu_pool_lock);
	if (!node) {
		free(copy);
		return false;
	}
	atomic_store(&used, true);
	return true;
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

/* With sgu_pool_lock held: out of the tree and of the figures. */
static void unlist(struct piece *piece)
{
	tdelete(piece, &pieces, by_va);
	if (!piece->opens)
		piece->pool->used -= piece->length;
}

bool sgu_pool_free(uint64_t va, CUresult *result)
{
	struct softgpu_va end = { .size = sizeof(end), .va = va };
	struct piece *piece;
	bool last = false;
	unsigned int opens;

	if (!atomic_load(&used))
		return false;
	pthread_mutex_lock(&sgu_pool_lock);
	piece = sgu_piece_at(va);
	if (piece && piece->va != va)
		piece = NULL;
	if (piece) {
		opens = piece->opens;
		last = opens <= 1;
		if (last)
			unlist(piece);
		else
			piece->opens--;
	}
	pthread_mutex_unlock(&sgu_pool_lock);
	if (!piece)
		return false;
	*result = sgu_result(sgu_call_any(opens ? SOFTGPU_IPC_CLOSE : SOFTGPU_MEM_FREE, &end));
	if (last) {
		sgu_obj_put(&piece->pool->obj);
		free(piece);
	}
	return true;
}

struct sweep {
	int gpu;
	uint32_t kctx;
	struct piece *found;
};

static void sweep_node(const void *node, VISIT visit, void *arg)
{
	struct piece *piece = *(struct piece *const *)node;
	struct sweep *sweep = arg;

	if ((visit == postorder || visit == leaf) && piece->kctx == sweep->kctx && piece->pool->gpu == sweep->gpu)
		sweep->found = piece;
}

void sgu_pool_forget(int gpu, uint32_t kctx)
{
	struct sweep sweep = { .gpu = gpu, .kctx = kctx };

	do {
		sweep.found = NULL;
		pthread_mutex_lock(&sgu_pool_lock);
		twalk_r(pieces, sweep_node, &sweep);
		if (sweep.found)
			unlist(sweep.found);
		pthread_mutex_unlock(&sgu_pool_lock);
		if (sweep.found)
			sgu_obj_put(&sweep.found->pool->obj);
		free(sweep.found);
	} while (sweep.found);
}

/* ---- entry points ---- */

uint32_t sgu_pool_kctx(int gpu, const struct sgu_queue *queue)
{
	uint32_t kctx = 0;

	if (queue->gpu == gpu)
		return queue->kctx;
	pthread_mutex_lock(&sgu_lock);
	if (sgu_gpus[gpu].primary)
		kctx = atomic_load(&sgu_gpus[gpu].primary->kctx);
	pthread_mutex_unlock(&sgu_lock);
	return kctx;
}

/* Takes over the reference to the pool. */
static CUresult alloc(struct pool *pool, const struct sgu_queue *queue, size_t bytes, CUdeviceptr *dptr)
{
	struct softgpu_mem_alloc alloc = {
		.size = sizeof(alloc), .length = bytes, .ctx = sgu_pool_kctx(pool->gpu, queue),
	};
	struct softgpu_va undo = { .size = sizeof(undo) };
	struct piece piece = { .length = bytes, .pool = pool, .kctx = alloc.ctx };
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	bool full;

	if (!dptr || !bytes || pool->imported)
		goto fail;
	result = CUDA_ERROR_INVALID_CONTEXT;
	if (!alloc.ctx)
		goto fail;
	result = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sgu_pool_lock);
	full = pool->props.maxSize && (bytes > pool->props.maxSize || pool->used > pool->props.maxSize - bytes);
	pthread_mutex_unlock(&sgu_pool_lock);
	if (full)
		goto fail;
	switch (sgu_call(pool->gpu, SOFTGPU_MEM_ALLOC, &alloc)) {
	case 0:
		break;
	case -ENOENT:
		result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
		goto fail;
	case -ENODEV:
		result = CUDA_ERROR_DEVICE_UNAVAILABLE;
		goto fail;
	default:
		goto fail;
	}
	piece.va = alloc.va;
	if (sgu_piece_add(&piece)) {
		*dptr = alloc.va;
		return CUDA_SUCCESS;
	}
	undo.va = alloc.va;
	sgu_call(pool->gpu, SOFTGPU_MEM_FREE, &undo);
fail:
	sgu_obj_put(&pool->obj);
	return result;
}

SGU_HOOKED(cuMemAllocAsync, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);
	struct pool *pool;

	if (result)
		return result;
	pool = sgu_pool_current(queue.gpu);
	result = pool ? alloc(pool, &queue, bytesize, dptr) : CUDA_ERROR_OUT_OF_MEMORY;
	sgu_queue_put(&queue);
	return result;
}

SGU_HOOKED(cuMemAllocFromPoolAsync, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool handle, CUstream hStream)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);
	struct pool *pool;

	if (result)
		return result;
	pool = sgu_pool_get(handle);
	result = pool ? alloc(pool, &queue, bytesize, dptr) : CUDA_ERROR_INVALID_VALUE;
	sgu_queue_put(&queue);
	return result;
}

SGU_HOOKED(cuMemFreeAsync, CUdeviceptr dptr, CUstream hStream)
{
	struct softgpu_va end = { .size = sizeof(end), .va = dptr };
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	sgu_queue_put(&queue);
	/* the stream's work may be another context's than the memory's */
	result = cuStreamSynchronize(hStream);
	if (result || !dptr)
		return result ? result : CUDA_ERROR_INVALID_VALUE;
	if (!sgu_pool_free(dptr, &result))
		result = sgu_result(sgu_call_any(SOFTGPU_MEM_FREE, &end));
	return result;
}
