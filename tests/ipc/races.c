// SPDX-License-Identifier: MIT
/*
 * races.c - two processes at the same moment.
 *
 *   races copies	an export ends, and its memory is written over, while another copies from it
 *   races wakes	a signal is set just as another goes to sleep for it
 */
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "peerdma.h"
#include "peerdma_ipc.h"
#include "until_woken.h"
#include "util.h"

#define LENGTH	(128UL << 10)

static struct shared {
	_Atomic uint64_t posted, opened, closed;	/* rounds */
	_Atomic uint64_t copies;
	struct peerdma_ipc_handle handle;
	_Atomic uint64_t failures;
} *shared;

static uint64_t state = 1;

static void spin_ns(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (now_ns() < end)
		;
}

static void await(_Atomic uint64_t *word, uint64_t value)
{
	for (int i = 0; atomic_load(word) < value; i++) {
		if (i > 1000)
			sched_yield();
	}
}

/* ---- copies ---- */

static void exporter(uint64_t rounds)
{
	void *v;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	MUST(!peerdma_ipc_alloc(LENGTH, 0, &v), "alloc");
	for (uint64_t i = 1; i <= rounds; i++) {
		memset(v, 1, LENGTH);
		MUST(!peerdma_ipc_export(v, LENGTH, 0, &shared->handle), "export");
		atomic_store(&shared->posted, i);
		await(&shared->opened, i);
		/* On a busy machine the other process would never be as far. */
		if (i % 4 == 1)
			await(&shared->copies, i / 4 + 1);
		spin_ns(below(&state, 100000));
		MUST(!peerdma_ipc_unexport(&shared->handle), "unexport");
		/* It is this process's alone again, for something else. */
		memset(v, 2, LENGTH);
		await(&shared->closed, i);
	}
	_exit(0);
}

static bool all_ones(const char *p)
{
	return *p == 1 && !memcmp(p, p + 1, LENGTH - 1);
}

static int copies(uint64_t rounds)
{
	uint64_t good = 0, stale = 0, wrong = 0;
	char *local = malloc(LENGTH);
	pid_t pid = fork();

	if (!pid)
		exporter(rounds);
	for (uint64_t i = 1; i <= rounds; i++) {
		struct peerdma_ipc_transfer t = { .size = sizeof(t), .local = local, .length = LENGTH, .flags = PEERDMA_IPC_READ };
		int ret;

		await(&shared->posted, i);
		MUST(!peerdma_ipc_open(&shared->handle, sizeof(shared->handle), 0, &t.memory), "open");
		atomic_store(&shared->opened, i);
		while (!(ret = peerdma_ipc_copy(&t, 1, NULL, 0))) {
			good++;
			atomic_store(&shared->copies, good);
			wrong += !all_ones(local);
		}
		stale += ret == -ESTALE;
		peerdma_ipc_close(t.memory);
		atomic_store(&shared->closed, i);
	}
	waitpid(pid, NULL, 0);
	printf("%llu copies, %llu refused as stale, %llu with bytes that were not exported\n", (unsigned long long)good,
	       (unsigned long long)stale, (unsigned long long)wrong);
	free(local);
	return wrong || stale != rounds || !good;
}

/* ---- wakes ---- */

static void setter(uint64_t rounds)
{
	struct peerdma_ipc_signal *s;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	MUST(!peerdma_ipc_signal_create(0, 0, &s) && !peerdma_ipc_signal_export(s, &shared->handle), "create");
	atomic_store(&shared->posted, 1);
	for (uint64_t i = 1; i <= rounds; i++) {
		await(&shared->opened, i);
		/* About when it goes to sleep. */
		spin_ns(15000 + below(&state, 15000));
		MUST(!peerdma_ipc_signal_set(s, i), "set");
		await(&shared->closed, i);
	}
	_exit(0);
}

static int wakes(uint64_t rounds)
{
	struct peerdma_ipc_signal *s;
	pid_t pid = fork();

	if (!pid)
		setter(rounds);
	await(&shared->posted, 1);
	MUST(!peerdma_ipc_signal_open(&shared->handle, sizeof(shared->handle), &s), "open");
	until_woken = true;
	for (uint64_t i = 1; i <= rounds; i++) {
		atomic_store(&shared->opened, i);
		MUST(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, i, UINT64_MAX, NULL), "wait");
		atomic_store(&shared->closed, i);
	}
	peerdma_ipc_signal_close(s);
	waitpid(pid, NULL, 0);
	printf("%llu waits, each woken\n", (unsigned long long)rounds);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc == 3 && !strcmp(argv[1], "copies"))
		return copies(rounds);
	if (argc == 3 && !strcmp(argv[1], "wakes"))
		return wakes(rounds);
	fprintf(stderr, "usage: races copies|wakes ROUNDS\n");
	return 2;
}
