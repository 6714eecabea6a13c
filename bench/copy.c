// SPDX-License-Identifier: MIT
/*
 * bench-copy - how fast the software GPU's copy engines move bytes, against
 * memcpy of the same sizes in the same run.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cu.h"
#include "options.h"
#include "stats.h"

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

static struct options options = { .repeats = 11 };

static double samples[LENGTHS][PATHS][MAX_REPEATS];
static struct stats results[LENGTHS][PATHS];
static void *host[2];
static CUdeviceptr device[2];

/* MiB per second */
static double run_one(enum path path, uint64_t length)
{
	double begin = now_ns();

	switch (path) {
	case MEMCPY:
		memcpy(host[1], host[0], length);
		__asm__ volatile("" : : "r"(host[1]) : "memory");
		break;
	case DTOD:
		cu_check(cu.copy_dtod(device[1], device[0], length, NULL), "cuMemcpyDtoDAsync");
		cu_check(cu.synchronize(), "cuCtxSynchronize");
		break;
	case HTOD:
		cu_check(cu.copy_htod(device[0], host[0], length), "cuMemcpyHtoD");
		break;
	default:
		cu_check(cu.copy_dtoh(host[1], device[1], length), "cuMemcpyDtoH");
	}
	return length / 1048576.0 / ((now_ns() - begin) / 1e9);
}

static double ratio(int l, enum path p)
{
	return results[l][p].median / results[l][MEMCPY].median;
}

static void print_table(void)
{
	int l, p;

	printf("copies, MiB/s (median of %d, min to max); softgpu is a software GPU: its bandwidth is the CPU's and says nothing about hardware\n\n",
	       options.repeats);
	printf("%-8s", "");
	for (p = 0; p < PATHS; p++)
		printf(" %26s", path_names[p]);
	printf("\n");
	for (l = 0; l < LENGTHS; l++) {
		printf("%4llu MiB", (unsigned long long)lengths[l] >> 20);
		for (p = 0; p < PATHS; p++) {
			const struct stats *s = &results[l][p];

			printf(" %6.0f (%5.0f..%5.0f)", s->median, s->min, s->max);
			if (p == MEMCPY)
				printf("      ");
			else
				printf(" %4.0f%%", 100 * ratio(l, p));
		}
		printf("\n");
	}
	printf("\npercent: of memcpy's median; at least %.0f%% is the target\n", 100 * TARGET);
}

static void print_json(void)
{
	int l, p;

	printf("{\"bench\": \"copy\", \"gpu\": \"softgpu, a software GPU: says nothing about hardware\", \"unit\": \"MiB/s\", \"repeats\": %d, \"results\": [",
	       options.repeats);
	for (l = 0; l < LENGTHS; l++) {
		printf("%s\n {\"length\": %llu", l ? "," : "", (unsigned long long)lengths[l]);
		for (p = 0; p < PATHS; p++)
			printf(", \"%s\": {\"min\": %.1f, \"median\": %.1f, \"max\": %.1f}", path_names[p],
			       results[l][p].min, results[l][p].median, results[l][p].max);
		printf("}");
	}
	printf("]}\n");
}

static int judge(void)
{
	int l, p, missed = 0;

	for (l = 0; l < LENGTHS; l++)
		for (p = DTOD; p < PATHS; p++)
			missed |= ratio(l, p) < TARGET;
	if (missed)
		fprintf(stderr, "bench-copy: below target: the copy engines move less than %.0f%% of memcpy's bandwidth\n",
			100 * TARGET);
	return missed;
}

int main(int argc, char **argv)
{
	int r, l, p;

	options_take(&options, argc, argv, "bench-copy");
	cu_start(1);
	for (r = 0; r < 2; r++) {
		host[r] = mmap(NULL, MAX_LENGTH + APART, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (host[r] == MAP_FAILED) {
			perror("bench-copy: host memory");
			return 1;
		}
		host[r] = (char *)host[r] + r * APART;
		memset(host[r], 1 + r, MAX_LENGTH);
		device[r] = cu_alloc(MAX_LENGTH + APART) + r * APART;
	}

	/* Interleaved; the first round warms up and does not count. */
	for (r = -1; r < options.repeats; r++)
		for (l = 0; l < LENGTHS; l++)
			for (p = 0; p < PATHS; p++)
				samples[l][p][r < 0 ? 0 : r] = run_one(p, lengths[l]);
	for (l = 0; l < LENGTHS; l++)
		for (p = 0; p < PATHS; p++)
			results[l][p] = stats_of(samples[l][p], options.repeats);
	if (options.json)
		print_json();
	else
		print_table();
	return judge();
}
