// SPDX-License-Identifier: MIT
/*
 * cuda_pool.c - shares memory of CUDA's stream-ordered pools. The exporter sends a descriptor of
 * the pool and 64 bytes that contain the allocation's position in the pool. The importer imports
 * both.
 *
 * The pool belongs to the exporter. After the exporter frees memory, the pool may allocate the same
 * place again, even while importers have it mapped. So an access after the end of an export may
 * reach another allocation.
 *
 * CUDA requires that importers free memory before the exporter does. If the exporter frees memory
 * that is still mapped here and then allocates again, an import of the new memory may be mapped
 * only in part (NVIDIA 580, seen in 1 of 200 imports). CUDA then takes the missing part for host
 * memory, and a copy of it ends the program. So check_imports() refuses an import from an
 * exporter's pools while memory of an ended export of these pools is still mapped. The exporter
 * ends its record before it frees. So when memory that was allocated after a free is imported here,
 * the end of the freed memory is already visible.
 *
 * An import of memory at an address that is already imported returns that address. From then on the
 * address shows the exporter's latest allocation there, and one cuMemFree() unmaps it for all
 * imports. A thread holds ipc->pools_lock from check_imports() until its new import is in the list.
 * Otherwise two threads would not see each other's imports.
 *
 * The program may import the same pool itself. If it frees its import, the library's import is
 * unmapped, too.
 *
 * cuMemPoolImportPointer() of 5250 MiB ends the process (NVIDIA 580: it calls address 0); of 5248
 * MiB it does not.
 */
#include <string.h>
#include <unistd.h>

#include "base/component.h"
#include "cuda.h"
#include "ipc.h"

#define LENGTH_MOST	(4ULL << 30)

static int too_long(uint64_t length)
{
	return fail(-EOPNOTSUPP, "an allocation of %llu bytes of a pool: more than 4 GiB is refused, because NVIDIA's driver crashes a "
		    "process that imports some 5 GiB; allocate it with cuMemAlloc() or cuMemCreate(), or in several parts",
		    (unsigned long long)length);
}

/* Drivers before CUDA 11.3 lack these functions. */
static bool can_export(const struct cuda_ipc *cuda)
{
	return cuda->pool_to_shareable && cuda->pool_export;
}

static bool can_import(const struct cuda_ipc *cuda)
{
	return cuda->pool_from_shareable && cuda->pool_access && cuda->pool_import &&
	       cuda->pool_destroy && cuda->free;
}

static int pool_ready(void)
{
	const struct cuda_ipc *cuda;
	int ret = ipc_cuda_ready();

	if (ret)
		return ret;
	cuda = ipc_cuda_api();
	return can_export(cuda) && can_import(cuda) ? 0 :
	       fail(-EOPNOTSUPP, "this driver cannot share memory of pools");
}

static void pool_tell(struct peerdma_component *c)
{
	component_file(c, (const void *)(uintptr_t)ipc_cuda_api()->pool_export);
	component_why(c, "decided per allocation: of a pool of cuMemPoolCreate() with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
}

/* ---- the exporter ---- */

/* CUDA refuses to share the pool. The text says whether the GPU or the pool is the reason. */
static int not_shareable(const struct cuda_ipc *cuda, const struct ipc_offer *offer)
{
	int device, types = CUDA_HANDLE_POSIX_FD;

	if (cuda->device_attribute &&
	    !cuda->pointer_attribute(&device, ATTRIBUTE_DEVICE_ORDINAL, offer->base) &&
	    !cuda->device_attribute(&types, DEVICE_MEMPOOL_HANDLE_TYPES, device) &&
	    !(types & CUDA_HANDLE_POSIX_FD))
		return fail(-EOPNOTSUPP,
			    "this GPU's memory pools cannot be shared with other processes; no other process can reach a "
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
	if (!cuda || !can_export(cuda))
		return fail(-EOPNOTSUPP, "this driver cannot share memory of pools; allocate it with cuMemAlloc()");
	if (offer->any_user)
		return fail(-EOPNOTSUPP, "importers need a descriptor of the pool, with which PEERDMA_IPC_ANY_USER would give other users "
			    "all memory of the pool; allocate the memory with cuMemAlloc()");
	if (cuda->pointer_attribute(&pool, ATTRIBUTE_MEMPOOL_HANDLE, offer->base) || !pool)
		return fail(-ENXIO, "%#llx: the memory was freed meanwhile",
			    (unsigned long long)offer->base);
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

/*
 * Caller holds pools_lock. Returns 0 if memory of the exporter's pools may be imported now: the
 * wanted export and all exports with mapped memory are live.
 */
static int check_imports(struct ipc *ipc, const struct ipc_mapping *wanted)
{
	int ret = ipc_exporter_live(wanted->exporter, wanted->slot, wanted->generation);

	if (ret)
		return ipc_fail_live(wanted->exporter, ret);
	if (wanted->exporter->pools_lost)
		return fail(-EIO, "memory of that exporter's pools could not be unmapped: cuMemFree failed");
	pthread_mutex_lock(&ipc->lock);
	for (const struct ipc_mapping *m = ipc->mappings; m && !ret; m = m->next) {
		if (m->pool && m->exporter == wanted->exporter && !m->gone &&
		    ipc_exporter_live(m->exporter, m->slot, m->generation))
			/*
			 * Unused mappings can be unmapped, and closing ones are about to be: the
			 * caller tries again.
			 */
			ret = m->state == IPC_OPEN && m->refs ? -EADDRINUSE : IPC_LOOK_AGAIN;
	}
	pthread_mutex_unlock(&ipc->lock);
	return ret == -EADDRINUSE ? fail(ret, "this process still has memory of that exporter's pools open which was freed, or whose export "
					"ended; close it first") : ret;
}

/*
 * Caller holds pools_lock. If CUDA cannot unmap the memory, it stays mapped without an owner. The
 * exporter object then records this, and is never freed.
 */
static CUresult unmap(struct ipc *ipc, const struct cuda_ipc *cuda, struct ipc_exporter *exporter,
		      CUdeviceptr ptr)
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

/*
 * Caller holds pools_lock. Moves imported memory into the mapping. On an error, unmaps it: -errno
 * with text.
 */
static int take(struct ipc *ipc, const struct cuda_ipc *cuda, struct ipc_mapping *m,
		struct ipc_pool *pool, CUdeviceptr ptr)
{
	ipc_cuda_opened(m, ptr);
	/*
	 * The exporter's length is trusted only if CUDA reports the same buffer at the last byte.
	 */
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

/*
 * Caller holds pools_lock. Access is set for a pool as a whole, including memory that is imported
 * later.
 */
static CUresult give_access(struct ipc_pool *pool, int device)
{
	CUresult r = 0;

	if (!(pool->devices & ipc_cuda_device_bit(device)))
		pool->devices |= ipc_cuda_give_access(device, give, pool->handle, &r);
	return r;
}

/* Caller holds pools_lock. */
static int import(struct ipc *ipc, const struct cuda_ipc *cuda, struct ipc_mapping *m,
		  const struct ipc_reply *reply, int fd, int device)
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
	return fail(r == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s failed with CUDA error %d",
		    call, r);
}

static int pool_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd)
{
	const struct cuda_ipc *cuda;
	struct ipc *ipc = ipc_get();
	int device, ret;

	/*
	 * An exporter's library does not share a pool with other users. This protects from other
	 * senders.
	 */
	if (m->exporter->uid != geteuid())
		return fail(-EACCES,
			    "user %u exported memory of a pool, which only that user may open",
			    m->exporter->uid);
	if (fd < 0)
		return fail(-EPROTO, "the exporter sent no descriptor of its pool");
	if (m->length > LENGTH_MOST)
		return too_long(m->length);
	if (ipc_cuda_ready())
		return fail(-ENODEV, "it is CUDA's memory, and %s", peerdma_last_error());
	cuda = ipc_cuda_api();
	if (!can_import(cuda))
		return fail(-EOPNOTSUPP, "this driver cannot share memory of pools");
	ret = ipc_cuda_device(&device);
	if (ret)
		return ret;
	pthread_mutex_lock(&ipc->pools_lock);
	ret = check_imports(ipc, m);
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
	/* Otherwise the program has freed it, and other memory may be at this address. */
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
	.id = IPC_CUDA_POOL, .name = "cuda-pool", .cuda = true, .in_context = true,
	.ready = pool_ready, .describe = pool_tell,
	.offer = pool_offer, .still = ipc_cuda_still, .open = pool_open, .close = pool_close,
};
