// SPDX-License-Identifier: MIT
/* copy.c - a device reads the destination of a copy within the GPU. */
#include "pair.h"

static bool run(bool right)
{
	CUdeviceptr from = gpu_memory(), to = gpu_memory();

	OK(cuMemsetD8(from, 0x5a, SIZE));
	OK(cuCtxSynchronize());
	if (right)
		set_sync_memops(to);
	OK(cuMemcpyDtoD(to, from, SIZE));
	return device_sees(to, 0x5a);
}

const struct pair pair = {
	"cuMemcpyDtoD returns before it is done, unless a buffer that a device reads has SYNC_MEMOPS.",
	RULE_SYNC_MEMOPS, run,
};
