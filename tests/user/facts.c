// SPDX-License-Identifier: MIT
/*
 * facts.c - what each library says of a GPU, field by field, and how each starts and fails to start: on the stand-in for the
 * driver (device.h), whose facts are known. The first GPU is /dev/softgpu1.
 */
#include <errno.h>

#include "device.h"
#include "hsa_test.h"
#include "nvml.h"

#define N(call)			assert_int_equal(call, NVML_SUCCESS)
#define NIS(status, call)	assert_int_equal(call, NVML_ERROR_##status)
#define HIP(call)		assert_int_equal(call, hipSuccess)
#define LENGTH(array)		(sizeof(array) / sizeof((array)[0]))

/* ---- starts, each in a process of its own ---- */

static void none(void *unused)
{
	unsigned int n = 7;
	int count = 7;

	(void)unused;
	device_open_error = ENOENT;
	HOLDS(cuInit(0) == CUDA_ERROR_NO_DEVICE);
	HOLDS(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
	HOLDS(nvmlInit() == NVML_ERROR_DRIVER_NOT_LOADED);
	HOLDS(nvmlInitWithFlags(NVML_INIT_FLAG_NO_ATTACH) == NVML_ERROR_DRIVER_NOT_LOADED);
	HOLDS(nvmlShutdown() == NVML_ERROR_UNINITIALIZED);
	HOLDS(nvmlInitWithFlags(4) == NVML_ERROR_INVALID_ARGUMENT);
	HOLDS(!nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS) && !nvmlDeviceGetCount(&n) && n == 0);
	HOLDS(hsa_init() == HSA_STATUS_ERROR);
	HOLDS(hipInit(0) == hipErrorNoDevice && hipInit(1) == hipErrorInvalidValue);
	HOLDS(hipGetDeviceCount(&count) == hipErrorNoDevice && count == 0);
	HOLDS(hipGetDeviceCount(NULL) == hipErrorInvalidValue);
	HOLDS(hipSetDevice(0) == hipErrorNoDevice && hipGetDevice(&count) == hipErrorNoDevice);
	/* Another time there may be. */
	device_open_error = 0;
	HOLDS(!cuInit(0) && !hsa_init() && !hipInit(0));
	HOLDS(!hipGetDeviceCount(&count) && count == 2);
	HOLDS(!cuDeviceGetCount(&count) && count == 2);
	HOLDS(!nvmlShutdown() && !nvmlInit() && !nvmlDeviceGetCount(&n) && n == 2);
	HOLDS(device_open_files == 6);
	HOLDS(!nvmlShutdown() && device_open_files == 4);
}

/* Each error of the driver, in each library's terms: of open(), and of the first call. */
static const struct {
	int error;
	CUresult cuda, open;
	nvmlReturn_t nvml;
	hsa_status_t hsa;
} errors[] = {
	{ EINVAL, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR_INVALID_ARGUMENT },
	{ E2BIG, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, NVML_ERROR_LIB_RM_VERSION_MISMATCH,
	  HSA_STATUS_ERROR },
	{ ENOTTY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, NVML_ERROR_LIB_RM_VERSION_MISMATCH,
	  HSA_STATUS_ERROR },
	{ EFAULT, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR },
	{ EPERM, CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, NVML_ERROR_NO_PERMISSION, HSA_STATUS_ERROR },
	{ ENOENT, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NO_DEVICE, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR_INVALID_ALLOCATION },
	{ EEXIST, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR },
	{ ENOMEM, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, NVML_ERROR_MEMORY, HSA_STATUS_ERROR_OUT_OF_RESOURCES },
	{ ENOSPC, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR_OUT_OF_RESOURCES },
	{ EBUSY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR },
	{ EAGAIN, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR_OUT_OF_RESOURCES },
	{ ENODEV, CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_NO_DEVICE, NVML_ERROR_GPU_IS_LOST, HSA_STATUS_ERROR },
	{ EIO, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR },
	{ EACCES, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NO_DEVICE, NVML_ERROR_NO_PERMISSION, HSA_STATUS_ERROR },
	{ ENOKEY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR },
	{ EMFILE, CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR_OUT_OF_RESOURCES },
	{ ENFILE, CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM, NVML_ERROR_UNKNOWN, HSA_STATUS_ERROR_OUT_OF_RESOURCES },
};

static void refused(void *unused)
{
	nvmlDevice_t device;
	nvmlMemory_t m;

	(void)unused;
	for (size_t i = 0; i < LENGTH(errors); i++) {
		bool none = errors[i].error == ENOENT || errors[i].error == ENODEV;

		device_open_error = errors[i].error;
		HOLDS(cuInit(0) == errors[i].open);
		HOLDS(nvmlInit() == (none ? NVML_ERROR_DRIVER_NOT_LOADED : errors[i].nvml));
		HOLDS(hsa_init() == (none ? HSA_STATUS_ERROR : errors[i].hsa));
		device_open_error = 0;
		for (unsigned int gpu = 1; gpu <= 2; gpu++) {
			device_fail(SOFTGPU_INFO, gpu, errors[i].error);
			HOLDS(cuInit(0) == errors[i].cuda && device_failed);
			HOLDS(device_open_files == 0);
			device_fail(SOFTGPU_INFO, gpu, errors[i].error);
			HOLDS(hsa_init() == errors[i].hsa && device_failed);
			HOLDS(device_open_files == 0);
		}
		HOLDS(!nvmlInit() && !nvmlDeviceGetHandleByIndex(0, &device));
		device_fail(SOFTGPU_INFO, 1, errors[i].error);
		HOLDS(nvmlDeviceGetMemoryInfo(device, &m) == errors[i].nvml);
		HOLDS(!nvmlDeviceGetMemoryInfo(device, &m) && !nvmlShutdown());
	}
	device_abi_more = 1;
	HOLDS(cuInit(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH && hsa_init() == HSA_STATUS_ERROR);
	device_abi_more = (u32)-1;
	HOLDS(cuInit(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH && hsa_init() == HSA_STATUS_ERROR);
	device_abi_more = 0;
	HOLDS(!cuInit(0) && !hsa_init());
}

/* The window of addresses: what is taken is tried elsewhere, anything else is an error at once. */
static void windows(void *unused)
{
	unsigned int *calls = &device_calls[_IOC_NR(SOFTGPU_WINDOW)];
	CUcontext context;
	CUdeviceptr p;
	int on = 7;

	(void)unused;
	device_fail(SOFTGPU_WINDOW, DEVICE_EACH, EINVAL);
	HOLDS(cuInit(0) == CUDA_ERROR_INVALID_VALUE && *calls == 1);
	HOLDS(hsa_init() == HSA_STATUS_ERROR_INVALID_ARGUMENT && *calls == 2);
	device_fail(SOFTGPU_WINDOW, DEVICE_EACH, EEXIST);
	HOLDS(cuInit(0) == CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
	/* 64 GiB at each multiple of it, then 16 there, 4, and 1; and each anywhere. */
	HOLDS(*calls > 40 && *calls <= 2 + 4 * 15 + 4);
	device_fail(SOFTGPU_WINDOW, DEVICE_EACH, ENOMEM);
	HOLDS(cuInit(0) == CUDA_ERROR_OUT_OF_MEMORY);
	device_fail(SOFTGPU_WINDOW, 2, EEXIST);
	*calls = 0;
	HOLDS(!cuInit(0) && *calls == 4 && device_failed);
	HOLDS(!cuCtxCreate(&context, 0, 0) && !cuMemAlloc(&p, 1));
	HOLDS(p >= (u64)64 << 30 && p < (u64)1 << 40);
	HOLDS(!cuDeviceGetAttribute(&on, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0) && on == 0);
}

static const struct {
	const char *text;
	bool good;
	int enabled;
} servers[] = {
	{ "0", true, 0 }, { "1", true, 1 }, { "0x10", true, 1 }, { "4294967295", true, 1 }, { "4294967296", false, 0 },
	{ "", false, 0 }, { "-1", false, 0 }, { "1 ", false, 0 }, { "x", false, 0 },
};

static void server(void *arg)
{
	size_t i = *(size_t *)arg;
	CUcontext context;
	CUdeviceptr p;
	int on = 7;

	setenv("SOFTGPU_MPS", servers[i].text, 1);
	if (!servers[i].good) {
		HOLDS(cuInit(0) == CUDA_ERROR_INVALID_VALUE && hsa_init() == HSA_STATUS_ERROR_INVALID_ARGUMENT);
		return;
	}
	HOLDS(!cuInit(0) && !cuDeviceGetAttribute(&on, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0) && on == servers[i].enabled);
	HOLDS(!cuCtxCreate(&context, 0, 0) && !cuMemAlloc(&p, 1) && p >= (u64)64 << 30 && p < (u64)1 << 40);
}

static void modes(void *arg)
{
	int mode = *(int *)arg, seen = 7;
	nvmlComputeMode_t told;
	nvmlDevice_t device;
	CUcontext a, b;
	char text[4] = { (char)('0' + mode), 0 };

	setenv("DEVICE_MODE", text, 1);
	HOLDS(!cuInit(0) && !cuDeviceGetAttribute(&seen, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0) && seen == mode);
	HOLDS(!nvmlInit() && !nvmlDeviceGetHandleByIndex(0, &device));
	HOLDS(!nvmlDeviceGetComputeMode(device, &told) && (int)told == mode);
	HOLDS(cuCtxCreate(&a, 0, 0) == (mode == CU_COMPUTEMODE_PROHIBITED ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS));
	if (mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
		HOLDS(cuCtxCreate(&b, 0, 0) == CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void starts(void **state)
{
	(void)state;
	assert_int_equal(in_child(none, NULL), 0);
	assert_int_equal(in_child(refused, NULL), 0);
	assert_int_equal(in_child(windows, NULL), 0);
	for (size_t i = 0; i < LENGTH(servers); i++)
		assert_int_equal(in_child(server, &i), 0);
	for (int mode = 0; mode <= 3; mode++) {
		if (mode != 1)
			assert_int_equal(in_child(modes, &mode), 0);
	}
}

/* ---- CUDA ---- */

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
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8 },
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

static const struct {
	const char *text;
	CUresult result;
	int device;
} bus_ids[] = {
	{ "10001:a8:15.6", CUDA_SUCCESS, 0 }, { "10001:a9:15.6", CUDA_SUCCESS, 1 }, { "00010001:A9:15.6", CUDA_SUCCESS, 1 },
	{ "10001:a7:15.6", CUDA_ERROR_INVALID_DEVICE, 0 }, { "10001:aa:15.6", CUDA_ERROR_INVALID_DEVICE, 0 },
	{ "10000:a8:15.6", CUDA_ERROR_INVALID_DEVICE, 0 }, { "10001:a8:14.6", CUDA_ERROR_INVALID_DEVICE, 0 },
	{ "10001:a8:15.7", CUDA_ERROR_INVALID_DEVICE, 0 }, { "10001:a8:15", CUDA_ERROR_INVALID_DEVICE, 0 },
	{ "a8:15.6", CUDA_ERROR_INVALID_DEVICE, 0 }, { "a8", CUDA_ERROR_INVALID_VALUE, 0 }, { "", CUDA_ERROR_INVALID_VALUE, 0 },
	{ "10001:a8:15.6 ", CUDA_ERROR_INVALID_VALUE, 0 }, { "10001:a8:15.6.", CUDA_ERROR_INVALID_VALUE, 0 },
	{ "0x10001:a8:15.6", CUDA_ERROR_INVALID_VALUE, 0 }, { "10001:+a8:15.6", CUDA_ERROR_INVALID_VALUE, 0 },
};

static const unsigned char first_uuid[16] = {
	0xa0, 0xb1, 0xc2, 0xd3, 0xe4, 0xf5, 0x06, 0x17, 0x28, 0x39, 0x4a, 0x5b, 0x6c, 0x7d, 0x8e, 1,
};

static void cuda(void **state)
{
	int n, major, minor, reads_zero = 0;
	char text[100];
	CUdevice device;
	CUcontext context;
	size_t total;
	CUuuid uuid;
	CUdeviceptr p;

	(void)state;
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
	assert_true(major == 8 && minor == 0);
	BAD(cuDeviceComputeCapability(NULL, &minor, 0));
	BAD(cuDeviceComputeCapability(&major, NULL, 0));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceComputeCapability(&major, &minor, 2));
	OK(cuDeviceGetPCIBusId(text, 14, 0));
	assert_string_equal(text, "10001:a8:15.6");
	BAD(cuDeviceGetPCIBusId(text, 13, 0));
	BAD(cuDeviceGetPCIBusId(NULL, 14, 0));
	FAILS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetPCIBusId(text, 14, 2));
	for (size_t i = 0; i < LENGTH(bus_ids); i++) {
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
	for (size_t i = 0; i < LENGTH(errors); i++) {
		CUresult wanted = errors[i].error == ENOENT ? CUDA_ERROR_CONTEXT_IS_DESTROYED : errors[i].cuda;

		device_fail(SOFTGPU_CTX_SYNC, 1, errors[i].error);
		FAILS(wanted, cuCtxSynchronize());
		device_fail(SOFTGPU_FLUSH, 1, errors[i].error);
		FAILS(wanted, cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
							 CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
	}
}

/* ---- NVML ---- */

static void nvml(void **state)
{
	nvmlMemory_v2_t memory_2 = { .version = nvmlMemory_v2, .reserved = 7 };
	struct {
		nvmlGpuFabricInfoV_t info;
		char after;
	} fabric;
	nvmlGpuFabricInfo_t first_fabric;
	nvmlFieldValue_t fields[2];
	nvmlDevice_t device, other, found;
	struct sg_gpu_stats stats;
	nvmlBAR1Memory_t bar1;
	nvmlComputeMode_t mode;
	nvmlEnableState_t on;
	unsigned int number;
	nvmlMemory_t memory;
	nvmlPciInfo_t pci;
	CUdeviceptr p;
	char text[100];
	int version;

	(void)state;
	N(nvmlInit());
	N(nvmlDeviceGetCount(&number));
	assert_int_equal(number, 2);
	N(nvmlDeviceGetHandleByIndex(0, &device));
	N(nvmlDeviceGetHandleByIndex(1, &other));
	assert_true(device != other);
	NIS(INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex(2, &found));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex(0, NULL));
	N(nvmlDeviceGetIndex(other, &number));
	assert_int_equal(number, 1);
	NIS(INVALID_ARGUMENT, nvmlDeviceGetIndex(other, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetIndex(NULL, &number));
	N(nvmlDeviceGetMinorNumber(other, &number));
	assert_int_equal(number, 2);
	NIS(INVALID_ARGUMENT, nvmlDeviceGetMinorNumber(other, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetMinorNumber(NULL, &number));
	/* A handle of a number that no GPU has, and what is no handle at all. */
	NIS(INVALID_ARGUMENT, nvmlDeviceGetMinorNumber((nvmlDevice_t)((char *)device + 2), &number));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetMinorNumber((nvmlDevice_t)((char *)device - 1), &number));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetMinorNumber((nvmlDevice_t)((char *)device + SOFTGPU_MAX_GPUS), &number));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetIndex((nvmlDevice_t)((char *)device + 2), &number));

	memset(&pci, 0x5a, sizeof(pci));
	N(nvmlDeviceGetPciInfo(device, &pci));
	assert_string_equal(pci.busIdLegacy, "0001:A8:15.6");
	assert_string_equal(pci.busId, "00010001:A8:15.6");
	assert_int_equal(pci.domain, DEVICE_DOMAIN);
	assert_int_equal(pci.bus, DEVICE_BUS + 1);
	assert_int_equal(pci.device, DEVICE_SLOT);
	assert_int_equal(pci.pciDeviceId, 0x233110de);
	assert_int_equal(pci.pciSubSystemId, 0x16c11af4);
	NIS(INVALID_ARGUMENT, nvmlDeviceGetPciInfo(device, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetPciInfo(NULL, &pci));
	for (size_t i = 0; i < LENGTH(bus_ids); i++) {
		found = NULL;
		assert_int_equal(nvmlDeviceGetHandleByPciBusId(bus_ids[i].text, &found),
				 bus_ids[i].result ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS);
		assert_ptr_equal(found, bus_ids[i].result ? NULL : bus_ids[i].device ? other : device);
	}
	NIS(INVALID_ARGUMENT, nvmlDeviceGetHandleByPciBusId(NULL, &found));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetHandleByPciBusId("a8:15.6", NULL));

	N(nvmlDeviceGetUUID(other, text, 41));
	assert_string_equal(text, "GPU-a0b1c2d3-e4f5-0617-2839-4a5b6c7d8e02");
	NIS(INSUFFICIENT_SIZE, nvmlDeviceGetUUID(other, text, 40));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetUUID(other, NULL, 41));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetUUID(NULL, text, 41));
	N(nvmlDeviceGetHandleByUUID("gpu-A0b1c2d3-e4f5-0617-2839-4a5b6c7d8e02", &found));
	assert_ptr_equal(found, other);
	N(nvmlDeviceGetName(device, text, 19));
	assert_string_equal(text, "softgpu (stand-in)");
	NIS(INSUFFICIENT_SIZE, nvmlDeviceGetName(device, text, 18));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetName(NULL, text, 19));

	assert_int_equal(sg_gpu_stats(device_core, 1, &stats), 0);
	OK(cuMemAlloc(&p, 3 * MIB));
	N(nvmlDeviceGetMemoryInfo(device, &memory));
	assert_int_equal(memory.total, DEVICE_VRAM);
	assert_int_equal(memory.free, stats.vram_free - 3 * MIB);
	assert_int_equal(memory.used, DEVICE_VRAM - memory.free);
	N(nvmlDeviceGetMemoryInfo_v2(device, &memory_2));
	assert_true(memory_2.total == memory.total && memory_2.free == memory.free && memory_2.used == memory.used);
	assert_int_equal(memory_2.reserved, 0);
	assert_int_equal(memory_2.version, nvmlMemory_v2);
	N(nvmlDeviceGetMemoryInfo(other, &memory));
	assert_int_equal(memory.free, DEVICE_VRAM);
	OK(cuMemFree(p));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetMemoryInfo(device, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetMemoryInfo(NULL, &memory));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetMemoryInfo_v2(device, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetMemoryInfo_v2(NULL, &memory_2));
	N(nvmlDeviceGetBAR1MemoryInfo(device, &bar1));
	assert_int_equal(bar1.bar1Total, DEVICE_VRAM);
	assert_int_equal(bar1.bar1Used, stats.bar1_used);
	assert_int_equal(bar1.bar1Free, DEVICE_VRAM - stats.bar1_used);
	assert_int_equal(bar1.bar1Used, MIB);
	NIS(INVALID_ARGUMENT, nvmlDeviceGetBAR1MemoryInfo(device, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetBAR1MemoryInfo(NULL, &bar1));
	N(nvmlDeviceGetComputeMode(device, &mode));
	assert_int_equal(mode, NVML_COMPUTEMODE_DEFAULT);
	NIS(INVALID_ARGUMENT, nvmlDeviceGetComputeMode(device, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetComputeMode(NULL, &mode));

	memset(fields, 0x5a, sizeof(fields));
	fields[0].fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT;
	fields[1].fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT + 1;
	N(nvmlDeviceGetFieldValues(device, 2, fields));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fields[i].valueType, NVML_VALUE_TYPE_UNSIGNED_INT);
		assert_int_equal(fields[i].nvmlReturn, i ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS);
		assert_int_equal(fields[i].latencyUsec, 0);
		assert_int_equal(fields[i].value.ullVal, 0);
		/* Since 1970, in microseconds. */
		assert_true(fields[i].timestamp / 1000000 <= time(NULL) && fields[i].timestamp / 1000000 >= time(NULL) - 1000);
	}
	NIS(INVALID_ARGUMENT, nvmlDeviceGetFieldValues(NULL, 1, fields));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetFieldValues(device, -1, fields));
	NIS(NOT_SUPPORTED, nvmlDeviceGetNvLinkState(device, NVML_NVLINK_MAX_LINKS - 1, &on));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetNvLinkState(device, NVML_NVLINK_MAX_LINKS, &on));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetNvLinkState(device, 0, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetNvLinkState(NULL, 0, &on));
	NIS(NOT_SUPPORTED, nvmlDeviceGetNvLinkRemotePciInfo_v2(device, 0, &pci));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetNvLinkRemotePciInfo_v2(device, 0, NULL));
	memset(&fabric, 0x5a, sizeof(fabric));
	fabric.info.version = nvmlGpuFabricInfo_v2;
	N(nvmlDeviceGetGpuFabricInfoV(device, &fabric.info));
	assert_int_equal(fabric.info.version, nvmlGpuFabricInfo_v2);
	assert_int_equal(fabric.info.state, NVML_GPU_FABRIC_STATE_NOT_SUPPORTED);
	assert_int_equal(fabric.info.clusterUuid[15], 0);
	assert_int_equal(fabric.info.cliqueId, 0);
	assert_int_equal(fabric.after, 0x5a);
	memset(&first_fabric, 0x5a, sizeof(first_fabric));
	N(nvmlDeviceGetGpuFabricInfo(device, &first_fabric));
	assert_int_equal(first_fabric.state, NVML_GPU_FABRIC_STATE_NOT_SUPPORTED);
	assert_int_equal(first_fabric.cliqueId, 0);
	NIS(INVALID_ARGUMENT, nvmlDeviceGetGpuFabricInfo(device, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetGpuFabricInfo(NULL, &first_fabric));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetGpuFabricInfoV(device, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetGpuFabricInfoV(NULL, &fabric.info));

	N(nvmlSystemGetDriverVersion(text, 7));
	assert_string_equal(text, "560.00");
	NIS(INSUFFICIENT_SIZE, nvmlSystemGetDriverVersion(text, 6));
	N(nvmlSystemGetNVMLVersion(text, 10));
	assert_string_equal(text, "12.560.00");
	NIS(INVALID_ARGUMENT, nvmlSystemGetNVMLVersion(NULL, 10));
	N(nvmlSystemGetCudaDriverVersion_v2(&version));
	assert_int_equal(version, 12060);
	NIS(INVALID_ARGUMENT, nvmlSystemGetCudaDriverVersion(NULL));
	for (int i = 0; i <= NVML_ERROR_INVALID_STATE; i++)
		assert_true(strlen(nvmlErrorString((nvmlReturn_t)i)) > 5 && strcmp(nvmlErrorString((nvmlReturn_t)i), "unknown error"));
	assert_string_equal(nvmlErrorString((nvmlReturn_t)(NVML_ERROR_INVALID_STATE + 1)), "unknown error");
	assert_string_equal(nvmlErrorString((nvmlReturn_t)-1), "unknown error");

	/* A GPU that goes. */
	N(nvmlShutdown());
	NIS(UNINITIALIZED, nvmlSystemGetNVMLVersion(text, sizeof(text)));
	NIS(UNINITIALIZED, nvmlDeviceGetHandleByUUID("x", &found));
	NIS(UNINITIALIZED, nvmlDeviceGetPciInfo(device, &pci));
	NIS(UNINITIALIZED, nvmlDeviceGetFieldValues(device, 2, fields));
	NIS(UNINITIALIZED, nvmlDeviceGetNvLinkState(device, 0, &on));
	NIS(UNINITIALIZED, nvmlDeviceGetGpuFabricInfo(device, &first_fabric));
	NIS(UNINITIALIZED, nvmlDeviceGetComputeMode(device, &mode));
}

/* ---- HSA and HIP ---- */

static void hsa(void **state)
{
	hsa_amd_memory_pool_link_info_t link;
	const hsa_agent_t *agents[] = { &cpu, &gpu };
	hsa_amd_segment_t segment;
	char text[64];
	const char *name;
	uint32_t word;
	uint16_t version;
	size_t size;
	bool yes;

	(void)state;
	assert_int_equal(gpus, 2);
	for (uint32_t i = 0; i < 2; i++) {
		memset(text, 'x', sizeof(text));
		FINE(hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_NAME, text));
		assert_string_equal(text, i ? "softgpu (stand-in)" : "CPU");
		assert_int_equal(text[63], 0);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_PRODUCT_NAME, text));
		assert_string_equal(text, i ? "softgpu (stand-in)" : "CPU");
		FINE(hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_VENDOR_NAME, text));
		assert_string_equal(text, i ? "softgpu" : "CPU");
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_UUID, text));
		assert_string_equal(text, i ? "GPU-a0b1c2d3e4f50617" : "CPU-XX");
		FINE(hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_NODE, &word));
		assert_int_equal(word, i);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DRIVER_NODE_ID, &word));
		assert_int_equal(word, i);
		FINE(hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_DEVICE, &word));
		assert_int_equal(word, i ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_CHIP_ID, &word));
		assert_int_equal(word, 0);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_BDFID, &word));
		assert_int_equal(word, i ? (DEVICE_BUS + 1) << 8 | DEVICE_SLOT << 3 | DEVICE_FUNCTION : 0);
		FINE(hsa_agent_get_info(*agents[i], (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DOMAIN, &word));
		assert_int_equal(word, i ? DEVICE_DOMAIN : 0);
		IS(INVALID_ARGUMENT, hsa_agent_get_info(*agents[i], (hsa_agent_info_t)2, &word));
		IS(INVALID_ARGUMENT, hsa_agent_get_info(*agents[i], HSA_AGENT_INFO_NODE, NULL));
	}
	/* The numbers before the first agent, and behind the last. */
	for (int i = 0; i < 2; i++) {
		const hsa_agent_t no = { i ? gpu.handle + 2 : cpu.handle - 1 };
		const hsa_amd_memory_pool_t no_pool = { i ? gpu_pool.handle + 2 : cpu_pool.handle - 1 };

		IS(INVALID_AGENT, hsa_agent_get_info(no, HSA_AGENT_INFO_NODE, &word));
		IS(INVALID_AGENT, hsa_amd_agent_iterate_memory_pools(no, see_pool, &word));
		NO_POOL(hsa_amd_memory_pool_get_info(no_pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &size));
	}
	IS(INVALID_ARGUMENT, hsa_amd_agent_iterate_memory_pools(cpu, NULL, &word));
	IS(INVALID_ARGUMENT, hsa_iterate_agents(NULL, NULL));

	for (int i = 0; i < 2; i++) {
		const hsa_amd_memory_pool_t pool = i ? gpu_pool : cpu_pool, far = i ? cpu_pool : gpu_pool;

		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
		assert_int_equal(segment, HSA_AMD_SEGMENT_GLOBAL);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &word));
		assert_int_equal(word, i ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED :
				 HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED);
		for (int max = 0; max < 2; max++) {
			FINE(hsa_amd_memory_pool_get_info(pool, max ? HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE :
							  HSA_AMD_MEMORY_POOL_INFO_SIZE, &size));
			assert_int_equal(size, i ? DEVICE_VRAM : (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
		}
		yes = false;
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &yes));
		assert_true(yes);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL, &yes));
		assert_int_equal(yes, !i);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE, &size));
		assert_int_equal(size, 4096);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT, &size));
		assert_int_equal(size, 4096);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE, &size));
		assert_int_equal(size, 4096);
		FINE(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_LOCATION, &word));
		assert_int_equal(word, i ? HSA_AMD_MEMORY_POOL_LOCATION_GPU : HSA_AMD_MEMORY_POOL_LOCATION_CPU);
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &word));
		assert_int_equal(word, HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], far, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &word));
		assert_int_equal(word, HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], far, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &word));
		assert_int_equal(word, 1);
		memset(&link, 0x5a, sizeof(link));
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], far, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link));
		assert_true(link.min_latency == 0 && link.max_latency == 0 && link.min_bandwidth == 0 && link.max_bandwidth == 0);
		assert_true(link.atomic_support_32bit && link.atomic_support_64bit && !link.coherent_support);
		assert_int_equal(link.link_type, HSA_AMD_LINK_INFO_TYPE_PCIE);
		assert_int_equal(link.numa_distance, 20);
		FINE(hsa_amd_agent_memory_pool_get_info(*agents[i], pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link));
		assert_true(!link.atomic_support_32bit && !link.numa_distance && !link.link_type);
	}

	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &version));
	assert_int_equal(version, 1);
	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &version));
	assert_int_equal(version, 1);
	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &size));
	assert_int_equal(size, 1000000000);
	FINE(hsa_system_get_info(HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT, &size));
	assert_true(size == UINT64_MAX);
	for (int i = 0; i < 2; i++) {
		uint64_t before = now_ns(CLOCK_MONOTONIC), stamp;

		FINE(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &stamp));
		assert_true(stamp >= before && stamp <= now_ns(CLOCK_MONOTONIC));
	}
	IS(INVALID_ARGUMENT, hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, NULL));
	IS(INVALID_ARGUMENT, hsa_system_get_info((hsa_system_info_t)99, &size));
	FINE(hsa_status_string(HSA_STATUS_ERROR_INVALID_SIGNAL, &name));
	assert_string_equal(name, "not such a signal");
	FINE(hsa_status_string(HSA_STATUS_SUCCESS, &name));
	assert_string_equal(name, "no error");
	FINE(hsa_status_string(HSA_STATUS_ERROR_NOT_INITIALIZED, &name));
	assert_string_equal(name, "hsa_init has not been called in this process");
	IS(INVALID_ARGUMENT, hsa_status_string(HSA_STATUS_SUCCESS, NULL));
	IS(INVALID_ARGUMENT, hsa_status_string((hsa_status_t)0x7777, &name));
}

static void hip(void **state)
{
	hipPointerAttribute_t a;
	hsa_amd_pointer_info_t info;
	char text[20], back[12];
	size_t pitch;
	int n = 7;
	char *p, *q;
	void *v;

	(void)state;
	HIP(hipGetDeviceCount(&n));
	assert_int_equal(n, 2);
	for (int i = 0; i < 2; i++) {
		HIP(hipDeviceGetPCIBusId(text, 13, i));
		assert_string_equal(text, i ? "0001:a9:15.6" : "0001:a8:15.6");
	}
	assert_int_equal(hipDeviceGetPCIBusId(text, 12, 0), hipErrorInvalidValue);
	assert_int_equal(hipDeviceGetPCIBusId(NULL, 13, 0), hipErrorInvalidValue);
	assert_int_equal(hipDeviceGetPCIBusId(text, 13, -1), hipErrorInvalidValue);
	assert_int_equal(hipDeviceGetPCIBusId(text, 13, 2), hipErrorInvalidValue);
	assert_int_equal(hipSetDevice(-1), hipErrorInvalidDevice);
	assert_int_equal(hipSetDevice(2), hipErrorInvalidDevice);
	assert_int_equal(hipGetDevice(NULL), hipErrorInvalidValue);
	HIP(hipDeviceSynchronize());
	for (int i = 1; i >= 0; i--) {
		HIP(hipSetDevice(i));
		HIP(hipGetDevice(&n));
		assert_int_equal(n, i);
		HIP(hipMalloc((void **)&p, 10));
		HIP(hipPointerGetAttributes(&a, p + 9));
		assert_int_equal(a.device, i);
		assert_int_equal(a.type, hipMemoryTypeDevice);
		assert_ptr_equal(a.devicePointer, p + 9);
		assert_ptr_equal(a.hostPointer, p + 9);
		assert_true(!a.isManaged && !a.allocationFlags);
		info = info_of(p);
		assert_int_equal(info.agentOwner.handle, gpu.handle + (unsigned int)i);
		assert_int_equal(info.global_flags, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
		HIP(hipFree(p));
	}
	v = text;
	HIP(hipMalloc(&v, 0));
	assert_null(v);
	v = text;
	assert_int_equal(hipMalloc(&v, DEVICE_VRAM + 1), hipErrorOutOfMemory);
	assert_null(v);
	assert_int_equal(hipMalloc(NULL, 10), hipErrorInvalidValue);
	assert_int_equal(hipFree(text), hipErrorInvalidValue);
	HIP(hipFree(NULL));
	HIP(hipHostFree(NULL));
	v = text;
	HIP(hipHostMalloc(&v, 0, 0));
	assert_null(v);
	assert_int_equal(hipHostMalloc(NULL, 10, 0), hipErrorInvalidValue);
	HIP(hipHostMalloc((void **)&q, 4096, 0));
	HIP(hipPointerGetAttributes(&a, q + 4095));
	assert_int_equal(a.type, hipMemoryTypeHost);
	assert_int_equal(a.device, -1);
	assert_true(!a.isManaged && a.devicePointer == q + 4095 && a.hostPointer == q + 4095);
	for (unsigned int flags = 0; flags < 4; flags++) {
		hipError_t error = hipMallocManaged((void **)&p, 10, flags);

		assert_int_equal(error, flags == 1 || flags == 2 ? hipSuccess : hipErrorInvalidValue);
		if (error)
			continue;
		HIP(hipPointerGetAttributes(&a, p));
		assert_int_equal(a.type, hipMemoryTypeManaged);
		assert_int_equal(a.device, -1);
		assert_int_equal(a.isManaged, 1);
		HIP(hipFree(p));
	}
	assert_int_equal(hipMallocManaged(&v, 0, hipMemAttachGlobal), hipErrorInvalidValue);
	HIP(hipPointerGetAttributes(&a, text));
	assert_int_equal(a.type, hipMemoryTypeUnregistered);
	assert_int_equal(a.device, -1);
	assert_true(!a.devicePointer && !a.hostPointer);
	assert_int_equal(hipPointerGetAttributes(NULL, q), hipErrorInvalidValue);
	assert_int_equal(hipPointerGetAttributes(&a, NULL), hipErrorInvalidValue);

	/* Rows of whole pitches; what does not fit in a number is refused. */
	for (size_t width = 255; width <= 257; width++) {
		HIP(hipMallocPitch((void **)&p, &pitch, width, 3));
		assert_int_equal(pitch, width > 256 ? 512 : 256);
		assert_int_equal(info_of(p).sizeInBytes, 3 * pitch);
		HIP(hipFree(p));
	}
	HIP(hipMallocPitch(&v, &pitch, 5, 0));
	assert_null(v);
	HIP(hipMallocPitch(&v, &pitch, 0, 5));
	assert_true(!v && pitch == 0);
	assert_int_equal(hipMallocPitch(&v, NULL, 5, 5), hipErrorInvalidValue);
	assert_int_equal(hipMallocPitch(&v, &pitch, SIZE_MAX - 254, 1), hipErrorInvalidValue);
	assert_int_equal(hipMallocPitch(&v, &pitch, SIZE_MAX - 255, 1), hipErrorOutOfMemory);
	assert_int_equal(hipMallocPitch(&v, &pitch, SIZE_MAX / 2, 3), hipErrorInvalidValue);

	/* Bytes before the first whole word and behind the last. */
	for (size_t from = 0; from < 5; from++) {
		for (size_t size = 0; size < 8; size++) {
			char wanted[12];

			memset(wanted, 0x11, 12);
			memset(q, 0x11, 12);
			memset(wanted + from, 0x92, size);
			HIP(hipMemset(q + from, 0x5592, size));
			assert_memory_equal(q, wanted, 12);
		}
	}
	HIP(hipMemset(q + 1, 0x33, 4095));
	assert_true(q[1] == 0x33 && q[4095] == 0x33);
	assert_int_equal(hipMemset(q + 4, 0x44, 4096), hipErrorInvalidValue);
	assert_int_equal(q[4], 0x33);
	/* Refused, it changes nothing, neither at its start nor behind the end. */
	assert_int_equal(hipMemset(q + 1, 0x44, 4096), hipErrorInvalidValue);
	assert_int_equal(q[1], 0x33);
	HIP(hipMalloc((void **)&p, 10));
	assert_int_equal(hipMemset(p, 0x44, 11), hipErrorInvalidValue);
	assert_true(p[0] == 0 && p[10] == 0);
	HIP(hipMemset(p + 9, 0x44, 1));
	assert_true(p[9] == 0x44 && p[10] == 0);
	HIP(hipFree(p));
	/* Nobody's memory is filled, too. */
	HIP(hipMemset(back, 0x21, 11));
	assert_true(back[0] == 0x21 && back[10] == 0x21);
	HIP(hipMemset(NULL, 1, 0));
	assert_int_equal(hipMemset(NULL, 1, 1), hipErrorInvalidValue);
	for (int kind = -1; kind < 6; kind++) {
		memset(back, 0, sizeof(back));
		assert_int_equal(hipMemcpy(back, q + 1, 12, (hipMemcpyKind)kind),
				 kind < 0 || kind > 4 ? hipErrorInvalidValue : hipSuccess);
		assert_int_equal(back[11], kind < 0 || kind > 4 ? 0 : 0x33);
	}
	HIP(hipMemcpy(NULL, NULL, 0, hipMemcpyDefault));
	assert_int_equal(hipMemcpy(NULL, q, 1, hipMemcpyDefault), hipErrorInvalidValue);
	assert_int_equal(hipMemcpy(q, NULL, 1, hipMemcpyDefault), hipErrorInvalidValue);
	assert_int_equal(hipMemcpy(back, q + 4095, 2, hipMemcpyDefault), hipErrorInvalidValue);
	/* The driver's errors, in HIP's terms. */
	for (size_t i = 0; i < LENGTH(errors); i++) {
		hsa_status_t status = errors[i].hsa;

		device_fail(SOFTGPU_COPY, 1, errors[i].error);
		assert_int_equal(hipMemcpy(q, q + 100, 1, hipMemcpyDefault), status == HSA_STATUS_ERROR_OUT_OF_RESOURCES ?
				 hipErrorOutOfMemory : status == HSA_STATUS_ERROR ? hipErrorUnknown : hipErrorInvalidValue);
	}
	HIP(hipHostFree(q));
#define NAMED(error, text)							\
	assert_string_equal(hipGetErrorName(error), #error);			\
	assert_string_equal(hipGetErrorString(error), text)
	NAMED(hipSuccess, "no error");
	NAMED(hipErrorInvalidValue, "invalid argument");
	NAMED(hipErrorOutOfMemory, "out of memory");
	NAMED(hipErrorNotInitialized, "not initialized in this process");
	NAMED(hipErrorNoDevice, "no GPU was found");
	NAMED(hipErrorInvalidDevice, "no GPU has this number");
	NAMED(hipErrorUnknown, "unknown error");
	assert_string_equal(hipGetErrorName((hipError_t)77), "hipErrorUnknown");
	assert_string_equal(hipGetErrorString((hipError_t)77), "unknown error");
}

/* Memory of other processes: of the driver's handle each part counts, and what is attached is not the owner's to free. */
static void attached(void **state)
{
	struct handle {
		uint32_t kind, where;
		uint64_t id, key[2];
	} h, wrong;
	struct softgpu_ipc_export e = { .size = sizeof(e), .flags = SOFTGPU_IPC_VISIBLE };
	struct softgpu_mem_alloc alloc = { .size = sizeof(alloc), .length = 10000 };
	const hsa_agent_t second = { gpu.handle + 1 };
	hsa_amd_ipc_memory_t handle;
	hsa_agent_t *agents = NULL;
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	struct sg_client *client;
	void *mine, *p = NULL, *again;
	uint32_t n;
	int fd;
	uint64_t offset;

	(void)state;
	FINE(hsa_amd_memory_pool_allocate(gpu_pool, 10000, 0, &mine));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(mine, 9999, &handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(mine, 10001, &handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(mine, 10000, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create((char *)mine + 1, 10000, &handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(&h, 10000, &handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach(mine));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach(NULL));
	FINE(hsa_amd_ipc_memory_create(mine, 10000, &handle));
	memcpy(&h, &handle, sizeof(h));
	assert_int_equal(h.where, 1);
	client = device_other(1, SOFTGPU_CTX_VISIBLE, &alloc.ctx);
	assert_int_equal(sg_call(client, _IOC_NR(SOFTGPU_MEM_ALLOC), &alloc, sizeof(alloc)), 0);
	e.va = alloc.va;
	assert_int_equal(sg_call(client, _IOC_NR(SOFTGPU_IPC_EXPORT), &e, sizeof(e)), 0);
	h.id = e.id;
	memcpy(h.key, e.key, sizeof(h.key));
	for (int i = 0; i < 7; i++) {
		wrong = h;
		wrong.kind += i == 0;
		wrong.where = i == 1 ? 0 : i == 2 ? 2 : i == 3 ? SOFTGPU_MAX_GPUS : wrong.where;
		wrong.id += i == 4;
		wrong.key[0] ^= i == 5;
		wrong.key[1] ^= i == 6;
		memcpy(&handle, &wrong, sizeof(handle));
		IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
		assert_null(p);
	}
	memcpy(&handle, &h, sizeof(handle));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 9999, 0, NULL, &p));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(NULL, 10000, 0, NULL, &p));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, NULL));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 1, NULL, &p));
	IS(INVALID_AGENT, hsa_amd_ipc_memory_attach(&handle, 10000, 1, &(hsa_agent_t){ 5 }, &p));
	device_fail(SOFTGPU_IPC_OPEN, 1, ENOMEM);
	IS(OUT_OF_RESOURCES, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	device_fail(SOFTGPU_QUERY, 1, EINVAL);
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	device_fail(DEVICE_MMAP, 1, ENOMEM);
	IS(OUT_OF_RESOURCES, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	assert_null(p);

	/* With no list all GPUs have it mapped; else those of it, and its own. */
	FINE(hsa_amd_ipc_memory_attach(&handle, 10000, 1, &cpu, &p));
	FINE(hsa_amd_pointer_info((char *)p + 9999, &info, malloc, &n, &agents));
	assert_int_equal(n, 1);
	assert_int_equal(agents[0].handle, gpu.handle);
	free(agents);
	assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_IPC);
	assert_true(info.agentBaseAddress == p && info.sizeInBytes == 10000 && info.registered);
	assert_int_equal(info.agentOwner.handle, gpu.handle);
	assert_int_equal(info_of((char *)p + 10000).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	FINE(hsa_amd_ipc_memory_attach(&handle, 10000, 1, &second, &again));
	assert_ptr_equal(again, p);
	FINE(hsa_amd_pointer_info(p, &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	assert_true(agents[0].handle == gpu.handle && agents[1].handle == second.handle);
	free(agents);
	FINE(hsa_amd_agents_allow_access(1, &cpu, NULL, p));
	FINE(hsa_amd_pointer_info(p, &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	free(agents);
	((char *)p)[9999] = 5;
	IS(INVALID_ARGUMENT, hsa_amd_memory_pool_free(p));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_create(p, 10000, &handle));
	IS(INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(p, 10, &fd, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach((char *)p + 1));
	FINE(hsa_amd_ipc_memory_detach(p));
	assert_int_equal(((char *)p)[9999], 5);
	FINE(hsa_amd_ipc_memory_detach(p));
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_detach(p));
	memcpy(&handle, &h, sizeof(handle));
	FINE(hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	assert_int_equal(((char *)p)[9999], 5);
	FINE(hsa_amd_pointer_info(p, &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	free(agents);
	FINE(hsa_amd_ipc_memory_detach(p));
	sg_client_close(client);
	IS(INVALID_ARGUMENT, hsa_amd_ipc_memory_attach(&handle, 10000, 0, NULL, &p));
	FINE(hsa_amd_memory_pool_free(mine));
}

/* All that is the GPU's, from the first byte to the last of its page. */
static void dmabufs(void **state)
{
	char *p, *host;
	uint64_t offset = 7;
	int fd;

	(void)state;
	FINE(hsa_amd_memory_pool_allocate(gpu_pool, 10000, 0, (void **)&p));
	FINE(hsa_amd_memory_pool_allocate(cpu_pool, 10000, 0, (void **)&host));
	FINE(hsa_amd_portable_export_dmabuf(p, 12288, &fd, &offset));
	assert_int_equal(offset, 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 12288);
	FINE(hsa_amd_portable_close_dmabuf(fd));
	IS(INVALID_ARGUMENT, hsa_amd_portable_close_dmabuf(fd));
	FINE(hsa_amd_portable_export_dmabuf(p + 9999, 2289, &fd, &offset));
	assert_int_equal(offset, 9999);
	assert_int_equal(lseek(fd, 0, SEEK_END), 12288);
	FINE(hsa_amd_portable_close_dmabuf(fd));
	IS(INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(p, 12289, &fd, &offset));
	IS(INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(p + 10000, 1, &fd, &offset));
	IS(INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(&fd, 1, &fd, &offset));
	IS(INVALID_AGENT, hsa_amd_portable_export_dmabuf(host, 1, &fd, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(NULL, 1, &fd, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(p, 0, &fd, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(p, 1, NULL, &offset));
	IS(INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(p, 1, &fd, NULL));
	for (size_t i = 0; i < LENGTH(errors); i++) {
		device_fail(SOFTGPU_DMABUF, 1, errors[i].error);
		assert_int_equal(hsa_amd_portable_export_dmabuf(p, 1, &fd, &offset), errors[i].hsa);
	}
	FINE(hsa_amd_memory_pool_free(p));
	FINE(hsa_amd_memory_pool_free(host));
}

/* Who has memory mapped that is the CPU's own, or locked. */
static void who_has_it(void **state)
{
	const hsa_agent_t both[] = { gpu, { gpu.handle + 1 } };
	hsa_amd_pointer_info_t info = { .size = sizeof(info) };
	static char bytes[3][4096];
	hsa_agent_t *agents;
	uint32_t n;
	void *at;
	char *p;

	(void)state;
	/* No list: all GPUs. The CPU alone: nothing to do. */
	FINE(hsa_amd_memory_lock(bytes[1], 4096, NULL, 0, &at));
	FINE(hsa_amd_pointer_info(bytes[1], &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	assert_true(agents[0].handle == both[0].handle && agents[1].handle == both[1].handle);
	free(agents);
	assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_LOCKED);
	assert_int_equal(info.global_flags, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
	assert_true(info.registered);
	assert_int_equal(info_of(bytes[0] + 4095).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	assert_int_equal(info_of(bytes[1] + 4095).type, HSA_EXT_POINTER_TYPE_LOCKED);
	assert_int_equal(info_of(bytes[2]).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	FINE(hsa_amd_memory_unlock(bytes[1] + 1));
	assert_int_equal(info_of(bytes[1]).type, HSA_EXT_POINTER_TYPE_LOCKED);
	FINE(hsa_amd_memory_unlock(bytes[1]));
	FINE(hsa_amd_memory_lock(bytes[1], 4096, &cpu, 1, &at));
	assert_ptr_equal(at, bytes[1]);
	assert_int_equal(info_of(bytes[1]).type, HSA_EXT_POINTER_TYPE_UNKNOWN);
	FINE(hsa_amd_memory_lock(bytes[1], 4096, (hsa_agent_t *)&both[1], 1, &at));
	FINE(hsa_amd_pointer_info(bytes[1], &info, malloc, &n, &agents));
	assert_int_equal(n, 1);
	assert_int_equal(agents[0].handle, both[1].handle);
	free(agents);
	/* Once more with another GPU: both have it. With another size it is a lock of its own, of which the newest counts. */
	FINE(hsa_amd_memory_lock(bytes[1], 4096, (hsa_agent_t *)&both[0], 1, &at));
	FINE(hsa_amd_pointer_info(bytes[1], &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	free(agents);
	FINE(hsa_amd_memory_lock(bytes[1], 100, NULL, 0, &at));
	assert_int_equal(info_of(bytes[1]).sizeInBytes, 100);
	FINE(hsa_amd_memory_unlock(bytes[1]));
	assert_int_equal(info_of(bytes[1]).sizeInBytes, 4096);
	FINE(hsa_amd_memory_unlock(bytes[1]));
	assert_int_equal(info_of(bytes[1]).sizeInBytes, 4096);
	FINE(hsa_amd_memory_unlock(bytes[1]));
	assert_int_equal(info_of(bytes[1]).type, HSA_EXT_POINTER_TYPE_UNKNOWN);

	p = memory(true, 5000);
	FINE(hsa_amd_agents_allow_access(2, both, NULL, p));
	FINE(hsa_amd_pointer_info(p, &info, malloc, &n, &agents));
	assert_int_equal(n, 2);
	free(agents);
	FINE(hsa_amd_memory_pool_free(p));
	IS(OUT_OF_RESOURCES, hsa_amd_memory_pool_allocate(gpu_pool, DEVICE_VRAM + 1, 0, &at));
	device_calls[_IOC_NR(SOFTGPU_MEM_ALLOC)] = 0;
	IS(OUT_OF_RESOURCES, hsa_amd_memory_pool_allocate(cpu_pool, ((size_t)sysconf(_SC_PHYS_PAGES) + 1) *
							  (size_t)sysconf(_SC_PAGESIZE), 0, &at));
	assert_int_equal(device_calls[_IOC_NR(SOFTGPU_MEM_ALLOC)], 0);
	/* What the driver does not take for a length is too much. */
	device_fail(SOFTGPU_MEM_ALLOC, 1, EINVAL);
	IS(OUT_OF_RESOURCES, hsa_amd_memory_pool_allocate(gpu_pool, 10, 0, &at));
	device_fail(SOFTGPU_MEM_FREE, 1, ENOENT);
	p = memory(true, 5000);
	IS(INVALID_ALLOCATION, hsa_amd_memory_pool_free(p));
}

static int setup(void **state)
{
	return gpu_setup(state) || up(state);
}

static int teardown(void **state)
{
	return down(state) || gpu_teardown(state);
}

int main(void)
{
	const struct CMUnitTest first[] = { cmocka_unit_test(starts) };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuda), cmocka_unit_test(nvml), cmocka_unit_test(hsa), cmocka_unit_test(hip),
		cmocka_unit_test(attached), cmocka_unit_test(dmabufs), cmocka_unit_test(who_has_it),
	};

	return cmocka_run_group_tests(first, NULL, NULL) || cmocka_run_group_tests(tests, setup, teardown);
}
