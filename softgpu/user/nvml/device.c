// SPDX-License-Identifier: MIT
/* device.c - the GPUs, found and described. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "parse.h"
#include "uncancelled.h"
#include "nvml_int.h"

static nvmlReturn_t check_index(unsigned int index)
{
	int gpus;
	nvmlReturn_t result = nvml_enter(&gpus);

	if (result)
		return result;
	return index < (unsigned int)gpus ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	int gpus;
	nvmlReturn_t result = nvml_enter(&gpus);

	if (result)
		return result;
	if (!deviceCount)
		return NVML_ERROR_INVALID_ARGUMENT;
	*deviceCount = gpus;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	nvmlReturn_t result = check_index(index);

	if (result)
		return result;
	if (!device)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = nvml_device(index);
	return NVML_SUCCESS;
}

static void uuid_text(const struct softgpu_info *info, char text[64])
{
	const unsigned char *u = info->uuid;

	snprintf(text, 64, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		 u[13], u[14], u[15]);
}

/* The first device for which match says so. */
static nvmlReturn_t find(const char *text, int (*match)(const struct softgpu_info *, const char *),
			 nvmlDevice_t *device)
{
	struct softgpu_info info;
	int gpus;
	nvmlReturn_t result = nvml_enter(&gpus);

	if (result)
		return result;
	if (!text || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < gpus; i++) {
		if (nvml_info(nvml_device(i), &info) == NVML_SUCCESS && match(&info, text)) {
			*device = nvml_device(i);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

static int uuid_matches(const struct softgpu_info *info, const char *text)
{
	char mine[64];

	uuid_text(info, mine);
	return !strcasecmp(mine, text);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	return find(uuid, uuid_matches, device);
}

static int bus_id_matches(const struct softgpu_info *info, const char *text)
{
	struct sgu_pci at;

	return sgu_pci(text, &at) && at.domain == info->pci_domain && at.bus == info->pci_bus &&
	       at.device == info->pci_device && at.function == info->pci_function;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
	return find(pciBusId, bus_id_matches, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	return result ? result : nvml_text(name, length, info.name);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	int gpu = nvml_gpu(device);
	nvmlReturn_t result = check_index(gpu);

	if (result)
		return result;
	if (!index)
		return NVML_ERROR_INVALID_ARGUMENT;
	*index = gpu;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	if (!minorNumber)
		return NVML_ERROR_INVALID_ARGUMENT;
	*minorNumber = info.index;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	struct softgpu_info info;
	char text[64];
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	uuid_text(&info, text);
	return nvml_text(uuid, length, text);
}

/* A number that the kernel knows of the PCI device; 0 if it does not. */
static unsigned int sysfs_id(const char *bus_id, const char *name)
{
	SGU_UNCANCELLED;
	unsigned int id = 0;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", bus_id, name);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%x", &id) != 1)
		id = 0;
	fclose(f);
	return id;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	struct softgpu_info info;
	char bus_id[64];
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(pci, 0, sizeof(*pci));
	pci->domain = info.pci_domain;
	pci->bus = info.pci_bus;
	pci->device = info.pci_device;
	snprintf(bus_id, sizeof(bus_id), "%04x:%02x:%02x.%x", info.pci_domain, info.pci_bus,
		 info.pci_device, info.pci_function);
	/* a domain of more than 4 digits does not fit in the older text */
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.%X",
		 info.pci_domain & 0xffff, info.pci_bus & 0xff, info.pci_device & 0x1f,
		 info.pci_function & 7);
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.%X", info.pci_domain,
		 info.pci_bus & 0xff, info.pci_device & 0x1f, info.pci_function & 7);
	if (info.on_pci) {
		pci->pciDeviceId = sysfs_id(bus_id, "device") << 16 | sysfs_id(bus_id, "vendor");
		pci->pciSubSystemId = sysfs_id(bus_id, "subsystem_device") << 16 |
				      sysfs_id(bus_id, "subsystem_vendor");
	}
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	memory->total = info.vram_total;
	memory->free = info.vram_free;
	memory->used = info.vram_total - info.vram_free;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlMemory_t old;
	nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &old);

	if (result)
		return result;
	if (!memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memory->version != nvmlMemory_v2)
		return NVML_ERROR_FUNCTION_NOT_FOUND;	/* as NVIDIA's says it */
	memory->total = old.total;
	memory->reserved = 0;
	memory->free = old.free;
	memory->used = old.used;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	if (!bar1Memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	bar1Memory->bar1Total = info.bar1_total;
	bar1Memory->bar1Used = info.bar1_used;
	bar1Memory->bar1Free = info.bar1_total - info.bar1_used;
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
	struct softgpu_info info;
	nvmlReturn_t result = nvml_info(device, &info);

	if (result)
		return result;
	if (!mode)
		return NVML_ERROR_INVALID_ARGUMENT;
	*mode = (nvmlComputeMode_t)info.compute_mode;
	return NVML_SUCCESS;
}
