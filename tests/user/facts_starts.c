// SPDX-License-Identifier: MIT
/* facts_starts.c - how each library starts and fails to start, each time in a process of its own. */
#include "facts.h"

static void none(void *unused)
{
	unsigned int n = 7;
	int count = 7;

	device_open_error = ENOENT;
	HOLDS(cuInit(0) == CUDA_ERROR_NO_DEVICE);
	HOLDS(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
	HOLDS(nvmlInit() == NVML_ERROR_DRIVER_NOT_LOADED);
	HOLDS(nvmlInitWithFlags(NVML_INIT_FLAG_NO_ATTACH) == NVML_ERROR_DRIVER_NOT_LOADED);
	HOLDS(nvmlShutdown() == NVML_ERROR_UNINITIALIZED);
	HOLDS(nvmlInitWithFlags(4) == NVML_ERROR_INVALID_ARGUMENT);
	HOLDS(!nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS) && !nvmlDeviceGetCount(&n) && n == 0);
	HOLDS(hsa_init() == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
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

static void refused(void *unused)
{
	nvmlDevice_t device;
	nvmlMemory_t m;

	for (size_t i = 0; i < error_count; i++) {
		bool none = errors[i].error == ENOENT || errors[i].error == ENODEV;

		device_open_error = errors[i].error;
		HOLDS(cuInit(0) == errors[i].open);
		HOLDS(nvmlInit() == (none ? NVML_ERROR_DRIVER_NOT_LOADED : errors[i].nvml));
		HOLDS(hsa_init() == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
		device_open_error = 0;
		for (unsigned int gpu = 1; gpu <= 2; gpu++) {
			device_fail(SOFTGPU_INFO, gpu, errors[i].error);
			HOLDS(cuInit(0) == errors[i].cuda && device_failed);
			HOLDS(device_open_files == 0);
			device_fail(SOFTGPU_INFO, gpu, errors[i].error);
			HOLDS(hsa_init() == HSA_STATUS_ERROR_OUT_OF_RESOURCES && device_failed);
			HOLDS(device_open_files == 0);
		}
		HOLDS(!nvmlInit() && !nvmlDeviceGetHandleByIndex(0, &device));
		device_fail(SOFTGPU_INFO, 1, errors[i].error);
		HOLDS(nvmlDeviceGetMemoryInfo(device, &m) == errors[i].nvml);
		HOLDS(!nvmlDeviceGetMemoryInfo(device, &m) && !nvmlShutdown());
	}
	device_abi_more = 1;
	HOLDS(cuInit(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH && hsa_init() == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
	device_abi_more = (u32)-1;
	HOLDS(cuInit(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH && hsa_init() == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
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

	device_fail(SOFTGPU_WINDOW, DEVICE_EACH, EINVAL);
	HOLDS(cuInit(0) == CUDA_ERROR_INVALID_VALUE && *calls == 1);
	HOLDS(hsa_init() == HSA_STATUS_ERROR_OUT_OF_RESOURCES && *calls == 2);
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
		HOLDS(cuInit(0) == CUDA_ERROR_INVALID_VALUE && hsa_init() == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
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

void starts(void **state)
{
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
