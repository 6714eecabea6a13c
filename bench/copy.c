// SPDX-License-Identifier: MIT
/*
 * bench-copy - how fast the software GPU's copy engines move bytes, against
 * memcpy of the same sizes in the same run.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "comparison.h"
#include "gpu_need.h"

#define MAX_LENGTH	(64ULL << 20)
/*
 * An emulated processor finds pages in a table by the low bits of their number:
 * two places a power of two apart would evict one another with every access.
 */
#define APART		(37 * 4096)
#define TARGET		0.8

enum path { MEMCPY, DTOD, HTOD, DTOH, PATHS };

static const char *const path_names[PATHS] = { "memcpy", "DtoD", "HtoD", "DtoH" };
static const uint64_t lengths[] = { 1 << 20, 4 << 20, 16 << 20, MAX_LENGTH };
#define LENGTHS		((int)(sizeof(lengths) / sizeof(lengths[0])))
static const char *const length_names[LENGTHS] = { "1 MiB", "4 MiB", "16 MiB", "64 MiB" };

static void *host[2];
static uint64_t device[2];

/* MiB per second */
static double measure(int row, int path)
{
	uint64_t length = lengths[row];
	double begin = now_ns();

	switch (path) {
	case MEMCPY:
		memcpy(host[1], host[0], length);
		__asm__ volatile("" : : "r"(host[1]) : "memory");
		break;
	case DTOD:
		gpu_check(gpu.copy_dtod(device[1], device[0], length, NULL), "cuMemcpyDtoDAsync");
		gpu_check(gpu.synchronize(), "cuCtxSynchronize");
		break;
	case HTOD:
		gpu_check(gpu.copy_htod(device[0], host[0], length), "cuMemcpyHtoD");
		break;
	default:
		gpu_check(gpu.copy_dtoh(host[1], device[1], length), "cuMemcpyDtoH");
	}
	return length / 1048576.0 / ((now_ns() - begin) / 1e9);
}

static struct comparison c = {
	.program = "bench-copy", .rounds = 11, .rows = length_names, .row_count = LENGTHS, .subjects = path_names,
	.subject_count = PATHS, .measure = measure,
	.what = "copies, MiB/s; softgpu's bandwidth is the CPU's and says nothing about hardware",
};

static int judge(void)
{
	int l, p, missed = 0;

	for (l = 0; l < LENGTHS; l++)
		for (p = DTOD; p < PATHS; p++)
			missed |= value_of(&c, l, p) < TARGET * value_of(&c, l, MEMCPY);
	if (missed)
		fprintf(stderr, "bench-copy: below target: the copy engines move less than %.0f%% of memcpy's bandwidth\n",
			100 * TARGET);
	return missed;
}

int main(int argc, char **argv)
{
	int r;

	comparison_options(&c, argc, argv);
	gpu_need(false, 1);
	for (r = 0; r < 2; r++) {
		host[r] = mmap(NULL, MAX_LENGTH + APART, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (host[r] == MAP_FAILED) {
			perror("bench-copy: host memory");
			return 1;
		}
		host[r] = (char *)host[r] + r * APART;
		memset(host[r], 1 + r, MAX_LENGTH);
		device[r] = gpu_need_memory(MAX_LENGTH + APART) + r * APART;
	}

	comparison_run(&c);
	comparison_print(&c);
	return judge();
}
