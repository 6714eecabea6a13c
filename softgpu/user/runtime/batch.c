// SPDX-License-Identifier: MIT
/* batch.c - several copies in one call; CUDA 13 dropped the index of the one that failed. */
#include "runtime.h"

_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes),
	       "attributes of a copy");

#if CUDART_VERSION >= 13000
RT_EXPORT cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs,
					   const size_t *sizes, size_t count,
					   struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs,
					   size_t numAttrs, cudaStream_t stream)
{
	CUresult result = rt_enter();

	if (!result)
		result = cuMemcpyBatchAsync_v2((const CUdeviceptr *)dsts, (const CUdeviceptr *)srcs,
					       sizes, count, (CUmemcpyAttributes *)(void *)attrs,
					       attrsIdxs, numAttrs, stream);
	return rt_done(result);
}
#else
RT_EXPORT cudaError_t cudaMemcpyBatchAsync(void **dsts, void **srcs, size_t *sizes, size_t count,
					   struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs,
					   size_t numAttrs, size_t *failIdx, cudaStream_t stream)
{
	CUresult result = rt_enter();

	if (!result)
		result = cuMemcpyBatchAsync((CUdeviceptr *)dsts, (CUdeviceptr *)srcs, sizes, count,
					    (CUmemcpyAttributes *)(void *)attrs, attrsIdxs,
					    numAttrs, failIdx, stream);
	return rt_done(result);
}
#endif
