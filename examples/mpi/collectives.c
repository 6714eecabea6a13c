// SPDX-License-Identifier: MIT
/*
 * collectives.c - the common collectives on each kind of memory, 8 B to 1 MiB for each rank; every byte is checked.
 * Prints a line for each: COLLECTIVE, KIND, "right" or the error.  The argument, if any, is a list of kinds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static const size_t sizes[] = { 8, 64 << 10, 1 << 20 };

static int rank, ranks;

/* What rank r contributes, piece by piece for those who get different ones. */
static uint64_t seed_of(int r, int piece)
{
	return (uint64_t)r * 100 + (uint64_t)piece + 1;
}

struct buffers {
	enum kind kind;
	size_t size;
	char *send, *recv;	/* of `ranks' pieces */
};

static void make(struct buffers *b, enum kind kind, size_t size)
{
	*b = (struct buffers){ .kind = kind, .size = size };
	b->send = memory_new(kind, size * (size_t)ranks);
	b->recv = memory_new(kind, size * (size_t)ranks);
	for (int i = 0; i < ranks; i++) {
		memory_fill(kind, b->send + (size_t)i * size, size, seed_of(rank, i));
		memory_fill(kind, b->recv + (size_t)i * size, size, 9999);
	}
}

static void end(struct buffers *b)
{
	memory_end(b->kind, b->send);
	memory_end(b->kind, b->recv);
}

static bool piece_is(const struct buffers *b, const char *at, int i, uint64_t seed)
{
	return memory_differs(b->kind, at + (size_t)i * b->size, b->size, seed) < 0;
}

static bool bcast(struct buffers *b)
{
	MPI_Bcast(b->send, (int)b->size, MPI_BYTE, 0, MPI_COMM_WORLD);
	return piece_is(b, b->send, 0, seed_of(0, 0));
}

static bool gather(struct buffers *b)
{
	bool right = true;

	MPI_Gather(b->send, (int)b->size, MPI_BYTE, b->recv, (int)b->size, MPI_BYTE, 0, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		right &= piece_is(b, b->recv, i, rank ? 9999 : seed_of(i, 0));
	return right;
}

static bool scatter(struct buffers *b)
{
	MPI_Scatter(b->send, (int)b->size, MPI_BYTE, b->recv, (int)b->size, MPI_BYTE, 0, MPI_COMM_WORLD);
	return piece_is(b, b->recv, 0, seed_of(0, rank));
}

static bool allgather(struct buffers *b)
{
	bool right = true;

	MPI_Allgather(b->send, (int)b->size, MPI_BYTE, b->recv, (int)b->size, MPI_BYTE, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		right &= piece_is(b, b->recv, i, seed_of(i, 0));
	return right;
}

static bool alltoall(struct buffers *b)
{
	bool right = true;

	MPI_Alltoall(b->send, (int)b->size, MPI_BYTE, b->recv, (int)b->size, MPI_BYTE, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		right &= piece_is(b, b->recv, i, seed_of(i, rank));
	return right;
}

/* Sums of words, as they wrap around. */
static bool sums(struct buffers *b, bool at_all)
{
	size_t words = b->size / sizeof(uint64_t);
	uint64_t *have = memory_new(HOST, b->size), *want = memory_new(HOST, b->size), *term = memory_new(HOST, b->size);
	bool right;

	memset(want, 0, b->size);
	for (int r = 0; r < ranks; r++) {
		pattern(term, b->size, seed_of(r, 0));
		for (size_t i = 0; i < words; i++)
			want[i] += term[i];
	}
	memory_get(b->kind, have, b->recv, b->size);
	right = at_all ? !memcmp(have, want, b->size) : piece_is(b, b->recv, 0, 9999);
	free(have);
	free(want);
	free(term);
	return right;
}

static bool reduce(struct buffers *b)
{
	MPI_Reduce(b->send, b->recv, (int)(b->size / 8), MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	return sums(b, !rank);
}

static bool allreduce(struct buffers *b)
{
	MPI_Allreduce(b->send, b->recv, (int)(b->size / 8), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	return sums(b, true);
}

static const struct collective {
	const char *name;
	bool (*run)(struct buffers *b);
} collectives[] = {
	{ "Bcast", bcast }, { "Gather", gather }, { "Scatter", scatter }, { "Allgather", allgather },
	{ "Alltoall", alltoall }, { "Reduce", reduce }, { "Allreduce", allreduce },
};

/* Whether it was right at each rank. */
static bool run(const struct collective *c, enum kind kind)
{
	char what[80] = "right";
	bool all_right = true;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct buffers b;
		int right;

		make(&b, kind, sizes[i]);
		right = c->run(&b);
		MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		end(&b);
		if (!right && all_right)
			snprintf(what, sizeof(what), "WRONG with %zu bytes", sizes[i]);
		all_right &= right;
	}
	if (!rank) {
		printf("%s\t%s\t%s\n", c->name, kind_names[kind], what);
		fflush(stdout);
	}
	return all_right;
}

int main(int argc, char **argv)
{
	bool right = true;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (!memory_start(rank))
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
		for (int kind = HOST; kind < KINDS; kind++) {
			if (is_asked(argc, argv, 1, kind))
				right &= run(&collectives[i], kind);
		}
	}
	MPI_Finalize();
	return !right;
}
