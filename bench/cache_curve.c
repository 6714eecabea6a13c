// SPDX-License-Identifier: MIT
/*
 * cache_curve.c - hits of many regions by many threads: a get of a line at random in a region at
 * random, and its put.
 *
 * All threads use one cache, each on a processor of its own as long as there are enough. The time
 * is that of one thread's get and put, so a flat curve means that threads do not disturb each
 * other. The control (control.c) shows what the machine itself takes from each thread: neighbours,
 * threads of one core, a clock that falls.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "cache_bench.h"
#include "cache_subjects.h"
#include "comparison.h"

#define STEPS	(1UL << 19)

struct layout {
	const char *name;
	uint64_t length, stride;
};

/* The first two begin and end at multiples of their size; the third at no multiple of more than a page. */
static const struct layout layouts[] = {
	{ "curve 4 KiB", 4096, 8192 },
	{ "curve 64 KiB", 65536, 65536 },
	{ "curve 36 KiB+", 9 * 4096, 10 * 4096 },
};

struct runner {
	pthread_t thread;
	pthread_barrier_t *begin;
	step_fn *step;
	void *on;
	const uint32_t *warm, *steps;
	size_t warm_steps;
	int cpu;
	double ns;
} __attribute__((aligned(128)));

static void *run(void *arg)
{
	struct runner *r = arg;
	double start;

	stay_on(r->cpu);
	/* The thread's tables get their size, then their content. */
	for (int i = 0; i < 2; i++) {
		r->step(r->on, r->warm, r->warm_steps);
		r->step(r->on, r->steps, STEPS);
	}
	pthread_barrier_wait(r->begin);
	start = now_ns();
	r->step(r->on, r->steps, STEPS);
	r->ns = (now_ns() - start) / STEPS;
	return NULL;
}

/* The nth processor that this process may use; -1: there are not so many. */
static int processor(int n)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		die("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set) && !n--)
			return cpu;
	}
	return -1;
}

/* ns per step of a thread: the mean of all threads. */
static double time_threads(step_fn *step, void *cache, const uint32_t *warm, size_t warm_steps, const uint32_t *steps, int threads)
{
	struct runner *runners = aligned_alloc(128, (size_t)threads * sizeof(*runners));
	pthread_barrier_t begin;
	double sum = 0;

	if (!runners)
		die("out of memory");
	pthread_barrier_init(&begin, NULL, (unsigned int)threads);
	for (int t = 0; t < threads; t++) {
		runners[t] = (struct runner){
			.begin = &begin, .step = step, .on = cache ? cache : control_open(), .warm = warm,
			.steps = steps + (size_t)t * STEPS, .warm_steps = warm_steps, .cpu = processor(t),
		};
		if (pthread_create(&runners[t].thread, NULL, run, &runners[t]))
			die("pthread_create");
	}
	for (int t = 0; t < threads; t++) {
		pthread_join(runners[t].thread, NULL);
		sum += runners[t].ns;
		if (!cache)
			free(runners[t].on);
	}
	pthread_barrier_destroy(&begin);
	free(runners);
	return sum / threads;
}

/* Numbers of lines, in regions at random; or four in each region, in order. */
static uint32_t *lines(const struct layout *l, size_t n, size_t count, bool in_order)
{
	uint32_t *which = some_numbers(count, n), *line = some_numbers(count, l->length / LINE);

	for (size_t i = 0; i < count; i++) {
		size_t region = in_order ? i / 4 : which[i];

		if (in_order)
			line[i] = (uint32_t)(i % 4 * (l->length / LINE / 4));
		which[i] = (uint32_t)((region * l->stride) / LINE + line[i]);
	}
	free(line);
	return which;
}

enum { CONTROL, FIRST };	/* what is measured: the control, then the caches */

static uint32_t *all, *which;
static void *caches[SUBJECTS_MAX];
static size_t regions;

static double measure(int row, int subject)
{
	const struct subject *s = &subjects[subject - FIRST];
	int threads = choice.threads[row];

	if (subject == CONTROL)
		return time_threads(control_steps, NULL, NULL, 0, which, threads);
	/* UCX takes a lock for each get: with many threads a round would last minutes. */
	if (!measured(s) || (subject > FIRST && threads > 2))
		return NAN;
	return time_threads(s->hit_at, caches[subject - FIRST], all, 4 * regions, which, threads);
}

static void bench_layout(const struct layout *l, size_t n)
{
	struct comparison c = {
		.program = "bench-cache", .rounds = rounds, .row_count = choice.thread_counts,
		.subject_count = FIRST + subjects_count, .measure = measure,
	};

	regions = n;
	all = lines(l, n, 4 * n, true);
	which = lines(l, n, CURVE_THREADS_MAX * STEPS, false);
	for (int i = 0; i < subjects_count; i++) {
		caches[i] = subjects[i].open(n);
		for (size_t region = 0; region < n && measured(&subjects[i]); region++)
			subjects[i].touch(caches[i], (uintptr_t)BASE + region * l->stride, l->length);
	}
	comparison_run(&c);
	for (int r = 0; r < c.row_count; r++) {
		for (int i = c.subject_count; i--;) {
			if (compared(&c, r, i)->measured)
				row(l->name, n, choice.threads[r], i ? subjects[i - FIRST].name : "control",
				    &compared(&c, r, i)->value, NULL);
		}
	}
	free(c.results);
	for (int i = 0; i < subjects_count; i++)
		subjects[i].close(caches[i]);
	free(all);
	free(which);
}

void bench_curve(size_t n)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (wanted(layouts[i].name))
			bench_layout(&layouts[i], n);
	}
}
