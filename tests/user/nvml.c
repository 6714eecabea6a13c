// SPDX-License-Identifier: MIT
/* nvml.c - the management library, beside CUDA in one process. */
#include <dlfcn.h>
#include <pthread.h>

#include "test.h"
#include "nvml.h"

static void check_nvml(nvmlReturn_t got, nvmlReturn_t want, const char *call, const char *file, int line)
{
	if (got == want)
		return;
	print_error("%s: %d (%s), not %d\n", call, got, nvmlErrorString(got), want);
	_fail(file, line);
}

#define NOK(call)		check_nvml(call, NVML_SUCCESS, #call, __FILE__, __LINE__)
#define NFAILS(error, call)	check_nvml(call, error, #call, __FILE__, __LINE__)

/* Monitoring programs look up all names, and do without what is not supported. */
CASE(what_is_not_supported_says_so)
{
	int (*temperature)(nvmlDevice_t device, int sensor, unsigned int *degrees);
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	nvmlDevice_t device;
	unsigned int degrees = 7;

	assert_non_null(library);
	temperature = (int (*)(nvmlDevice_t, int, unsigned int *))dlsym(library, "nvmlDeviceGetTemperature");
	assert_non_null(temperature);
	if (on_softgpu()) {
		assert_int_equal(temperature(NULL, 0, &degrees), NVML_ERROR_UNINITIALIZED);
		assert_int_equal(nvmlInit(), NVML_SUCCESS);
		assert_int_equal(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
		assert_int_equal(temperature(device, 0, &degrees), NVML_ERROR_NOT_SUPPORTED);
		assert_int_equal(degrees, 7);
		assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	}
	dlclose(library);
}

CASE(sessions)
{
	nvmlDevice_t device, again;
	unsigned int n;

	NFAILS(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount(&n));
	NFAILS(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
	NOK(nvmlInit());
	NOK(nvmlInit());
	NOK(nvmlDeviceGetCount(&n));
	assert_true(n >= 1);
	NOK(nvmlDeviceGetHandleByIndex(0, &device));
	NFAILS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex(n, &again));
	NFAILS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetCount(NULL));
	NOK(nvmlShutdown());
	NOK(nvmlDeviceGetIndex(device, &n));
	assert_int_equal(n, 0);
	NOK(nvmlShutdown());
	NFAILS(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetIndex(device, &n));
	for (int i = 0; i < 20; i++) {
		NOK(nvmlInit());
		NOK(nvmlDeviceGetHandleByIndex(0, &again));
		if (on_softgpu()) {	/* a handle serves the next session, too */
			NOK(nvmlDeviceGetIndex(device, &n));
			assert_ptr_equal(device, again);
		}
		NOK(nvmlShutdown());
	}
	NFAILS(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
	NOK(nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS));
	NOK(nvmlShutdown());
}

CASE(facts)
{
	char text[100], cuda_name[100], bus_id[100];
	nvmlDevice_t device, found;
	nvmlPciInfo_t pci;
	CUuuid uuid;
	int v;

	NOK(nvmlInit());
	NOK(nvmlSystemGetDriverVersion(text, sizeof(text)));
	NFAILS(NVML_ERROR_INSUFFICIENT_SIZE, nvmlSystemGetDriverVersion(text, 2));
	NOK(nvmlSystemGetNVMLVersion(text, sizeof(text)));
	NOK(nvmlSystemGetCudaDriverVersion(&v));
	assert_true(v >= 12060);
	NOK(nvmlDeviceGetHandleByIndex(0, &device));
	NOK(nvmlDeviceGetName(device, text, sizeof(text)));
	OK(cuDeviceGetName(cuda_name, sizeof(cuda_name), 0));
	assert_string_equal(text, cuda_name);

	NOK(nvmlDeviceGetUUID(device, text, sizeof(text)));
	assert_int_equal(strlen(text), strlen("GPU-00000000-0000-0000-0000-000000000000"));
	OK(cuDeviceGetUuid(&uuid, 0));
	char first[20];
	snprintf(first, sizeof(first), "GPU-%02x%02x", (unsigned char)uuid.bytes[0],
		 (unsigned char)uuid.bytes[1]);
	assert_memory_equal(text, first, strlen(first));
	NOK(nvmlDeviceGetHandleByUUID(text, &found));
	assert_ptr_equal(found, device);
	NFAILS(NVML_ERROR_NOT_FOUND,
	       nvmlDeviceGetHandleByUUID("GPU-00000000-0000-0000-0000-000000000000", &found));

	NOK(nvmlDeviceGetPciInfo(device, &pci));
	OK(cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
	assert_int_equal(strcasecmp(pci.busIdLegacy, bus_id), 0);
	assert_int_equal(strlen(pci.busId), strlen("00000000:00:00.0"));
	assert_int_equal(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByUUID(NULL, &found));
	assert_int_equal(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByUUID(text, NULL));
	NOK(nvmlDeviceGetHandleByPciBusId(pci.busId, &found));
	assert_ptr_equal(found, device);
	NOK(nvmlDeviceGetHandleByPciBusId(bus_id, &found));
	assert_true(nvmlDeviceGetHandleByPciBusId("0000:ff:1f.7", &found) != NVML_SUCCESS);
	NFAILS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetName(device, NULL, 10));
	NOK(nvmlShutdown());
}

/* The first names: a program that was built long ago has those, and structs that are shorter than today's. */
CASE(first_names)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	struct {
		char bus_id[16];
		unsigned int domain, bus, device, pci_id, subsystem, more[5];
	} first, second;
	nvmlReturn_t (*count)(unsigned int *n), (*by_index)(unsigned int i, nvmlDevice_t *device);
	nvmlReturn_t (*by_bus)(const char *id, nvmlDevice_t *device);
	nvmlReturn_t (*pci_1)(nvmlDevice_t device, void *pci), (*pci_2)(nvmlDevice_t device, void *pci);
	nvmlDevice_t device, found;
	unsigned int n = 0, today;
	nvmlPciInfo_t pci;

	assert_non_null(library);
	*(void **)&count = dlsym(library, "nvmlDeviceGetCount");
	*(void **)&by_index = dlsym(library, "nvmlDeviceGetHandleByIndex");
	*(void **)&by_bus = dlsym(library, "nvmlDeviceGetHandleByPciBusId");
	*(void **)&pci_1 = dlsym(library, "nvmlDeviceGetPciInfo");
	*(void **)&pci_2 = dlsym(library, "nvmlDeviceGetPciInfo_v2");
	assert_true(count && by_index && by_bus && pci_1 && pci_2);
	NOK(nvmlInit());
	NOK(nvmlDeviceGetCount(&today));
	NOK(count(&n));
	assert_int_equal(n, today);
	NOK(by_index(0, &device));
	NOK(nvmlDeviceGetPciInfo(device, &pci));
	memset(&first, 0x5a, sizeof(first));
	NOK(pci_1(device, &first));
	assert_string_equal(first.bus_id, pci.busIdLegacy);
	assert_true(first.domain == pci.domain && first.bus == pci.bus && first.device == pci.device && first.pci_id == pci.pciDeviceId);
	assert_int_equal(first.subsystem, 0x5a5a5a5a);	/* the first struct ends before it */
	memset(&second, 0x5a, sizeof(second));
	NOK(pci_2(device, &second));
	assert_memory_equal(&first, &second, offsetof(__typeof__(first), subsystem));
	assert_int_equal(second.subsystem, pci.pciSubSystemId);
	assert_int_equal(second.more[4], 0x5a5a5a5a);
	NOK(by_bus(first.bus_id, &found));
	assert_ptr_equal(found, device);
	NFAILS(NVML_ERROR_INVALID_ARGUMENT, pci_2(device, NULL));
	NFAILS(NVML_ERROR_INVALID_ARGUMENT, pci_2(NULL, &second));
	NOK(nvmlShutdown());
	NFAILS(NVML_ERROR_UNINITIALIZED, pci_1(device, &first));
	dlclose(library);
}

/* What UCX asks for before it trusts NVML: how many NVLinks, and whether there is a fabric. */
CASE(links)
{
	nvmlGpuFabricInfoV_t fabric = { .version = nvmlGpuFabricInfo_v2 };
	nvmlFieldValue_t fields[2] = {
		{ .fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT, .nvmlReturn = NVML_ERROR_UNKNOWN },
		{ .fieldId = 100000, .nvmlReturn = NVML_ERROR_UNKNOWN },
	};
	nvmlEnableState_t active;
	nvmlGpuFabricInfo_t first;
	nvmlDevice_t device;
	nvmlPciInfo_t pci;

	NOK(nvmlInit());
	NOK(nvmlDeviceGetHandleByIndex(0, &device));
	NOK(nvmlDeviceGetFieldValues(device, 2, fields));
	/* NVIDIA's, of a GPU in a virtual machine by itself: not supported. */
	if (on_softgpu() || fields[0].nvmlReturn != NVML_ERROR_NOT_SUPPORTED) {
		assert_int_equal(fields[0].nvmlReturn, NVML_SUCCESS);
		assert_int_equal(fields[0].valueType, NVML_VALUE_TYPE_UNSIGNED_INT);
	}
	assert_int_not_equal(fields[1].nvmlReturn, NVML_SUCCESS);
	assert_true(fields[0].timestamp > 1000000000000000LL);
	NFAILS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetFieldValues(device, 0, fields));
	NFAILS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetFieldValues(device, 1, NULL));
	NOK(nvmlDeviceGetGpuFabricInfoV(device, &fabric));
	if (on_softgpu()) {
		assert_int_equal(fields[0].value.uiVal, 0);
		NFAILS(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNvLinkRemotePciInfo(device, 0, &pci));
		NFAILS(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetNvLinkRemotePciInfo(device, 18, &pci));
		NFAILS(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNvLinkState(device, 0, &active));
		assert_int_equal(fabric.state, NVML_GPU_FABRIC_STATE_NOT_SUPPORTED);
		NOK(nvmlDeviceGetGpuFabricInfo(device, &first));
		assert_int_equal(first.state, NVML_GPU_FABRIC_STATE_NOT_SUPPORTED);
	}
	fabric.version = 1;
	NFAILS(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, nvmlDeviceGetGpuFabricInfoV(device, &fabric));
	NOK(nvmlShutdown());
	NFAILS(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetFieldValues(device, 2, fields));
}

CASE(memory)
{
	nvmlMemory_v2_t m2 = { .version = nvmlMemory_v2 };
	nvmlMemory_t before, after;
	nvmlBAR1Memory_t bar1;
	nvmlDevice_t device;
	CUdeviceptr p;
	size_t total;

	NOK(nvmlInit());
	NOK(nvmlDeviceGetHandleByIndex(0, &device));
	OK(cuDeviceTotalMem(&total, 0));
	NOK(nvmlDeviceGetMemoryInfo(device, &before));
	assert_true(before.total >= total && before.free + before.used <= before.total);
	OK(cuMemAlloc(&p, 4 * MIB));
	NOK(nvmlDeviceGetMemoryInfo(device, &after));
	assert_true(after.free < before.free);
	if (on_softgpu())
		assert_true(after.used == before.used + 4 * MIB);
	NOK(nvmlDeviceGetMemoryInfo_v2(device, &m2));
	assert_true(m2.total >= total);
	m2.version = 7;
	NFAILS(NVML_ERROR_FUNCTION_NOT_FOUND, nvmlDeviceGetMemoryInfo_v2(device, &m2));
	NOK(nvmlDeviceGetBAR1MemoryInfo(device, &bar1));
	assert_true(bar1.bar1Total > 0 && bar1.bar1Free + bar1.bar1Used == bar1.bar1Total);
	/* Some of it is the driver's own. */
	assert_true(bar1.bar1Used > 0);
	OK(cuMemFree(p));
	NOK(nvmlDeviceGetMemoryInfo(device, &after));
	if (on_softgpu())
		assert_true(after.used == before.used);
	NOK(nvmlShutdown());
}

/* 0: there are GPUs, 1: there are none */
static void child(void *arg)
{
	unsigned int n;

	if (nvmlInit())
		_exit(1);
	_exit(nvmlDeviceGetCount(&n) ? 2 : n < 1 ? 1 : nvmlShutdown() ? 3 : 0);
}

CASE(in_children)
{
	/* a GPU inside the parent is not in the child */
	int none = getenv("SOFTGPU_INPROCESS") ? 1 : 0;

	assert_int_equal(in_child(child, NULL), none);
	NOK(nvmlInit());
	assert_int_equal(in_child(child, NULL), none);
	NOK(nvmlShutdown());
}

static void *session_thread(void *arg)
{
	nvmlBAR1Memory_t bar1;
	nvmlDevice_t device;

	for (int i = 0; i < 100; i++) {
		NOK(nvmlInit());
		NOK(nvmlDeviceGetHandleByIndex(0, &device));
		NOK(nvmlDeviceGetBAR1MemoryInfo(device, &bar1));
		NOK(nvmlShutdown());
	}
	return NULL;
}

CASE(threads)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, session_thread, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

MAIN(gpu_setup, gpu_teardown)
