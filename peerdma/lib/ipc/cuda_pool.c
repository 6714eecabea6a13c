// SPDX-License-Identifier: MIT
/*
 * cuda_pool.c - memory of CUDA's stream-ordered pools, for other processes.  The exporter sends a
 * descriptor of the pool and 64 bytes that say where in it the allocation is.  The importer imports both.
 *
 * The pool belongs to the exporter, which allocates in it again as soon as it has freed memory there,
 * whatever importers have mapped: so an access after the end of an export may reach another allocation.
 *
 * CUDA counts no imports in a process.  The second import of a pool gives the handle of the first one, and one
 * cuMemPoolDestroy() ends both.  An import of memory at an address that is imported already gives that address, shows
 * from then on what the exporter allocated there last, and one cuMemFree() unmaps it for all.  So this file counts: a
 * pool is destroyed with the last mapping that has its handle, and an address has one mapping at a time.
 * ipc->pools_lock is held from an import until the mapping can be found, and from a cuMemFree() until it cannot:
 * else one thread would free what another one has just imported.
 */
#include <string.h>
#include <unistd.h>

#include "cuda.h"
#include "ipc.h"

/* ---- the exporter ---- */

/* CUDA refuses to share the pool: the text says whether it is the GPU, or that pool. */
static int not_shareable(const struct cuda_ipc *cuda, const struct ipc_offer *offer)
{
	int device, types = CUDA_HANDLE_POSIX_FD;

	if (cuda->device_attribute && !cuda->pointer_attribute(&device, ATTRIBUTE_DEVICE_ORDINAL, offer->base) &&
	    !cuda->device_attribute(&types, DEVICE_MEMPOOL_HANDLE_TYPES, device) && !(types & CUDA_HANDLE_POSIX_FD))
		return fail(-EOPNOTSUPP, "this GPU's memory pools cannot be shared with other processes; no other process can reach a "
			    "software GPU inside a process");
	return fail(-EOPNOTSUPP, "the memory is of a pool that was not made to be shared, such as the GPU's default pool; give "
		    "cuMemPoolCreate() the handle type CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or allocate the memory with cuMemAlloc()");
}

int ipc_offer_pool(struct ipc_offer *offer)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	struct cuda_pool_pointer data;
	void *pool = NULL;
	CUresult r;
	int fd;

	if (!cuda || !cuda->pool_to_shareable || !cuda->pool_export)
		return fail(-EOPNOTSUPP, "this driver cannot share memory of pools; allocate it with cuMemAlloc()");
	if (offer->any_user)
		return fail(-EOPNOTSUPP, "importers need a descriptor of the pool, with which PEERDMA_IPC_ANY_USER would give other users "
			    "all memory of the pool; allocate the memory with cuMemAlloc()");
	if (cuda->pointer_attribute(&pool, ATTRIBUTE_MEMPOOL_HANDLE, offer->base) || !pool)
		return fail(-ENXIO, "%#llx: the memory was freed meanwhile", (unsigned long long)offer->base);
	r = cuda->pool_to_shareable(&fd, pool, CUDA_HANDLE_POSIX_FD, 0);
	if (r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_NOT_SUPPORTED)
		return not_shareable(cuda, offer);
	if (r)
		return fail(-EIO, "cuMemPoolExportToShareableHandle failed with CUDA error %d", r);
	r = cuda->pool_export(&data, offer->base);
	if (r) {
		close(fd);
		return fail(-EIO, "cuMemPoolExportPointer failed with CUDA error %d", r);
	}
	memcpy(offer->blob, &data, sizeof(data));
	offer->fd = fd;
	return 0;
}

/* ---- the importer ---- */

/* ipc->lock: a mapping of that pool that has one of these addresses. */
static struct ipc_mapping *there(struct ipc *ipc, const void *pool, uint64_t first, uint64_t last)
{
	for (struct ipc_mapping *m = ipc->mappings; m; m = m->next) {
		if (m->pool == pool && !m->gone && (uintptr_t)m->base <= last && first < (uintptr_t)m->base + m->length)
			return m;
	}
	return NULL;
}

/* pools_lock: destroys the pool if no mapping has it. */
static CUresult put_pool(struct ipc *ipc, const struct cuda_ipc *cuda, void *pool)
{
	bool used;

	pthread_mutex_lock(&ipc->lock);
	used = there(ipc, pool, 0, UINT64_MAX);
	pthread_mutex_unlock(&ipc->lock);
	return used ? 0 : cuda->pool_destroy(pool);
}

static CUresult give(const struct cuda_ipc *cuda, const struct cuda_access *access, void *pool)
{
	return cuda->pool_access(pool, access, 1);
}

/* pools_lock: the memory, which CUDA has imported, becomes the mapping's: 0 or -errno with text, and then it is not. */
static int take(struct ipc *ipc, const struct cuda_ipc *cuda, struct ipc_mapping *m, void *pool, CUdeviceptr ptr)
{
	struct peerdma_memory memory = { .device = -1 };
	struct ipc_mapping *old;
	int error, ret = 0;

	pthread_mutex_lock(&ipc->lock);
	old = there(ipc, pool, ptr, ptr + m->length - 1);
	if (old) {
		/* CUDA may have numbered it anew, and it is there still. */
		old->id = 0;
		/* One that is being opened or closed goes, or can be found when this is tried again. */
		ret = old->state == IPC_OPEN ? -EADDRINUSE : -EAGAIN;
	}
	pthread_mutex_unlock(&ipc->lock);
	if (ret)
		return ret == -EAGAIN ? ret : ipc_cuda_in_the_way();
	/* What another process says is believed where CUDA says the same. */
	if (cuda_query((const void *)(uintptr_t)ptr, &memory, &error) != CUDA_KNOWN || memory.base + memory.length - ptr < m->length) {
		cuda->free(ptr);
		return fail(-EPROTO, "CUDA opened less memory than the exporter said it is");
	}
	ipc_cuda_opened(m, ptr);
	pthread_mutex_lock(&ipc->lock);
	m->pool = pool;
	pthread_mutex_unlock(&ipc->lock);
	return 0;
}

/* pools_lock.  All of a pool's memory is mapped for a device at once. */
static int import(struct ipc *ipc, const struct cuda_ipc *cuda, struct ipc_mapping *m, const struct ipc_reply *reply, int fd, int device)
{
	const char *call = "cuMemPoolImportFromShareableHandle";
	struct cuda_pool_pointer data;
	void *pool = NULL;
	CUdeviceptr ptr;
	int ret = 0;
	CUresult r;

	r = cuda->pool_from_shareable(&pool, (void *)(intptr_t)fd, CUDA_HANDLE_POSIX_FD, 0);
	if (r)
		goto fail;
	call = "cuMemPoolSetAccess";
	m->handle = ipc_cuda_give_access(device, give, pool, &r);
	if (r)
		goto put;
	call = "cuMemPoolImportPointer";
	memcpy(&data, reply->blob, sizeof(data));
	r = cuda->pool_import(&ptr, pool, &data);
	if (r)
		goto put;
	ret = take(ipc, cuda, m, pool, ptr);
	if (!ret)
		return 0;
put:
	put_pool(ipc, cuda, pool);
fail:
	if (ret)
		return ret;
	if (r == CUDA_ERROR_ALREADY_MAPPED)
		return ipc_cuda_in_the_way();
	return fail(r == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s failed with CUDA error %d", call, r);
}

static int pool_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	struct ipc *ipc = ipc_get();
	int device, ret;

	if (!cuda)
		return fail(-ENODEV, "it is CUDA's memory, and this process has not loaded libcuda.so.1; call cuInit() first");
	if (!cuda->pool_from_shareable || !cuda->pool_access || !cuda->pool_import || !cuda->pool_destroy || !cuda->free)
		return fail(-EOPNOTSUPP, "this driver cannot share memory of pools");
	if (fd < 0)
		return fail(-EPROTO, "the exporter sent no descriptor of its pool");
	if (cuda->ctx_device(&device))
		return fail(-ENODEV, "it is CUDA's memory, and no CUDA context is current; call cuCtxSetCurrent() first");
	pthread_mutex_lock(&ipc->pools_lock);
	/* If it has been freed, another thread may have open what is at its address now, and would see this in its place. */
	ret = ipc_peer_live(m->peer, m->slot, m->generation);
	ret = ret ? ipc_fail_live(m->peer, ret) : import(ipc, cuda, m, reply, fd, device);
	pthread_mutex_unlock(&ipc->pools_lock);
	return ret;
}

/* While another thread imports, CUDA's number of what is at that address may be another one. */
static bool pool_still(const struct ipc_mapping *m)
{
	struct ipc *ipc = ipc_get();
	bool still;

	pthread_mutex_lock(&ipc->pools_lock);
	still = ipc_cuda_still(m);
	pthread_mutex_unlock(&ipc->pools_lock);
	return still;
}

/* CUDA wants the memory freed before its pool. */
static int pool_close(struct ipc_mapping *m)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	CUresult freed, destroyed;
	struct ipc *ipc = ipc_get();
	void *pool = m->pool;

	pthread_mutex_lock(&ipc->pools_lock);
	freed = cuda->free((uintptr_t)m->base);
	pthread_mutex_lock(&ipc->lock);
	m->pool = NULL;
	pthread_mutex_unlock(&ipc->lock);
	destroyed = put_pool(ipc, cuda, pool);
	pthread_mutex_unlock(&ipc->pools_lock);
	if (!freed && !destroyed)
		return 0;
	return fail(-EIO, "%s failed with CUDA error %d", freed ? "cuMemFree" : "cuMemPoolDestroy", freed ? freed : destroyed);
}

const struct ipc_provider ipc_cuda_pool = {
	.id = IPC_CUDA_POOL, .name = "cuda-pool", .in_context = true, .still = pool_still, .open = pool_open, .close = pool_close,
};
