// SPDX-License-Identifier: MIT
/*
 * per_thread_calls.c - the forms of functions (_ptsz, _ptds) that programs get which were built for
 * per-thread default streams: for them the stream NULL is the thread's own.
 */
#include "internal.h"

#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
extern __typeof__(cuStreamWaitValue32_v2) cuStreamWaitValue32;
extern __typeof__(cuStreamWaitValue64_v2) cuStreamWaitValue64;
extern __typeof__(cuStreamWriteValue32_v2) cuStreamWriteValue32;
extern __typeof__(cuStreamWriteValue64_v2) cuStreamWriteValue64;
extern __typeof__(cuStreamBatchMemOp_v2) cuStreamBatchMemOp;

static CUstream own(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

#define PTSZ(name, parameters, arguments)				\
	SGU_EXPORT CUresult name##_ptsz parameters;			\
	SGU_EXPORT CUresult name##_ptsz parameters			\
	{								\
		return name arguments;					\
	}

/* A call that waits: the form that does not, and then the wait. */
#define PTDS(name, parameters, async, arguments)			\
	SGU_EXPORT CUresult name##_ptds parameters;			\
	SGU_EXPORT CUresult name##_ptds parameters			\
	{								\
		CUresult result = async arguments;			\
									\
		return result ? result : cuStreamSynchronize(CU_STREAM_PER_THREAD);	\
	}

PTSZ(cuEventRecord, (CUevent event, CUstream s), (event, own(s)))
PTSZ(cuEventRecordWithFlags, (CUevent event, CUstream s, unsigned int flags),
     (event, own(s), flags))
PTSZ(cuLaunchHostFunc, (CUstream s, CUhostFn fn, void *data), (own(s), fn, data))
PTSZ(cuMemAllocAsync, (CUdeviceptr *dptr, size_t n, CUstream s), (dptr, n, own(s)))
PTSZ(cuMemAllocFromPoolAsync, (CUdeviceptr *dptr, size_t n, CUmemoryPool pool, CUstream s),
     (dptr, n, pool, own(s)))
PTSZ(cuMemFreeAsync, (CUdeviceptr dptr, CUstream s), (dptr, own(s)))
PTSZ(cuMemPrefetchAsync, (CUdeviceptr ptr, size_t n, CUdevice to, CUstream s),
     (ptr, n, to, own(s)))
PTSZ(cuMemPrefetchAsync_v2, (CUdeviceptr ptr, size_t n, CUmemLocation to, unsigned int flags,
			     CUstream s), (ptr, n, to, flags, own(s)))
PTSZ(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s),
     (dst, src, n, own(s)))
PTSZ(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n,
			 CUstream s), (dst, to, src, from, n, own(s)))
PTSZ(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t n, CUstream s),
     (dst, src, n, own(s)))
PTSZ(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t n, CUstream s),
     (dst, src, n, own(s)))
PTSZ(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s),
     (dst, src, n, own(s)))
PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream s), (copy, own(s)))
PTSZ(cuMemcpyBatchAsync, (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			  CUmemcpyAttributes *attrs, size_t *idxs, size_t num, size_t *failed,
			  CUstream s),
     (dsts, srcs, sizes, count, attrs, idxs, num, failed, own(s)))
PTSZ(cuMemcpyBatchAsync_v2, (const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
			     size_t count, const CUmemcpyAttributes *attrs, const size_t *idxs,
			     size_t num, CUstream s),
     (dsts, srcs, sizes, count, attrs, idxs, num, own(s)))
PTSZ(cuMemsetD8Async, (CUdeviceptr dst, unsigned char v, size_t n, CUstream s),
     (dst, v, n, own(s)))
PTSZ(cuMemsetD16Async, (CUdeviceptr dst, unsigned short v, size_t n, CUstream s),
     (dst, v, n, own(s)))
PTSZ(cuMemsetD32Async, (CUdeviceptr dst, unsigned int v, size_t n, CUstream s),
     (dst, v, n, own(s)))
PTSZ(cuMemsetD2D8Async, (CUdeviceptr dst, size_t pitch, unsigned char v, size_t w, size_t h,
			 CUstream s), (dst, pitch, v, w, h, own(s)))
PTSZ(cuMemsetD2D16Async, (CUdeviceptr dst, size_t pitch, unsigned short v, size_t w, size_t h,
			  CUstream s), (dst, pitch, v, w, h, own(s)))
PTSZ(cuMemsetD2D32Async, (CUdeviceptr dst, size_t pitch, unsigned int v, size_t w, size_t h,
			  CUstream s), (dst, pitch, v, w, h, own(s)))
PTSZ(cuStreamAddCallback, (CUstream s, CUstreamCallback fn, void *data, unsigned int flags),
     (own(s), fn, data, flags))
PTSZ(cuStreamBatchMemOp, (CUstream s, unsigned int count, CUstreamBatchMemOpParams *ops,
			  unsigned int flags), (own(s), count, ops, flags))
PTSZ(cuStreamBatchMemOp_v2, (CUstream s, unsigned int count, CUstreamBatchMemOpParams *ops,
			     unsigned int flags), (own(s), count, ops, flags))
PTSZ(cuStreamGetCtx, (CUstream s, CUcontext *ctx), (own(s), ctx))
PTSZ(cuStreamGetDevice, (CUstream s, CUdevice *device), (own(s), device))
PTSZ(cuStreamGetFlags, (CUstream s, unsigned int *flags), (own(s), flags))
PTSZ(cuStreamGetId, (CUstream s, unsigned long long *id), (own(s), id))
PTSZ(cuStreamGetPriority, (CUstream s, int *priority), (own(s), priority))
PTSZ(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus *status), (own(s), status))
PTSZ(cuStreamQuery, (CUstream s), (own(s)))
PTSZ(cuStreamSynchronize, (CUstream s), (own(s)))
PTSZ(cuStreamWaitEvent, (CUstream s, CUevent event, unsigned int flags), (own(s), event, flags))
PTSZ(cuStreamWaitValue32, (CUstream s, CUdeviceptr at, cuuint32_t v, unsigned int flags),
     (own(s), at, v, flags))
PTSZ(cuStreamWaitValue32_v2, (CUstream s, CUdeviceptr at, cuuint32_t v, unsigned int flags),
     (own(s), at, v, flags))
PTSZ(cuStreamWaitValue64, (CUstream s, CUdeviceptr at, cuuint64_t v, unsigned int flags),
     (own(s), at, v, flags))
PTSZ(cuStreamWaitValue64_v2, (CUstream s, CUdeviceptr at, cuuint64_t v, unsigned int flags),
     (own(s), at, v, flags))
PTSZ(cuStreamWriteValue32, (CUstream s, CUdeviceptr at, cuuint32_t v, unsigned int flags),
     (own(s), at, v, flags))
PTSZ(cuStreamWriteValue32_v2, (CUstream s, CUdeviceptr at, cuuint32_t v, unsigned int flags),
     (own(s), at, v, flags))
PTSZ(cuStreamWriteValue64, (CUstream s, CUdeviceptr at, cuuint64_t v, unsigned int flags),
     (own(s), at, v, flags))
PTSZ(cuStreamWriteValue64_v2, (CUstream s, CUdeviceptr at, cuuint64_t v, unsigned int flags),
     (own(s), at, v, flags))

PTDS(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n),
     cuMemcpyAsync, (dst, src, n, CU_STREAM_PER_THREAD))
PTDS(cuMemcpyPeer, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n),
     cuMemcpyPeerAsync, (dst, to, src, from, n, CU_STREAM_PER_THREAD))
PTDS(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t n),
     cuMemcpyHtoDAsync_v2, (dst, src, n, CU_STREAM_PER_THREAD))
PTDS(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n),
     cuMemcpyDtoHAsync_v2, (dst, src, n, CU_STREAM_PER_THREAD))
PTDS(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n),
     cuMemcpyDtoDAsync_v2, (dst, src, n, CU_STREAM_PER_THREAD))
PTDS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy),
     cuMemcpy2DAsync_v2, (copy, CU_STREAM_PER_THREAD))
PTDS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy),
     cuMemcpy2DAsync_v2, (copy, CU_STREAM_PER_THREAD))
PTDS(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char v, size_t n),
     cuMemsetD8Async, (dst, v, n, CU_STREAM_PER_THREAD))
PTDS(cuMemsetD16_v2, (CUdeviceptr dst, unsigned short v, size_t n),
     cuMemsetD16Async, (dst, v, n, CU_STREAM_PER_THREAD))
PTDS(cuMemsetD32_v2, (CUdeviceptr dst, unsigned int v, size_t n),
     cuMemsetD32Async, (dst, v, n, CU_STREAM_PER_THREAD))
PTDS(cuMemsetD2D8_v2, (CUdeviceptr dst, size_t pitch, unsigned char v, size_t w, size_t h),
     cuMemsetD2D8Async, (dst, pitch, v, w, h, CU_STREAM_PER_THREAD))
PTDS(cuMemsetD2D16_v2, (CUdeviceptr dst, size_t pitch, unsigned short v, size_t w, size_t h),
     cuMemsetD2D16Async, (dst, pitch, v, w, h, CU_STREAM_PER_THREAD))
PTDS(cuMemsetD2D32_v2, (CUdeviceptr dst, size_t pitch, unsigned int v, size_t w, size_t h),
     cuMemsetD2D32Async, (dst, pitch, v, w, h, CU_STREAM_PER_THREAD))
