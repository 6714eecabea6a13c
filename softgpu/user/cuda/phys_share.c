// SPDX-License-Identifier: MIT
/* phys_share.c - shares memory of cuMemCreate() with other processes, by file descriptors. */
#include <fcntl.h>
#include <string.h>

#include "share.h"
#include "vmm_int.h"

SGU_EXPORT CUresult cuMemExportToShareableHandle(void *shareableHandle,
						 CUmemGenericAllocationHandle handle,
						 CUmemAllocationHandleType handleType,
						 unsigned long long flags)
{
	struct softgpu_phys_export export = { .size = sizeof(export) };
	struct sgu_share share = { .type = SGU_SHARE_PHYS };
	CUresult result = sgu_enter();
	struct phys *phys;
	int fd;

	if (result)
		return result;
	if (!shareableHandle || flags || !handleType || handleType & (handleType - 1))
		return CUDA_ERROR_INVALID_VALUE;
	phys = sgu_phys_get(handle);
	if (!phys)
		return CUDA_ERROR_INVALID_VALUE;
	result = CUDA_ERROR_INVALID_VALUE;
	if (!(phys->prop.requestedHandleTypes & handleType))
		goto out;	/* the memory was created without this handle type */
	export.handle = phys->handle;
	result = sgu_result(sgu_call(phys->gpu, SOFTGPU_PHYS_EXPORT, &export));
	if (result)
		goto out;
	share.gpu = sgu_gpus[phys->gpu].info.index;
	share.id = export.id;
	memcpy(share.key, export.key, sizeof(share.key));
	share.prop = phys->prop;
	share.length = phys->length;
	result = sgu_share_make(&share, &fd);
	if (!result)
		memcpy(shareableHandle, &fd, sizeof(fd));
out:
	sgu_obj_put(&phys->obj);
	return result;
}

/* osHandle is the descriptor, cast to a pointer. The caller keeps it. */
SGU_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
						   void *osHandle,
						   CUmemAllocationHandleType shHandleType)
{
	struct softgpu_phys_import import = { .size = sizeof(import) };
	CUresult result = sgu_enter();
	struct sgu_share share;
	int gpu;

	if (result)
		return result;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	result = sgu_handle_types_ok(shHandleType);
	if (!result && shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		result = CUDA_ERROR_INVALID_VALUE;
	/* so an H200 answers for a descriptor that is not open */
	if (!result && fcntl((int)(intptr_t)osHandle, F_GETFD) < 0)
		result = CUDA_ERROR_UNKNOWN;
	if (!result)
		result = sgu_share_read((int)(intptr_t)osHandle, SGU_SHARE_PHYS, &share);
	if (result)
		return result;
	gpu = sgu_gpu_of_index(share.gpu);
	if (gpu < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	import.id = share.id;
	memcpy(import.key, share.key, sizeof(import.key));
	result = sgu_result(sgu_call(gpu, SOFTGPU_PHYS_IMPORT, &import));
	if (result)
		return result;
	/* this process may number the GPUs differently from the exporter */
	share.prop.location.id = gpu;
	return sgu_phys_publish(gpu, import.handle, import.length, &share.prop, handle);
}
