// SPDX-License-Identifier: MIT
/*
 * cuda_pool.c - memory of CUDA's stream-ordered pools, for other processes. The exporter sends a descriptor of the pool and
 * 64 bytes that contain the place of the allocation in it. The importer imports both.
 *
 * The pool belongs to the exporter. It may allocate in a place again as soon as it has freed memory there, whatever
 * importers have mapped. So an access after the end of an export may reach another allocation.
 *
 * CUDA requires that importers free memory before the exporter does. If an exporter allocates memory after it freed other
 * memory that is still mapped here, the new memory may be mapped only in part (NVIDIA 580, seen in 1 of 200 imports): CUDA
 * then takes the rest for host memory, and a copy of it ends the program. So nothing of an exporter's pools is imported
 * before all memory of them whose export has ended is unmapped: not_now(). The exporter ends its record before it frees. So
 * when memory that was allocated after a free is imported here, the end of the freed memory can be seen already.
 *
 * An import of memory at an address that is imported already returns that address. From then on the address shows what the
 * exporter allocated there last, and one cuMemFree() unmaps it for all imports. ipc->pools_lock is held from the check of
 * what is open until the new import can be found there: otherwise two threads would not see each other's imports.
 *
 * The program may import the same pool itself. If it frees its import, this one is unmapped, too.
 *
 * cuMemPoolImportPointer() of 5250 MiB ends the process (NVIDIA 580: it calls address 0); of 5248 MiB it does not.
 */
#include <string.h>
#include <unistd.h>

#include "cuda.h"
#include "ipc.h"

#define LENGTH_MOST	(4ULL << 30)

static int too_long(uint64_t length)
{
	return fail(-EOPNOTSUPP, "an allocation of %llu bytes of a pool: more than 4 GiB is refused, because NVIDIA's driver crashes a "
		    "process that imports some 5 GiB; allocate it with cuMemAlloc() or cuMemCreate(), or in several parts",
		    (unsigned long long)length);
}

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

static int pool_offer(const void *ptr, struct ipc_offer *offer)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	struct cuda_pool_pointer data;
	void *pool = NULL;
	CUresult r;
	int fd;

	(void)ptr;
	if (!cuda || !cuda->pool_to_shareable || !cuda->pool_export)
		return fail(-EOPNOTSUPP, "this driver cannot share memory of pools; allocate it with cuMemAlloc()");
	if (offer->any_user)
		return fail(-EOPNOTSUPP, "importers need a descriptor of the pool, with which PEERDMA_IPC_ANY_USER would give other users "
			    "all memory of the pool; allocate the memory with cuMemAlloc()");
	if (cuda->pointer_attribute(&pool, ATTRIBUTE_MEMPOOL_HANDLE, offer->base) || !pool)
		return fail(-ENXIO, "%#llx: the memory was freed meanwhile", (unsigned long long)offer->base);
	if (offer->length > LENGTH_MOST)
		return too_long(offer->length);
	r = cuda->pool_to_shareable(&fd, pool, CUDA_HANDLE_POSIX_FD, 0);
	if (r == CUDA_ERROR_OPERATING_SYSTEM && !ipc_descriptors_left())
		return fail(-errno, "cuMemPoolExportToShareableHandle: %s; NVIDIA's driver fails for this pool from now on", error_words(-errno));
	if (r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_NOT_SUPPORTED)
		return not_shareable(cuda, offer);
	if (r)
		return fail(-EIO, "cuMemPoolExportToShareableHandle failed with CUDA error %d", r);
	ipc_not_inherited(fd);
	r = cuda->pool_export(&data, offer->base);
	if (r) {
		close(fd);
		return fail(-EIO, "cuMemPoolExportPointer failed with CUDA error %d", r);
	}
	memcpy(offer->blob, &data, sizeof(data));
	offer->fd = fd;
	offer->pool = (uintptr_t)pool;
	return 0;
}

/* ---- the importer ---- */

/* pools_lock: 0, if memory of that exporter's pools may be imported now: this is live, and all of it that is mapped. */
static int not_now(struct ipc *ipc, const struct ipc_mapping *wanted)
{
	int ret = ipc_exporter_live(wanted->exporter, wanted->slot, wanted->generation);

	if (ret)
		return ipc_fail_live(wanted->exporter, ret);
	if (wanted->exporter->pools_lost)
		return fail(-EIO, "memory of that exporter's pools could not be unmapped: cuMemFree failed");
	pthread_mutex_lock(&ipc->lock);
	for (const struct ipc_mapping *m = ipc->mappings; m && !ret; m = m->next) {
		if (m->pool && m->exporter == wanted->exporter && !m->gone && ipc_exporter_live(m->exporter, m->slot, m->generation))
			/* One that is being closed, or has no references, goes: then this is tried again. */
			ret = m->state == IPC_OPEN && m->refs ? -EADDRINUSE : IPC_LOOK_AGAIN;
	}
	pthread_mutex_unlock(&ipc->lock);
	return ret == -EADDRINUSE ? fail(ret, "this process still has memory of that exporter's pools open which was freed, or whose export "
					"ended; close it first") : ret;
}

/* pools_lock: what CUDA fails to unmap stays mapped, and nothing here has it any more: so the exporter notes it, and stays. */
static CUresult unmap(struct ipc *ipc, const struct cuda_ipc *cuda, struct ipc_exporter *exporter, CUdeviceptr ptr)
{
	CUresult r = cuda->free(ptr);

	pthread_mutex_lock(&ipc->lock);
	if (r && !exporter->pools_lost) {
		exporter->pools_lost = true;
		exporter->refs++;
	}
	pthread_mutex_unlock(&ipc->lock);
	return r;
}

static CUresult give(const struct cuda_ipc *cuda, const struct cuda_access *access, void *pool)
{
	return cuda->pool_access(pool, access, 1);
}

/* pools_lock: the memory, which CUDA has imported, becomes the mapping's: 0 or -errno with text, and then it is not. */
static int take(struct ipc *ipc, const struct cuda_ipc *cuda, struct ipc_mapping *m, struct ipc_pool *pool, CUdeviceptr ptr)
{
	ipc_cuda_opened(m, ptr);
	/* What another process says is believed where CUDA says the same, to the last byte. */
	if (!m->id || !cuda_has_id(ptr + m->length - 1, m->id)) {
		unmap(ipc, cuda, m->exporter, ptr);
		return fail(-EIO, "CUDA opened less memory than the exporter said it is; this happens if memory of its pools was imported "
			    "by the program itself, and freed by the exporter before it was unmapped");
	}
	pthread_mutex_lock(&ipc->lock);
	m->pool = pool;
	pthread_mutex_unlock(&ipc->lock);
	return 0;
}

/* pools_lock.  All of a pool's memory is mapped for a device at once, also what is imported later. */
static CUresult give_access(struct ipc_pool *pool, int device)
{
	CUresult r = 0;

	if (!(pool->devices & ipc_cuda_device_bit(device)))
		pool->devices |= ipc_cuda_give_access(device, give, pool->handle, &r);
	return r;
}

/* pools_lock */
static int import(struct ipc *ipc, const struct cuda_ipc *cuda, struct ipc_mapping *m, const struct ipc_reply *reply, int fd, int device)
{
	const char *call = "cuMemPoolImportFromShareableHandle";
	struct cuda_pool_pointer data;
	struct ipc_pool *pool = NULL;
	CUdeviceptr ptr;
	int ret = 0;
	CUresult r;

	r = ipc_cuda_pool_get(ipc, m->exporter, reply->fd_offset, fd, &pool);
	if (!r) {
		call = "cuMemPoolSetAccess";
		r = give_access(pool, device);
		m->handle = pool->devices;
	}
	if (!r) {
		call = "cuMemPoolImportPointer";
		memcpy(&data, reply->blob, sizeof(data));
		r = cuda->pool_import(&ptr, pool->handle, &data);
	}
	if (!r)
		ret = take(ipc, cuda, m, pool, ptr);
	if (!r && !ret)
		return 0;
	if (pool)
		ipc_cuda_pool_put(ipc, pool);
	if (ret)
		return ret;
	if (r == CUDA_ERROR_ALREADY_MAPPED)
		return ipc_cuda_in_the_way();
	if (r == CUDA_ERROR_OPERATING_SYSTEM && !ipc_descriptors_left())
		return fail(-errno, "%s: %s", call, error_words(-errno));
	return fail(r == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s failed with CUDA error %d", call, r);
}

static int pool_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	struct ipc *ipc = ipc_get();
	int device, ret;

	/* Its own library does not share a pool with other users. */
	if (m->exporter->uid != geteuid())
		return fail(-EACCES, "user %u exported memory of a pool, which only that user may open", m->exporter->uid);
	if (fd < 0)
		return fail(-EPROTO, "the exporter sent no descriptor of its pool");
	if (m->length > LENGTH_MOST)
		return too_long(m->length);
	if (!cuda)
		return fail(-ENODEV, "it is CUDA's memory, and this process has not loaded libcuda.so.1; call cuInit() first");
	if (!cuda->pool_from_shareable || !cuda->pool_access || !cuda->pool_import || !cuda->pool_destroy || !cuda->free)
		return fail(-EOPNOTSUPP, "this driver cannot share memory of pools");
	ret = ipc_cuda_device(&device);
	if (ret)
		return ret;
	pthread_mutex_lock(&ipc->pools_lock);
	ret = not_now(ipc, m);
	if (!ret)
		ret = import(ipc, cuda, m, reply, fd, device);
	pthread_mutex_unlock(&ipc->pools_lock);
	return ret;
}

static int pool_close(struct ipc_mapping *m)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	struct ipc *ipc = ipc_get();
	struct ipc_pool *pool = m->pool;
	CUresult r = 0;

	pthread_mutex_lock(&ipc->pools_lock);
	/* Else another's memory may be there. */
	if (!m->gone && ipc_cuda_still(m))
		r = unmap(ipc, cuda, m->exporter, (uintptr_t)m->base);
	pthread_mutex_lock(&ipc->lock);
	m->pool = NULL;
	pthread_mutex_unlock(&ipc->lock);
	ipc_cuda_pool_put(ipc, pool);
	pthread_mutex_unlock(&ipc->pools_lock);
	return r ? fail(-EIO, "cuMemFree failed with CUDA error %d", r) : 0;
}

const struct ipc_provider ipc_cuda_pool = {
	.id = IPC_CUDA_POOL, .name = "cuda-pool", .cuda = true, .in_context = true, .offer = pool_offer, .still = ipc_cuda_still, .open = pool_open, .close = pool_close,
};
