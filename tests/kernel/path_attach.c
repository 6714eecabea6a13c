// SPDX-License-Identifier: MIT
/*
 * path_attach.c - peerdma_importer.ko's card attaches to a dma-buf of HIP's memory.  The exit
 * code is 0, the errno of the attachment, or 1 if it does not come to that.
 */
#include "importer.h"
#include "peerdma_test_gpu.h"

int main(void)
{
	int fd = dev_open(), err;
	const char *why = hip_open();
	struct peerdma_pin_args a;
	uint64_t va;

	if (why) {
		printf("%s\n", why);
		return 1;
	}
	va = gpu_alloc(GPU_PAGE);
	WORKS(pin_va(fd, va, GPU_PAGE, PEERDMA_PIN_DEVICE, &a));
	err = importer_attach(importer_open(), export(fd, a.handle, 0, GPU_PAGE), IMPORTER_DYNAMIC) ? errno : 0;
	return check_counts.failures ? 1 : err;
}
