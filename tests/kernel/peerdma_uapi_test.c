// SPDX-License-Identifier: MIT
/*
 * peerdma_uapi_test.c - everything about /dev/peerdma that a program can see.
 * Runs as root in a virtual machine, alone, with peerdma.ko loaded; with a
 * software GPU, its libcuda and peerdma_nvidia.ko, GPU memory is tested too.
 */
#include <unistd.h>

#include "peerdma_test_gpu.h"

int main(int argc, char **argv)
{
	bool gpu;
	int fd;

	if (argc == 4)
		return gpu_child(argv[1], atoi(argv[2]), atoi(argv[3]));
	fd = dev_open();

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(live_pins(fd) == 0);
	close(fd);
	/* With an argument, only what depends on whose GPU memory it is. */
	if (argc == 1) {
		test_calls();
		test_host();
		test_devices();
	}
	gpu = test_gpu();
	test_importer(gpu);
	test_late(gpu);
	test_ends(gpu);

	fd = dev_open();
	CHECK(live_pins(fd) == 0);
	close(fd);
	CHECK(debugfs_stat("pins") == debugfs_stat("unpins"));
	CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
	printf("%s\n", failures ? "FAILED" : "all passed");
	return failures ? 1 : 0;
}
