// SPDX-License-Identifier: MIT
/* device.c - properties of a GPU. */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "parse.h"

CUresult sgu_enter_device(CUdevice dev)
{
	CUresult result = sgu_enter();

	if (result)
		return result;
	return sgu_device_ok(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* For a call that stores something about the GPU at `out`. */
static CUresult enter_for(const void *out, CUdevice dev)
{
	CUresult result = sgu_enter_device(dev);

	return result ? result : out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SGU_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult result = enter_for(device, ordinal);

	if (!result)
		*device = ordinal;
	return result;
}

SGU_EXPORT CUresult cuDeviceGetCount(int *count)
{
	CUresult result = sgu_enter();

	if (result)
		return result;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sgu_gpu_count();
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CUresult result = sgu_enter_device(dev);

	if (result)
		return result;
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, len, "%.*s", SOFTGPU_NAME_LEN, sgu_gpus[dev].info.name);
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	CUresult result = enter_for(uuid, dev);

	if (!result)
		memcpy(uuid->bytes, sgu_gpus[dev].info.uuid, sizeof(uuid->bytes));
	return result;
}

/* The two differ only for partitions of a GPU, which the software GPU does not have. */
SGU_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid(uuid, dev);
}

SGU_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult result = enter_for(bytes, dev);

	if (!result)
		*bytes = sgu_gpus[dev].info.vram_total;
	return result;
}

/*
 * Attributes that are the same for every software GPU. All others are 0. The limits of kernels are
 * those of an ordinary GPU, because programs divide by them. There is no function to launch a
 * kernel.
 */
static const struct {
	CUdevice_attribute attrib;
	int value;
} attributes[] = {
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
	{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
	{ CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
	{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 1024 },
	{ CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2 },
	{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1 },
	{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1 },
	{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
	  CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST },
	{ CU_DEVICE_ATTRIBUTE_NUMA_ID, -1 },
	{ CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1 },
};

SGU_EXPORT CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	CUresult result = sgu_enter_device(dev);
	const struct softgpu_info *info;

	if (result)
		return result;
	if (!pi || (int)attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	info = &sgu_gpus[dev].info;
	*pi = 0;
	if (attrib == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) {
		*pi = info->pci_domain;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) {
		*pi = info->pci_bus;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) {
		*pi = info->pci_device;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) {
		*pi = sgu_release()->capability / 10;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) {
		*pi = sgu_release()->capability % 10;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) {
		*pi = info->compute_mode;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM ||
		   attrib == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) {
		/* both mean that a program may pass a host pointer to the device */
		*pi = !info->device_pointers;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_INTEGRATED) {
		*pi = info->platform == SOFTGPU_PLATFORM_INTEGRATED;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS ||
		   attrib == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) {
		*pi = info->platform == SOFTGPU_PLATFORM_COHERENT;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_MPS_ENABLED) {
		*pi = sgu_window_has_server();
	} else if (attrib == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) {
		*pi = sgu_shared();
	} else if (attrib == CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) {
		*pi = sgu_shared() ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
	} else if (attrib == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) {
		/* in strict mode, only a flush orders the writes for running work */
		*pi = info->strict ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE :
				     CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
	} else {
		for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
			if (attributes[i].attrib == attrib)
				*pi = attributes[i].value;
		}
	}
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	CUresult result;

	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	result = cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
	if (!result)
		result = cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
					      dev);
	return result;
}

SGU_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	CUresult result = sgu_enter();
	struct sgu_pci at;

	if (result)
		return result;
	if (!dev || !pciBusId || !sgu_pci(pciBusId, &at))
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < sgu_gpu_count(); i++) {
		const struct softgpu_info *info = &sgu_gpus[i].info;

		if (info->pci_domain == at.domain && info->pci_bus == at.bus &&
		    info->pci_device == at.device && info->pci_function == at.function) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

SGU_EXPORT CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	CUresult result = sgu_enter_device(dev);
	const struct softgpu_info *info;
	char text[64];
	int n;

	if (result)
		return result;
	info = &sgu_gpus[dev].info;
	n = snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", info->pci_domain, info->pci_bus,
		     info->pci_device, info->pci_function);
	if (!pciBusId || len <= n)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(pciBusId, text, n + 1);
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
					       CUflushGPUDirectRDMAWritesScope scope)
{
	struct softgpu_handle flush = { .size = sizeof(flush) };
	struct sgu_ctx *ctx;
	CUresult result = sgu_ctx_live(&ctx, &flush.handle);

	if (result)
		return result;
	if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
	    (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
	     scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
		return CUDA_ERROR_INVALID_VALUE;
	return sgu_result_enoent(sgu_call(ctx->gpu, SOFTGPU_FLUSH, &flush),
				 CUDA_ERROR_CONTEXT_IS_DESTROYED);
}
