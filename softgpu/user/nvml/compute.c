// SPDX-License-Identifier: MIT
/* compute.c - what CUDA says of the GPU as well. */
#include "nvml_int.h"

/* As libcuda's cuDeviceGetAttribute(). */
#define MAJOR 8
#define MINOR 0

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	if (!major || !minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = MAJOR;
	*minor = MINOR;
	return NVML_SUCCESS;
}
