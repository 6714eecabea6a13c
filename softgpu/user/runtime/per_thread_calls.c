// SPDX-License-Identifier: MIT
/*
 * per_thread_calls.c - the forms of functions (_ptsz, _ptds) of programs that were built for
 * per-thread default streams: for them the stream NULL is the thread's own.
 */
#include "runtime.h"

static cudaStream_t own(cudaStream_t stream)
{
	return stream ? stream : cudaStreamPerThread;
}

#define PTSZ(name, parameters, arguments)				\
	RT_EXPORT cudaError_t name##_ptsz parameters;			\
	RT_EXPORT cudaError_t name##_ptsz parameters			\
	{								\
		return name arguments;					\
	}

/* A call that waits: the form that does not, and then the wait. */
#define PTDS(name, parameters, async, arguments)			\
	RT_EXPORT cudaError_t name##_ptds parameters;			\
	RT_EXPORT cudaError_t name##_ptds parameters			\
	{								\
		cudaError_t error = async arguments;			\
									\
		return error ? error : cudaStreamSynchronize(cudaStreamPerThread);	\
	}

PTSZ(cudaEventRecord, (cudaEvent_t event, cudaStream_t s), (event, own(s)))
PTSZ(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t s, unsigned int flags),
     (event, own(s), flags))
PTSZ(cudaFreeAsync, (void *ptr, cudaStream_t s), (ptr, own(s)))
PTSZ(cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t fn, void *data), (own(s), fn, data))
PTSZ(cudaMallocAsync, (void **ptr, size_t n, cudaStream_t s), (ptr, n, own(s)))
PTSZ(cudaMallocFromPoolAsync, (void **ptr, size_t n, cudaMemPool_t pool, cudaStream_t s),
     (ptr, n, pool, own(s)))
PTSZ(cudaMemcpyAsync, (void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
		       cudaStream_t s), (dst, src, n, kind, own(s)))
PTSZ(cudaMemcpy2DAsync, (void *dst, size_t dpitch, const void *src, size_t spitch, size_t w,
			 size_t h, enum cudaMemcpyKind kind, cudaStream_t s),
     (dst, dpitch, src, spitch, w, h, kind, own(s)))
PTSZ(cudaMemsetAsync, (void *dst, int value, size_t n, cudaStream_t s), (dst, value, n, own(s)))
PTSZ(cudaMemset2DAsync, (void *dst, size_t pitch, int value, size_t w, size_t h, cudaStream_t s),
     (dst, pitch, value, w, h, own(s)))
#if CUDART_VERSION >= 13000
PTSZ(cudaMemPrefetchAsync, (const void *ptr, size_t n, struct cudaMemLocation to,
			    unsigned int flags, cudaStream_t s), (ptr, n, to, flags, own(s)))
PTSZ(cudaMemcpyBatchAsync, (void *const *dsts, const void *const *srcs, const size_t *sizes,
			    size_t count, struct cudaMemcpyAttributes *attrs, size_t *idxs,
			    size_t num, cudaStream_t s),
     (dsts, srcs, sizes, count, attrs, idxs, num, own(s)))
#else
PTSZ(cudaMemPrefetchAsync, (const void *ptr, size_t n, int to, cudaStream_t s),
     (ptr, n, to, own(s)))
PTSZ(cudaMemcpyBatchAsync, (void **dsts, void **srcs, size_t *sizes, size_t count,
			    struct cudaMemcpyAttributes *attrs, size_t *idxs, size_t num,
			    size_t *failed, cudaStream_t s),
     (dsts, srcs, sizes, count, attrs, idxs, num, failed, own(s)))
#endif
PTSZ(cudaStreamAddCallback, (cudaStream_t s, cudaStreamCallback_t fn, void *data,
			     unsigned int flags), (own(s), fn, data, flags))
PTSZ(cudaStreamAttachMemAsync, (cudaStream_t s, void *ptr, size_t n, unsigned int flags),
     (own(s), ptr, n, flags))
PTSZ(cudaStreamGetDevice, (cudaStream_t s, int *device), (own(s), device))
PTSZ(cudaStreamGetFlags, (cudaStream_t s, unsigned int *flags), (own(s), flags))
PTSZ(cudaStreamGetId, (cudaStream_t s, unsigned long long *id), (own(s), id))
PTSZ(cudaStreamGetPriority, (cudaStream_t s, int *priority), (own(s), priority))
PTSZ(cudaStreamIsCapturing, (cudaStream_t s, enum cudaStreamCaptureStatus *status),
     (own(s), status))
PTSZ(cudaStreamQuery, (cudaStream_t s), (own(s)))
PTSZ(cudaStreamSynchronize, (cudaStream_t s), (own(s)))
PTSZ(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t event, unsigned int flags),
     (own(s), event, flags))

PTDS(cudaMemcpy, (void *dst, const void *src, size_t n, enum cudaMemcpyKind kind),
     cudaMemcpyAsync, (dst, src, n, kind, cudaStreamPerThread))
PTDS(cudaMemcpy2D, (void *dst, size_t dpitch, const void *src, size_t spitch, size_t w, size_t h,
		    enum cudaMemcpyKind kind),
     cudaMemcpy2DAsync, (dst, dpitch, src, spitch, w, h, kind, cudaStreamPerThread))
PTDS(cudaMemset, (void *dst, int value, size_t n),
     cudaMemsetAsync, (dst, value, n, cudaStreamPerThread))
PTDS(cudaMemset2D, (void *dst, size_t pitch, int value, size_t w, size_t h),
     cudaMemset2DAsync, (dst, pitch, value, w, h, cudaStreamPerThread))
