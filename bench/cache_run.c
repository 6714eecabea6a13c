// SPDX-License-Identifier: MIT
/*
 * cache_run.c - what the files of bench-cache measure with, and how rows are written: by
 * the caller's choice of rounds, rows, caches and processors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_bench.h"
#include "cache_subjects.h"
#include "comparison.h"

int rounds = 9;
size_t hits = 1 << 21;
struct choice choice = { .only = "", .cache = "", .cpus = { -1, -1 }, .threads = { 1, 2 }, .thread_counts = 2 };
static bool first_row = true;

bool wanted(const char *what)
{
	return !strncmp(what, choice.only, strlen(choice.only));
}

bool measured(const struct subject *s)
{
	return !*choice.cache || !strcmp(choice.cache, s->name);
}

/* ---- numbers ---- */

static uint64_t random_state = 1;

static uint64_t next_random(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint32_t *numbers(size_t count)
{
	uint32_t *p = malloc(count * sizeof(*p));

	if (!p)
		die("out of memory");
	return p;
}

uint32_t *all_numbers(size_t n, bool shuffled)
{
	uint32_t *p = numbers(n);

	for (size_t i = 0; i < n; i++)
		p[i] = (uint32_t)i;
	for (size_t i = shuffled ? n : 0; i > 1; i--) {
		size_t j = next_random() % i;
		uint32_t t = p[i - 1];

		p[i - 1] = p[j];
		p[j] = t;
	}
	return p;
}

uint32_t *some_numbers(size_t count, size_t n)
{
	uint32_t *p = numbers(count);

	for (size_t i = 0; i < count; i++)
		p[i] = (uint32_t)(next_random() % n);
	return p;
}

/* ---- rows ---- */

void row(const char *what, size_t n, int threads, const char *name, const struct spread *s, const struct spread *times)
{
	int digits = s->median < 5 ? 2 : 1;

	if (!wanted(what))
		return;
	if (choice.json) {
		printf("%s\n  {\"what\": \"%s\", \"regions\": %zu, \"threads\": %d, \"cache\": \"%s\", \"median\": %.2f, \"min\": %.2f, \"max\": %.2f",
		       first_row ? "[" : ",", what, n, threads, name, s->median, s->min, s->max);
		if (times)
			printf(", \"times\": %.2f, \"times_low\": %.2f, \"times_high\": %.2f", times->median, times->low, times->high);
		printf("}");
		first_row = false;
		return;
	}
	printf("%-17s %8zu %2d  %-8s %9.*f %9.*f %9.*f", what, n, threads, name, digits, s->median, digits, s->min, digits, s->max);
	if (times)
		printf("   1/%.2f (1/%.2f to 1/%.2f)", times->median, times->low, times->high);
	printf("\n");
	fflush(stdout);
}

static double (*measure_wanted)(int row, int subject);

static double measure(int row, int subject)
{
	return measured(&subjects[subject]) ? measure_wanted(row, subject) : NAN;
}

void compare(const char *const *whats, size_t n, int row_count, double (*how)(int row, int subject))
{
	struct comparison c = {
		.program = "bench-cache", .rounds = rounds, .row_count = row_count, .subject_count = subjects_count,
		.measure = measure,
	};

	measure_wanted = how;
	comparison_run(&c);
	/* The other's first. */
	for (int r = 0; r < row_count; r++) {
		for (int i = subjects_count; i--;) {
			const struct compared *other = compared(&c, r, 1 - i);
			bool both = subjects_count == SUBJECTS_MAX && !i && other->measured;

			if (compared(&c, r, i)->measured)
				row(whats[r / THREADS_MAX], n, r % THREADS_MAX + 1, subjects[i].name, &compared(&c, r, i)->value,
				    both ? &other->ratio : NULL);
		}
	}
	free(c.results);
}

/* ---- threads ---- */

double last_cpu;

/* Threads that are new each time; all: what they get and put beforehand, for their tables to be warm, or NULL. */
static struct pair_times time_pair(const struct task *task, const uint32_t *all, size_t regions)
{
	struct task warm = { task->step, { task->on[0], task->on[1] }, { all, all }, regions };
	struct pair *p = pair_begin(choice.cpus);
	struct pair_times times;

	for (int i = 0; i < 3 && all; i++)
		pair_time(p, &warm, THREADS_MAX);
	if (all)
		pair_time(p, task, THREADS_MAX);
	times = pair_time(p, task, THREADS_MAX);
	pair_end(p);
	return times;
}

/* ns per step, all threads' steps counted: with two threads it halves if nothing is in the way. One: the caller does it. */
double time_steps(step_fn *step, void *cache, const uint32_t *which, size_t n, int threads, const uint32_t *all,
		  size_t regions)
{
	struct task task = { step, { cache, cache }, { which, which + n / THREADS_MAX }, n / THREADS_MAX };
	struct pair_times times;
	double start;

	if (threads == 1) {
		start = now_ns();
		last_cpu = -cpu_ns();
		step(cache, which, n);
		last_cpu = (last_cpu + cpu_ns()) / (double)n;
		return (now_ns() - start) / (double)n;
	}
	times = time_pair(&task, all, regions);
	last_cpu = times.own * THREADS_MAX;
	return times.clock;
}
