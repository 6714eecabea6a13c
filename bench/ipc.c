// SPDX-License-Identifier: MIT
/*
 * bench-ipc - memory and signals between two processes (peerdma_ipc.h):
 *
 *   - from a set to its sight in the other process, while that one spins, beside a bare cache line
 *   - the same while it sleeps, beside a bare futex
 *   - an open that is a lookup, and its close, beside a first one
 *
 * in turns, a round of each, the median of rounds.  The waiter reads the clock as soon as it knows,
 * and the setter just before it sets: one way, not there and back.
 */
#include <signal.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comparison.h"
#include "peerdma.h"
#include "peerdma_ipc.h"

#define LOOPS		400
#define OPENS		20000
#define FIRST_OPENS	100
#define OPEN_ROUNDS	11
#define TARGET		1.2
#define OPEN_TARGET	1000.0

/* Two rows of two subjects. */
enum way { LINE, SIGNAL_SPIN, FUTEX, SIGNAL_SLEEP, WAYS };

struct shared {
	uint64_t line __attribute__((aligned(128)));
	uint32_t futex __attribute__((aligned(128)));
	double at __attribute__((aligned(128)));	/* when it was set */
	uint64_t seen __attribute__((aligned(128)));	/* by the waiter, after its sample */
	uint64_t waiting;				/* which one it waits for */
	uint64_t turn, way;				/* the setter's: the turn that is on, and its way; WAYS: the end */
	double samples[LOOPS];
};

static struct shared *shared;
static struct peerdma_ipc_signal *signal_here;

static void fatal(const char *what)
{
	fprintf(stderr, "bench-ipc: %s: %s\n", what, peerdma_last_error());
	exit(1);
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void spin_ns(double ns)
{
	double end = now_ns() + ns;

	while (now_ns() < end)
		;
}

static void set(enum way way, uint64_t value)
{
	shared->at = now_ns();
	switch (way) {
	case LINE:
		__atomic_store_n(&shared->line, value, __ATOMIC_RELEASE);
		break;
	case FUTEX:
		__atomic_store_n(&shared->futex, (uint32_t)value, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &shared->futex, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
		break;
	default:
		if (peerdma_ipc_signal_set(signal_here, value))
			fatal("set");
	}
}

static void wait_for(enum way way, uint64_t value)
{
	switch (way) {
	case LINE:
		while (__atomic_load_n(&shared->line, __ATOMIC_ACQUIRE) != value)
			__builtin_ia32_pause();
		break;
	case FUTEX:
		while (__atomic_load_n(&shared->futex, __ATOMIC_ACQUIRE) != (uint32_t)value)
			syscall(SYS_futex, &shared->futex, FUTEX_WAIT, (uint32_t)value - 1, NULL, NULL, 0);
		break;
	default:
		if (peerdma_ipc_signal_wait(signal_here, PEERDMA_IPC_EQ, value, 10000000000ULL, NULL))
			fatal("wait");
	}
}

/* The waiter: each value of the way whose turn it is. */
static void waiter(const struct peerdma_ipc_handle *handle)
{
	uint64_t value = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stay_on(1);
	if (peerdma_ipc_signal_open(handle, sizeof(*handle), &signal_here))
		fatal("open");
	for (uint64_t turn = 1;; turn++) {
		while (__atomic_load_n(&shared->turn, __ATOMIC_ACQUIRE) < turn)
			__builtin_ia32_pause();
		if (shared->way == WAYS)
			break;
		for (int i = 0; i < LOOPS; i++) {
			value++;
			__atomic_store_n(&shared->waiting, value, __ATOMIC_RELEASE);
			wait_for((enum way)shared->way, value);
			shared->samples[i] = now_ns() - shared->at;
			__atomic_store_n(&shared->seen, value, __ATOMIC_RELEASE);
		}
	}
	peerdma_ipc_signal_close(signal_here);
}

static uint64_t value_now;

static void begin_turn(enum way way)
{
	shared->way = way;
	__atomic_store_n(&shared->turn, shared->turn + 1, __ATOMIC_RELEASE);
}

/* One round of one way: the median of its samples, ns. */
static double one_round(int row, int subject)
{
	enum way way = (enum way)(2 * row + subject);
	bool sleeps = way == FUTEX || way == SIGNAL_SLEEP;
	double samples[LOOPS];

	begin_turn(way);
	for (int i = 0; i < LOOPS; i++) {
		uint64_t value = ++value_now;

		while (__atomic_load_n(&shared->waiting, __ATOMIC_ACQUIRE) != value)
			;
		/* Until it is asleep: longer than it spins; or is in its loop. */
		spin_ns(sleeps ? 60000 : 1000);
		/* What the next way begins from, and the others wait for. */
		shared->line = value - 1;
		shared->futex = (uint32_t)value - 1;
		set(way, value);
		while (__atomic_load_n(&shared->seen, __ATOMIC_ACQUIRE) != value)
			;
		samples[i] = shared->samples[i];
	}
	return spread_of(samples, LOOPS).median;
}

static struct comparison c = {
	.program = "bench-ipc", .what = "from a set to its sight in another process, ns; target: 1.2 times", .rounds = 11,
	.rows = (const char *const[]){ "spinning", "sleeping" }, .row_count = 2,
	.subjects = (const char *const[]){ "bare line or futex", "signal" }, .subject_count = 2, .measure = one_round,
};

/* ns for an open and its close; first: with the mapping made and taken away again. */
static double opens(const struct peerdma_ipc_handle *handle, bool first)
{
	int n = first ? FIRST_OPENS : OPENS;
	struct peerdma_ipc_memory *m;
	double begin = now_ns();

	for (int i = 0; i < n; i++) {
		if (peerdma_ipc_open(handle, sizeof(*handle), 0, &m))
			fatal("open");
		peerdma_ipc_close(m);
		if (first)
			peerdma_ipc_trim();
	}
	return (now_ns() - begin) / n;
}

/* In the process that does not export. */
static void importer(const struct peerdma_ipc_handle *handle, double *cached, double *first)
{
	double c[OPEN_ROUNDS], f[OPEN_ROUNDS];

	for (int i = 0; i < OPEN_ROUNDS; i++) {
		struct peerdma_ipc_memory *m;

		f[i] = opens(handle, true);
		if (peerdma_ipc_open(handle, sizeof(*handle), 0, &m))
			fatal("open");
		c[i] = opens(handle, false);
		peerdma_ipc_close(m);
	}
	*cached = spread_of(c, OPEN_ROUNDS).median;
	*first = spread_of(f, OPEN_ROUNDS).median;
}

struct channel {
	struct peerdma_ipc_handle signal, memory;
	double cached, first;
};

int main(int argc, char **argv)
{
	int missed;
	struct channel *channel;
	int to_child[2], from_child[2];
	char byte = 0;
	void *memory;
	pid_t pid;

	comparison_options(&c, argc, argv);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		fprintf(stderr, "bench-ipc: two processors are needed\n");
		return 1;
	}
	shared = mmap(NULL, sizeof(*shared) + sizeof(*channel), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	channel = (struct channel *)(shared + 1);
	if (shared == MAP_FAILED || pipe(to_child) || pipe(from_child))
		return 1;
	pid = fork();
	if (!pid) {
		if (read(to_child[0], &byte, 1) != 1)
			_exit(1);
		importer(&channel->memory, &channel->cached, &channel->first);
		if (write(from_child[1], &byte, 1) != 1)
			_exit(1);
		waiter(&channel->signal);
		_exit(0);
	}
	stay_on(0);
	if (peerdma_ipc_alloc(1 << 20, 0, &memory) || peerdma_ipc_export(memory, 1 << 20, 0, &channel->memory) ||
	    peerdma_ipc_signal_create(0, 0, &signal_here) || peerdma_ipc_signal_export(signal_here, &channel->signal))
		fatal("export");
	if (write(to_child[1], &byte, 1) != 1 || read(from_child[0], &byte, 1) != 1)
		return 1;
	comparison_run(&c);
	begin_turn(WAYS);
	waitpid(pid, NULL, 0);
	comparison_print(&c);
	missed = channel->cached > OPEN_TARGET;
	if (!c.json)
		printf("open and close, cached        %6.0f ns  (target: at most %.0f)%s\nopen and close, the first     %6.0f ns\n",
		       channel->cached, OPEN_TARGET, missed ? "  MISSED" : "", channel->first);
	for (int row = 0; row < 2; row++)
		missed |= value_of(&c, row, 1) > TARGET * value_of(&c, row, 0);
	return !c.json && missed;
}
