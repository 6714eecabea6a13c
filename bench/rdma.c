// SPDX-License-Identifier: MIT
/*
 * bench-rdma - how fast the software RDMA adapter writes GPU memory, registered as peer memory and as a dma-buf, against
 * host memory, in turns.  One process, two queue pairs of the adapter; what is written comes from host memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"
#include "memory.h"
#include "pair.h"

#define ADAPTER		"rxe0"
#define MAX_LENGTH	(1UL << 20)
#define IN_FLIGHT	16
#define TARGET		0.95

static const enum memory_kind kinds[] = { MEMORY_HOST, MEMORY_PEER, MEMORY_DMABUF };
static const char *const names[] = { "host memory", "peer memory", "dma-buf" };
static const unsigned long lengths[] = { 4096, 65536, MAX_LENGTH };
#define KINDS	((int)(sizeof(kinds) / sizeof(*kinds)))
#define LENGTHS	((int)(sizeof(lengths) / sizeof(*lengths)))

static const char *const length_names[LENGTHS] = { "4 KiB", "64 KiB", "1 MiB" };
static struct pair p;
static struct memory source, target[KINDS];
static struct ibv_mr *source_mr, *target_mr[KINDS];

/* Enough for the clock, and not more than a turn should take. */
static int writes(unsigned long length)
{
	return length == MAX_LENGTH ? 4 : (int)((2 << 20) / length);
}

/*
 * MiB per second. Writes go from one end to the other: an emulated processor finds pages in a table by the low bits of
 * their number, and one page for all of them might meet another there each time.
 */
static double measure(int row, int kind)
{
	const unsigned long length = lengths[row];
	const int n = writes(length);
	struct request r = {
		.opcode = IBV_WR_RDMA_WRITE, .local = source_mr, .length = (uint32_t)length, .rkey = target_mr[kind]->rkey,
	};
	int posted = 0, done = 0;
	double begin = now_ns();

	while (done < n) {
		if (posted < n && posted - done < IN_FLIGHT) {
			unsigned long at = (unsigned long)posted * length % MAX_LENGTH;

			r.local_addr = source.addr + at;
			r.remote_addr = target[kind].addr + at;
			if (pair_post(&p, 0, &r))
				die("posting a write");
			posted++;
			continue;
		}
		if (pair_wait(&p, 0, NULL) != IBV_WC_SUCCESS)
			die("a write to %s failed", names[kind]);
		done++;
	}
	return (double)n * (double)length / 1048576.0 / ((now_ns() - begin) / 1e9);
}

/* The bytes are there, after writes of other bytes than before. */
static void check(int kind)
{
	static unsigned char expected[MAX_LENGTH], seen[MAX_LENGTH];
	size_t i;

	for (i = 0; i < MAX_LENGTH; i++)
		expected[i] = (unsigned char)(rand() >> 7);
	memory_write(&source, 0, expected, MAX_LENGTH);
	measure(LENGTHS - 1, kind);
	memory_read(&target[kind], 0, seen, MAX_LENGTH);
	if (memcmp(expected, seen, MAX_LENGTH)) {
		fprintf(stderr, "bench-rdma: %s has other bytes than were written\n", names[kind]);
		exit(1);
	}
}

static struct comparison c = {
	.program = "bench-rdma", .rounds = 61, .rows = length_names, .row_count = LENGTHS, .subjects = names,
	.subject_count = KINDS, .measure = measure,
	.what = "RDMA writes, MiB/s; a software adapter and a software GPU: no figure says anything about hardware",
};

static int judge(void)
{
	int l, k, missed = 0;

	for (l = 0; l < LENGTHS; l++)
		for (k = 1; k < KINDS; k++)
			missed |= compared(&c, l, k)->ratio.median < TARGET;
	if (missed)
		fprintf(stderr, "bench-rdma: below target: less than %.2f of the bandwidth to host memory\n", TARGET);
	return missed;
}

int main(int argc, char **argv)
{
	int k;

	comparison_options(&c, argc, argv);
	pair_open(&p, ADAPTER, 0);
	memory_alloc(&source, MEMORY_HOST, MAX_LENGTH);
	memory_fill(&source, 1);
	source_mr = memory_register(&source, p.pd);
	for (k = 0; k < KINDS; k++) {
		memory_alloc(&target[k], kinds[k], MAX_LENGTH);
		memory_fill(&target[k], 2);
		target_mr[k] = memory_register(&target[k], p.pd);
	}
	comparison_run(&c);
	for (k = 0; k < KINDS; k++)
		check(k);
	for (k = 0; k < KINDS; k++) {
		if (ibv_dereg_mr(target_mr[k]))
			die("ibv_dereg_mr");
		memory_free(&target[k]);
	}
	if (ibv_dereg_mr(source_mr))
		die("ibv_dereg_mr");
	pair_close(&p);
	comparison_print(&c);
	return judge();
}
