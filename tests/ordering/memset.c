// SPDX-License-Identifier: MIT
/* memset.c - registered memory is consistent with CUDA's own operations on it. */
#include "pair.h"

static bool run(bool right)
{
	CUdeviceptr p = gpu_memory();

	if (right)
		set_sync_memops(p);
	OK(cuMemsetD8(p, 0x5a, SIZE));
	return device_sees(p, 0x5a);
}

const struct pair pair = {
	"Memory that a device reads must be registered (SYNC_MEMOPS) for a memset to be over when the call returns.",
	RULE_SYNC_MEMOPS, run,
};
