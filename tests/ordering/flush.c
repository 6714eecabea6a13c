// SPDX-License-Identifier: MIT
/* flush.c - a kernel runs already, and polls for what a device writes. */
#include "pair.h"

static bool run(bool right)
{
	const unsigned int arrived = 0x5a5a5a5a;
	CUdeviceptr flag = gpu_memory(), result = gpu_memory();
	unsigned int saw;
	CUstream s = new_stream();

	set_sync_memops(flag);
	OK(softgpu_watch(flag, arrived, right ? 60000 : device_patience_ms(), result, s));
	device_write(flag, message(0x5a), SIZE);
	device_wait();
	if (right)
		OK(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
					      CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoH(&saw, result, sizeof(saw)));
	return saw == arrived;
}

const struct pair pair = {
	"A kernel that runs while a device writes may see old data: only calls of the CPU order them, here a flush.",
	RULE_LAUNCH_AFTER_DMA, run,
};
