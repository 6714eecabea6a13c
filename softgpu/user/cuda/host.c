// SPDX-License-Identifier: MIT
/*
 * host.c - host memory that GPUs know: cuMemHostAlloc(), cuMemHostRegister(), and managed memory,
 * which here is host memory that both sides use in place.
 *
 * Memory that the library allocates is inside the window, so that its address alone shows what it
 * is. It is ordinary memory, mapped over the window's reservation. After a free the reservation is
 * restored.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "advice.h"
#include "hook.h"
#include "internal.h"
#include "uncancelled.h"

/* An allocation of host memory by the library. */
struct host {
	uint64_t va;
	size_t mapped;		/* a multiple of 64 KiB */
	uint32_t kind;		/* SOFTGPU_KIND_HOST or MANAGED */
	uint64_t ctx_id;
	struct sgu_advice *advice;	/* managed memory: advice for each page; NULL: none */
	struct host *next;	/* list of allocations being freed */
};

/* A tree sorted by address (tsearch). Protected by host_lock, which is the innermost lock. */
static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static void *hosts;

/* Allocations do not overlap, so the order treats overlapping ranges as equal. */
static int by_va(const void *a, const void *b)
{
	const struct host *x = a, *y = b;

	if (x->va + x->mapped <= y->va)
		return -1;
	return x->va >= y->va + y->mapped;
}

static void host_end(struct host *host)
{
	free(host->advice);
	free(host);
}

/* Restores the reservation, then releases the addresses for others. */
static void release_va(uint64_t va, size_t mapped)
{
	struct softgpu_va release = { .size = sizeof(release), .va = va };

	/* without a reservation the memory is still mapped, so the addresses must stay in use */
	if (sgu_reserve((void *)va, mapped, MAP_FIXED) == MAP_FAILED)
		return;
	sgu_call_any(SOFTGPU_VA_RELEASE, &release);
}

static enum sgu_host memory_of(uint32_t kind, uint32_t flags)
{
	if (kind == SOFTGPU_KIND_MANAGED)
		return SGU_HOST_MANAGED;
	return flags & CU_MEMHOSTALLOC_WRITECOMBINED ? SGU_HOST_WRITE_COMBINED : SGU_HOST;
}

static CUresult host_make(uint32_t kind, uint32_t flags, size_t length, uint64_t *va)
{
	struct softgpu_va_reserve reserve = { .size = sizeof(reserve) };
	struct softgpu_host_register reg = { .size = sizeof(reg) };
	struct host *host;
	struct sgu_ctx *ctx;
	void *node;
	CUresult result = sgu_ctx_live(&ctx, &reg.ctx);
	int err;

	if (result)
		return result;
	reserve.length = sgu_page_up(length);
	if (reserve.length < length)
		return CUDA_ERROR_OUT_OF_MEMORY;
	host = malloc(sizeof(*host));
	if (!host)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = sgu_call(ctx->gpu, SOFTGPU_VA_RESERVE, &reserve);
	if (err) {
		free(host);
		return sgu_result(err);
	}
	*host = (struct host) {
		.va = reserve.va, .mapped = reserve.length, .kind = kind,
		.ctx_id = atomic_load(&ctx->id),
	};
	/*
	 * A shared mapping: after a fork, the parent keeps the pages that a device may be using. As
	 * with NVIDIA's driver, a child can read host memory, and does not have managed memory.
	 */
	if (sgu_host(ctx->gpu, (void *)host->va, host->mapped, memory_of(kind, flags))) {
		result = CUDA_ERROR_OUT_OF_MEMORY;
		goto undo;
	}
	if (kind == SOFTGPU_KIND_MANAGED)
		madvise((void *)host->va, host->mapped, MADV_DONTFORK);

	reg.kind = kind;
	reg.host_flags = flags;
	reg.va = host->va;
	reg.length = length;
	err = sgu_call(ctx->gpu, SOFTGPU_HOST_REGISTER, &reg);
	if (err) {
		result = sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
		goto undo;
	}
	*va = host->va;
	pthread_mutex_lock(&host_lock);
	node = tsearch(host, &hosts, by_va);
	pthread_mutex_unlock(&host_lock);
	if (node)
		return CUDA_SUCCESS;
	sgu_call(ctx->gpu, SOFTGPU_HOST_UNREGISTER,
		 &(struct softgpu_va) { .size = sizeof(struct softgpu_va), .va = host->va });
	result = CUDA_ERROR_OUT_OF_MEMORY;
undo:
	release_va(host->va, host->mapped);
	free(host);
	return result;
}

/*
 * Removes the allocation that begins at va from the tree. If several threads call it, one gets the
 * allocation and the others NULL.
 */
static struct host *host_take(uint64_t va, uint32_t kind)
{
	struct host key = { .va = va, .mapped = 1 }, *host = NULL;
	struct host **node;

	pthread_mutex_lock(&host_lock);
	node = tfind(&key, &hosts, by_va);
	if (node && (*node)->va == va && (*node)->kind == kind) {
		host = *node;
		tdelete(host, &hosts, by_va);
	}
	pthread_mutex_unlock(&host_lock);
	return host;
}

static CUresult host_free(uint64_t va, uint32_t kind)
{
	struct softgpu_va unregister = { .size = sizeof(unregister), .va = va };
	struct host *host = host_take(va, kind);
	CUresult result;

	if (!host)
		return CUDA_ERROR_INVALID_VALUE;
	/* queued copies may be using it */
	result = sgu_ctx_sync_all();
	sgu_call_any(SOFTGPU_HOST_UNREGISTER, &unregister);
	release_va(host->va, host->mapped);
	host_end(host);
	return result;
}

CUresult sgu_managed_free(uint64_t va)
{
	return host_free(va, SOFTGPU_KIND_MANAGED);
}

struct sweep {
	uint64_t ctx_id;
	struct host *found;
};

static void sweep_node(const void *node, VISIT visit, void *arg)
{
	struct host *host = *(struct host *const *)node;
	struct sweep *sweep = arg;

	if ((visit == postorder || visit == leaf) && host->ctx_id == sweep->ctx_id) {
		host->next = sweep->found;
		sweep->found = host;
	}
}

void sgu_host_forget(uint64_t ctx_id)
{
	struct sweep sweep = { .ctx_id = ctx_id };

	pthread_mutex_lock(&host_lock);
	twalk_r(hosts, sweep_node, &sweep);
	for (struct host *host = sweep.found; host; host = host->next)
		tdelete(host, &hosts, by_va);
	pthread_mutex_unlock(&host_lock);

	while (sweep.found) {
		struct host *host = sweep.found;

		sweep.found = host->next;
		release_va(host->va, host->mapped);
		host_end(host);
	}
}

CUresult sgu_managed_pages(uint64_t va, size_t length,
			   CUresult (*fn)(struct sgu_advice *pages, size_t count, void *arg),
			   void *arg)
{
	struct host key = { .va = va, .mapped = 1 }, *host;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	struct host **node;
	uint64_t from, to;

	if (!length || va + length < va)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&host_lock);
	node = tfind(&key, &hosts, by_va);
	host = node ? *node : NULL;
	if (!host || host->kind != SOFTGPU_KIND_MANAGED || va + length > host->va + host->mapped)
		goto out;
	if (!host->advice)
		host->advice = calloc(host->mapped / SGU_PAGE, sizeof(*host->advice));
	if (!host->advice) {
		result = CUDA_ERROR_OUT_OF_MEMORY;
		goto out;
	}
	from = (va - host->va) / SGU_PAGE;
	to = (va + length - 1 - host->va) / SGU_PAGE;
	result = fn(&host->advice[from], to - from + 1, arg);
out:
	pthread_mutex_unlock(&host_lock);
	return result;
}

/* ---- entry points ---- */

#define ALLOC_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | \
		     CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | \
			CU_MEMHOSTREGISTER_READ_ONLY)

SGU_EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	CUresult result = sgu_enter();
	uint64_t va;

	if (result)
		return result;
	if (!pp || (Flags & ~ALLOC_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytesize) {
		*pp = NULL;
		return sgu_ctx_needed();
	}
	/* with unified addressing, all host memory is mapped for the devices */
	result = host_make(SOFTGPU_KIND_HOST, Flags | CU_MEMHOSTALLOC_DEVICEMAP, bytesize, &va);
	if (!result)
		*pp = (void *)va;
	return result;
}

SGU_EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

SGU_HOOKED(cuMemFreeHost, void *p)
{
	CUresult result = sgu_enter_alive();

	if (result || !p)
		return result;
	return host_free((uintptr_t)p, SOFTGPU_KIND_HOST);
}

SGU_HOOKED(cuMemAllocManaged, CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	CUresult result = sgu_enter();
	uint64_t va;

	if (result)
		return result;
	if (!dptr || !bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	result = host_make(SOFTGPU_KIND_MANAGED, flags, bytesize, &va);
	if (!result)
		*dptr = va;
	return result;
}

SGU_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	SGU_UNCANCELLED;
	struct softgpu_host_register reg = {
		.size = sizeof(reg), .kind = SOFTGPU_KIND_REGISTERED,
		.host_flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP,
		.va = (uintptr_t)p, .length = bytesize,
	};
	size_t page = sysconf(_SC_PAGESIZE), head = (uintptr_t)p & (page - 1);
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_live(&ctx, &reg.ctx);
	int err;

	if (result)
		return result;
	if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!p || !bytesize || (Flags & ~REGISTER_FLAGS) || sgu_in_window(reg.va) ||
	    reg.va + bytesize < bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	/* on Linux, this only checks that the whole range is mapped */
	if (msync((char *)p - head, bytesize + head, MS_ASYNC))
		return CUDA_ERROR_INVALID_VALUE;
	/* increment first, so that no query of another thread takes it for unknown memory */
	atomic_fetch_add(&sgu_registered, 1);
	err = sgu_call(ctx->gpu, SOFTGPU_HOST_REGISTER, &reg);
	if (err)
		atomic_fetch_sub(&sgu_registered, 1);
	if (err == -EEXIST)
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

SGU_EXPORT CUresult cuMemHostUnregister(void *p)
{
	struct softgpu_va unregister = { .size = sizeof(unregister), .va = (uintptr_t)p };
	CUresult result = sgu_enter_alive();
	struct softgpu_query q;
	int err;

	if (result)
		return result;
	result = sgu_query(unregister.va, &q);
	if (result)
		return result;
	if (q.kind == SOFTGPU_KIND_NONE)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (q.kind != SOFTGPU_KIND_REGISTERED || q.base != unregister.va)
		return CUDA_ERROR_INVALID_VALUE;
	/* queued copies may be using it; go on even if a context has faulted */
	result = sgu_ctx_sync_all();
	err = sgu_call_any(SOFTGPU_HOST_UNREGISTER, &unregister);
	if (err)
		return sgu_result_enoent(err, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	atomic_fetch_sub(&sgu_registered, 1);
	return result;
}

/* Queries host memory that the devices know at p. */
static CUresult host_at(void *p, bool managed_too, struct softgpu_query *q)
{
	CUresult result = sgu_ctx_needed();

	if (!result)
		result = sgu_query((uintptr_t)p, q);
	if (result)
		return result;
	if (q->kind == SOFTGPU_KIND_HOST || q->kind == SOFTGPU_KIND_REGISTERED)
		return CUDA_SUCCESS;
	return managed_too && q->kind == SOFTGPU_KIND_MANAGED ? CUDA_SUCCESS :
	       CUDA_ERROR_INVALID_VALUE;
}

SGU_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	struct softgpu_query q;
	CUresult result = host_at(p, false, &q);

	if (result)
		return result;
	if (!pdptr || Flags || (q.host_va && q.host_va != q.va))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = q.device_va ? q.device_va : q.va;
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct softgpu_query q;
	CUresult result = host_at(p, true, &q);

	if (result)
		return result;
	if (!pFlags)
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = q.host_flags;
	return CUDA_SUCCESS;
}
