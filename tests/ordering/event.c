// SPDX-License-Identifier: MIT
/* event.c - recording an event is no synchronization; waiting for it is. */
#include "pair.h"

static bool run(bool right)
{
	CUdeviceptr from = gpu_memory(), to = gpu_memory();
	CUevent e;

	OK(cuEventCreate(&e, 0));
	OK(cuMemsetD8(from, 0x5a, SIZE));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoDAsync(to, from, SIZE, NULL));
	OK(cuEventRecord(e, NULL));
	if (right)
		OK(cuEventSynchronize(e));
	return device_sees(to, 0x5a);
}

const struct pair pair = {
	"Only CUDA's synchronizing calls order work before a DMA: cuEventSynchronize is one, cuEventRecord is not.",
	RULE_SYNC_MEMOPS, run,
};
