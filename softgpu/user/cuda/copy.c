// SPDX-License-Identifier: MIT
/* copy.c - copies of ranges, and the rule when a copy may return before it is done. */
#include "copy.h"

/* A range may span several mappings. All must be present and accessible. */
static CUresult check_mappings(uint64_t end, unsigned int access, const struct softgpu_query *first)
{
	struct softgpu_query q = *first;
	CUresult result;
	uint64_t va;

	for (;;) {
		if (q.kind != SOFTGPU_KIND_VMM || (q.access & access) != access)
			return CUDA_ERROR_INVALID_VALUE;
		va = q.base + q.length;
		if (va >= end)
			return CUDA_SUCCESS;
		result = sgu_query(va, &q);
		if (result)
			return result;
	}
}

CUresult sgu_check_end(const struct sgu_end *end, uint64_t width, uint64_t height,
		       unsigned int access, struct softgpu_query *q)
{
	uint64_t span, va = end->va;
	CUresult result;

	if (__builtin_mul_overflow(end->pitch, height - 1, &span) ||
	    __builtin_add_overflow(span, width, &span) || va + span < va)
		return CUDA_ERROR_INVALID_VALUE;
	result = sgu_query(va, q);
	if (result)
		return result;
	switch (q->kind) {
	case SOFTGPU_KIND_NONE:
		/* an unknown address inside the window is not memory of the program */
		return end->device || !va || sgu_in_window(va) ? CUDA_ERROR_INVALID_VALUE :
		       CUDA_SUCCESS;
	case SOFTGPU_KIND_RESERVED:
		return CUDA_ERROR_INVALID_VALUE;
	case SOFTGPU_KIND_VMM:
		return check_mappings(va + span, access, q);
	default:
		if (end->device && q->device_va && q->device_va != va) {
			sgu_log("%#llx is host memory, which this GPU has at %#llx: use cuMemHostGetDevicePointer()",
				(unsigned long long)va, (unsigned long long)q->device_va);
			return CUDA_ERROR_INVALID_VALUE;
		}
		return va + span <= q->base + q->length ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
}

/*
 * Whether the call may return while the copy runs.
 *
 * Not if either side has SYNC_MEMOPS, even in the *Async functions: a program sets it because it
 * will access the memory through BAR1, without CUDA. Not with host memory that the GPUs do not
 * know: the program may free it at once.
 */
static bool may_return_early(const struct softgpu_query *dst, const struct softgpu_query *src,
		       enum sgu_when when, bool sync_memops)
{
	if (sync_memops || dst->sync_memops || src->sync_memops)
		return false;
	if (dst->kind == SOFTGPU_KIND_NONE || src->kind == SOFTGPU_KIND_NONE)
		return false;
	if (when == SGU_NOW)
		return sgu_is_vram(dst) && sgu_is_vram(src);
	return when == SGU_QUEUED && (sgu_is_vram(dst) || sgu_is_vram(src));
}

CUresult sgu_copy(const struct sgu_end *dst, const struct sgu_end *src, uint64_t width,
		  uint64_t height, enum sgu_when when, CUstream stream)
{
	struct softgpu_copy copy = {
		.size = sizeof(copy),
		.dst = dst->va,
		.src = src->va,
		.width = width,
		.height = height,
		.dst_pitch = dst->pitch,
		.src_pitch = src->pitch,
	};
	struct softgpu_query to, from;
	struct sgu_queue queue;
	CUresult result = sgu_ctx_needed();

	if (!result)
		result = sgu_queue_get(stream, &queue);
	if (result)
		return result;
	if (!width || !height)
		goto out;
	result = sgu_check_end(dst, width, height, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &to);
	if (!result)
		result = sgu_check_end(src, width, height, CU_MEM_ACCESS_FLAGS_PROT_READ, &from);
	if (result)
		goto out;
	copy.ctx = queue.kctx;
	copy.stream = queue.stream;
	copy.flags = may_return_early(&to, &from, when, queue.sync_memops) ? 0 : SOFTGPU_OP_SYNC;
	result = sgu_result_enoent(sgu_call(queue.gpu, SOFTGPU_COPY, &copy),
				   CUDA_ERROR_CONTEXT_IS_DESTROYED);
out:
	sgu_queue_put(&queue);
	return result;
}

static CUresult copy_range(uint64_t dst, bool dst_device, uint64_t src, bool src_device,
			   size_t bytes, enum sgu_when when, CUstream stream)
{
	struct sgu_end to = { .va = dst, .pitch = bytes, .device = dst_device };
	struct sgu_end from = { .va = src, .pitch = bytes, .device = src_device };

	return sgu_copy(&to, &from, bytes, 1, when, stream);
}

SGU_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return copy_range(dst, false, src, false, ByteCount, SGU_NOW, NULL);
}

SGU_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return copy_range(dstDevice, true, (uintptr_t)srcHost, false, ByteCount, SGU_DONE, NULL);
}

SGU_EXPORT CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy_range((uintptr_t)dstHost, false, srcDevice, true, ByteCount, SGU_DONE, NULL);
}

SGU_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy_range(dstDevice, true, srcDevice, true, ByteCount, SGU_NOW, NULL);
}

SGU_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
				  CUstream hStream)
{
	return copy_range(dst, false, src, false, ByteCount, SGU_QUEUED, hStream);
}

SGU_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost,
					 size_t ByteCount, CUstream hStream)
{
	return copy_range(dstDevice, true, (uintptr_t)srcHost, false, ByteCount, SGU_QUEUED,
			  hStream);
}

SGU_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
					 CUstream hStream)
{
	return copy_range((uintptr_t)dstHost, false, srcDevice, true, ByteCount, SGU_QUEUED,
			  hStream);
}

SGU_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
					 size_t ByteCount, CUstream hStream)
{
	return copy_range(dstDevice, true, srcDevice, true, ByteCount, SGU_QUEUED, hStream);
}

/*
 * Checks the contexts; NULL is the current one. They have no other use here, because addresses
 * belong to the process.
 */
static CUresult check_contexts(CUcontext dst, CUcontext src)
{
	CUcontext handles[] = { dst, src };
	CUresult result = sgu_enter();

	for (int i = 0; i < 2 && !result; i++) {
		struct sgu_ctx *ctx;

		if (!handles[i])
			continue;
		result = sgu_ctx_get(handles[i], &ctx);
		if (result)
			break;
		if (!atomic_load(&ctx->kctx))
			result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
		sgu_obj_put(&ctx->obj);
	}
	return result;
}

/* Runs after all earlier work of both contexts, and before all later work. */
SGU_EXPORT CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
				 CUcontext srcContext, size_t ByteCount)
{
	CUresult result = check_contexts(dstContext, srcContext);

	if (!result)
		result = sgu_ctx_sync_all();
	if (!result)
		result = copy_range(dstDevice, true, srcDevice, true, ByteCount, SGU_DONE, NULL);
	return result;
}

SGU_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
				      CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
				      CUstream hStream)
{
	CUresult result = check_contexts(dstContext, srcContext);

	if (!result)
		result = copy_range(dstDevice, true, srcDevice, true, ByteCount, SGU_QUEUED,
				    hStream);
	return result;
}
