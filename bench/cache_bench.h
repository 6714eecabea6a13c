/* SPDX-License-Identifier: MIT */
/* cache_bench.h - what the files of bench-cache share. */
#ifndef CACHE_BENCH_H
#define CACHE_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spread.h"

#define THREADS_MAX		2
#define CURVE_THREADS_MAX	64
#define CURVE_COUNTS_MAX	8	/* numbers of threads that the curve has */

typedef void step_fn(void *cache, const uint32_t *which, size_t n);

/* The caller's, by options. */
struct choice {
	const char *only, *cache;	/* "": all */
	int cpus[THREADS_MAX];		/* -1: anywhere */
	int threads[CURVE_COUNTS_MAX], thread_counts;	/* of the curve */
	bool json;
};

/* ---- cache_run.c ---- */

extern struct choice choice;
bool wanted(const char *what);
struct subject;
bool measured(const struct subject *s);

/* To be freed. */
uint32_t *all_numbers(size_t n, bool shuffled);			/* 0 to n - 1 */
uint32_t *some_numbers(size_t count, size_t n);			/* so many of them, at random */

extern int rounds;
extern size_t hits;			/* of each thread, each round */
/* ns per step, all threads' together; all: what new threads' tables are warmed with. */
double time_steps(step_fn *step, void *cache, const uint32_t *which, size_t n, int threads, const uint32_t *all, size_t regions);
extern double last_cpu;		/* of a step in time_steps()'s last run: the mean of its threads */

/* times: how much longer the other took, in each round; or NULL. */
void row(const char *what, size_t n, int threads, const char *name, const struct spread *s, const struct spread *times);
/*
 * Measures all caches in turns (comparison.h) and prints the rows.  Those of one thread and of two follow each other, and
 * have the same `what`: row r is of r % THREADS_MAX + 1 threads.
 */
void compare(const char *const *whats, size_t n, int row_count, double (*how)(int row, int subject));

/* ---- what is measured, and by what ---- */

/* cache_offsets.c: hits anywhere in regions, beside those of the same addresses again. */
void bench_offsets(void);

/* cache_curve.c: hits of n regions by so many threads as choice.threads says. */
void bench_curve(size_t n);

/*
 * cache_gain.c: two threads' throughput in one thread's, of hits and of a control.
 * cpus: where the threads stay, or -1 for what processors.c chooses.
 */
void bench_gain(size_t n, int rounds, const int cpus[THREADS_MAX]);

/* control.c: as many instructions as a hit, on nothing but the thread's own first-level cache. */
void *control_open(void);
step_fn control_steps;

/* pair.c: two threads that stay where they are, and do a step each on command. */
double cpu_ns(void);			/* the calling thread's */
void stay_on(int cpu);			/* the calling thread; -1: anywhere */
struct pair;
struct pair *pair_begin(const int cpus[THREADS_MAX]);
void pair_end(struct pair *p);
struct task {
	step_fn *step;
	void *on[THREADS_MAX];		/* each thread's */
	const uint32_t *which[THREADS_MAX];
	size_t n;			/* of each */
};
/*
 * ns per step of all threads' together.  They begin within a microsecond of each
 * other.  own: by the threads' own time, which stops when others have the processor.
 */
struct pair_times {
	double clock, own;
};
struct pair_times pair_time(struct pair *p, const struct task *task, int threads);

/*
 * processors.c: two that are not one core's, as far as the kernel says so and the
 * control shows; what was found goes to stdout unless quiet.
 */
void processors_choose(int cpus[THREADS_MAX], bool quiet);

#endif
