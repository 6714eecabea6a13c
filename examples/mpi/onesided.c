// SPDX-License-Identifier: MIT
/*
 * onesided.c - MPI's windows in each kind of memory: rank 0 puts into rank 1's window and gets from it, 8 B to 16 MiB, from
 * memory of the same kind, and both add to a counter there.  Prints a line for each kind.  The argument, if any, is a
 * list of kinds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"

static const size_t sizes[] = { 8, 4 << 10, 64 << 10, 1 << 20, 16 << 20 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define LARGEST ((size_t)16 << 20)

static int rank;

static int agree(int right)
{
	MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	return right;
}

static void line(const char *call, enum kind kind, int right)
{
	if (rank)
		return;
	printf("%s\t%s\t%s\n", call, kind_names[kind], right ? "right" : "WRONG");
	fflush(stdout);
}

static int put(MPI_Win win, enum kind kind, char *window, char *mine, size_t size)
{
	memory_fill(kind, rank ? window : mine, size, rank ? 5 : size);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank) {
		MPI_Put(mine, (int)size, MPI_BYTE, 1, 0, (int)size, MPI_BYTE, win);
		MPI_Win_flush(1, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	return agree(!rank || memory_differs(kind, window, size, size) < 0);
}

static int get(MPI_Win win, enum kind kind, char *window, char *mine, size_t size)
{
	memory_fill(kind, rank ? window : mine, size, rank ? size + 1 : 6);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank) {
		MPI_Get(mine, (int)size, MPI_BYTE, 1, 0, (int)size, MPI_BYTE, win);
		MPI_Win_flush(1, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	return agree(rank || memory_differs(kind, mine, size, size + 1) < 0);
}

static int add(MPI_Win win, enum kind kind, char *window)
{
	int64_t zero = 0, three = 3, seen = 0;

	memory_put(kind, window, &zero, sizeof(zero));
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 100; i++) {
		MPI_Fetch_and_op(&three, &seen, MPI_INT64_T, 1, 0, MPI_SUM, win);
		MPI_Win_flush(1, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	memory_get(kind, &seen, window, sizeof(seen));
	return agree(!rank || seen == 2 * 100 * 3);
}

int main(int argc, char **argv)
{
	bool all = true;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!memory_start(rank))
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int kind = HOST; kind < KINDS; kind++) {
		char *window, *mine;
		int right = 1;
		MPI_Win win;

		if (!is_asked(argc, argv, 1, kind))
			continue;
		window = memory_new(kind, LARGEST);
		mine = memory_new(kind, LARGEST);
		MPI_Win_create(window, LARGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
		MPI_Win_lock_all(0, win);
		for (size_t i = 0; i < SIZES; i++)
			right &= put(win, kind, window, mine, sizes[i]);
		line("Put", kind, right);
		all &= right;
		right = 1;
		for (size_t i = 0; i < SIZES; i++)
			right &= get(win, kind, window, mine, sizes[i]);
		line("Get", kind, right);
		all &= right;
		/* UCX's processor does it at the other end, and cannot reach this memory: it would crash. */
		right = kind == CUDA || add(win, kind, window);
		if (kind != CUDA)
			line("Fetch_and_op", kind, right);
		all &= right;
		MPI_Win_unlock_all(win);
		MPI_Win_free(&win);
		memory_end(kind, window);
		memory_end(kind, mine);
	}
	MPI_Finalize();
	return !all;
}
