// SPDX-License-Identifier: MIT
/*
 * pairs.c - rank 0 sends from each kind of memory into each kind of memory of rank 1, 8 B to 16 MiB; every byte that
 * arrives is checked, and the bytes around it.
 *
 * Prints a line for each pair: FROM, TO, "right" or the error, the transports used with their MiB, and the MiB that
 * were copied between a GPU and host memory for it.  Exit code: 1 if anything was wrong.
 *
 *   pairs [KIND,... [KIND,...]]        from all kinds to all, or from these to those
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "memory.h"

#define GUARD ((size_t)4096)
#define POISON 0x5a5a

static const size_t sizes[] = { 8, 4 << 10, 64 << 10, 1 << 20, 16 << 20 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int rank;

/* One message; what is wrong with it at the receiver, or an empty string, at both ranks. */
static void message(enum kind from, enum kind to, size_t size, char what[80])
{
	uint64_t seed = size + from * 5 + to * 7;
	enum kind mine = rank ? to : from;
	size_t all = size + 2 * GUARD;
	char *p = memory_new(mine, all), *inside = p + GUARD;
	uint64_t *edge = memory_new(HOST, all);
	long at = -1;

	what[0] = 0;
	pattern(edge, all, POISON);
	memory_put(mine, p, edge, all);
	if (!rank) {
		memory_fill(mine, inside, size, seed);
		MPI_Send(inside, (int)size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	} else {
		MPI_Recv(inside, (int)size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		at = memory_differs(mine, inside, size, seed);
		if (at >= 0)
			snprintf(what, 80, "WRONG at byte %ld of %zu", at, size);
		pattern((uint64_t *)((char *)edge + GUARD), size, seed);
		if (at < 0) {
			unsigned char *have = memory_new(HOST, all);

			memory_get(mine, have, p, all);
			if (memcmp(have, edge, all))
				snprintf(what, 80, "WRONG beside the %zu bytes", size);
			free(have);
		}
	}
	free(edge);
	memory_end(mine, p);
	MPI_Bcast(what, 80, MPI_CHAR, 1, MPI_COMM_WORLD);
}

/* The other rank's counters, added to rank 0's. */
static void gather(struct counters *used)
{
	struct counters theirs, none = { .count = 0 };

	if (rank) {
		MPI_Send(used, sizeof(*used), MPI_BYTE, 0, 2, MPI_COMM_WORLD);
	} else {
		MPI_Recv(&theirs, sizeof(theirs), MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		counters_add(used, &theirs, &none);
	}
}

static bool is_staging(const char *name)
{
	return !strcmp(name, "cuda_copy") || !strcmp(name, "rocm_cpy");
}

static void show(enum kind from, enum kind to, const char *what, const struct counters *used, bool counted)
{
	double staged = 0;

	printf("%s\t%s\t%s\t", kind_names[from], kind_names[to], *what ? what : "right");
	for (int i = 0; i < used->count; i++) {
		double mib = (double)used->of[i].bytes / (1 << 20);

		if (is_staging(used->of[i].name))
			staged += mib;
		else if (mib >= 0.05)
			printf("%s %.1f ", strcmp(used->of[i].name, "memory") ? used->of[i].name : "shm", mib);
	}
	printf(counted ? "\t%.1f\n" : "\t?\n", staged);
	fflush(stdout);
}

static bool pair(enum kind from, enum kind to)
{
	struct counters before, after, used = { .count = 0 };
	char what[80] = "", first[80] = "";
	bool counted;

	MPI_Barrier(MPI_COMM_WORLD);
	counted = counters_read(&before);
	for (size_t i = 0; i < SIZES; i++) {
		message(from, to, sizes[i], what);
		if (*what && !*first)
			strcpy(first, what);
	}
	counted &= counters_read(&after);
	counters_add(&used, &after, &before);
	gather(&used);
	if (!rank)
		show(from, to, first, &used, counted);
	return !*first;
}

int main(int argc, char **argv)
{
	bool right = true;
	int ranks, all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2 || !memory_start(rank)) {
		fprintf(stderr, "pairs: two ranks, each with a GPU\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int from = HOST; from < KINDS; from++) {
		for (int to = HOST; to < KINDS; to++) {
			if (is_asked(argc, argv, 1, from) && is_asked(argc, argv, 2, to))
				right &= pair(from, to);
		}
	}
	all = right;
	MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	MPI_Finalize();
	return !all;
}
