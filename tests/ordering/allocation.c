// SPDX-License-Identifier: MIT
/* allocation.c - SYNC_MEMOPS belongs to an allocation, all of it and no other. */
#include "pair.h"

static bool run(bool right)
{
	/* Small ones share a page of the GPU; they are two allocations all the same. */
	CUdeviceptr p = gpu_memory(), neighbour = gpu_memory();

	set_sync_memops(right ? p + SIZE / 2 : neighbour);
	OK(cuMemsetD8(p, 0x5a, SIZE));
	return device_sees(p, 0x5a);
}

const struct pair pair = {
	"SYNC_MEMOPS is set for one allocation, at any address of it, and holds for no other in the same page.",
	RULE_SYNC_MEMOPS, run,
};
