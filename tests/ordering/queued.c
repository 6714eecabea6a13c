// SPDX-License-Identifier: MIT
/* queued.c - a copy is queued for data that a device writes. */
#include "pair.h"

static bool run(bool right)
{
	CUdeviceptr from = gpu_memory(), to = gpu_memory();

	device_write(from, message(0x5a), SIZE);
	if (right)
		device_wait();
	OK(cuMemcpyDtoDAsync(to, from, SIZE, NULL));
	if (!right)
		device_wait();
	return cuda_sees(to, 0x5a);
}

const struct pair pair = {
	"A copy that was queued while a device writes may see old data, new data, or some of each.",
	RULE_LAUNCH_AFTER_DMA, run,
};
