// SPDX-License-Identifier: MIT
/* facts_cuda.c - what CUDA says of a GPU. */
#include "facts.h"

static const struct {
	CUdevice_attribute attribute;
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
	{ CU_DEVICE_ATTRIBUTE_INTEGRATED, 0 },
	{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
	{ CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, DEVICE_BUS + 1 },
	{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, DEVICE_SLOT },
	{ CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, DEVICE_DOMAIN },
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 1024 },
	{ CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2 },
	{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 10 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0 },
	{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1 },
	{ CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0 },
	{ CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1 },
	{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1 },
	{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER },
	{ CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0 },
	{ CU_DEVICE_ATTRIBUTE_NUMA_ID, -1 },
	{ CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1 },
};

static const unsigned char first_uuid[16] = {
	0xa0, 0xb1, 0xc2, 0xd3, 0xe4, 0xf5, 0x06, 0x17, 0x28, 0x39, 0x4a, 0x5b, 0x6c, 0x7d, 0x8e, 1,
};

CASE(cuda)
{
	int n, major, minor, reads_zero = 0;
	char text[100];
	CUdevice device;
	CUcontext context;
	size_t total;
	CUuuid uuid;
	CUdeviceptr p;

	for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; a++) {
		int wanted = 0, got = 77;

		for (size_t i = 0; i < LENGTH(attributes); i++) {
			if ((int)attributes[i].attribute == a)
				wanted = attributes[i].value;
		}
		OK(cuDeviceGetAttribute(&got, (CUdevice_attribute)a, 0));
		if (got != wanted)
			fail_msg("attribute %d is %d, not %d", a, got, wanted);
		reads_zero += !wanted;
	}
	assert_true(reads_zero > 50);
	BAD(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_MAX, 0));
	BAD(cuDeviceGetAttribute(&n, (CUdevice_attribute)-1, 0));
	OK(cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1));
	assert_int_equal(n, DEVICE_BUS + 2);
	OK(cuDeviceGetUuid(&uuid, 0));
	assert_memory_equal(uuid.bytes, first_uuid, 16);
	OK(cuDeviceGetUuid_v2(&uuid, 1));
	assert_int_equal((unsigned char)uuid.bytes[15], 2);
	OK(cuDeviceTotalMem(&total, 0));
	assert_int_equal(total, DEVICE_VRAM);
	OK(cuDeviceGetName(text, sizeof(text), 1));
	assert_string_equal(text, "softgpu (stand-in)");
	OK(cuDeviceGetName(text, 1, 0));
	assert_string_equal(text, "");
	BAD(cuDeviceGetName(text, 0, 0));
	BAD(cuDeviceGetName(NULL, 10, 0));
	OK(cuDeviceComputeCapability(&major, &minor, 0));
	assert_true(major == 10 && minor == 0);
	BAD(cuDeviceComputeCapability(NULL, &minor, 0));
	BAD(cuDeviceComputeCapability(&major, NULL, 0));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceComputeCapability(&major, &minor, 2));
	OK(cuDeviceGetPCIBusId(text, 14, 0));
	assert_string_equal(text, "10001:a8:15.6");
	BAD(cuDeviceGetPCIBusId(text, 13, 0));
	BAD(cuDeviceGetPCIBusId(NULL, 14, 0));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetPCIBusId(text, 14, 2));
	for (size_t i = 0; i < bus_id_count; i++) {
		device = 7;
		FAILS(bus_ids[i].result, cuDeviceGetByPCIBusId(&device, bus_ids[i].text));
		assert_int_equal(device, bus_ids[i].result ? 7 : bus_ids[i].device);
	}
	BAD(cuDeviceGetByPCIBusId(NULL, bus_ids[0].text));
	BAD(cuDeviceGetByPCIBusId(&device, NULL));
	n = 7;
	OK(cuDeviceCanAccessPeer(&n, 0, 1));
	assert_int_equal(n, 0);
	BAD(cuDeviceCanAccessPeer(NULL, 0, 1));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&n, 0, 2));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&n, -1, 0));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(NULL, 2, 2));
	/* A call that a signal ended is made again. */
	OK(cuCtxGetCurrent(&context));
	device_fail(SOFTGPU_MEM_ALLOC, 1, EINTR);
	OK(cuMemAlloc(&p, 100));
	assert_true(device_failed);
	OK(cuMemFree(p));
	for (size_t i = 0; i < error_count; i++) {
		CUresult wanted = errors[i].error == ENOENT ? CUDA_ERROR_CONTEXT_IS_DESTROYED : errors[i].cuda;

		if (errors[i].error == EIO)
			continue;	/* for the end */
		device_fail(SOFTGPU_CTX_SYNC, 1, errors[i].error);
		FAILS(wanted, cuCtxSynchronize());
		device_fail(SOFTGPU_FLUSH, 1, errors[i].error);
		FAILS(wanted, cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
							 CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
	}
}

/* The process's work has faulted: nothing works any more. */
CASE(dead)
{
	device_fail(SOFTGPU_CTX_SYNC, 1, EIO);
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&(CUdeviceptr) { 0 }, 100));
}
