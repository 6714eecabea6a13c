// SPDX-License-Identifier: MIT
/*
 * cuda.c - shares CUDA memory: memory of cuMemAlloc() by cuIpcGetMemHandle(), memory of
 * cuMemCreate() by a file descriptor. cuda_pool.c shares the memory of pools.
 *
 * CUDA keeps memory allocated while an importer has it mapped: the exporter's free removes only the
 * exporter's mapping. So an importer that has not noticed the end of an export reads old bytes, not
 * another allocation. Small allocations are an exception: they share a block of 2 MiB. Importers
 * map the whole block, and the exporter continues to allocate in it.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/component.h"
#include "cuda.h"
#include "ipc.h"
#include "symbols.h"

static _Atomic(const struct cuda_ipc *) published;

static const struct cuda_ipc *search(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	struct cuda_ipc *api = library ? calloc(1, sizeof(*api)) : NULL;
	const struct cuda_ipc *first = NULL;
	const struct symbol names[] = {
#define NAME(field, name) { name, offsetof(struct cuda_ipc, field) }
		NAME(get, "cuIpcGetMemHandle"),
		NAME(open, "cuIpcOpenMemHandle_v2"),
		NAME(close, "cuIpcCloseMemHandle"),
		NAME(retain, "cuMemRetainAllocationHandle"),
		NAME(release, "cuMemRelease"),
		NAME(properties, "cuMemGetAllocationPropertiesFromHandle"),
		NAME(to_shareable, "cuMemExportToShareableHandle"),
		NAME(from_shareable, "cuMemImportFromShareableHandle"),
		NAME(reserve, "cuMemAddressReserve"), NAME(unreserve, "cuMemAddressFree"),
		NAME(map, "cuMemMap"), NAME(unmap, "cuMemUnmap"), NAME(access, "cuMemSetAccess"),
		NAME(pointer_attribute, "cuPointerGetAttribute"),
		NAME(ctx_current, "cuCtxGetCurrent"), NAME(ctx_id, "cuCtxGetId"),
		NAME(ctx_device, "cuCtxGetDevice"), NAME(device_count, "cuDeviceGetCount"),
		NAME(device_attribute, "cuDeviceGetAttribute"),
		NAME(pool_to_shareable, "cuMemPoolExportToShareableHandle"),
		NAME(pool_export, "cuMemPoolExportPointer"),
		NAME(pool_from_shareable, "cuMemPoolImportFromShareableHandle"),
		NAME(pool_access, "cuMemPoolSetAccess"),
		NAME(pool_import, "cuMemPoolImportPointer"), NAME(pool_destroy, "cuMemPoolDestroy"),
		NAME(free, "cuMemFree_v2"),
		NAME(stream_create, "cuStreamCreate"), NAME(stream_destroy, "cuStreamDestroy_v2"),
		NAME(stream_sync, "cuStreamSynchronize"), NAME(stream_query, "cuStreamQuery"),
		NAME(copy_in, "cuMemcpyHtoDAsync_v2"), NAME(copy_out, "cuMemcpyDtoHAsync_v2"),
		NAME(copy, "cuMemcpyAsync"), NAME(copy_2d, "cuMemcpy2DAsync_v2"),
		NAME(batch, "cuMemcpyBatchAsync_v2"),
		NAME(callback, "cuStreamAddCallback"),
		NAME(host_register, "cuMemHostRegister_v2"),
		NAME(host_unregister, "cuMemHostUnregister"),
		NAME(host_device_pointer, "cuMemHostGetDevicePointer_v2"),
		NAME(module_load, "cuModuleLoadData"),
		NAME(module_unload, "cuModuleUnload"),
		NAME(module_function, "cuModuleGetFunction"),
		NAME(launch, "cuLaunchKernel"),
		NAME(stream_wait, "cuStreamWaitValue64_v2"),
		NAME(stream_write, "cuStreamWriteValue64_v2"),
#undef NAME
	};

	if (api)
		symbols_find(library, names, sizeof(names) / sizeof(names[0]), api);
	if (api && api->get && api->open && api->close && api->pointer_attribute &&
	    api->ctx_current && api->ctx_device &&
	    atomic_compare_exchange_strong(&published, &first, api))
		return api;
	free(api);
	if (library)
		dlclose(library);
	return first;
}

const struct cuda_ipc *ipc_cuda_api(void)
{
	const struct cuda_ipc *api = atomic_load_explicit(&published, memory_order_acquire);

	return api ? api : search();
}

int ipc_cuda_ready(void)
{
	return ipc_cuda_api() ? 0 : fail(-ENODEV, "this process has not loaded libcuda.so.1; call cuInit() first");
}

int ipc_cuda_context(uint64_t *context)
{
	const struct cuda_ipc *cuda;
	unsigned long long id = 0;
	void *ctx = NULL;

	if (ipc_cuda_ready())
		return fail(-ENODEV, "it is CUDA's memory, and %s", peerdma_last_error());
	cuda = ipc_cuda_api();
	if (cuda->ctx_current(&ctx) || !ctx)
		return fail(-ENODEV, "it is CUDA's memory, and no CUDA context is current; call cuCtxSetCurrent() first");
	if (cuda->ctx_id && cuda->ctx_id(ctx, &id))
		return fail(-ENODEV, "it is CUDA's memory, and the current CUDA context was destroyed; make another one current");
	*context = cuda->ctx_id ? id : (uintptr_t)ctx;
	return 0;
}

int ipc_cuda_device(int *device)
{
	uint64_t context;
	int ret = ipc_cuda_context(&context);

	if (!ret && ipc_cuda_api()->ctx_device(device))
		ret = fail(-ENODEV, "it is CUDA's memory, and no CUDA context is current; call cuCtxSetCurrent() first");
	return ret;
}

static bool of_pool(uint64_t addr)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	void *pool = NULL;

	return cuda && !cuda->pointer_attribute(&pool, ATTRIBUTE_MEMPOOL_HANDLE, addr) && pool;
}

static int cuda_identify(const void *ptr, struct ipc_offer *offer)
{
	struct peerdma_memory m = { .device = -1 };
	int error = 0;

	switch (cuda_query(ptr, &m, &error)) {
	case CUDA_FAILED:
		return fail(-EIO, "%p: cuPointerGetAttributes failed with CUDA error %d", ptr,
			    error);
	case CUDA_ABSENT:
	case CUDA_UNKNOWN:
		return -ENOENT;
	case CUDA_KNOWN:
		break;
	}
	if (m.kind == PEERDMA_KIND_HOST && of_pool(m.base))
		return fail(-EOPNOTSUPP, "memory of a CUDA pool that is host memory cannot be exported; allocate it with peerdma_ipc_alloc()");
	/* page-locked by CUDA; may be a shared file, so ask the next provider */
	if (m.kind == PEERDMA_KIND_HOST)
		return -ENOENT;
	if (m.kind == PEERDMA_KIND_MANAGED)
		return fail(-EOPNOTSUPP, "%p: managed memory of CUDA cannot be exported, because it moves between the host and GPUs; "
			    "allocate it with cuMemAlloc() or cuMemCreate()", ptr);
	offer->provider = m.flags & PEERDMA_MEMORY_VMM ? IPC_CUDA_VMM :
		m.flags & PEERDMA_MEMORY_POOL ? IPC_CUDA_POOL : IPC_CUDA;
	offer->base = m.base;
	offer->length = m.length;
	offer->id = m.buffer_id;
	memcpy(offer->pci, m.pci, sizeof(offer->pci));
	return 0;
}

static int no_memory_handles(void)
{
	return fail(-EOPNOTSUPP, "this libcuda has no cuIpcGetMemHandle()");
}

/* Drivers before CUDA 10.2 lack these functions. */
static bool can_export(const struct cuda_ipc *cuda)
{
	return cuda->retain && cuda->properties && cuda->to_shareable && cuda->release;
}

static bool can_import(const struct cuda_ipc *cuda)
{
	return cuda->from_shareable && cuda->reserve && cuda->map && cuda->access &&
	       cuda->release && cuda->unmap;
}

static int cannot_share(void)
{
	return fail(-EOPNOTSUPP, "this driver cannot share memory of cuMemCreate()");
}

static int vmm_ready(void)
{
	const struct cuda_ipc *cuda;
	int ret = ipc_cuda_ready();

	if (ret)
		return ret;
	cuda = ipc_cuda_api();
	return can_export(cuda) && can_import(cuda) ? 0 : cannot_share();
}

static int vmm_offer(const void *ptr, struct ipc_offer *offer)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	CUmemGenericAllocationHandle handle;
	struct cuda_prop prop = { 0 };
	CUresult r;
	int fd;

	(void)ptr;
	if (!cuda)
		return no_memory_handles();
	if (!can_export(cuda))
		return cannot_share();
	r = cuda->retain(&handle, (void *)(uintptr_t)offer->base);
	if (r)
		return fail(-EIO, "cuMemRetainAllocationHandle failed with CUDA error %d", r);
	r = cuda->properties(&prop, handle);
	if (!r && !(prop.requested & CUDA_HANDLE_POSIX_FD)) {
		cuda->release(handle);
		return fail(-EOPNOTSUPP, "the memory was not made to be shared; give cuMemCreate() the handle type "
			    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
	}
	if (!r)
		r = cuda->to_shareable(&fd, handle, CUDA_HANDLE_POSIX_FD, 0);
	cuda->release(handle);
	if (r)
		return fail(-EIO, "cuMemExportToShareableHandle failed with CUDA error %d", r);
	ipc_not_inherited(fd);
	offer->fd = fd;
	return 0;
}

static int cuda_offer(const void *ptr, struct ipc_offer *offer)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	struct cuda_ipc_handle handle;
	CUresult r;

	(void)ptr;
	if (!cuda)
		return no_memory_handles();
	if (offer->any_user && offer->length < CUDA_BLOCK)
		return fail(-EOPNOTSUPP, "an allocation of less than 2 MiB shares its block with others of this process, which "
			    "PEERDMA_IPC_ANY_USER would give to other users, too; allocate 2 MiB or more");
	r = cuda->get(&handle, offer->base);
	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return fail(-EOPNOTSUPP, "this GPU's memory cannot be shared with other processes: cuIpcGetMemHandle is not supported; "
			    "no other process can reach a software GPU inside a process");
	if (r)
		return fail(r == CUDA_ERROR_INVALID_CONTEXT ? -ENODEV : -EIO,
			    "cuIpcGetMemHandle failed with CUDA error %d%s", r,
			    r == CUDA_ERROR_INVALID_CONTEXT ? ": no context is current" : "");
	memcpy(offer->blob, &handle, sizeof(offer->blob));
	return 0;
}

/* ---- the importer ---- */

int ipc_cuda_opened(struct ipc_mapping *m, CUdeviceptr ptr)
{
	unsigned long long id = 0;

	if (!ipc_cuda_api()->pointer_attribute(&id, ATTRIBUTE_BUFFER_ID, ptr))
		m->id = id;
	m->base = (char *)(uintptr_t)ptr;
	return 0;
}

/*
 * Of several ranges in a block that this process has open, CUDA returns the one that was opened
 * first.
 */
int ipc_cuda_in_the_way(void)
{
	return fail(-EADDRINUSE, "CUDA still has other memory open at this address: memory that the exporter has freed and this "
		    "process has not closed, or that the program opened itself by cuIpcOpenMemHandle(); close it first");
}

static int cuda_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	struct peerdma_memory there = { .device = -1 };
	struct cuda_ipc_handle handle;
	CUdeviceptr ptr = 0;
	CUresult r;
	int error;

	(void)fd;
	memcpy(&handle, reply->blob, sizeof(handle));
	r = cuda->open(&ptr, handle, CUDA_LAZY_PEER_ACCESS);
	if (r == CUDA_ERROR_ALREADY_MAPPED)
		return ipc_cuda_in_the_way();
	if (r)
		return fail(r == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO,
			    "cuIpcOpenMemHandle failed with CUDA error %d", r);
	/* The exporter's base and length are trusted only if CUDA reports the same. */
	if (cuda_query((const void *)(uintptr_t)ptr, &there, &error) != CUDA_KNOWN ||
	    there.base + there.length - ptr < m->length) {
		cuda->close(ptr);
		return m->length < CUDA_BLOCK ?
			       ipc_cuda_in_the_way() :
			       fail(-EPROTO,
				    "CUDA opened less memory than the exporter said it is");
	}
	return ipc_cuda_opened(m, ptr);
}

bool ipc_cuda_still(const struct ipc_mapping *m)
{
	return !m->id || cuda_has_id((uintptr_t)m->base, m->id);
}

static int cuda_close(struct ipc_mapping *m)
{
	CUresult r = m->gone ? 0 : ipc_cuda_api()->close((uintptr_t)m->base);

	return r ? fail(-EIO, "cuIpcCloseMemHandle failed with CUDA error %d", r) : 0;
}

/* The bit of a device in a mask of devices. The mask covers the first 64. */
uint64_t ipc_cuda_device_bit(int device)
{
	return device >= 0 && device < 64 ? 1ULL << device : 0;
}

bool ipc_cuda_vmm_reached(const struct ipc_mapping *m, int device)
{
	return m->handle & ipc_cuda_device_bit(device);
}

/*
 * The mapping belongs to the process, not to a context. So every GPU that can reach the memory gets
 * access.
 */
uint64_t ipc_cuda_give_access(int first, ipc_cuda_give give, void *memory, CUresult *r)
{
	struct cuda_access access = { .location = { .type = 1, .id = first }, .flags = 3 };
	const struct cuda_ipc *cuda = ipc_cuda_api();
	uint64_t devices = ipc_cuda_device_bit(first);
	int count = 0;

	*r = give(cuda, &access, memory);
	if (*r || !cuda->device_count || cuda->device_count(&count))
		return *r ? 0 : devices;
	for (access.location.id = 0; access.location.id < count; access.location.id++) {
		if (access.location.id != first && !give(cuda, &access, memory))
			devices |= ipc_cuda_device_bit(access.location.id);
	}
	return devices;
}

static CUresult vmm_give(const struct cuda_ipc *cuda, const struct cuda_access *access,
			 void *memory)
{
	const struct ipc_mapping *m = memory;

	return cuda->access((uintptr_t)m->base, m->length, access, 1);
}

static int vmm_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd)
{
	CUmemGenericAllocationHandle handle;
	const struct cuda_ipc *cuda;
	CUdeviceptr ptr = 0;
	const char *call;
	int device, ret;
	CUresult r;

	(void)reply;
	if (ipc_cuda_ready())
		return fail(-ENODEV, "it is CUDA's memory, and %s", peerdma_last_error());
	cuda = ipc_cuda_api();
	if (!can_import(cuda))
		return cannot_share();
	if (fd < 0)
		return fail(-EPROTO, "the exporter sent no descriptor of its memory");
	ret = ipc_cuda_device(&device);
	if (ret)
		return ret;
	call = "cuMemImportFromShareableHandle";
	r = cuda->from_shareable(&handle, (void *)(intptr_t)fd, CUDA_HANDLE_POSIX_FD);
	if (r)
		goto fail;
	call = "cuMemAddressReserve";
	r = cuda->reserve(&ptr, m->length, 0, 0, 0);
	if (r)
		goto release;
	call = "cuMemMap";
	r = cuda->map(ptr, m->length, 0, handle, 0);
	if (r)
		goto unreserve;
	call = "cuMemSetAccess";
	m->base = (char *)(uintptr_t)ptr;
	m->handle = ipc_cuda_give_access(device, vmm_give, m, &r);
	if (r)
		goto unmap;
	cuda->release(handle);	/* the mapping holds its own reference */
	return ipc_cuda_opened(m, ptr);
unmap:
	cuda->unmap(ptr, m->length);
unreserve:
	cuda->unreserve(ptr, m->length);
release:
	cuda->release(handle);
fail:
	return fail(r == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s failed with CUDA error %d",
		    call, r);
}

static int vmm_close(struct ipc_mapping *m)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	CUresult r = cuda->unmap((uintptr_t)m->base, m->length);

	if (!r)
		r = cuda->unreserve((uintptr_t)m->base, m->length);
	return r ? fail(-EIO, "cuMemUnmap failed with CUDA error %d", r) : 0;
}

static void cuda_tell(struct peerdma_component *c)
{
	component_file(c, (const void *)(uintptr_t)ipc_cuda_api()->get);
	component_why(c, "decided per allocation: memory of cuMemAlloc(), if the GPU supports cuIpcGetMemHandle()");
}

static void vmm_tell(struct peerdma_component *c)
{
	component_file(c, (const void *)(uintptr_t)ipc_cuda_api()->retain);
	component_why(c, "decided per allocation: memory of cuMemCreate() with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
}

const struct ipc_provider ipc_cuda = {
	.id = IPC_CUDA, .name = "cuda", .cuda = true, .identify = cuda_identify,
	.ready = ipc_cuda_ready, .describe = cuda_tell,
	.offer = cuda_offer, .context = ipc_cuda_context,
	.still = ipc_cuda_still, .open = cuda_open, .close = cuda_close,
};
const struct ipc_provider ipc_cuda_vmm = {
	.id = IPC_CUDA_VMM,
	.name = "cuda-vmm",
	.cuda = true,
	.ready = vmm_ready,
	.describe = vmm_tell,
	.offer = vmm_offer,
	.open = vmm_open,
	.close = vmm_close,
};
