// SPDX-License-Identifier: MIT
/*
 * charged.c - what the adapter needs for a program's regions is charged to its memory cgroup, also after their dma-buf has
 * moved, when a worker of the kernel maps them again.
 *
 *	mover_fd LENGTH charged ADAPTER MEMORY.STAT	that file of the cgroup that the program is in
 */
#include <fcntl.h>

#include "pair.h"

#define REGIONS 600
#define LEAST (REGIONS * 48)	/* bytes: one description of consecutive addresses for each region */
#define LENGTH 4096UL

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	MUST(value, "usage: mover_fd LENGTH charged ADAPTER MEMORY.STAT");
	return value;
}

/* Bytes of the kernel's small objects. */
static long charged(const char *path)
{
	char line[128];
	long bytes = -1;
	FILE *file;

	sleep(3);	/* newer kernels add up small changes every two seconds */
	file = fopen(path, "r");
	MUST(file, "%s", path);
	while (bytes < 0 && fgets(line, sizeof(line), file))
		(void)sscanf(line, "slab_unreclaimable %ld", &bytes);
	fclose(file);
	MUST(bytes >= 0, "%s: no slab_unreclaimable", path);
	return bytes;
}

static void move(void)
{
	int fd = open(variable("MOVER_CONTROL"), O_WRONLY | O_CLOEXEC);

	MUST(fd >= 0 && write(fd, "move", 4) == 4, "move");
	close(fd);
}

int main(int argc, char **argv)
{
	struct request r = { .opcode = IBV_WR_RDMA_WRITE, .length = 8 };
	int fd = atoi(variable("MOVER_FD")), i;
	struct ibv_mr *mrs[REGIONS];
	long none, first, again;
	struct pair p;

	MUST(argc == 3, "usage: mover_fd LENGTH charged ADAPTER MEMORY.STAT");
	pair_open(&p, argv[1], 0);
	none = charged(argv[2]);
	for (i = 0; i < REGIONS; i++) {
		mrs[i] = ibv_reg_dmabuf_mr(p.pd, 0, LENGTH, 0, fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		MUST(mrs[i], "a dma-buf cannot be registered");
	}
	first = charged(argv[2]);
	MUST(first - none >= LEAST, "%ld bytes are charged for %d regions", first - none, REGIONS);
	move();
	for (i = 0; i < REGIONS; i++) {
		r.local = mrs[i];
		r.rkey = mrs[i]->rkey;
		MUST(pair_do(&p, &r) == IBV_WC_SUCCESS, "a write to memory that has moved");
	}
	again = charged(argv[2]);
	printf("%d regions: %ld bytes are charged, and %ld after a move\n", REGIONS, first - none, again - none);
	for (i = 0; i < REGIONS; i++)
		MUST(!ibv_dereg_mr(mrs[i]), "ibv_dereg_mr");
	pair_close(&p);
	/* Half of that: the kernel counts in batches. */
	return again < first - LEAST / 2;
}
