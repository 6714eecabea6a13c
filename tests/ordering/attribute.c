// SPDX-License-Identifier: MIT
/* attribute.c - cuPointerSetAttribute waits for what was queued before it. */
#include "pair.h"

static bool run(bool right)
{
	unsigned int on;
	CUdeviceptr p = gpu_memory();

	OK(cuMemsetD8(p, 0x5a, SIZE));
	if (right)
		set_sync_memops(p);
	else
		OK(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	return device_sees(p, 0x5a);
}

const struct pair pair = {
	"Setting SYNC_MEMOPS synchronizes, so it orders work that was queued before; reading the attribute does not.",
	RULE_SYNC_MEMOPS, run,
};
