// SPDX-License-Identifier: MIT
/* managed.c - managed memory is not a device's to reach: it goes through a buffer on the GPU. */
#include "pair.h"

static CUdeviceptr managed_memory(void)
{
	CUdeviceptr p;

	OK(cuMemAllocManaged(&p, SIZE, CU_MEM_ATTACH_GLOBAL));
	return p;
}

static bool is_managed(CUdeviceptr p)
{
	unsigned int managed;

	OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
	return managed;
}

static bool run(bool right)
{
	CUdeviceptr p = managed_memory(), reach = p;
	bool stale, lost;

	memset((void *)p, 0x5a, SIZE);
	if (right && is_managed(p)) {
		reach = gpu_memory();
		set_sync_memops(reach);
		OK(cuMemcpy(reach, p, SIZE));
	}
	stale = !device_sees(reach, 0x5a);
	device_write(reach, message(0x22), SIZE);
	device_wait();
	if (reach != p)
		OK(cuMemcpy(p, reach, SIZE));
	lost = !cuda_sees(p, 0x22);
	/* The wrong one must have had both: reading it back brought the host's data to the device. */
	return right ? !stale && !lost && device_sees(reach, 0x22) : !stale || !lost || !device_sees(p, 0x5a);
}

const struct pair pair = {
	"A pin of managed memory shows a copy that may be stale, and what a device writes there may be overwritten: ask for IS_MANAGED.",
	RULE_MANAGED, run,
};
