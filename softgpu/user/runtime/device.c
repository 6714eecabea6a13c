// SPDX-License-Identifier: MIT
/* device.c - the current device of each thread, and the properties of devices. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "runtime.h"

#define MAX_DEVICES 16

static _Thread_local int thread_device;

/* The runtime retains every primary context that it has used, until cudaDeviceReset(). */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MAX_DEVICES];		/* NULL: not retained */

CUresult rt_init(void)
{
	CUresult result = cuInit(0);
	int driver;

	if (result)
		return result;
	cuDriverGetVersion(&driver);
	if (driver / 1000 >= CUDART_VERSION / 1000)
		return CUDA_SUCCESS;
	sgu_log("this is libcudart of CUDA %d, and the driver's version is %d.%d: choose a release of the driver from "
	       RT_DRIVERS " with SOFTGPU_DRIVER or softgpu.ko's driver=, or build the program for CUDA %d",
	       CUDART_VERSION / 1000, driver / 1000, driver % 1000 / 10, driver / 1000);
	return (CUresult)cudaErrorInsufficientDriver;
}

/* Makes the device's primary context current. Retains it at the first use. */
static CUresult use_primary(int device)
{
	CUresult result = CUDA_SUCCESS;
	CUcontext ctx;

	pthread_mutex_lock(&lock);
	if (!primary[device])
		result = cuDevicePrimaryCtxRetain(&primary[device], device);
	ctx = primary[device];
	pthread_mutex_unlock(&lock);
	return result ? result : cuCtxSetCurrent(ctx);
}

/* Whether the context is the primary context of a device that was reset. */
static bool was_reset(CUcontext ctx)
{
	unsigned long long id;

	return cuCtxGetId(ctx, &id) == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult rt_enter(void)
{
	CUresult result = rt_init();
	CUcontext ctx;

	if (!result)
		result = cuCtxGetCurrent(&ctx);
	if (result)
		return result;
	return ctx && !was_reset(ctx) ? CUDA_SUCCESS : use_primary(thread_device);
}

CUresult rt_check_device(int device)
{
	CUresult result = rt_init();
	int count;

	if (!result)
		result = cuDeviceGetCount(&count);
	if (result)
		return result;
	return device >= 0 && device < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

RT_EXPORT cudaError_t cudaDriverGetVersion(int *driverVersion)
{
	return rt_done(cuDriverGetVersion(driverVersion));
}

RT_EXPORT cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
	if (!runtimeVersion)
		return rt_fail(cudaErrorInvalidValue);
	*runtimeVersion = CUDART_VERSION;
	return cudaSuccess;
}

RT_EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
	CUresult result = rt_init();

	if (count)
		*count = 0;
	return rt_done(result ? result : cuDeviceGetCount(count));
}

RT_EXPORT cudaError_t cudaGetDevice(int *device)
{
	CUresult result = rt_init();
	CUdevice current;

	if (result)
		return rt_done(result);
	if (!device)
		return rt_fail(cudaErrorInvalidValue);
	*device = cuCtxGetDevice(&current) ? thread_device : current;
	return cudaSuccess;
}

RT_EXPORT cudaError_t cudaSetDevice(int device)
{
	CUresult result = rt_check_device(device);

	if (!result)
		result = use_primary(device);
	if (!result)
		thread_device = device;
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	CUresult result = rt_check_device(device);

	return rt_done(result ? result :
				cuDeviceGetAttribute(value, (CUdevice_attribute)attr, device));
}

/* The field of cudaDeviceProp for each attribute. */
static const struct {
	enum cudaDeviceAttr attr;
	size_t offset, size;
} fields[] = {
#define F(attr, field) { attr, offsetof(struct cudaDeviceProp, field), \
			 sizeof(((struct cudaDeviceProp *)0)->field) }
	F(cudaDevAttrWarpSize, warpSize),
	F(cudaDevAttrMaxPitch, memPitch),
	F(cudaDevAttrMaxThreadsPerBlock, maxThreadsPerBlock),
	F(cudaDevAttrMaxBlockDimX, maxThreadsDim[0]),
	F(cudaDevAttrMaxBlockDimY, maxThreadsDim[1]),
	F(cudaDevAttrMaxBlockDimZ, maxThreadsDim[2]),
	F(cudaDevAttrMaxGridDimX, maxGridSize[0]),
	F(cudaDevAttrMaxGridDimY, maxGridSize[1]),
	F(cudaDevAttrMaxGridDimZ, maxGridSize[2]),
	F(cudaDevAttrComputeCapabilityMajor, major),
	F(cudaDevAttrComputeCapabilityMinor, minor),
	F(cudaDevAttrTextureAlignment, textureAlignment),
#if CUDART_VERSION < 13000
	F(cudaDevAttrGpuOverlap, deviceOverlap),
	F(cudaDevAttrComputeMode, computeMode),
#else
	F(cudaDevAttrMpsEnabled, mpsEnabled),
	F(cudaDevAttrNumaId, deviceNumaId),
	F(cudaDevAttrHostNumaId, hostNumaId),
#endif
	F(cudaDevAttrMultiProcessorCount, multiProcessorCount),
	F(cudaDevAttrIntegrated, integrated),
	F(cudaDevAttrCanMapHostMemory, canMapHostMemory),
	F(cudaDevAttrConcurrentKernels, concurrentKernels),
	F(cudaDevAttrPciBusId, pciBusID),
	F(cudaDevAttrPciDeviceId, pciDeviceID),
	F(cudaDevAttrPciDomainId, pciDomainID),
	F(cudaDevAttrAsyncEngineCount, asyncEngineCount),
	F(cudaDevAttrUnifiedAddressing, unifiedAddressing),
	F(cudaDevAttrMaxThreadsPerMultiProcessor, maxThreadsPerMultiProcessor),
	F(cudaDevAttrManagedMemory, managedMemory),
	F(cudaDevAttrPageableMemoryAccess, pageableMemoryAccess),
	F(cudaDevAttrConcurrentManagedAccess, concurrentManagedAccess),
	F(cudaDevAttrCanUseHostPointerForRegisteredMem, canUseHostPointerForRegisteredMem),
	F(cudaDevAttrDirectManagedMemAccessFromHost, directManagedMemAccessFromHost),
	F(cudaDevAttrHostRegisterSupported, hostRegisterSupported),
	F(cudaDevAttrHostRegisterReadOnlySupported, hostRegisterReadOnlySupported),
	F(cudaDevAttrMemoryPoolsSupported, memoryPoolsSupported),
	F(cudaDevAttrMemoryPoolSupportedHandleTypes, memoryPoolSupportedHandleTypes),
	F(cudaDevAttrGPUDirectRDMASupported, gpuDirectRDMASupported),
	F(cudaDevAttrGPUDirectRDMAFlushWritesOptions, gpuDirectRDMAFlushWritesOptions),
	F(cudaDevAttrGPUDirectRDMAWritesOrdering, gpuDirectRDMAWritesOrdering),
#undef F
};

static cudaError_t get_properties(struct cudaDeviceProp *prop, int device)
{
	CUresult result = rt_check_device(device);
	CUuuid uuid = { { 0 } };

	if (result)
		return rt_done(result);
	if (!prop)
		return rt_fail(cudaErrorInvalidValue);
	memset(prop, 0, sizeof(*prop));
	result = cuDeviceGetName(prop->name, sizeof(prop->name), device);
	if (!result)
		result = cuDeviceGetUuid(&uuid, device);
	if (!result)
		result = cuDeviceTotalMem(&prop->totalGlobalMem, device);
	memcpy(&prop->uuid, &uuid, sizeof(prop->uuid));
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && !result; i++) {
		char *field = (char *)prop + fields[i].offset;
		size_t wide;
		int value = 0;

		result = cuDeviceGetAttribute(&value, (CUdevice_attribute)fields[i].attr, device);
		wide = value;
		if (fields[i].size == sizeof(wide))
			memcpy(field, &wide, sizeof(wide));
		else
			memcpy(field, &value, sizeof(value));
	}
	return rt_done(result);
}

#undef cudaGetDeviceProperties
RT_EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
RT_EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	return get_properties(prop, device);
}

#if CUDART_VERSION < 13000
RT_EXPORT cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device)
{
	return get_properties(prop, device);
}
#endif

RT_EXPORT cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
	CUresult result = rt_check_device(device);

	return rt_done(result ? result : cuDeviceGetPCIBusId(pciBusId, len, device));
}

RT_EXPORT cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
	CUresult result = rt_init();

	return rt_done(result ? result : cuDeviceGetByPCIBusId(device, pciBusId));
}

RT_EXPORT cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
	CUresult result = rt_init();

	if (!result)
		result = cuDevicePrimaryCtxSetFlags(thread_device, flags & ~cudaDeviceMapHost);
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
	CUresult result = rt_init();
	int active;

	if (!result)
		result = cuDevicePrimaryCtxGetState(thread_device, flags, &active);
	if (!result)
		*flags |= cudaDeviceMapHost;
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaDeviceSynchronize(void)
{
	CUresult result = rt_enter();

	return rt_done(result ? result : cuCtxSynchronize());
}

/* Destroys all objects on the thread's device. The next call starts again. */
RT_EXPORT cudaError_t cudaDeviceReset(void)
{
	CUresult result = rt_init();

	if (result)
		return rt_done(result);
	pthread_mutex_lock(&lock);
	result = cuDevicePrimaryCtxReset(thread_device);
	if (primary[thread_device]) {
		cuDevicePrimaryCtxRelease(thread_device);
		primary[thread_device] = NULL;
	}
	pthread_mutex_unlock(&lock);
	return rt_done(result);
}

RT_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	CUresult result = rt_enter();

	return rt_done(result ? result :
				cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

RT_EXPORT cudaError_t
cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
				   enum cudaFlushGPUDirectRDMAWritesScope scope)
{
	CUresult result = rt_enter();

	if (!result)
		result = cuFlushGPUDirectRDMAWrites((CUflushGPUDirectRDMAWritesTarget)target,
						    (CUflushGPUDirectRDMAWritesScope)scope);
	return rt_done(result);
}
