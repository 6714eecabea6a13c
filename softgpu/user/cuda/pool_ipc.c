// SPDX-License-Identifier: MIT
/* pool_ipc.c - shares pools and their memory with other processes. */
#include <errno.h>
#include <string.h>

#include "pool_int.h"
#include "share.h"

/* The content of a CUmemPoolPtrExportData. */
struct pointer {
	char magic[8];
	uint64_t id, key[2];		/* the driver's id and key of the memory */
	uint64_t secret[2];		/* of the pool */
	char zero[8];
	uint64_t length;
};

_Static_assert(sizeof(struct pointer) == sizeof(CUmemPoolPtrExportData),
	       "an exported pointer's size");

static const struct pointer blank = { .magic = "SGPUPTR1" };

SGU_EXPORT CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool handle,
						     CUmemAllocationHandleType handleType,
						     unsigned long long flags)
{
	struct sgu_share share = { .type = SGU_SHARE_POOL };
	CUresult result = sgu_enter();
	struct pool *pool;
	int fd;

	if (result)
		return result;
	pool = handle_out && !flags ? sgu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->imported || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(pool->props.handleTypes & handleType)) {
		sgu_obj_put(&pool->obj);
		return CUDA_ERROR_INVALID_VALUE;
	}
	share.gpu = sgu_gpus[pool->gpu].info.index;
	memcpy(share.key, pool->secret, sizeof(share.key));
	sgu_obj_put(&pool->obj);
	result = sgu_share_make(&share, &fd);
	if (!result)
		memcpy(handle_out, &fd, sizeof(fd));
	return result;
}

/* `handle` is the descriptor, cast to a pointer. The caller keeps it. */
SGU_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						       CUmemAllocationHandleType handleType,
						       unsigned long long flags)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	};
	CUresult result = sgu_enter();
	struct sgu_share share;
	CUmemoryPool pool;

	if (result)
		return result;
	if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	result = sgu_share_read((int)(intptr_t)handle, SGU_SHARE_POOL, &share);
	if (result)
		return result;
	props.location.id = sgu_gpu_of_index(share.gpu);
	if (props.location.id < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	pool = sgu_pool_import(&props, share.key);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool_out = pool;
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct softgpu_ipc_export export = { .size = sizeof(export), .va = ptr };
	struct pointer pointer = blank;
	CUresult result = sgu_enter();
	const struct piece *piece;
	bool ok;

	if (result)
		return result;
	pthread_mutex_lock(&sgu_pool_lock);
	piece = sgu_piece_at(ptr);
	ok = shareData_out && piece && piece->va == ptr && !piece->pool->imported &&
	     piece->pool->props.handleTypes;
	if (ok) {
		pointer.length = piece->length;
		memcpy(pointer.secret, piece->pool->secret, sizeof(pointer.secret));
	}
	pthread_mutex_unlock(&sgu_pool_lock);
	if (!ok)
		return CUDA_ERROR_INVALID_VALUE;
	result = sgu_result(sgu_call_any(SOFTGPU_IPC_EXPORT, &export));
	if (result)
		return result;
	pointer.id = export.id;
	memcpy(pointer.key, export.key, sizeof(pointer.key));
	memcpy(shareData_out, &pointer, sizeof(pointer));
	return CUDA_SUCCESS;
}

static void close_again(uint64_t va)
{
	sgu_call_any(SOFTGPU_IPC_CLOSE,
		     &(struct softgpu_va){ .size = sizeof(struct softgpu_va), .va = va });
}

/*
 * Whether the exported pointer has the memory's length. It is another process's word, and with a
 * wrong one the pool would take other allocations for its own.
 */
static CUresult check_length(uint64_t va, uint64_t length)
{
	struct softgpu_query q;
	CUresult result = sgu_query(va, &q);

	if (!result && (q.base != va || q.length != length))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result)
		close_again(va);
	return result;
}

/*
 * Records opened memory, unless it was recorded before. The driver counts opens, but one free must
 * end all imports. So a repeated open is closed again.
 */
static CUresult record(struct pool *pool, uint64_t va, uint64_t length, bool *kept)
{
	struct piece piece = { .va = va, .length = length, .pool = pool };
	int err;

	sgu_obj_ref(&pool->obj);
	err = sgu_piece_add(&piece);
	*kept = !err;
	if (!err)
		return CUDA_SUCCESS;
	sgu_obj_put(&pool->obj);
	close_again(va);
	return err == -EEXIST ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Counts the memory in the pool first, so that the pool cannot be destroyed meanwhile. */
static CUresult import(struct pool *pool, const struct pointer *pointer, CUdeviceptr *va)
{
	struct softgpu_ipc_open open = { .size = sizeof(open),
					 .id = pointer->id,
					 .key = { pointer->key[0], pointer->key[1] } };
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	bool counted, kept = false;
	int err;

	pthread_mutex_lock(&sgu_pool_lock);
	counted = pool->imports;
	pool->mapped += counted;
	pthread_mutex_unlock(&sgu_pool_lock);
	if (!counted)
		return result;
	err = sgu_call(pool->gpu, SOFTGPU_IPC_OPEN, &open);
	if (err == -EEXIST)
		result = CUDA_ERROR_INVALID_CONTEXT;	/* the memory belongs to this process */
	else
		result = sgu_result(err);
	if (!err)
		result = check_length(open.va, pointer->length);
	if (!err && !result)
		result = record(pool, open.va, pointer->length, &kept);
	if (!result)
		*va = open.va;
	if (kept)
		return result;
	pthread_mutex_lock(&sgu_pool_lock);
	pool->mapped--;
	pthread_mutex_unlock(&sgu_pool_lock);
	return result;
}

SGU_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool handle,
					   CUmemPoolPtrExportData *shareData)
{
	struct sgu_queue queue;
	struct pointer pointer;
	struct pool *pool;
	CUresult result = sgu_queue_get(NULL, &queue);

	if (result)
		return result;
	result = sgu_queue_alive(&queue);
	sgu_queue_put(&queue);
	if (result)
		return result;
	pool = ptr_out && shareData ? sgu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&pointer, shareData, sizeof(pointer));
	if (!pool->imported || memcmp(pointer.magic, blank.magic, sizeof(blank.magic)) ||
	    memcmp(pointer.secret, pool->secret, sizeof(pool->secret)))
		result = CUDA_ERROR_INVALID_VALUE;
	else
		result = import(pool, &pointer, ptr_out);
	sgu_obj_put(&pool->obj);
	return result;
}
