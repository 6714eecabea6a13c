// SPDX-License-Identifier: MIT
/* compute.c - what CUDA says of the GPU as well. */
#include "nvml_int.h"
#include "release.h"

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	if (!major || !minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	/* as libcuda's cuDeviceGetAttribute() */
	*major = (int)sgu_release()->capability / 10;
	*minor = (int)sgu_release()->capability % 10;
	return NVML_SUCCESS;
}
