// SPDX-License-Identifier: MIT
/*
 * fake_nvml.c - a libnvidia-ml.so.1 of a GPU that has everything that nvidia-smi asks for, with made-up
 * figures: two GPUs, a process, links.  FAKE_NVML_INIT is the result of nvmlInit_v2().
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

static char gpus[2];

static unsigned int number(nvmlDevice_t device)
{
	return (unsigned int)((char *)device - gpus);
}

nvmlReturn_t nvmlInit_v2(void)
{
	const char *result = getenv("FAKE_NVML_INIT");

	return result ? (nvmlReturn_t)atoi(result) : NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
	return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	return result == NVML_ERROR_NO_PERMISSION ? "not permitted" : "an error";
}

#define TEXT(name, value)										\
	nvmlReturn_t name(nvmlDevice_t device, char *text, unsigned int length);			\
	nvmlReturn_t name(nvmlDevice_t device, char *text, unsigned int length)				\
	{												\
		(void)device;										\
		snprintf(text, length, "%s", value);							\
		return NVML_SUCCESS;									\
	}
#define NUMBER(name, value)										\
	nvmlReturn_t name(nvmlDevice_t device, unsigned int *n);					\
	nvmlReturn_t name(nvmlDevice_t device, unsigned int *n)						\
	{												\
		(void)device;										\
		*n = value;										\
		return NVML_SUCCESS;									\
	}
#define KIND(name, value)										\
	nvmlReturn_t name(nvmlDevice_t device, unsigned int kind, unsigned int *n);			\
	nvmlReturn_t name(nvmlDevice_t device, unsigned int kind, unsigned int *n)			\
	{												\
		(void)device;										\
		*n = (value) + kind;									\
		return NVML_SUCCESS;									\
	}
#define PAIR(name, a, b)										\
	nvmlReturn_t name(nvmlDevice_t device, unsigned int *one, unsigned int *two);			\
	nvmlReturn_t name(nvmlDevice_t device, unsigned int *one, unsigned int *two)			\
	{												\
		(void)device;										\
		*one = a;										\
		*two = b;										\
		return NVML_SUCCESS;									\
	}

TEXT(nvmlDeviceGetName, "Example GPU 9000")
TEXT(nvmlDeviceGetSerial, "1234567890123")
TEXT(nvmlDeviceGetVbiosVersion, "00.11.22")
TEXT(nvmlDeviceGetInforomImageVersion, "E1")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, 4)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, 8)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, 16)
NUMBER(nvmlDeviceGetDisplayActive, 0)
NUMBER(nvmlDeviceGetPersistenceMode, 1)
NUMBER(nvmlDeviceGetAccountingMode, 0)
NUMBER(nvmlDeviceGetAccountingBufferSize, 4000)
NUMBER(nvmlDeviceGetFanSpeed, 30)
NUMBER(nvmlDeviceGetPerformanceState, 2)
NUMBER(nvmlDeviceGetPowerUsage, 115004)
NUMBER(nvmlDeviceGetPowerManagementLimit, 600000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, 550500)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, 700000)
KIND(nvmlDeviceGetTemperature, 38)
KIND(nvmlDeviceGetClockInfo, 400)
KIND(nvmlDeviceGetApplicationsClock, 500)
KIND(nvmlDeviceGetMaxClockInfo, 1980)
PAIR(nvmlDeviceGetEccMode, 1, 0)
PAIR(nvmlDeviceGetMigMode, 0, 1)

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, unsigned int n[2]);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, unsigned int n[2])
{
	(void)device;
	n[0] = 70;
	n[1] = 12;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	snprintf(version, length, "580.100.01");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	snprintf(version, length, "13.580.100.01");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	*version = 13000;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = 2;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)(gpus + index);
	return index < 2 ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)(gpus + 1);
	return strcmp(uuid, "GPU-1") ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)gpus;
	return strcmp(id, "0001:02:00.0") ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	*index = number(device);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	snprintf(uuid, length, "GPU-%u", number(device));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	memset(pci, 0, sizeof(*pci));
	pci->domain = 1;
	pci->bus = 2 + number(device);
	pci->pciDeviceId = 0x123410de;
	pci->pciSubSystemId = 0x567810de;
	snprintf(pci->busId, sizeof(pci->busId), "00000001:%02X:00.0", pci->bus);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *m)
{
	(void)device;
	if (m->version != nvmlMemory_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	m->total = 143771ULL << 20;
	m->reserved = 616ULL << 20;
	m->used = 3ULL << 20;
	m->free = m->total - m->reserved - m->used;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *m)
{
	(void)device;
	m->bar1Total = 1ULL << 38;
	m->bar1Used = 1 << 20;
	m->bar1Free = m->bar1Total - m->bar1Used;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
	*mode = number(device) ? NVML_COMPUTEMODE_EXCLUSIVE_PROCESS : NVML_COMPUTEMODE_DEFAULT;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	(void)device;
	*major = 9;
	*minor = 0;
	return NVML_SUCCESS;
}

struct process {
	unsigned int pid;
	unsigned long long memory;
	unsigned int gpu, compute;
};

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *n, struct process *p);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *n, struct process *p)
{
	*n = !number(device);
	if (*n)
		p[0] = (struct process){ .pid = 4711, .memory = 512 << 20, .gpu = ~0U, .compute = ~0U };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length);
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	(void)pid;
	snprintf(name, length, "train");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active)
{
	*active = link ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
	return number(device) || link > 1 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int n, nvmlFieldValue_t *values)
{
	(void)device;
	(void)n;
	values->nvmlReturn = NVML_SUCCESS;
	values->value.uiVal = 26562;
	return NVML_SUCCESS;
}
