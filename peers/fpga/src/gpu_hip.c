// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <hip/hip_runtime_api.h>
#include <hsa/hsa_ext_amd.h>

#include "gpu_hip.h"

#define HIP_CALLS(X)								\
	X(hipGetDeviceCount) X(hipSetDevice) X(hipDeviceGetPCIBusId) X(hipMalloc)	\
	X(hipFree) X(hipMemcpy) X(hipMemset) X(hipGetErrorName) X(hipGetErrorString)

#define FIELD(name) __typeof__(name) *name;

static struct {
	void *library;
	HIP_CALLS(FIELD)
} hip;

static bool hip_load(struct why *why)
{
	if (hip.library)
		return true;
	hip.library = dlopen("libamdhip64.so.6", RTLD_NOW);
	if (!hip.library) {
		why_set(why, "no HIP library (%s): install ROCm, or put softgpu's folder into LD_LIBRARY_PATH",
			dlerror());
		return false;
	}
#define LOAD(name)							\
	hip.name = (__typeof__(name) *)dlsym(hip.library, #name);	\
	if (!hip.name) {						\
		why_set(why, "libamdhip64.so.6 has no %s", #name);	\
		return false;						\
	}
	HIP_CALLS(LOAD)
	return true;
}

static bool check(hipError_t error, struct why *why, const char *call)
{
	if (error == hipSuccess)
		return true;
	why_set(why, "%s: %s (%s)", call, hip.hipGetErrorName(error), hip.hipGetErrorString(error));
	return false;
}

/* HIP and sysfs may differ in upper case and in the length of the domain. */
static bool same_pci(const char *a, const char *b)
{
	unsigned int x[4], y[4];

	return sscanf(a, "%x:%x:%x.%u", &x[0], &x[1], &x[2], &x[3]) == 4 &&
	       sscanf(b, "%x:%x:%x.%u", &y[0], &y[1], &y[2], &y[3]) == 4 && !memcmp(x, y, sizeof(x));
}

bool hip_find(const char *pci, int *device, struct why *why)
{
	char id[32];
	int n = 0;

	if (!hip_load(why) || !check(hip.hipGetDeviceCount(&n), why, "hipGetDeviceCount"))
		return false;
	for (*device = 0; *device < n; (*device)++) {
		if (!hip.hipDeviceGetPCIBusId(id, sizeof(id), *device) && same_pci(id, pci))
			return true;
	}
	why_set(why, "HIP has no GPU %s: it has %d GPUs", pci, n);
	return false;
}

bool hip_alloc(int device, size_t length, uint64_t *addr, struct why *why)
{
	void *p = NULL;

	if (!check(hip.hipSetDevice(device), why, "hipSetDevice") || !check(hip.hipMalloc(&p, length), why, "hipMalloc"))
		return false;
	*addr = (uintptr_t)p;
	return true;
}

bool hip_free(uint64_t addr, struct why *why)
{
	return check(hip.hipFree((void *)(uintptr_t)addr), why, "hipFree");
}

bool hip_copy(uint64_t to, uint64_t from, size_t length, struct why *why)
{
	return check(hip.hipMemcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, length, hipMemcpyDefault), why,
		     "hipMemcpy");
}

bool hip_set(uint64_t addr, unsigned char value, size_t length, struct why *why)
{
	return check(hip.hipMemset((void *)(uintptr_t)addr, value, length), why, "hipMemset");
}

bool hip_export(uint64_t addr, size_t length, int *fd, uint64_t *offset, struct why *why)
{
	static __typeof__(hsa_amd_portable_export_dmabuf) *export;
	hsa_status_t status;
	void *library;

	if (!export) {
		/* HIP depends on this library, so it is loaded already. */
		library = dlopen("libhsa-runtime64.so.1", RTLD_NOW);
		export = library ? (__typeof__(export))dlsym(library, "hsa_amd_portable_export_dmabuf") : NULL;
	}
	if (!export) {
		why_set(why, "no hsa_amd_portable_export_dmabuf: %s", dlerror());
		return false;
	}
	status = export((const void *)(uintptr_t)addr, length, fd, offset);
	if (!status)
		return true;
	why_set(why, "hsa_amd_portable_export_dmabuf: error %#x", status);
	return false;
}
