// SPDX-License-Identifier: MIT
/* settings.c - limits, preferences and capture modes, which the driver keeps. */
#include "runtime.h"

SAME(cudaDeviceGetLimit, (size_t *pValue, enum cudaLimit limit), cuCtxGetLimit,
     (pValue, (CUlimit)limit))
SAME(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value), cuCtxSetLimit,
     ((CUlimit)limit, value))
SAME(cudaDeviceGetCacheConfig, (enum cudaFuncCache *pCacheConfig), cuCtxGetCacheConfig,
     ((CUfunc_cache *)(void *)pCacheConfig))
SAME(cudaDeviceSetCacheConfig, (enum cudaFuncCache cacheConfig), cuCtxSetCacheConfig,
     ((CUfunc_cache)cacheConfig))
SAME(cudaCtxResetPersistingL2Cache, (void), cuCtxResetPersistingL2Cache, ())
SAME(cudaProfilerStart, (void), cuProfilerStart, ())
SAME(cudaProfilerStop, (void), cuProfilerStop, ())
SAME(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode *mode),
     cuThreadExchangeStreamCaptureMode, ((CUstreamCaptureMode *)(void *)mode))
SAME(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
     cuStreamIsCapturing, (stream, (CUstreamCaptureStatus *)(void *)pCaptureStatus))
#if CUDART_VERSION >= 13000
SAME(cudaStreamGetCaptureInfo,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
      unsigned long long *id_out, cudaGraph_t *graph_out,
      const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData **edgeData_out,
      size_t *numDependencies_out),
     cuStreamGetCaptureInfo_v3,
     (stream, (CUstreamCaptureStatus *)(void *)captureStatus_out, (cuuint64_t *)id_out, graph_out,
      dependencies_out, (const CUgraphEdgeData **)(void *)edgeData_out, numDependencies_out))
#else
SAME(cudaStreamGetCaptureInfo_v2,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
      unsigned long long *id_out, cudaGraph_t *graph_out,
      const cudaGraphNode_t **dependencies_out, size_t *numDependencies_out),
     cuStreamGetCaptureInfo_v2,
     (stream, (CUstreamCaptureStatus *)(void *)captureStatus_out, (cuuint64_t *)id_out, graph_out,
      dependencies_out, numDependencies_out))
#endif

/* As cudaSetDevice(), but the thread's device does not change. */
RT_EXPORT cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
	CUresult result = rt_check_device(device);
	CUcontext ctx;

	(void)deviceFlags;
	if (!result && flags)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = cuDevicePrimaryCtxRetain(&ctx, device);
	return rt_done(result);
}
