/* SPDX-License-Identifier: MIT */
/*
 * cuda_runtime_api.h - the part of the CUDA runtime API (CUDA 13.3, or 12.9) that softgpu's
 * libcudart.so.13 (or .12) implements, on top of its libcuda.so.1.
 *
 * The interface follows NVIDIA's exactly.  The text is our own.  Unless a comment says otherwise, a
 * function does what NVIDIA documents.  The limits that cuda.h lists (no kernels, no arrays, ...)
 * apply here too.
 */
#ifndef SOFTGPU_CUDA_RUNTIME_API_H
#define SOFTGPU_CUDA_RUNTIME_API_H
#define __CUDA_RUNTIME_API_H__

#include "driver_types.h"

/* A number, because scripts look for one. */
#define CUDART_VERSION 13030
#if CUDART_VERSION != SOFTGPU_CUDA_VERSION
#undef CUDART_VERSION
#define CUDART_VERSION SOFTGPU_CUDA_VERSION
#endif

#ifndef CUDARTAPI
#define CUDARTAPI
#endif

/* For a default argument in C++. */
#if defined(__cplusplus)
#define SOFTGPU_DEFAULT(value) = value
#else
#define SOFTGPU_DEFAULT(value)
#endif

#if CUDART_VERSION < 13000
#define cudaGetDeviceProperties cudaGetDeviceProperties_v2
#endif

/* Programs that are built for per-thread default streams: NULL is the thread's own stream. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cudaEventRecord			cudaEventRecord_ptsz
#define cudaEventRecordWithFlags	cudaEventRecordWithFlags_ptsz
#define cudaFreeAsync			cudaFreeAsync_ptsz
#define cudaLaunchHostFunc		cudaLaunchHostFunc_ptsz
#define cudaMallocAsync			cudaMallocAsync_ptsz
#define cudaMallocFromPoolAsync		cudaMallocFromPoolAsync_ptsz
#define cudaMemPrefetchAsync		cudaMemPrefetchAsync_ptsz
#define cudaMemcpy			cudaMemcpy_ptds
#define cudaMemcpy2D			cudaMemcpy2D_ptds
#define cudaMemcpy2DAsync		cudaMemcpy2DAsync_ptsz
#define cudaMemcpyAsync			cudaMemcpyAsync_ptsz
#define cudaMemcpyBatchAsync		cudaMemcpyBatchAsync_ptsz
#define cudaMemset			cudaMemset_ptds
#define cudaMemset2D			cudaMemset2D_ptds
#define cudaMemset2DAsync		cudaMemset2DAsync_ptsz
#define cudaMemsetAsync			cudaMemsetAsync_ptsz
#define cudaStreamAddCallback		cudaStreamAddCallback_ptsz
#define cudaStreamAttachMemAsync	cudaStreamAttachMemAsync_ptsz
#define cudaStreamGetDevice		cudaStreamGetDevice_ptsz
#define cudaStreamGetFlags		cudaStreamGetFlags_ptsz
#define cudaStreamGetId			cudaStreamGetId_ptsz
#define cudaStreamGetPriority		cudaStreamGetPriority_ptsz
#define cudaStreamIsCapturing		cudaStreamIsCapturing_ptsz
#define cudaStreamQuery			cudaStreamQuery_ptsz
#define cudaStreamSynchronize		cudaStreamSynchronize_ptsz
#define cudaStreamWaitEvent		cudaStreamWaitEvent_ptsz
#define cudaGetDriverEntryPoint		cudaGetDriverEntryPoint_ptsz
#define cudaGetDriverEntryPointByVersion	cudaGetDriverEntryPointByVersion_ptsz
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors: the last one of each thread ---- */

cudaError_t CUDARTAPI cudaGetLastError(void);
cudaError_t CUDARTAPI cudaPeekAtLastError(void);
const char *CUDARTAPI cudaGetErrorName(cudaError_t error);
/* The texts are softgpu's own. */
const char *CUDARTAPI cudaGetErrorString(cudaError_t error);

/* ---- devices ---- */

cudaError_t CUDARTAPI cudaDriverGetVersion(int *driverVersion);
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *runtimeVersion);
cudaError_t CUDARTAPI cudaGetDeviceCount(int *count);
cudaError_t CUDARTAPI cudaGetDevice(int *device);
cudaError_t CUDARTAPI cudaSetDevice(int device);
/* With CUDA 12 also exported as cudaGetDeviceProperties, with the same layout. */
#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
#else
cudaError_t CUDARTAPI cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device);
#endif
/* flags is 0. The device's context begins; the thread's device does not change. */
cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags);
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);
cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *pciBusId, int len, int device);
cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *pciBusId);
/* cuda.h says what two GPUs are to each other. */
cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice);
cudaError_t CUDARTAPI cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr,
						int srcDevice, int dstDevice);
cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags);
cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peerDevice);
/* Limits and preferences of kernels: stored, and returned. */
cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit);
cudaError_t CUDARTAPI cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
cudaError_t CUDARTAPI cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig);
cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig);
cudaError_t CUDARTAPI cudaCtxResetPersistingL2Cache(void);
/* Have no effect. */
cudaError_t CUDARTAPI cudaProfilerStart(void);
cudaError_t CUDARTAPI cudaProfilerStop(void);
cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags);
cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags);
cudaError_t CUDARTAPI cudaDeviceSynchronize(void);
cudaError_t CUDARTAPI cudaDeviceReset(void);
cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority);
cudaError_t CUDARTAPI cudaDeviceFlushGPUDirectRDMAWrites(
	enum cudaFlushGPUDirectRDMAWritesTarget target,
	enum cudaFlushGPUDirectRDMAWritesScope scope);

/* ---- functions of the driver by name ---- */

/* A name that is not there is no error: *funcPtr is NULL, and *driverStatus says why. */
cudaError_t CUDARTAPI cudaGetDriverEntryPoint(
	const char *symbol, void **funcPtr, unsigned long long flags,
	enum cudaDriverEntryPointQueryResult *driverStatus SOFTGPU_DEFAULT(NULL));
cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(
	const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
	enum cudaDriverEntryPointQueryResult *driverStatus SOFTGPU_DEFAULT(NULL));

/* ---- memory ---- */

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size);
cudaError_t CUDARTAPI cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height);
cudaError_t CUDARTAPI cudaFree(void *devPtr);
cudaError_t CUDARTAPI cudaMallocManaged(void **devPtr, size_t size, unsigned int flags);
cudaError_t CUDARTAPI cudaMallocHost(void **ptr, size_t size);
cudaError_t CUDARTAPI cudaHostAlloc(void **pHost, size_t size, unsigned int flags);
cudaError_t CUDARTAPI cudaFreeHost(void *ptr);
cudaError_t CUDARTAPI cudaHostRegister(void *ptr, size_t size, unsigned int flags);
cudaError_t CUDARTAPI cudaHostUnregister(void *ptr);
cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags);
cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int *pFlags, void *pHost);
cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
					       const void *ptr);

/* ---- settings of managed memory ---- */

#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
				    struct cudaMemLocation location);
cudaError_t CUDARTAPI cudaMemPrefetchAsync(const void *devPtr, size_t count,
					   struct cudaMemLocation location, unsigned int flags,
					   cudaStream_t stream SOFTGPU_DEFAULT(0));
#else
cudaError_t CUDARTAPI cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
				    int device);
cudaError_t CUDARTAPI cudaMemAdvise_v2(const void *devPtr, size_t count,
				       enum cudaMemoryAdvise advice,
				       struct cudaMemLocation location);
cudaError_t CUDARTAPI cudaMemPrefetchAsync(const void *devPtr, size_t count, int dstDevice,
					   cudaStream_t stream SOFTGPU_DEFAULT(0));
cudaError_t CUDARTAPI cudaMemPrefetchAsync_v2(const void *devPtr, size_t count,
					      struct cudaMemLocation location, unsigned int flags,
					      cudaStream_t stream SOFTGPU_DEFAULT(0));
#endif
cudaError_t CUDARTAPI cudaMemRangeGetAttribute(void *data, size_t dataSize,
					       enum cudaMemRangeAttribute attribute,
					       const void *devPtr, size_t count);
cudaError_t CUDARTAPI cudaMemRangeGetAttributes(void **data, size_t *dataSizes,
						enum cudaMemRangeAttribute *attributes,
						size_t numAttributes, const void *devPtr,
						size_t count);
/* Has no effect. */
cudaError_t CUDARTAPI cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr,
					       size_t length SOFTGPU_DEFAULT(0),
					       unsigned int flags SOFTGPU_DEFAULT(cudaMemAttachSingle));

/* ---- memory pools: cuda.h says what they are here ---- */

cudaError_t CUDARTAPI cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream);
cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
					      cudaStream_t stream);
cudaError_t CUDARTAPI cudaFreeAsync(void *devPtr, cudaStream_t hStream);
cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device);
cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device);
cudaError_t CUDARTAPI cudaDeviceSetMemPool(int device, cudaMemPool_t memPool);
cudaError_t CUDARTAPI cudaMemGetDefaultMemPool(cudaMemPool_t *memPool,
					       struct cudaMemLocation *location,
					       enum cudaMemAllocationType type);
cudaError_t CUDARTAPI cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
					enum cudaMemAllocationType type);
cudaError_t CUDARTAPI cudaMemSetMemPool(struct cudaMemLocation *location,
					enum cudaMemAllocationType type, cudaMemPool_t memPool);
cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t *memPool,
					const struct cudaMemPoolProps *poolProps);
cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t memPool);
cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep);
cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
					      void *value);
cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
					      void *value);
cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t memPool,
					   const struct cudaMemAccessDesc *descList, size_t count);
cudaError_t CUDARTAPI cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
					   struct cudaMemLocation *location);
cudaError_t CUDARTAPI cudaMemPoolExportToShareableHandle(
	void *shareableHandle, cudaMemPool_t memPool,
	enum cudaMemAllocationHandleType handleType, unsigned int flags);
cudaError_t CUDARTAPI cudaMemPoolImportFromShareableHandle(
	cudaMemPool_t *memPool, void *shareableHandle,
	enum cudaMemAllocationHandleType handleType, unsigned int flags);
cudaError_t CUDARTAPI cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData,
					       void *ptr);
cudaError_t CUDARTAPI cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
					       struct cudaMemPoolPtrExportData *exportData);

/* ---- variables of kernels: there are none, so all return cudaErrorInvalidSymbol ---- */

cudaError_t CUDARTAPI cudaGetSymbolAddress(void **devPtr, const void *symbol);
cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *size, const void *symbol);

/* ---- memory of other processes ---- */

cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr);
cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle,
					   unsigned int flags);
cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void *devPtr);
cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event);
cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle);

/* ---- copies and fills ---- */

/* As in cuda.h, the memory on the device side may be of any kind that the GPUs know. */
cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t count,
				 enum cudaMemcpyKind kind);
cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t count,
				      enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t CUDARTAPI cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
				     size_t count);
cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
					  size_t count, cudaStream_t stream);
cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
				   size_t width, size_t height, enum cudaMemcpyKind kind);
cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
					size_t width, size_t height, enum cudaMemcpyKind kind,
					cudaStream_t stream);
#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs,
					   const size_t *sizes, size_t count,
					   struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs,
					   size_t numAttrs, cudaStream_t stream);
#else
cudaError_t CUDARTAPI cudaMemcpyBatchAsync(void **dsts, void **srcs, size_t *sizes, size_t count,
					   struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs,
					   size_t numAttrs, size_t *failIdx, cudaStream_t stream);
#endif
cudaError_t CUDARTAPI cudaMemset(void *devPtr, int value, size_t count);
cudaError_t CUDARTAPI cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream);
cudaError_t CUDARTAPI cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width,
				   size_t height);
cudaError_t CUDARTAPI cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width,
					size_t height, cudaStream_t stream);

/* ---- streams and events ---- */

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *pStream);
cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags);
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags,
						   int priority);
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream);
cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream);
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream);
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
					  unsigned int flags);
cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags);
cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t hStream, int *priority);
cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId);
cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t hStream, int *device);
/* No stream is ever being captured. */
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream,
					    enum cudaStreamCaptureStatus *pCaptureStatus);
#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(
	cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
	unsigned long long *id_out SOFTGPU_DEFAULT(0), cudaGraph_t *graph_out SOFTGPU_DEFAULT(0),
	const cudaGraphNode_t **dependencies_out SOFTGPU_DEFAULT(0),
	const cudaGraphEdgeData **edgeData_out SOFTGPU_DEFAULT(0),
	size_t *numDependencies_out SOFTGPU_DEFAULT(0));
#else
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(
	cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
	unsigned long long *id_out SOFTGPU_DEFAULT(0), cudaGraph_t *graph_out SOFTGPU_DEFAULT(0),
	const cudaGraphNode_t **dependencies_out SOFTGPU_DEFAULT(0),
	size_t *numDependencies_out SOFTGPU_DEFAULT(0));
#endif
cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
					    void *userData, unsigned int flags);
cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData);
cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event);
cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event);
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event,
					       cudaStream_t stream SOFTGPU_DEFAULT(0),
					       unsigned int flags SOFTGPU_DEFAULT(0));
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event);
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event);
cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

#ifdef __cplusplus
}
#endif

#endif
