// SPDX-License-Identifier: MIT
/* stream.c - a synchronizing call orders the work that it waits for. */
#include "pair.h"

static bool run(bool right)
{
	CUstream s = new_stream(), other = new_stream();
	CUdeviceptr p = gpu_memory();

	OK(cuMemsetD8Async(p, 0x5a, SIZE, s));
	OK(cuStreamSynchronize(right ? s : other));
	return device_sees(p, 0x5a);
}

const struct pair pair = {
	"Without SYNC_MEMOPS, CUDA's synchronizing calls order work before a DMA: on the stream that has the work.",
	RULE_SYNC_MEMOPS, run,
};
