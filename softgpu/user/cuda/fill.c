// SPDX-License-Identifier: MIT
/* fill.c - cuMemset in its shapes and sizes. */
#include "copy.h"

/* width elements of elem bytes in each of height rows. */
static CUresult fill(CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t elem, size_t width,
		     size_t height, enum sgu_when when, CUstream stream)
{
	struct softgpu_fill op = {
		.size = sizeof(op), .dst = dst, .width = width, .height = height,
		.value = value, .elem = elem,
	};
	struct softgpu_query q;
	struct sgu_queue queue;
	struct sgu_end end;
	uint64_t bytes;
	bool wait;
	CUresult result = sgu_in_callback ? CUDA_SUCCESS : sgu_ctx_needed();

	if (!result)
		result = sgu_queue_get(stream, &queue);
	if (result)
		return result;
	if (!width || !height)
		goto out;
	result = CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(width, elem, &bytes) || dst % elem)
		goto out;
	if (height == 1)
		pitch = bytes;
	if (pitch < bytes || pitch % elem)
		goto out;
	op.pitch = pitch;
	end = (struct sgu_end) { .va = dst, .pitch = pitch, .device = true };
	result = sgu_check_end(&end, bytes, height, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &q);
	/* The engine is the stream's GPU's.  Without a peer mapping, which there are none of, it reaches its own. */
	if (!result && (q.kind == SOFTGPU_KIND_DEVICE || q.kind == SOFTGPU_KIND_IPC) &&
	    sgu_gpu_of_index(q.gpu) != queue.gpu)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result)
		goto out;
	/* of device memory even cuMemset need not be done when it returns */
	wait = q.sync_memops || queue.sync_memops || (when == SGU_NOW && !sgu_is_vram(&q));
	op.flags = wait ? SOFTGPU_OP_SYNC : 0;
	op.ctx = queue.kctx;
	op.stream = queue.stream;
	result = sgu_result_enoent(sgu_call(queue.gpu, SOFTGPU_FILL, &op), CUDA_ERROR_CONTEXT_IS_DESTROYED);
out:
	sgu_queue_put(&queue);
	return result;
}

SGU_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	return fill(dstDevice, 0, uc, 1, N, 1, SGU_NOW, NULL);
}

SGU_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	return fill(dstDevice, 0, us, 2, N, 1, SGU_NOW, NULL);
}

SGU_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	return fill(dstDevice, 0, ui, 4, N, 1, SGU_NOW, NULL);
}

SGU_EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
				    size_t Width, size_t Height)
{
	return fill(dstDevice, dstPitch, uc, 1, Width, Height, SGU_NOW, NULL);
}

SGU_EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
				     size_t Width, size_t Height)
{
	return fill(dstDevice, dstPitch, us, 2, Width, Height, SGU_NOW, NULL);
}

SGU_EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
				     size_t Width, size_t Height)
{
	return fill(dstDevice, dstPitch, ui, 4, Width, Height, SGU_NOW, NULL);
}

SGU_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return fill(dstDevice, 0, uc, 1, N, 1, SGU_QUEUED, hStream);
}

SGU_EXPORT CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return fill(dstDevice, 0, us, 2, N, 1, SGU_QUEUED, hStream);
}

SGU_EXPORT CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return fill(dstDevice, 0, ui, 4, N, 1, SGU_QUEUED, hStream);
}

SGU_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
				      size_t Width, size_t Height, CUstream hStream)
{
	return fill(dstDevice, dstPitch, uc, 1, Width, Height, SGU_QUEUED, hStream);
}

SGU_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
				       size_t Width, size_t Height, CUstream hStream)
{
	return fill(dstDevice, dstPitch, us, 2, Width, Height, SGU_QUEUED, hStream);
}

SGU_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
				       size_t Width, size_t Height, CUstream hStream)
{
	return fill(dstDevice, dstPitch, ui, 4, Width, Height, SGU_QUEUED, hStream);
}
