// SPDX-License-Identifier: MIT
/* readback.c - what a device wrote is read by a copy, or by a kernel that runs meanwhile. */
#include "pair.h"

static bool run(bool right)
{
	const unsigned int arrived = 0x5a5a5a5a;
	CUdeviceptr data = gpu_memory(), result = gpu_memory();
	unsigned int saw;
	CUstream s = new_stream();

	set_sync_memops(data);
	OK(softgpu_watch(data, arrived, right ? 60000 : device_patience_ms(), result, s));
	device_write(data, message(0x5a), SIZE);
	device_wait();
	if (right)
		return cuda_sees(data, 0x5a) && device_sees(data, 0x5a);
	/* The kernel has had all the time it may want. */
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoH(&saw, result, sizeof(saw)));
	return saw == arrived;
}

const struct pair pair = {
	"When a DMA has completed, BAR1 and CUDA's copies show its data; a kernel that was running is wholly inconsistent with it.",
	RULE_LAUNCH_AFTER_DMA, run,
};
