// SPDX-License-Identifier: MIT
/* pool_set.c - creates, finds and queries memory pools. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "pool_int.h"
#include "share.h"
#include "uncancelled.h"

pthread_mutex_t sgu_pool_lock = PTHREAD_MUTEX_INITIALIZER;

/* Protected by sgu_pool_lock. Each holds a reference, which is never dropped. */
static struct pool *default_pool[SOFTGPU_MAX_GPUS], *current_pool[SOFTGPU_MAX_GPUS];

/* protected by sgu_pool_lock; no references: the last destroy removes a pool */
static struct pool *imported_pools;

static void pool_free(struct sgu_obj *obj)
{
	free(obj);
}

struct pool *sgu_pool_get(CUmemoryPool handle)
{
	return (struct pool *)sgu_obj_get((uintptr_t)handle, SGU_POOL, NULL);
}

static CUmemoryPool handle_of(const struct pool *pool)
{
	return (CUmemoryPool)(uintptr_t)pool->obj.handle;
}

struct pool *sgu_pool_new(int gpu, const CUmemPoolProps *props)
{
	SGU_UNCANCELLED;
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->gpu = gpu;
	pool->props = *props;
	pool->access[gpu] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	for (int i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	if (getrandom(pool->secret, sizeof(pool->secret), 0) == sizeof(pool->secret) &&
	    !sgu_obj_publish(&pool->obj, SGU_POOL, pool_free))
		return pool;
	free(pool);
	return NULL;
}

CUmemoryPool sgu_pool_import(const CUmemPoolProps *props, const uint64_t secret[2])
{
	CUmemoryPool handle = NULL;
	struct pool *pool;

	pthread_mutex_lock(&sgu_pool_lock);
	for (pool = imported_pools; pool && memcmp(pool->secret, secret, sizeof(pool->secret));
	     pool = pool->next)
		;
	if (!pool) {
		pool = sgu_pool_new(props->location.id, props);
		if (pool) {
			pool->imported = true;
			memcpy(pool->secret, secret, sizeof(pool->secret));
			pool->next = imported_pools;
			imported_pools = pool;
		}
	}
	if (pool) {
		pool->imports++;
		handle = handle_of(pool);
	}
	pthread_mutex_unlock(&sgu_pool_lock);
	return handle;
}

/* Caller holds sgu_pool_lock. Removes one import. *last: it was the last, so the handle must go. */
static CUresult unimport(struct pool *pool, bool *last)
{
	struct pool **p = &imported_pools;

	if (!pool->imports || pool->mapped)
		return CUDA_ERROR_INVALID_VALUE;
	*last = !--pool->imports;
	if (*last) {
		while (*p != pool)
			p = &(*p)->next;
		*p = pool->next;
	}
	return CUDA_SUCCESS;
}

/* Caller holds sgu_pool_lock. */
static struct pool *default_of(int gpu)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu },
	};

	if (!default_pool[gpu])
		default_pool[gpu] = sgu_pool_new(gpu, &props);
	return default_pool[gpu];
}

static struct pool *pick(int gpu, bool current)
{
	struct pool *pool;

	pthread_mutex_lock(&sgu_pool_lock);
	pool = current && current_pool[gpu] ? current_pool[gpu] : default_of(gpu);
	if (pool)
		sgu_obj_ref(&pool->obj);
	pthread_mutex_unlock(&sgu_pool_lock);
	return pool;
}

struct pool *sgu_pool_current(int gpu)
{
	return pick(gpu, true);
}

static CUresult give(CUmemoryPool *out, CUdevice dev, bool current)
{
	CUresult result = sgu_enter();
	struct pool *pool;

	if (result)
		return result;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sgu_device_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	pool = pick(dev, current);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = handle_of(pool);
	sgu_obj_put(&pool->obj);
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	return give(pool_out, dev, false);
}

SGU_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return give(pool, dev, true);
}

/* The pool of a location is its device's. */
static CUresult check_location(const CUmemLocation *location, CUmemAllocationType type)
{
	CUresult result = sgu_enter();

	if (result)
		return result;
	if (!location || location->type == CU_MEM_LOCATION_TYPE_INVALID ||
	    location->type == CU_MEM_LOCATION_TYPE_MAX || type == CU_MEM_ALLOCATION_TYPE_INVALID ||
	    type == CU_MEM_ALLOCATION_TYPE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_NOT_SUPPORTED;
	return sgu_device_ok(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SGU_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
					   CUmemAllocationType type)
{
	CUresult result = check_location(location, type);

	return result ? result : give(pool_out, location->id, false);
}

SGU_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
				    CUmemAllocationType type)
{
	CUresult result = check_location(location, type);

	return result ? result : give(pool, location->id, true);
}

SGU_EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
				    CUmemoryPool pool)
{
	CUresult result = check_location(location, type);

	return result ? result : cuDeviceSetMemPool(location->id, pool);
}

SGU_EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
	CUresult result = sgu_enter();
	struct pool *pool, *old;

	if (result)
		return result;
	if (!sgu_device_ok(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	pool = sgu_pool_get(handle);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->gpu != dev || pool->imported) {
		sgu_obj_put(&pool->obj);
		return CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_lock(&sgu_pool_lock);
	old = current_pool[dev];
	current_pool[dev] = pool;
	pthread_mutex_unlock(&sgu_pool_lock);
	if (old)
		sgu_obj_put(&old->obj);
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	static const unsigned char zero[sizeof(poolProps->reserved)];
	CUresult result = sgu_enter();
	struct pool *made;

	if (result)
		return result;
	if (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    poolProps->win32SecurityAttributes || memcmp(poolProps->reserved, zero, sizeof(zero)))
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE || poolProps->usage)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sgu_device_ok(poolProps->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	result = sgu_handle_types_ok(poolProps->handleTypes);
	/*
	 * exported pointers use keys of the driver, which a software GPU inside one process does
	 * not support
	 */
	if (!result && poolProps->handleTypes && !sgu_shared())
		result = CUDA_ERROR_NOT_SUPPORTED;
	if (result)
		return result;
	made = sgu_pool_new(poolProps->location.id, poolProps);
	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool = handle_of(made);
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	CUresult result = sgu_enter();
	struct pool *pool, *current = NULL;
	bool last = true;

	if (result)
		return result;
	pool = sgu_pool_get(handle);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_pool_lock);
	if (pool->imported) {
		result = unimport(pool, &last);
	} else if (default_pool[pool->gpu] == pool) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (current_pool[pool->gpu] == pool) {
		current = pool;
		current_pool[pool->gpu] = NULL;
	}
	pthread_mutex_unlock(&sgu_pool_lock);
	if (current)
		sgu_obj_put(&current->obj);
	if (!result && last && sgu_obj_take((uintptr_t)handle, SGU_POOL, NULL))
		sgu_obj_put(&pool->obj);
	sgu_obj_put(&pool->obj);
	return result;
}

SGU_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep)
{
	CUresult result = sgu_enter();
	struct pool *pool;

	(void)minBytesToKeep;
	if (result)
		return result;
	pool = sgu_pool_get(handle);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	sgu_obj_put(&pool->obj);
	return CUDA_SUCCESS;
}

/* Returns the place and size of an attribute in the pool. False: unknown attribute. */
static bool attribute_at(struct pool *pool, CUmemPool_attribute attr, void **at, size_t *size)
{
	*size = sizeof(uint64_t);
	switch (attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*at = &pool->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
		*size = sizeof(int);
		return true;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*at = &pool->threshold;
		return true;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*at = &pool->used;
		return true;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*at = &pool->high;
		return true;
	}
	return false;
}

static CUresult attribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value, bool set)
{
	bool high = attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
		    attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
	CUresult result = sgu_enter();
	struct pool *pool;
	size_t size;
	void *at;

	if (result)
		return result;
	pool = value ? sgu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_pool_lock);
	if (!attribute_at(pool, attr, &at, &size)) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (!set) {
		memcpy(value, at, size);
	} else if (high) {
		/* a high-water mark can only be reset */
		if (*(const uint64_t *)value)
			result = CUDA_ERROR_INVALID_VALUE;
		else
			pool->high = pool->used;
	} else if (at == &pool->used || pool->imported) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		memcpy(at, value, size);
	}
	pthread_mutex_unlock(&sgu_pool_lock);
	sgu_obj_put(&pool->obj);
	return result;
}

SGU_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	return attribute(pool, attr, value, true);
}

SGU_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	return attribute(pool, attr, value, false);
}

/* The errors are those of an H200 with driver 580. */
static CUresult check_access(const struct pool *pool, const CUmemAccessDesc *desc)
{
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sgu_device_ok(desc->location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	switch (desc->flags) {
	case CU_MEM_ACCESS_FLAGS_PROT_NONE:
		return desc->location.id == pool->gpu ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
	case CU_MEM_ACCESS_FLAGS_PROT_READ:
		return CUDA_ERROR_NOT_SUPPORTED;
	case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

SGU_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map,
				       size_t count)
{
	CUresult result = sgu_enter();
	struct pool *pool;

	if (result)
		return result;
	pool = map || !count ? sgu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !result; i++)
		result = check_access(pool, &map[i]);
	pthread_mutex_lock(&sgu_pool_lock);
	for (size_t i = 0; i < count && !result; i++)
		pool->access[map[i].location.id] = map[i].flags;
	pthread_mutex_unlock(&sgu_pool_lock);
	sgu_obj_put(&pool->obj);
	return result;
}

SGU_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
				       CUmemLocation *location)
{
	CUresult result = sgu_enter();
	struct pool *pool;

	if (result)
		return result;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !sgu_device_ok(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	pool = sgu_pool_get(memPool);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sgu_pool_lock);
	*flags = pool->access[location->id];
	pthread_mutex_unlock(&sgu_pool_lock);
	sgu_obj_put(&pool->obj);
	return CUDA_SUCCESS;
}
