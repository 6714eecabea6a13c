// SPDX-License-Identifier: MIT
/*
 * oshmem.c - OpenSHMEM: put and get between each kind of memory here and the symmetric memory of the other side, 8 B to
 * 16 MiB, and atomics there.  The symmetric memory itself is host memory: Open MPI supports no other.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static const size_t sizes[] = { 8, 4 << 10, 64 << 10, 1 << 20, 16 << 20 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define LARGEST ((size_t)16 << 20)

static int me, other;
static int *failures;		/* symmetric */
static char *there;

static void line(const char *call, enum kind kind, bool right)
{
	if (!right)
		++*failures;
	shmem_barrier_all();
	if (!me) {
		int theirs;

		shmem_getmem(&theirs, failures, sizeof(theirs), other);
		printf("%s\t%s\t%s\n", call, kind_names[kind], *failures || theirs ? "WRONG" : "right");
		fflush(stdout);
	}
	shmem_barrier_all();
}

static bool put(enum kind kind, size_t size)
{
	char *mine = memory_new(kind, size);
	bool right;

	memory_fill(HOST, there, size, 1);
	memory_fill(kind, mine, size, 10 + (uint64_t)me);
	shmem_barrier_all();
	shmem_putmem(there, mine, size, other);
	shmem_quiet();
	shmem_barrier_all();
	right = memory_differs(HOST, there, size, 10 + (uint64_t)other) < 0;
	shmem_barrier_all();
	memory_end(kind, mine);
	return right;
}

static bool get(enum kind kind, size_t size)
{
	char *mine = memory_new(kind, size);
	bool right;

	memory_fill(HOST, there, size, 20 + (uint64_t)me);
	memory_fill(kind, mine, size, 2);
	shmem_barrier_all();
	shmem_getmem(mine, there, size, other);
	right = memory_differs(kind, mine, size, 20 + (uint64_t)other) < 0;
	shmem_barrier_all();
	memory_end(kind, mine);
	return right;
}

/* Both sides at once on the words of both. */
static bool atomics(void)
{
	static const int rounds = 100;
	long *word = (long *)there, old;
	bool right = true;

	memset(word, 0, 4 * sizeof(*word));
	shmem_barrier_all();
	for (int i = 0; i < rounds; i++) {
		shmem_long_atomic_add(&word[0], 3, 0);
		shmem_long_atomic_fetch_inc(&word[1], 1);
		do
			old = shmem_long_atomic_fetch(&word[2], 0);
		while (shmem_long_atomic_compare_swap(&word[2], old, old + 1, 0) != old);
	}
	shmem_barrier_all();
	if (!me)
		right = word[0] == 2L * 3 * rounds && word[2] == 2L * rounds;
	else
		right = word[1] == 2L * rounds;
	right &= shmem_long_atomic_swap(&word[3], me + 1, other) == 0;
	shmem_barrier_all();
	return right && word[3] == other + 1;
}

int main(void)
{
	bool right;
	int failed;

	shmem_init();
	me = shmem_my_pe();
	other = 1 - me;
	if (shmem_n_pes() != 2 || !memory_start(me))
		shmem_global_exit(2);
	failures = shmem_malloc(sizeof(*failures));
	there = shmem_malloc(LARGEST);
	*failures = 0;
	shmem_barrier_all();
	for (int kind = HOST; kind < KINDS; kind++) {
		right = true;
		for (size_t i = 0; i < SIZES; i++)
			right &= put(kind, sizes[i]);
		line("put", kind, right);
		right = true;
		for (size_t i = 0; i < SIZES; i++)
			right &= get(kind, sizes[i]);
		line("get", kind, right);
	}
	line("atomics", HOST, atomics());
	failed = *failures;
	shmem_barrier_all();
	shmem_finalize();
	return failed != 0;
}
