// SPDX-License-Identifier: MIT
/* batch.c - cuMemcpyBatchAsync(): several copies in one call. */
#include "copy.h"

/* attrs[i] applies to the copies from idxs[i] up to those of attrs[i + 1]. */
static CUresult check_attributes(const CUmemcpyAttributes *attrs, const size_t *idxs, size_t num,
				 size_t count)
{
	if (!attrs || !idxs || !num || num > count || idxs[0])
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < num; i++) {
		if (attrs[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
		    attrs[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
		    attrs[i].flags & ~(unsigned int)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)
			return CUDA_ERROR_INVALID_VALUE;
		if (idxs[i] >= count || (i && idxs[i] <= idxs[i - 1]))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* Whether the source is read before the call returns, as the attribute may request. */
static enum sgu_when when_of(const CUmemcpyAttributes *attr)
{
	return attr->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ? SGU_DONE :
	       SGU_QUEUED;
}

static CUresult batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
		      size_t count, const CUmemcpyAttributes *attrs, const size_t *idxs, size_t num,
		      size_t *failed, CUstream stream)
{
	CUresult result = sgu_ctx_needed();
	size_t a = 0;

	*failed = SIZE_MAX;
	if (result)
		return result;
	if (!dsts || !srcs || !sizes || !count || !stream || stream == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_attributes(attrs, idxs, num, count);
	if (result)
		return result;
	for (size_t i = 0; i < count; i++) {
		struct sgu_end to = { .va = dsts[i], .pitch = sizes[i] };
		struct sgu_end from = { .va = srcs[i], .pitch = sizes[i] };

		if (a + 1 < num && idxs[a + 1] == i)
			a++;
		result = sizes[i] ? sgu_copy(&to, &from, sizes[i], 1, when_of(&attrs[a]), stream) :
				    CUDA_ERROR_INVALID_VALUE;
		if (result) {
			*failed = i;
			return result;
		}
	}
	return CUDA_SUCCESS;
}

SGU_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				       size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
				       size_t numAttrs, size_t *failIdx, CUstream hStream)
{
	size_t failed;
	CUresult result = batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, &failed,
				hStream);

	if (failIdx && result)
		*failIdx = failed;
	return result;
}

SGU_EXPORT CUresult cuMemcpyBatchAsync_v2(const CUdeviceptr *dsts, const CUdeviceptr *srcs,
					  const size_t *sizes, size_t count,
					  const CUmemcpyAttributes *attrs, const size_t *attrsIdxs,
					  size_t numAttrs, CUstream hStream)
{
	size_t failed;

	return batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, &failed, hStream);
}
