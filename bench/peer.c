// SPDX-License-Identifier: MIT
/*
 * bench-peer - what a registration through a peer-memory client costs, in instructions, call by call.
 *
 *   bench-peer NAME FILE [OTHER]	the loaded client's name; its figures are added to FILE, beside OTHER's there
 *
 * Runs in the virtual machine under --icount, once for each client: bench/peer.sh; bench/README.md says more.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "../tests/kernel/peer_client_test.h"
#include "gpu_need.h"
#include "kernel/pinbench.h"
#include "spread.h"

#define REPEATS	21
#define BUDGET	0.6

static const struct {
	const char *name;
	uint64_t length;
} sizes[] = {
	{ "64 KiB", 64 << 10 }, { "1 MiB", 1 << 20 }, { "64 MiB", 64 << 20 },
};
#define SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

static const char *const steps[PB_STEPS] = { "acquire", "get_pages", "dma_map", "dma_unmap", "put_pages", "release" };

static void fail(const char *what)
{
	fprintf(stderr, "bench-peer: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The first DMA card: bus << 8 | devfn. */
static uint32_t card(void)
{
	unsigned int domain, bus, device, function;
	char path[64];
	glob_t found;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/*");
	if (glob(path, 0, NULL, &found))
		fail("/sys/bus/pci");
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char file[300], id[16] = "";
		FILE *f;

		snprintf(file, sizeof(file), "%s/device", found.gl_pathv[i]);
		f = fopen(file, "r");
		if (f && fgets(id, sizeof(id), f) && !strncmp(id, "0x11e8", 6) &&
		    sscanf(strrchr(found.gl_pathv[i], '/'), "/%x:%x:%x.%x", &domain, &bus, &device, &function) == 4)
			return bus << 8 | device << 3 | function;
		if (f)
			fclose(f);
	}
	errno = ENODEV;
	fail("a DMA card");
	return 0;
}

/* One get and one put of the GPU's driver alone. */
static double provider(int fd, uint64_t va, uint64_t length)
{
	struct pinbench_run r = { .va = va, .length = length, .count = 1, .path = PINBENCH_PROVIDER };

	if (ioctl(fd, PINBENCH_RUN, &r))
		fail("/dev/pinbench");
	return r.pin_ticks + r.unpin_ticks;
}

/* The total that another run has left for this size; 0: none. */
static double total_of(const char *file, const char *name, int size)
{
	double total = 0, value;
	char who[32];
	int n;
	FILE *f = fopen(file, "r");

	while (f && fscanf(f, "%31s %d %lf", who, &n, &value) == 3)
		if (!strcmp(who, name) && n == size)
			total = value;
	if (f)
		fclose(f);
	return total;
}

int main(int argc, char **argv)
{
	static double samples[PB_STEPS + 2][REPEATS];
	int client, pins, missed = 0;
	uint32_t where = card();
	uint64_t va;
	FILE *out;

	if (argc < 3)
		return 2;
	client = open("/dev/peer_client_test", O_RDWR);
	pins = open("/dev/pinbench", O_RDWR);
	if (client < 0 || pins < 0)
		fail("the test modules");
	gpu_need(false, 1);
	va = gpu_need_memory(sizes[SIZES - 1].length);
	out = fopen(argv[2], "a");
	if (!out)
		fail(argv[2]);
	printf("%s: a registration and its end, instructions (median of %d)\n%-8s", argv[1], REPEATS, "");
	for (int i = 0; i < PB_STEPS; i++)
		printf(" %10s", steps[i]);
	printf(" %8s %8s %10s\n", "entries", "all", "GPU driver");
	for (int s = 0; s < SIZES; s++) {
		struct peer_client_bench b = { .addr = va, .size = sizes[s].length, .card = where };
		double all;

		/* The first time, caches of the kernel fill. */
		for (int r = -1; r < REPEATS; r++) {
			int at = r < 0 ? 0 : r;

			if (ioctl(client, PEER_CLIENT_BENCH, &b))
				fail("a registration");
			samples[PB_STEPS][at] = 0;
			for (int i = 0; i < PB_STEPS; i++) {
				samples[i][at] = b.ticks[i];
				samples[PB_STEPS][at] += b.ticks[i];
			}
			samples[PB_STEPS + 1][at] = provider(pins, va, sizes[s].length);
		}
		printf("%-8s", sizes[s].name);
		for (int i = 0; i < PB_STEPS; i++)
			printf(" %10.0f", spread_of(samples[i], REPEATS).median);
		all = spread_of(samples[PB_STEPS], REPEATS).median;
		printf(" %8u %8.0f %10.0f", b.nmap, all, spread_of(samples[PB_STEPS + 1], REPEATS).median);
		fprintf(out, "%s %d %.0f\n", argv[1], s, all);
		if (argc > 3 && total_of(argv[2], argv[3], s)) {
			double ratio = all / total_of(argv[2], argv[3], s);

			printf("  %.2f of %s's", ratio, argv[3]);
			missed |= ratio > BUDGET;
		}
		printf("\n");
	}
	fclose(out);
	if (missed)
		fprintf(stderr, "bench-peer: over budget: more than %.1f of %s's\n", BUDGET, argv[3]);
	return missed;
}
