// SPDX-License-Identifier: MIT
/*
 * late_setter.c - a setter that stops anywhere in the middle of its call does not make others sleep for ever.
 *
 * Three processes have a signal open. The second, late, adds 0. In each round it is stopped after another
 * number of instructions. Then this process waits for the signal, and just before it sleeps, late goes on to
 * the end of its call. Some time after that the third process sets the value, which must wake this process.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "../lib/checks.h"
#include "peerdma_ipc.h"
#include "syscalls.h"

#define MOST_STEPS	100000

static struct shared {
	struct peerdma_ipc_handle handle;
	_Atomic uint64_t asked, done;	/* rounds, of the setter */
} *shared;

static pid_t late;
static bool late_is_stopped;	/* in the middle of its call */
static uint64_t round_number;
static unsigned int sleeps, lost;

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static struct peerdma_ipc_signal *opened(void)
{
	struct peerdma_ipc_signal *s;

	MUST(!peerdma_ipc_signal_open(&shared->handle, sizeof(shared->handle), &s), "open");
	return s;
}

/* Stops itself, adds 0, and so on. */
static void be_late(void)
{
	struct peerdma_ipc_signal *s = opened();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	for (;;) {
		raise(SIGSTOP);
		MUST(!peerdma_ipc_signal_add(s, 0), "add");
	}
}

static void set(void)
{
	struct peerdma_ipc_signal *s = opened();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t i = 1;; i++) {
		while (atomic_load(&shared->asked) < i)
			pause_ms(1);
		/* By now the other sleeps. */
		pause_ms(3);
		MUST(!peerdma_ipc_signal_set(s, i), "set");
		atomic_store(&shared->done, i);
	}
}

/* Where it stopped: true at the end of its call. */
static bool at_its_end(void)
{
	int status;

	MUST(waitpid(late, &status, 0) == late && WIFSTOPPED(status), "the late setter ended");
	return WSTOPSIG(status) == SIGSTOP;
}

/* Lets it do so many instructions of its next call: false, it was at the end before. */
static bool step(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		ptrace(PTRACE_SINGLESTEP, late, NULL, NULL);
		if (at_its_end())
			return false;
	}
	return true;
}

static void finish(void)
{
	if (!late_is_stopped)
		return;
	late_is_stopped = false;
	ptrace(PTRACE_CONT, late, NULL, NULL);
	MUST(at_its_end(), "the late setter met a signal");
}

static long own_syscall(long number, long a[6])
{
	bool waits = late && is_sleep(number, a);
	long ret;

	if (waits) {
		finish();
		sleeps++;
		atomic_store(&shared->asked, round_number);
	}
	ret = pass_on(number, a);
	/* It slept to the end of its patience, and the value was there. */
	lost += waits && ret < 0 && errno == ETIMEDOUT && atomic_load(&shared->done) == round_number;
	return ret;
}

int main(void)
{
	struct peerdma_ipc_signal *s;
	unsigned int n = 0;
	pid_t setter;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(!peerdma_ipc_signal_create(0, 0, &s) && !peerdma_ipc_signal_export(s, &shared->handle), "create");
	setter = fork();
	if (!setter)
		set();
	late = fork();
	if (!late)
		be_late();
	MUST(at_its_end(), "it is not traced");
	while (n < MOST_STEPS && step(n)) {
		late_is_stopped = true;
		round_number = ++n;
		MUST(!peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, round_number, 10000000000ULL, NULL), "wait");
		finish();
	}
	kill(late, SIGKILL);
	kill(setter, SIGKILL);
	printf("stopped after each of %u instructions: %u sleeps, %u lost wakes\n", n, sleeps, lost);
	return !n || sleeps < n || lost;
}
