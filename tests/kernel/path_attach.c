// SPDX-License-Identifier: MIT
/*
 * path_attach.c - peerdma_importer.ko's card attaches to a dma-buf of HIP's memory.  The exit
 * code is 0, the errno of the attachment, or 1 if it does not come to that.
 */
#include <errno.h>
#include <fcntl.h>

#include "peerdma_importer.h"
#include "peerdma_test_gpu.h"

int main(void)
{
	struct importer_attach attach = { .kind = IMPORTER_DYNAMIC };
	int fd = dev_open(), importer = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC), err;
	const char *why = hip_open();
	struct peerdma_pin_args a;
	uint64_t va;

	CHECK(importer >= 0);
	if (why) {
		printf("%s\n", why);
		return 1;
	}
	va = gpu_alloc(GPU_PAGE);
	WORKS(pin_va(fd, va, GPU_PAGE, PEERDMA_PIN_DEVICE, &a));
	attach.fd = export(fd, a.handle, 0, GPU_PAGE);
	err = ioctl(importer, IMPORTER_ATTACH, &attach) ? errno : 0;
	return failures ? 1 : err;
}
