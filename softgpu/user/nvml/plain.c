// SPDX-License-Identifier: MIT
/* plain.c - older entry points and their structs. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <string.h>

#include "nvml_int.h"

/* The struct of nvmlDeviceGetPciInfo_v2(). That of the first version ends before pciSubSystemId. */
struct pci_info_v2 {
	char busId[16];
	unsigned int domain, bus, device, pciDeviceId;
	unsigned int pciSubSystemId;
	unsigned int reserved[4];
};

_Static_assert(offsetof(struct pci_info_v2, pciSubSystemId) == 32, "size of the first version");
_Static_assert(sizeof(struct pci_info_v2) == 52, "size of the second version");

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *deviceCount);
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device);
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device);
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, void *pci);
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, void *pci);

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *deviceCount)
{
	return nvmlDeviceGetCount_v2(deviceCount);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}

static nvmlReturn_t old_pci_info(nvmlDevice_t device, void *pci, size_t size)
{
	struct pci_info_v2 old;
	nvmlPciInfo_t info;
	nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &info);

	if (result)
		return result;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(&old, 0, sizeof(old));
	memcpy(old.busId, info.busIdLegacy, sizeof(old.busId));
	old.domain = info.domain;
	old.bus = info.bus;
	old.device = info.device;
	old.pciDeviceId = info.pciDeviceId;
	old.pciSubSystemId = info.pciSubSystemId;
	memcpy(pci, &old, size);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, void *pci)
{
	return old_pci_info(device, pci, offsetof(struct pci_info_v2, pciSubSystemId));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, void *pci)
{
	return old_pci_info(device, pci, sizeof(struct pci_info_v2));
}
