// SPDX-License-Identifier: MIT
/*
 * cache_gain.c - do hits of two threads gain what the machine can?
 *
 * A gain is two threads' throughput in one thread's, on two processors where they
 * stay.  A machine with neighbours, threads of one core, or a clock that sinks when
 * two cores work gives less than 2 to anybody.  Hence in each round, in turns of a
 * millisecond or so:
 *
 *	peerdma	hits in one cache
 *	apart	hits in two, a thread's each: the same instructions on as much memory,
 *		and nothing shared at all
 *	control	no hits: control.c
 *	ucx	hits in one cache of UCX's
 *
 * and the quotients of a round's gains: under 1 to apart is what sharing costs;
 * apart's to the control's is what the memory costs, past the first-level caches.
 * Half of the rounds lie between the two figures beside each median.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cache_bench.h"
#include "cache_subjects.h"
#include "spread.h"

#define GAIN_ROUNDS_MAX	501
#define STEPS		(1UL << 17)
#define SLICES		16		/* so many different numbers of steps */
#define KINDS		4

enum { PEERDMA, APART, CONTROL, UCX };
static const char * const names[KINDS] = { "peerdma", "apart", "control", "ucx" };

/* Of each round, by the clock and by the threads' own time. */
struct gain {
	double one[KINDS][GAIN_ROUNDS_MAX], two[KINDS][GAIN_ROUNDS_MAX], gain[KINDS][GAIN_ROUNDS_MAX];
	double of_apart[GAIN_ROUNDS_MAX], of_control[GAIN_ROUNDS_MAX], apart_of_control[GAIN_ROUNDS_MAX];
};

static struct pair_times time_of(struct pair *p, struct task *task, const uint32_t *which, int round, int threads)
{
	/* Others each time, or few regions would do for many. */
	for (int i = 0; i < THREADS_MAX; i++)
		task->which[i] = which + (unsigned int)(round * THREADS_MAX + i) % SLICES * STEPS;
	return pair_time(p, task, threads);
}

static void warm(struct pair *p, struct task *task, const uint32_t *all, size_t n, const uint32_t *which)
{
	size_t steps = task->n;

	task->n = n;
	task->which[0] = task->which[1] = all;
	for (int i = 0; i < 3; i++)
		pair_time(p, task, THREADS_MAX);
	task->n = steps;
	for (int i = 0; i < SLICES; i++)
		time_of(p, task, which, i, THREADS_MAX);
}

static void measure(struct pair *p, struct task *tasks, int kinds, const uint32_t *which, int round, struct gain *clock,
		    struct gain *own)
{
	for (int i = 0; i < kinds; i++) {
		int k = round % 2 ? kinds - 1 - i : i;

		/* Neither has always been the first. */
		for (int turn = 0; turn < 2; turn++) {
			int threads = 1 + (turn + round / 2) % 2;
			struct pair_times t = time_of(p, &tasks[k], which, round, threads);

			(threads == 1 ? clock->one : clock->two)[k][round] = t.clock;
			(threads == 1 ? own->one : own->two)[k][round] = t.own;
		}
	}
}

static void quotients(struct gain *g, int kinds, int rounds)
{
	for (int r = 0; r < rounds; r++) {
		for (int k = 0; k < kinds; k++)
			g->gain[k][r] = g->one[k][r] / g->two[k][r];
		g->of_control[r] = g->gain[PEERDMA][r] / g->gain[CONTROL][r];
		g->apart_of_control[r] = g->gain[APART][r] / g->gain[CONTROL][r];
		g->of_apart[r] = g->gain[PEERDMA][r] / g->gain[APART][r];
	}
}

/* Quartiles in the ends' place: on a machine that others use, some round always had nothing of it. */
static void middle_row(const char *what, const char *by, size_t n, int kind, double *samples, int rounds)
{
	struct spread s = spread_of(samples, (uint64_t)rounds);
	char text[32];

	snprintf(text, sizeof(text), "%s%s", what, by);
	s.min = s.low;
	s.max = s.high;
	row(text, n, THREADS_MAX, names[kind], &s, NULL);
}

static void show(struct gain *g, const char *by, size_t n, int rounds, int kinds)
{
	quotients(g, kinds, rounds);
	for (int k = 0; k < kinds; k++) {
		middle_row("gain, 1, ns", by, n, k, g->one[k], rounds);
		middle_row("gain, 2, ns", by, n, k, g->two[k], rounds);
	}
	for (int k = 0; k < kinds; k++)
		middle_row("gain", by, n, k, g->gain[k], rounds);
	middle_row("gain/control", by, n, PEERDMA, g->of_control, rounds);
	middle_row("gain/control", by, n, APART, g->apart_of_control, rounds);
	middle_row("gain/apart", by, n, PEERDMA, g->of_apart, rounds);
}

void bench_gain(size_t n, int rounds, const int cpus[THREADS_MAX])
{
	const struct subject *ours = &subjects[0];
	int kinds = subjects_count > 1 && measured(&subjects[1]) ? KINDS : UCX;
	void *shared = ours->open(n), *apart[] = { ours->open(n), ours->open(n) };
	void *own[] = { control_open(), control_open() }, *ucx = kinds > UCX ? subjects[1].open(n) : NULL;
	struct task tasks[KINDS] = {
		[PEERDMA] = { ours->hit, { shared, shared }, { NULL }, STEPS },
		[APART] = { ours->hit, { apart[0], apart[1] }, { NULL }, STEPS },
		[CONTROL] = { control_steps, { own[0], own[1] }, { NULL }, STEPS },
		/* An eighth: else it had most of the time. */
		[UCX] = { ucx ? subjects[1].hit : NULL, { ucx, ucx }, { NULL }, STEPS / 8 },
	};
	uint32_t *all = all_numbers(n, false), *which = some_numbers(SLICES * STEPS, n);
	struct gain *clock = calloc(2, sizeof(*clock)), *by_own = clock + 1;
	struct pair *p = pair_begin(cpus);

	if (!clock)
		die("out of memory");
	rounds = rounds < GAIN_ROUNDS_MAX ? rounds : GAIN_ROUNDS_MAX;
	for (int k = 0; k < kinds; k++)
		warm(p, &tasks[k], all, n, which);
	for (int r = 0; r < rounds; r++)
		measure(p, tasks, kinds, which, r, clock, by_own);
	show(clock, "", n, rounds, kinds);
	show(by_own, ", CPU", n, rounds, kinds);
	pair_end(p);
	if (ucx)
		subjects[1].close(ucx);
	for (int i = 0; i < THREADS_MAX; i++) {
		ours->close(apart[i]);
		free(own[i]);
	}
	ours->close(shared);
	free(clock);
	free(all);
	free(which);
}
