// SPDX-License-Identifier: MIT
/* source.c - a device writes to the source of a copy: the same, the other way round. */
#include "pair.h"

static bool run(bool right)
{
	CUdeviceptr from = gpu_memory(), to = gpu_memory();

	OK(cuMemsetD8(from, 0x11, SIZE));
	OK(cuCtxSynchronize());
	if (right)
		set_sync_memops(from);
	OK(cuMemcpyDtoD(to, from, SIZE));
	device_write(from, message(0x22), SIZE);
	device_wait();
	return cuda_sees(to, 0x11);
}

const struct pair pair = {
	"A copy out of a buffer that a device writes is not done when it returns, unless the buffer has SYNC_MEMOPS.",
	RULE_SYNC_MEMOPS, run,
};
