// SPDX-License-Identifier: MIT
/* watch.c - softgpu.h: the stand-in for a kernel that polls. */
#include "internal.h"
#include "softgpu.h"

SGU_EXPORT CUresult softgpu_watch(CUdeviceptr flag, unsigned int expected, unsigned int timeout_ms,
				  CUdeviceptr result, CUstream stream)
{
	struct softgpu_watch watch = {
		.size = sizeof(watch), .va = flag, .result = result, .expected = expected,
		.timeout_ms = timeout_ms,
	};
	struct sgu_queue queue;
	CUresult ret = sgu_queue_get(stream, &queue);

	if (ret)
		return ret;
	watch.ctx = queue.kctx;
	watch.stream = queue.stream;
	ret = sgu_result_enoent(sgu_call(queue.gpu, SOFTGPU_WATCH, &watch), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	sgu_queue_put(&queue);
	return ret;
}
