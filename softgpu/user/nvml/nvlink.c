// SPDX-License-Identifier: MIT
/*
 * nvlink.c - fields, NVLinks and fabrics. A software GPU has no links, and these functions report
 * that.
 */
#include <string.h>
#include <time.h>

#include "nvml_int.h"

static long long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
						  nvmlFieldValue_t *values)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	if (valuesCount <= 0 || !values)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < valuesCount; i++) {
		bool known = values[i].fieldId == NVML_FI_DEV_NVLINK_LINK_COUNT;

		values[i].timestamp = now_us();
		values[i].latencyUsec = 0;
		values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		values[i].nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
		memset(&values[i].value, 0, sizeof(values[i].value));
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t no_link(nvmlDevice_t device, unsigned int link, const void *out)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	return link < NVML_NVLINK_MAX_LINKS && out ? NVML_ERROR_NOT_SUPPORTED :
						     NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
						  nvmlEnableState_t *isActive)
{
	return no_link(device, link, isActive);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
							     nvmlPciInfo_t *pci)
{
	return no_link(device, link, pci);
}

/* The function of the first version, whose struct is shorter. */
#undef nvmlDeviceGetNvLinkRemotePciInfo
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
							  void *pci);
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
							  void *pci)
{
	return no_link(device, link, pci);
}

/* Checks that the device exists and that the pointer to the result is not NULL. */
static nvmlReturn_t check_query(nvmlDevice_t device, const void *answer)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	return answer ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device,
						    nvmlGpuFabricInfo_t *gpuFabricInfo)
{
	nvmlReturn_t result = check_query(device, gpuFabricInfo);

	if (result)
		return result;
	memset(gpuFabricInfo, 0, sizeof(*gpuFabricInfo));
	gpuFabricInfo->state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device,
						     nvmlGpuFabricInfoV_t *gpuFabricInfo)
{
	nvmlReturn_t result = check_query(device, gpuFabricInfo);

	if (result)
		return result;
	if (gpuFabricInfo->version != nvmlGpuFabricInfo_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	memset(gpuFabricInfo, 0, sizeof(*gpuFabricInfo));
	gpuFabricInfo->version = nvmlGpuFabricInfo_v2;
	gpuFabricInfo->state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
	return NVML_SUCCESS;
}
