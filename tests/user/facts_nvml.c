// SPDX-License-Identifier: MIT
/* facts_nvml.c - what NVML says of a GPU. */
#include "facts.h"

#define N(call)			assert_int_equal(call, NVML_SUCCESS)
#define NIS(status, call)	assert_int_equal(call, NVML_ERROR_##status)

CASE(nvml)
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
	device_no_sysfs = true;
	memset(&pci, 0x5a, sizeof(pci));
	N(nvmlDeviceGetPciInfo(device, &pci));
	device_no_sysfs = false;
	assert_string_equal(pci.busId, "00010001:A8:15.6");
	assert_int_equal(pci.pciDeviceId, 0);
	assert_int_equal(pci.pciSubSystemId, 0);
	NIS(INVALID_ARGUMENT, nvmlDeviceGetPciInfo(device, NULL));
	NIS(INVALID_ARGUMENT, nvmlDeviceGetPciInfo(NULL, &pci));
	for (size_t i = 0; i < bus_id_count; i++) {
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

	N(nvmlSystemGetDriverVersion(text, 10));
	assert_string_equal(text, "610.00.01");
	NIS(INSUFFICIENT_SIZE, nvmlSystemGetDriverVersion(text, 9));
	N(nvmlSystemGetNVMLVersion(text, 13));
	assert_string_equal(text, "13.610.00.01");
	NIS(INVALID_ARGUMENT, nvmlSystemGetNVMLVersion(NULL, 10));
	N(nvmlSystemGetCudaDriverVersion_v2(&version));
	assert_int_equal(version, 13030);
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
