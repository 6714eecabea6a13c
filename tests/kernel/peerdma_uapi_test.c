// SPDX-License-Identifier: MIT
/*
 * peerdma_uapi_test.c - everything about /dev/peerdma that a program can see.
 * Runs as root in a virtual machine, alone, with peerdma.ko loaded.
 *
 *	peerdma_uapi_test			what depends on no provider
 *	peerdma_uapi_test PROVIDER...		the same tests with memory of each of these
 *	peerdma_uapi_test removal		the card is removed: no other module may use it
 *	peerdma_uapi_test coherent		memory of a coherent GPU: nvidia.ko has coherent=1
 */
#include "peerdma_test_gpu.h"

/* What depends on whose memory it is; false: that provider is not there. */
static bool body(const char *provider)
{
	setenv("PEERDMA_TEST_PROVIDER", provider, 1);
	if (!test_gpu())
		return false;
	test_importer(true);
	test_late(true);
	test_ends(true);
	test_limits(true);
	test_handles(true);
	return true;
}

static void rest(void)
{
	test_calls();
	test_host();
	test_devices();
	test_importer(false);
	test_late(false);
	test_ends(false);
	test_limits(false);
	test_handles(false);
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "--child"))
		return gpu_child(argv[2], atoi(argv[3]), atoi(argv[4]));
	if (argc == 4 && !strcmp(argv[1], "--unpin"))
		return unpin(atoi(argv[2]), (uint32_t)atoi(argv[3])) ? errno : 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	check_none_left();
	if (argc == 1)
		rest();
	if (argc == 2 && !strcmp(argv[1], "removal"))
		test_removal();
	else if (argc == 2 && !strcmp(argv[1], "coherent"))
		test_coherent();
	else
		for (int i = 1; i < argc; i++)
			CHECK(body(argv[i]));

	check_none_left();
	return check_end("/dev/peerdma");
}
