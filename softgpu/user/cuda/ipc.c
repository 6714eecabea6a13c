// SPDX-License-Identifier: MIT
/*
 * ipc.c - device memory for others: other processes, by handles that they open,
 * and other devices, as a dma-buf.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pool.h"
#include "uncancelled.h"

/* What a CUipcMemHandle holds: 64 bytes that processes pass on as they are. */
struct handle {
	char magic[8];
	uint64_t id, key[2];
	char zero[32];
};

_Static_assert(sizeof(struct handle) == sizeof(CUipcMemHandle), "a handle's size");

static const struct handle blank = { .magic = "SGPUIPC1" };

SGU_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct softgpu_ipc_export export = { .size = sizeof(export), .va = dptr };
	struct handle handle = blank;
	CUresult result = sgu_ctx_needed();
	struct sgu_pool_facts pool;

	if (result)
		return result;
	if (!pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sgu_shared())
		return CUDA_ERROR_NOT_SUPPORTED;	/* no other process reaches this GPU */
	if (sgu_pool_facts(dptr, &pool))
		return CUDA_ERROR_INVALID_VALUE;	/* cuMemPoolExportPointer exports it */
	result = sgu_result(sgu_call_any(SOFTGPU_IPC_EXPORT, &export));
	if (result)
		return result;
	handle.id = export.id;
	memcpy(handle.key, export.key, sizeof(handle.key));
	memcpy(pHandle, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct softgpu_ipc_open open = { .size = sizeof(open) };
	struct sgu_ctx *ctx;
	struct handle h;
	CUresult result = sgu_ctx_live(&ctx, &open.ctx);
	int err;

	if (result)
		return result;
	memcpy(&h, &handle, sizeof(h));
	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
	    memcmp(h.magic, blank.magic, sizeof(h.magic)) || memcmp(h.zero, blank.zero, sizeof(h.zero)))
		return CUDA_ERROR_INVALID_VALUE;
	open.id = h.id;
	memcpy(open.key, h.key, sizeof(open.key));
	err = sgu_call(ctx->gpu, SOFTGPU_IPC_OPEN, &open);
	switch (err) {
	case 0:
		*pdptr = open.va;
		return CUDA_SUCCESS;
	case -EEXIST:
		return CUDA_ERROR_INVALID_CONTEXT;	/* one's own memory */
	case -EBUSY:
		return CUDA_ERROR_INVALID_HANDLE;	/* open in another context */
	default:
		return sgu_result_enoent(err, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	}
}

SGU_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct softgpu_va va = { .size = sizeof(va), .va = dptr };
	CUresult result = sgu_ctx_needed();

	return result ? result : sgu_result(sgu_call_any(SOFTGPU_IPC_CLOSE, &va));
}

/* An event for other processes cannot be made, so no handle can be one's. */
static CUresult no_event(const void *out)
{
	CUresult result = sgu_ctx_needed();

	if (result)
		return result;
	return out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}

SGU_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	(void)event;
	return no_event(pHandle);
}

SGU_EXPORT CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	(void)handle;
	return no_event(phEvent);
}

/* Of a range that the driver has exported, so without holes: is all of it this process's own VRAM? */
static CUresult check_own(uint64_t va, uint64_t end)
{
	struct softgpu_query q;
	CUresult result;

	for (; va < end; va = q.kind ? q.base + q.length : (va | (SGU_PAGE - 1)) + 1) {
		result = sgu_query(va, &q);
		if (result)
			return result;
		/* a page of small allocations has parts that are none */
		if (q.kind != SOFTGPU_KIND_NONE && q.kind != SOFTGPU_KIND_DEVICE && q.kind != SOFTGPU_KIND_VMM)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
						  CUmemRangeHandleType handleType,
						  unsigned long long flags)
{
	SGU_UNCANCELLED;
	struct softgpu_dmabuf export = { .size = sizeof(export), .va = dptr, .length = size };
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	CUresult result = sgu_ctx_needed();

	if (result)
		return result;
	if (!handle || handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
	    flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE ||
	    !size || dptr + size < dptr || (dptr | size) & in_page)
		return CUDA_ERROR_INVALID_VALUE;
	/* the flag is for GPUs that have another way than PCIe as well; all GPUs are of one platform */
	if ((flags && sgu_gpus[0].info.platform != SOFTGPU_PLATFORM_COHERENT) || !sgu_shared())
		return CUDA_ERROR_NOT_SUPPORTED;
	result = sgu_result(sgu_call_any(SOFTGPU_DMABUF, &export));
	if (result)
		return result;
	result = check_own(dptr, dptr + size);
	if (result)
		close(export.fd);
	else
		memcpy(handle, &export.fd, sizeof(export.fd));
	return result;
}
