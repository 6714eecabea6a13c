// SPDX-License-Identifier: MIT
#include <ctype.h>
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"
#include "gpu_hip.h"
#include "nvml_query.h"

/* The names go through cuda.h's macros, which add each function's ABI version. */
#define CUDA_CALLS(X)							\
	X(cuInit) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName)	\
	X(cuDeviceGetPCIBusId) X(cuDevicePrimaryCtxRetain)		\
	X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent)			\
	X(cuCtxSynchronize) X(cuMemAlloc) X(cuMemFree) X(cuMemcpyHtoD)	\
	X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer)	\
	X(cuMemGetHandleForAddressRange)				\
	X(cuMemcpyDtoH) X(cuMemsetD8) X(cuPointerGetAttribute)		\
	X(cuPointerSetAttribute) X(cuGetErrorName) X(cuGetErrorString)

#define EXPORT_PAGE	((size_t)64 << 10)	/* for NVIDIA; AMD's is 4 KiB */
#define OWN_PAGE	((size_t)4 << 10)

#define FIELD(name) __typeof__(name) *name;
#define STRING(name) #name
#define SYMBOL(name) STRING(name)

static struct {
	void *library;
	CUDA_CALLS(FIELD)
} cuda;

static uint64_t bytes_copied;

static bool cuda_load(struct why *why)
{
	if (cuda.library)
		return true;
	cuda.library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda.library) {
		why_set(why, "no CUDA driver library (%s): install one, or put softgpu's folder into LD_LIBRARY_PATH",
			dlerror());
		return false;
	}
#define LOAD(name)							\
	cuda.name = (__typeof__(name) *)dlsym(cuda.library, SYMBOL(name)); \
	if (!cuda.name) {						\
		why_set(why, "libcuda.so.1 has no %s", SYMBOL(name));	\
		return false;						\
	}
	CUDA_CALLS(LOAD)
	return true;
}

static bool check(CUresult result, struct why *why, const char *call)
{
	const char *name = NULL, *text = NULL;

	if (result == CUDA_SUCCESS)
		return true;
	cuda.cuGetErrorName(result, &name);
	cuda.cuGetErrorString(result, &text);
	why_set(why, "%s: %s (%s)", call, name ? name : "unknown error", text ? text : "no text");
	return false;
}

/* CUDA's bus ids may be upper case, those of sysfs are lower case. */
static void pci_to_sysfs(char *pci)
{
	for (; *pci; pci++)
		*pci = (char)tolower((unsigned char)*pci);
}

static bool gpu_open(struct gpu *gpu, int index, struct why *why)
{
	CUcontext ctx;
	CUdevice dev;

	memset(gpu, 0, sizeof(*gpu));
	gpu->index = index;
	gpu->make = &make_nvidia;
	if (!check(cuda.cuDeviceGet(&dev, index), why, "cuDeviceGet") ||
	    !check(cuda.cuDeviceGetName(gpu->name, sizeof(gpu->name), dev), why,
		   "cuDeviceGetName") ||
	    !check(cuda.cuDeviceGetPCIBusId(gpu->pci, sizeof(gpu->pci), dev), why,
		   "cuDeviceGetPCIBusId") ||
	    !check(cuda.cuDevicePrimaryCtxRetain(&ctx, dev), why, "cuDevicePrimaryCtxRetain"))
		return false;
	gpu->ctx = ctx;
	gpu->nvml = nvml_device(gpu->pci, index);
	pci_to_sysfs(gpu->pci);
	return true;
}

bool gpus_open(struct gpu gpus[GPUS_MAX], int *count, struct why *why)
{
	int n = 0, i;

	*count = 0;
	if (!cuda_load(why))
		return false;
	if (!check(cuda.cuInit(0), why, "cuInit") ||
	    !check(cuda.cuDeviceGetCount(&n), why, "cuDeviceGetCount"))
		return false;
	if (!n) {
		why_set(why, "CUDA finds no GPU: load its driver (softgpu.ko for the software GPU)");
		return false;
	}
	nvml_open();
	for (i = 0; i < n && i < GPUS_MAX; i++) {
		if (!gpu_open(&gpus[i], i, why)) {
			gpus_close(gpus, i);
			return false;
		}
	}
	*count = i;
	return true;
}

void gpus_close(struct gpu gpus[], int count)
{
	CUdevice dev;

	for (int i = 0; i < count; i++)
		if (!cuda.cuDeviceGet(&dev, gpus[i].index))
			cuda.cuDevicePrimaryCtxRelease(dev);
	nvml_close();
}

bool gpu_as(const struct gpu *gpu, const struct gpu_make *make, struct gpu *other, struct why *why)
{
	*other = *gpu;
	other->make = make;
	return make->calls != CALLS_HIP || hip_find(gpu->pci, &other->hip_device, why);
}

static bool enter(const struct gpu *gpu, struct why *why)
{
	return check(cuda.cuCtxSetCurrent(gpu->ctx), why, "cuCtxSetCurrent");
}

/* A dma-buf has whole pages, so memory to be exported is rounded up to these. */
static size_t allocated(const struct gpu *gpu, size_t length)
{
	return gpu->make->export ? (length + EXPORT_PAGE - 1) & ~(EXPORT_PAGE - 1) : length;
}

/* Cards use the device pointer, which may differ from the host pointer. */
static bool alloc_host(const struct gpu *gpu, size_t length, CUdeviceptr *ptr, struct why *why)
{
	void *p = NULL;

	if (!check(cuda.cuMemHostAlloc(&p, length, gpu->make->flags), why, "cuMemHostAlloc"))
		return false;
	if (check(cuda.cuMemHostGetDevicePointer(ptr, p, 0), why, "cuMemHostGetDevicePointer"))
		return true;
	cuda.cuMemFreeHost(p);
	return false;
}

static bool alloc_device(size_t length, CUdeviceptr *ptr, struct why *why)
{
	unsigned int on = 1;

	if (!check(cuda.cuMemAlloc(ptr, length), why, "cuMemAlloc"))
		return false;
	if (check(cuda.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, *ptr), why,
		  "cuPointerSetAttribute(SYNC_MEMOPS)"))
		return true;
	cuda.cuMemFree(*ptr);
	return false;
}

/* Its length is kept in a page before it. */
static bool alloc_own(size_t length, uint64_t *addr, struct why *why)
{
	char *p = buffer_alloc(OWN_PAGE + length);

	if (!p) {
		why_set(why, "no host memory for %zu bytes", length);
		return false;
	}
	*(size_t *)p = OWN_PAGE + length;
	*addr = (uintptr_t)p + OWN_PAGE;
	return true;
}

static bool free_own(uint64_t addr)
{
	size_t *p = (size_t *)(uintptr_t)(addr - OWN_PAGE);

	buffer_free(p, *p);
	return true;
}

bool gpu_alloc(const struct gpu *gpu, size_t length, uint64_t *addr, struct why *why)
{
	CUdeviceptr ptr = 0;
	bool ok;

	length = allocated(gpu, length);
	if (gpu->make->calls == CALLS_HIP)
		return hip_alloc(gpu->hip_device, length, addr, why);
	if (gpu->make->calls == CALLS_NONE)
		return alloc_own(length, addr, why);
	ok = enter(gpu, why) && (gpu->make->calls == CALLS_CUDA_HOST ? alloc_host(gpu, length, &ptr, why) :
				 alloc_device(length, &ptr, why));
	if (ok)
		*addr = ptr;
	return ok;
}

static bool free_host(CUdeviceptr ptr, struct why *why)
{
	void *p = NULL;

	return check(cuda.cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_HOST_POINTER, ptr), why,
		     "cuPointerGetAttribute(HOST_POINTER)") &&
	       check(cuda.cuMemFreeHost(p), why, "cuMemFreeHost");
}

bool gpu_free(const struct gpu *gpu, uint64_t addr, struct why *why)
{
	switch (gpu->make->calls) {
	case CALLS_HIP:
		return hip_free(addr, why);
	case CALLS_NONE:
		return free_own(addr);
	case CALLS_CUDA_HOST:
		return enter(gpu, why) && free_host(addr, why);
	default:
		return enter(gpu, why) && check(cuda.cuMemFree(addr), why, "cuMemFree");
	}
}

bool gpu_export(const struct gpu *gpu, uint64_t addr, size_t length, int *fd, uint64_t *offset, struct why *why)
{
	length = allocated(gpu, length);
	*fd = -1;
	*offset = 0;
	if (gpu->make->export == EXPORT_HSA)
		return hip_export(addr, length, fd, offset, why);
	return enter(gpu, why) &&
	       check(cuda.cuMemGetHandleForAddressRange(fd, addr, length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0), why,
		     "cuMemGetHandleForAddressRange");
}

bool gpu_write(const struct gpu *gpu, uint64_t addr, const void *from, size_t length,
	       struct why *why)
{
	if (gpu->make->calls == CALLS_NONE)
		memcpy((void *)(uintptr_t)addr, from, length);
	else if (gpu->make->calls == CALLS_HIP ? !hip_copy(addr, (uintptr_t)from, length, why) :
		 !enter(gpu, why) || !check(cuda.cuMemcpyHtoD(addr, from, length), why, "cuMemcpyHtoD"))
		return false;
	bytes_copied += length;
	return true;
}

bool gpu_read(const struct gpu *gpu, void *to, uint64_t addr, size_t length, struct why *why)
{
	if (gpu->make->calls == CALLS_NONE)
		memcpy(to, (const void *)(uintptr_t)addr, length);
	else if (gpu->make->calls == CALLS_HIP ? !hip_copy((uintptr_t)to, addr, length, why) :
		 !enter(gpu, why) || !check(cuda.cuMemcpyDtoH(to, addr, length), why, "cuMemcpyDtoH"))
		return false;
	bytes_copied += length;
	return true;
}

bool gpu_set(const struct gpu *gpu, uint64_t addr, unsigned char value, size_t length,
	     struct why *why)
{
	if (gpu->make->calls == CALLS_HIP)
		return hip_set(addr, value, length, why);
	if (gpu->make->calls == CALLS_NONE) {
		memset((void *)(uintptr_t)addr, value, length);
		return true;
	}
	return enter(gpu, why) &&
	       check(cuda.cuMemsetD8(addr, value, length), why, "cuMemsetD8") &&
	       check(cuda.cuCtxSynchronize(), why, "cuCtxSynchronize");
}

uint64_t gpu_buffer_id(uint64_t addr)
{
	unsigned long long id = 0;

	if (cuda.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, addr))
		return 0;
	return id;
}

uint64_t gpu_bytes_copied(void)
{
	return bytes_copied;
}

struct gpu_usage gpu_usage(const struct gpu *gpu)
{
	struct gpu_usage usage = { 0 };

	usage.known = gpu->nvml &&
		      nvml_bar1(gpu->nvml, &usage.bar1_total, &usage.bar1_used) &&
		      nvml_memory(gpu->nvml, &usage.vram_total, &usage.vram_used);
	return usage;
}

const char *gpu_driver_version(void)
{
	return nvml_driver_version();
}
