// SPDX-License-Identifier: MIT
/*
 * bench-ipc-frees - what munmap() and free() cost in a process whose exports end when their memory is freed (peerdma_ipc.h), by
 * the number of exports and signals that it has.
 *
 * Each process has one export of host memory, and another number of signals or of further exports. One round of each in turn,
 * the median of rounds, and its ratio to that of the process with one signal.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

#include "options.h"
#include "peerdma.h"
#include "peerdma_ipc.h"
#include "stats.h"

#define LOOPS		400
#define BLOCK		(64UL << 20)	/* more than the heap has room for: malloc() maps it, and free() unmaps it */
#define TARGET		1.2

enum subject { ONE, SIGNALS, CLOSED, EXPORTS, SUBJECTS };

static struct {
	const char *name;
	unsigned int signals, exports;
	bool close;			/* all but one of the signals, before the first round */
	int to, from;			/* pipes */
} subjects[SUBJECTS] = {
	[ONE] = { .name = "1 signal", .signals = 1, .exports = 1 },
	[SIGNALS] = { .name = "signals", .signals = 65535, .exports = 1 },
	[CLOSED] = { .name = "signals, all but one closed", .signals = 65535, .exports = 1, .close = true },
	[EXPORTS] = { .name = "exports of host memory", .signals = 1, .exports = 65535 },
};

struct round {
	unsigned int signals, exports;	/* that there are */
	double munmap, free;		/* ns */
};

static struct options options = { .repeats = 21 };

static void fatal(const char *what)
{
	fprintf(stderr, "bench-ipc-frees: %s: %s\n", what, peerdma_last_error());
	exit(1);
}

/* Each a mapping of one file: two pages apart, so that they stay mappings of their own. */
static unsigned int export_many(unsigned int n, size_t page)
{
	struct peerdma_ipc_handle handle;
	int fd = memfd_create("bench-ipc-frees", MFD_CLOEXEC);
	unsigned int made = 0;

	if (fd < 0 || ftruncate(fd, (off_t)page))
		fatal("memfd_create");
	for (; made < n; made++) {
		char *p = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED || mmap(p, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
		    peerdma_ipc_export(p, page, 0, &handle))
			break;
	}
	if (!made)
		fatal("export");
	return made;
}

/* Medians: a mean would have the times in which other processes ran. */
static void measure(struct round *r)
{
	static double samples[LOOPS];
	double begin;
	void *p;

	for (int i = 0; i < LOOPS; i++) {
		begin = now_ns();
		p = malloc(BLOCK);
		*(volatile char *)p = 1;
		free(p);
		samples[i] = now_ns() - begin;
	}
	r->free = stats_of(samples, LOOPS).median;
	for (int i = 0; i < LOOPS; i++) {
		begin = now_ns();
		p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*(volatile char *)p = 1;
		munmap(p, 65536);
		samples[i] = now_ns() - begin;
	}
	r->munmap = stats_of(samples, LOOPS).median;
}

/* As many as this user may have descriptors and mappings for. */
static void subject(enum subject which, int in, int out)
{
	static struct peerdma_ipc_signal *s[65536];
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct round r = { 0 };
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Else the place of a mapping decides whether its first page is a huge one. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	mallopt(M_MMAP_THRESHOLD, BLOCK / 2);
	r.exports = export_many(subjects[which].exports, page);
	/* Those for any user have a line each of their own, and so a descriptor. */
	for (unsigned int flags = 0; r.signals < subjects[which].signals; r.signals++) {
		int ret = peerdma_ipc_signal_create(0, flags, &s[r.signals]);

		if (ret == -ENOSPC && !flags)
			ret = peerdma_ipc_signal_create(0, flags = PEERDMA_IPC_ANY_USER, &s[r.signals]);
		if (ret)
			break;
	}
	for (unsigned int i = subjects[which].close ? r.signals : 0; i-- > 1; )
		peerdma_ipc_signal_close(s[i]);
	while (read(in, &byte, 1) == 1) {
		measure(&r);
		if (write(out, &r, sizeof(r)) != sizeof(r))
			break;
	}
}

static void start(enum subject which)
{
	int to[2], from[2];

	if (pipe(to) || pipe(from))
		fatal("pipe");
	if (!fork()) {
		close(to[1]);
		close(from[0]);
		subject(which, to[0], from[1]);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	subjects[which].to = to[1];
	subjects[which].from = from[0];
}

static struct round turn(enum subject which)
{
	struct round r = { 0 };
	char byte = 0;

	if (write(subjects[which].to, &byte, 1) != 1 || read(subjects[which].from, &r, sizeof(r)) != sizeof(r))
		fatal(subjects[which].name);
	return r;
}

int main(int argc, char **argv)
{
	double at[2][SUBJECTS][MAX_REPEATS], median[2][SUBJECTS];
	struct round r[SUBJECTS];
	struct rlimit limit;
	int missed = 0;

	options_take(&options, argc, argv, "bench-ipc-frees");
	/* The most that this user may have. */
	limit = (struct rlimit) { 70000, 70000 };
	if (setrlimit(RLIMIT_NOFILE, &limit) && !getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	for (enum subject i = 0; i < SUBJECTS; i++)
		start(i);
	/* The first one counts for nothing: each has made what it is to have. */
	for (int round = -1; round < options.repeats; round++) {
		for (enum subject i = 0; i < SUBJECTS; i++) {
			r[i] = turn(i);
			at[0][i][round < 0 ? 0 : round] = r[i].munmap;
			at[1][i][round < 0 ? 0 : round] = r[i].free;
		}
	}
	for (enum subject i = 0; i < SUBJECTS; i++) {
		for (int call = 0; call < 2; call++) {
			median[call][i] = stats_of(at[call][i], options.repeats).median;
			missed += median[call][i] > TARGET * median[call][ONE];
		}
	}
	if (options.json) {
		printf("[");
		for (enum subject i = 0; i < SUBJECTS; i++)
			printf("%s{\"exports\": %u, \"signals\": %u, \"closed\": %s, \"munmap_ns\": %.0f, \"free_ns\": %.0f}", i ? ", " : "",
			       r[i].exports, r[i].signals, subjects[i].close ? "true" : "false", median[0][i], median[1][i]);
		printf("]\n");
		return 0;
	}
	printf("ns (median of %d rounds of %d), and the ratio to the first (target: at most %.1f)\n\n", options.repeats, LOOPS, TARGET);
	printf("%-28s %8s %8s %16s %16s\n", "", "exports", "signals", "mmap, munmap", "malloc, free");
	for (enum subject i = 0; i < SUBJECTS; i++)
		printf("%-28s %8u %8u %10.0f %5.2f %10.0f %5.2f\n", subjects[i].name, r[i].exports, r[i].signals, median[0][i],
		       median[0][i] / median[0][ONE], median[1][i], median[1][i] / median[1][ONE]);
	if (missed)
		printf("\nMISSED\n");
	return missed > 0;
}
