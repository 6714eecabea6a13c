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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

#include "comparison.h"
#include "peerdma.h"
#include "peerdma_ipc.h"

#define LOOPS		400
#define BLOCK		(64UL << 20)	/* more than the heap has room for: malloc() maps it, and free() unmaps it */
#define TARGET		1.2

enum subject { ONE, SIGNALS, CLOSED, EXPORTS, SUBJECTS };

static struct {
	unsigned int signals, exports;
	bool close;			/* all but one of the signals, before the first round */
	int to, from;			/* pipes */
} subjects[SUBJECTS] = {
	[ONE] = { .signals = 1, .exports = 1 },
	[SIGNALS] = { .signals = 65535, .exports = 1 },
	[CLOSED] = { .signals = 65535, .exports = 1, .close = true },
	[EXPORTS] = { .signals = 1, .exports = 65535 },
};

struct round {
	unsigned int signals, exports;	/* that there are */
	double munmap, free;		/* ns */
};

static const char *const names[SUBJECTS] = {
	[ONE] = "1 signal", [SIGNALS] = "signals", [CLOSED] = "all but one closed", [EXPORTS] = "exports",
};

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
	r->free = spread_of(samples, LOOPS).median;
	for (int i = 0; i < LOOPS; i++) {
		begin = now_ns();
		p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*(volatile char *)p = 1;
		munmap(p, 65536);
		samples[i] = now_ns() - begin;
	}
	r->munmap = spread_of(samples, LOOPS).median;
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

static struct round last[SUBJECTS];

/* A turn of a process measures both rows. */
static double turn(int row, int which)
{
	char byte = 0;

	if (!row && (write(subjects[which].to, &byte, 1) != 1 ||
		     read(subjects[which].from, &last[which], sizeof(last[which])) != sizeof(last[which])))
		fatal(names[which]);
	return row ? last[which].free : last[which].munmap;
}

int main(int argc, char **argv)
{
	struct comparison c = {
		.program = "bench-ipc-frees", .what = "ns; target: at most 1.2 times the first", .rounds = 21, .measure = turn,
		.rows = (const char *const[]){ "mmap, munmap", "malloc, free" }, .row_count = 2,
		.subjects = names, .subject_count = SUBJECTS,
	};
	struct rlimit limit;
	int missed = 0;

	comparison_options(&c, argc, argv);
	/* The most that this user may have. */
	limit = (struct rlimit) { 70000, 70000 };
	if (setrlimit(RLIMIT_NOFILE, &limit) && !getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	for (enum subject i = 0; i < SUBJECTS; i++)
		start(i);
	comparison_run(&c);
	comparison_print(&c);
	for (int row = 0; row < 2; row++) {
		for (int i = 1; i < SUBJECTS; i++)
			missed |= value_of(&c, row, i) > TARGET * value_of(&c, row, ONE);
	}
	for (enum subject i = 0; i < SUBJECTS && !c.json; i++)
		printf("%-22s has %u exports and %u signals\n", names[i], last[i].exports, last[i].signals);
	if (missed && !c.json)
		printf("\nMISSED\n");
	return missed && !c.json;
}
