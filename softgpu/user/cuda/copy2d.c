// SPDX-License-Identifier: MIT
/* copy2d.c - copies of rectangles. */
#include "copy.h"

/* Where a rectangle begins: the memory it lies in, as the type says, and the offset in it. */
static CUresult make_end(struct sgu_end *end, CUmemorytype type, const void *host, CUdeviceptr device,
			 size_t x, size_t y, size_t pitch, size_t width)
{
	uint64_t offset;

	switch (type) {
	case CU_MEMORYTYPE_HOST:
		end->va = (uintptr_t)host;
		end->device = false;
		break;
	case CU_MEMORYTYPE_DEVICE:
		end->va = device;
		end->device = true;
		break;
	case CU_MEMORYTYPE_UNIFIED:
		end->va = device;
		end->device = false;
		break;
	case CU_MEMORYTYPE_ARRAY:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* 0 says that the rows are next to one another */
	if (!pitch)
		pitch = x + width;
	if (x + width < x || pitch < x + width)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(pitch, y, &offset) || __builtin_add_overflow(offset, x, &offset))
		return CUDA_ERROR_INVALID_VALUE;
	end->va += offset;
	end->pitch = pitch;
	return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, enum sgu_when when, CUstream stream)
{
	struct sgu_end dst, src;
	CUresult result = sgu_enter();

	if (result)
		return result;
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	result = make_end(&dst, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY,
			  c->dstPitch, c->WidthInBytes);
	if (!result)
		result = make_end(&src, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes,
				  c->srcY, c->srcPitch, c->WidthInBytes);
	return result ? result : sgu_copy(&dst, &src, c->WidthInBytes, c->Height, when, stream);
}

SGU_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d(pCopy, SGU_NOW, NULL);
}

/* Alignment slows no copy down here. */
SGU_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d(pCopy, SGU_NOW, NULL);
}

SGU_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return copy_2d(pCopy, SGU_QUEUED, hStream);
}
