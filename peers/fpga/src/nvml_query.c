// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#include "nvml_query.h"

/* The part of NVML's ABI that is used here; all functions return 0 on success. */
struct bar1_memory {
	unsigned long long total, free, used;
};

struct memory {
	unsigned long long total, free, used;
};

static struct {
	void *library;
	int (*init)(void);
	int (*shutdown)(void);
	int (*by_pci)(const char *pci, void **device);
	int (*by_index)(unsigned int index, void **device);
	int (*bar1)(void *device, struct bar1_memory *memory);
	int (*memory)(void *device, struct memory *memory);
	int (*version)(char *text, unsigned int length);
} nvml;

bool nvml_open(void)
{
	nvml.library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!nvml.library)
		return false;
	*(void **)&nvml.init = dlsym(nvml.library, "nvmlInit_v2");
	*(void **)&nvml.shutdown = dlsym(nvml.library, "nvmlShutdown");
	*(void **)&nvml.by_pci = dlsym(nvml.library, "nvmlDeviceGetHandleByPciBusId_v2");
	*(void **)&nvml.by_index = dlsym(nvml.library, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&nvml.bar1 = dlsym(nvml.library, "nvmlDeviceGetBAR1MemoryInfo");
	*(void **)&nvml.memory = dlsym(nvml.library, "nvmlDeviceGetMemoryInfo");
	*(void **)&nvml.version = dlsym(nvml.library, "nvmlSystemGetDriverVersion");
	if (nvml.init && !nvml.init())
		return true;
	dlclose(nvml.library);
	nvml.library = NULL;
	return false;
}

void nvml_close(void)
{
	if (nvml.library && nvml.shutdown)
		nvml.shutdown();
	nvml.library = NULL;
}

void *nvml_device(const char *pci, int index)
{
	void *device = NULL;

	if (!nvml.library)
		return NULL;
	if (nvml.by_pci && !nvml.by_pci(pci, &device))
		return device;
	if (nvml.by_index && !nvml.by_index((unsigned int)index, &device))
		return device;
	return NULL;
}

bool nvml_bar1(void *device, uint64_t *total, uint64_t *used)
{
	struct bar1_memory memory;

	if (!nvml.bar1 || nvml.bar1(device, &memory))
		return false;
	*total = memory.total;
	*used = memory.used;
	return true;
}

bool nvml_memory(void *device, uint64_t *total, uint64_t *used)
{
	struct memory memory;

	if (!nvml.memory || nvml.memory(device, &memory))
		return false;
	*total = memory.total;
	*used = memory.used;
	return true;
}

const char *nvml_driver_version(void)
{
	static char text[80];

	if (!nvml.library || !nvml.version || nvml.version(text, sizeof(text)))
		snprintf(text, sizeof(text), "unknown");
	return text;
}
