// SPDX-License-Identifier: MIT
/*
 * collectives.c - the common collectives from each kind of memory into each kind, 8 B to 16 MiB for each rank; every byte is
 * checked.  Prints a line for each collective and kind to send from: COLLECTIVE, FROM, "right" or the first error.
 *
 *   collectives [KIND,... [KIND,...]]        from all kinds into all, or from these into those
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static const size_t sizes[] = { 8, 64 << 10, 1 << 20, 16 << 20 };

static int rank, ranks;

/* What rank r contributes, piece by piece for those who get different ones. */
static uint64_t seed_of(int r, int piece)
{
	return (uint64_t)r * 100 + (uint64_t)piece + 1;
}

/* What a buffer holds that nothing was received into. */
#define UNTOUCHED 9999

struct buffer {
	enum kind kind;
	char *p;	/* `ranks' pieces */
};

struct buffers {
	struct buffer send, recv;
	size_t size;	/* of a piece */
	int count;	/* the same, for MPI */
};

static void make(struct buffers *b, enum kind from, enum kind to, size_t size)
{
	*b = (struct buffers){ .send.kind = from, .recv.kind = to, .size = size, .count = (int)size };
	b->send.p = memory_new(from, size * (size_t)ranks);
	b->recv.p = memory_new(to, size * (size_t)ranks);
	for (int i = 0; i < ranks; i++) {
		memory_fill(from, b->send.p + (size_t)i * size, size, seed_of(rank, i));
		memory_fill(to, b->recv.p + (size_t)i * size, size, UNTOUCHED);
	}
}

static void end(struct buffers *b)
{
	memory_end(b->send.kind, b->send.p);
	memory_end(b->recv.kind, b->recv.p);
}

/* Whether piece i of what was received has these words. */
static bool got(const struct buffers *b, int i, uint64_t seed)
{
	return memory_differs(b->recv.kind, b->recv.p + (size_t)i * b->size, b->size, seed) < 0;
}

/* The root sends from one kind, and the others receive into the other. */
static bool bcast(struct buffers *b)
{
	MPI_Bcast(rank ? b->recv.p : b->send.p, b->count, MPI_BYTE, 0, MPI_COMM_WORLD);
	return got(b, 0, rank ? seed_of(0, 0) : UNTOUCHED);
}

static bool gather(struct buffers *b)
{
	bool right = true;

	MPI_Gather(b->send.p, b->count, MPI_BYTE, b->recv.p, b->count, MPI_BYTE, 0, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		right &= got(b, i, rank ? UNTOUCHED : seed_of(i, 0));
	return right;
}

static bool scatter(struct buffers *b)
{
	MPI_Scatter(b->send.p, b->count, MPI_BYTE, b->recv.p, b->count, MPI_BYTE, 0, MPI_COMM_WORLD);
	return got(b, 0, seed_of(0, rank));
}

static bool allgather(struct buffers *b)
{
	bool right = true;

	MPI_Allgather(b->send.p, b->count, MPI_BYTE, b->recv.p, b->count, MPI_BYTE, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		right &= got(b, i, seed_of(i, 0));
	return right;
}

static bool alltoall(struct buffers *b)
{
	bool right = true;

	MPI_Alltoall(b->send.p, b->count, MPI_BYTE, b->recv.p, b->count, MPI_BYTE, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		right &= got(b, i, seed_of(i, rank));
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
	memory_get(b->recv.kind, have, b->recv.p, b->size);
	right = at_all ? !memcmp(have, want, b->size) : got(b, 0, UNTOUCHED);
	free(have);
	free(want);
	free(term);
	return right;
}

static bool reduce(struct buffers *b)
{
	MPI_Reduce(b->send.p, b->recv.p, b->count / 8, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	return sums(b, !rank);
}

static bool allreduce(struct buffers *b)
{
	MPI_Allreduce(b->send.p, b->recv.p, b->count / 8, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	return sums(b, true);
}

static const struct collective {
	const char *name;
	bool (*run)(struct buffers *b);
} collectives[] = {
	{ "Bcast", bcast }, { "Gather", gather }, { "Scatter", scatter }, { "Allgather", allgather },
	{ "Alltoall", alltoall }, { "Reduce", reduce }, { "Allreduce", allreduce },
};

/* Whether it is right at each rank. */
static bool is_right(const struct collective *c, enum kind from, enum kind to, size_t size)
{
	struct buffers b;
	int right;

	make(&b, from, to, size);
	right = c->run(&b);
	MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	end(&b);
	return right;
}

/* Into all kinds, or those of the second argument. */
static bool run(const struct collective *c, enum kind from, int argc, char **argv)
{
	char what[80] = "right";
	bool all_right = true;

	for (int to = HOST; to < KINDS; to++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && is_asked(argc, argv, 2, to); i++) {
			bool right = is_right(c, from, to, sizes[i]);

			if (!right && all_right)
				snprintf(what, sizeof(what), "WRONG into %s with %zu bytes", kind_names[to], sizes[i]);
			all_right &= right;
		}
	}
	if (!rank) {
		printf("%s\t%s\t%s\n", c->name, kind_names[from], what);
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
		for (int from = HOST; from < KINDS; from++) {
			if (is_asked(argc, argv, 1, from))
				right &= run(&collectives[i], from, argc, argv);
		}
	}
	MPI_Finalize();
	return !right;
}
