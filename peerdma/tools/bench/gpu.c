// SPDX-License-Identifier: MIT
/* gpu.c - see gpu.h. */
#include <dlfcn.h>
#include <stdio.h>

#include "gpu.h"

struct gpu gpu;

static bool find_calls(void *library)
{
	const struct {
		const char *name;
		void *call;
	} calls[] = {
		{ "cuInit", &gpu.init }, { "cuDeviceGetCount", &gpu.device_count },
		{ "cuDeviceGet", &gpu.device_get },
		{ "cuDeviceGetName", &gpu.device_name },
		{ "cuDevicePrimaryCtxRetain", &gpu.retain },
		{ "cuCtxSetCurrent", &gpu.set_current }, { "cuMemAlloc_v2", &gpu.alloc },
		{ "cuMemFree_v2", &gpu.free },
		{ "cuMemcpyHtoD_v2", &gpu.copy_htod }, { "cuMemcpyDtoH_v2", &gpu.copy_dtoh },
		{ "cuMemcpyDtoDAsync_v2", &gpu.copy_dtod },
		{ "cuCtxSynchronize", &gpu.synchronize },
		{ "cuPointerGetAttribute", &gpu.attribute },
	};
	bool all = true;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		all &= !!(*(void **)calls[i].call = dlsym(library, calls[i].name));
	return all;
}

bool gpu_open(bool last, char *why, size_t size)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	int device, count, error;

	if (!library || !find_calls(library)) {
		snprintf(why, size, "libcuda.so.1 %s", library ? "lacks a call" : "is not there");
		return false;
	}
	error = gpu.init(0);
	if (!error)
		error = gpu.device_count(&count);
	if (!error)
		error = gpu.device_get(&device, last ? count - 1 : 0);
	if (!error)
		error = gpu.device_name(gpu.name, sizeof(gpu.name), device);
	if (!error)
		error = gpu.retain(&gpu.context, device);
	if (!error)
		error = gpu.set_current(gpu.context);
	if (error)
		snprintf(why, size, "libcuda.so.1 has no GPU: CUDA error %d", error);
	return !error;
}
