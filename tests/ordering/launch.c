// SPDX-License-Identifier: MIT
/* launch.c - a kernel is launched for data that a device writes. */
#include "pair.h"

static bool run(bool right)
{
	const unsigned int arrived = 0x5a5a5a5a;
	CUdeviceptr flag = gpu_memory(), result = gpu_memory();
	unsigned int saw;

	set_sync_memops(flag);
	device_write(flag, message(0x5a), SIZE);
	if (right)
		device_wait();
	/* What is to be read is at the end of the message. */
	OK(softgpu_watch(flag + SIZE - 4, arrived, device_patience_ms(), result, NULL));
	if (!right)
		device_wait();
	OK(cuMemcpyDtoH(&saw, result, sizeof(saw)));
	return saw == arrived;
}

const struct pair pair = {
	"A DMA must have completed, as far as the launching CPU thread knows, before the kernel that needs its data is launched.",
	RULE_LAUNCH_AFTER_DMA, run,
};
