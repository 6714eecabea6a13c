// SPDX-License-Identifier: MIT
/*
 * cache.c - the registration cache beside UCX's: the same regions, the same order of
 * addresses, registration that does nothing, in turns.
 *
 *	hit	a get and its put, of one region out of n at random; and ours alone
 *		with a word to look at, as pins have
 *	hit, CPU  the same by the threads' own time: where it does not grow with threads,
 *		they share nothing, and throughput grows as they do
 *	gain	how many times one thread's throughput two threads have, beside that of a
 *		control that shares nothing: cache_gain.c
 *	miss	the first get of a region and its put, in order of addresses and in none;
 *		a fresh cache in a fresh process each time, its memory not touched before
 *	again	and once more with the same cache after everything was invalidated
 *	end one	an invalidation of one region, all n of them in no order; end of all: a
 *		region's share of one of all
 *	memory	resident bytes per idle region, one thread's tables included
 *
 * usage: bench-cache [--json] [--quick] [--only WHAT] [--cache NAME] [--regions N] [--rounds N] [--cpus A,B]
 *
 * WHAT is the beginning of a row's name.  --cpus: threads stay on these processors,
 * which should be two cores, not one core's two threads; gain looks for two itself.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache_bench.h"
#include "cache_subjects.h"
#include "stats.h"

#define ROUNDS_MAX	201

static int rounds = 9;
static int gain_rounds = 201;
static size_t hits = 1 << 21;		/* of each thread, each round */
static bool json, first_row = true;
static const char *only = "", *only_cache = "";
static int cpus[THREADS_MAX] = { -1, -1 };

/* What the calling thread had of a processor: beside others' work, that is what can be compared. */
double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void stay_on(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		die("--cpus: no such processor");
}

bool wanted(const char *what)
{
	return !strncmp(what, only, strlen(only));
}

bool measured(const struct subject *s)
{
	return !*only_cache || !strcmp(only_cache, s->name);
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

void row(const char *what, size_t n, int threads, const char *name, double *samples, int count, double *times)
{
	struct stats s = stats_of(samples, count), t = { 0 };
	int digits = s.median < 5 ? 2 : 1;

	if (!wanted(what))
		return;
	if (times)
		t = stats_of(times, count);
	if (json) {
		printf("%s\n  {\"what\": \"%s\", \"regions\": %zu, \"threads\": %d, \"cache\": \"%s\", \"median\": %.2f, \"min\": %.2f, \"max\": %.2f",
		       first_row ? "[" : ",", what, n, threads, name, s.median, s.min, s.max);
		if (times)
			printf(", \"times\": %.2f, \"times_low\": %.2f, \"times_high\": %.2f", t.median, t.low, t.high);
		printf("}");
		first_row = false;
		return;
	}
	printf("%-17s %8zu %2d  %-8s %9.*f %9.*f %9.*f", what, n, threads, name, digits, s.median, digits, s.min, digits, s.max);
	if (times)
		printf("   1/%.2f (1/%.2f to 1/%.2f)", t.median, t.low, t.high);
	printf("\n");
	fflush(stdout);
}

/* The other's first.  Quotients are of a round's: what goes slower for a while does so for both. */
static void rows(const char *what, size_t n, int threads, double samples[SUBJECTS_MAX][ROUNDS_MAX], int count)
{
	bool both = subjects_count == SUBJECTS_MAX && measured(&subjects[0]) && measured(&subjects[1]);
	double times[ROUNDS_MAX];

	for (int r = 0; r < count && both; r++)
		times[r] = samples[1][r] / samples[0][r];
	for (int i = subjects_count; i--;) {
		if (measured(&subjects[i]))
			row(what, n, threads, subjects[i].name, samples[i], count, i || !both ? NULL : times);
	}
}

/* Whose turn it is: none is always the first. */
static int turn(int round, int i)
{
	return round % 2 ? subjects_count - 1 - i : i;
}

/* ---- threads ---- */

static double last_cpu;		/* of a step in time_steps()'s last run: the mean of its threads */

/* Threads that are new each time; all: what they get and put beforehand, for their tables to be warm, or NULL. */
static struct pair_times time_pair(const struct task *task, const uint32_t *all, size_t regions)
{
	struct task warm = { task->step, { task->on[0], task->on[1] }, { all, all }, regions };
	struct pair *p = pair_begin(cpus);
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
static double time_steps(step_fn *step, void *cache, const uint32_t *which, size_t n, int threads, const uint32_t *all,
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

/* ---- hits ---- */

/* Ours alone: hits that look at a word, as those of pins do. */
static void bench_word_hits(size_t n, const uint32_t *all, const uint32_t *which)
{
	const struct subject *s = &subjects[0];
	double samples[ROUNDS_MAX];
	void *cache = our_open_words(n);

	for (int i = 0; i < 3; i++)
		s->hit(cache, all, n);
	s->hit(cache, which, hits);
	for (int threads = 1; threads <= THREADS_MAX; threads++) {
		for (int r = 0; r < rounds; r++)
			samples[r] = time_steps(s->hit, cache, which, hits, threads, all, n);
		row("hit, word", n, threads, "peerdma", samples, rounds, NULL);
	}
	s->close(cache);
}

/* One thread and several in turns, so that what else the machine does is the same for both. */
static void bench_hits(size_t n)
{
	double samples[THREADS_MAX][SUBJECTS_MAX][ROUNDS_MAX], cpu[THREADS_MAX][SUBJECTS_MAX][ROUNDS_MAX];
	uint32_t *all = all_numbers(n, false), *which = some_numbers(hits, n);
	void *caches[SUBJECTS_MAX];

	for (int i = 0; i < subjects_count; i++) {
		caches[i] = subjects[i].open(n);
		subjects[i].hit(caches[i], all, n);
		subjects[i].hit(caches[i], all, n);
		subjects[i].hit(caches[i], which, hits);
	}
	for (int r = 0; r < rounds; r++) {
		for (int j = 0; j < subjects_count; j++) {
			int i = turn(r, j);

			for (int t = 0; t < THREADS_MAX && measured(&subjects[i]); t++) {
				samples[t][i][r] = time_steps(subjects[i].hit, caches[i], which, hits, t + 1, all, n);
				cpu[t][i][r] = last_cpu;
			}
		}
	}
	for (int t = 0; t < THREADS_MAX; t++) {
		rows("hit", n, t + 1, samples[t], rounds);
		rows("hit, CPU", n, t + 1, cpu[t], rounds);
	}
	for (int i = 0; i < subjects_count; i++)
		subjects[i].close(caches[i]);
	if (wanted("hit, word"))
		bench_word_hits(n, all, which);
	free(all);
	free(which);
}

/* ---- misses ---- */

struct child_args {
	const struct subject *subject;
	const uint32_t *all;
	size_t n;
	int threads;
};

/*
 * What a function says in a process of its own, where nothing that others have left
 * behind matters: memory that an allocator keeps is as good as touched.
 */
static double in_child(double (*fn)(const struct child_args *a), const struct subject *s, const uint32_t *all, size_t n,
		       int threads)
{
	struct child_args a = { s, all, n, threads };
	double said = 0;
	int fds[2];
	pid_t pid;

	if (pipe(fds))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		said = fn(&a);
		_exit(write(fds[1], &said, sizeof(said)) != sizeof(said));
	}
	if (read(fds[0], &said, sizeof(said)) != sizeof(said))
		die("the child said nothing");
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
	return said;
}

static double ns_per_miss(const struct child_args *a)
{
	return time_steps(a->subject->hit, a->subject->open(a->n), a->all, a->n, a->threads, NULL, 0);
}

static void bench_misses(size_t n, bool shuffled, const char *what)
{
	double samples[SUBJECTS_MAX][ROUNDS_MAX];
	uint32_t *all;

	if (!wanted(what))
		return;
	all = all_numbers(n, shuffled);
	for (int threads = 1; threads <= THREADS_MAX; threads++) {
		for (int r = 0; r < rounds; r++) {
			for (int j = 0; j < subjects_count; j++) {
				int i = turn(r, j);

				if (measured(&subjects[i]))
					samples[i][r] = in_child(ns_per_miss, &subjects[i], all, n, threads);
			}
		}
		rows(what, n, threads, samples, rounds);
	}
	free(all);
}

/* The same cache after all was invalidated, so that no page is touched for the first time. */
static void bench_misses_again(size_t n, bool shuffled, const char *what)
{
	double samples[SUBJECTS_MAX][ROUNDS_MAX];
	void *caches[SUBJECTS_MAX];
	uint32_t *all;

	if (!wanted(what))
		return;
	all = all_numbers(n, shuffled);
	for (int i = 0; i < subjects_count; i++) {
		caches[i] = subjects[i].open(n);
		subjects[i].hit(caches[i], all, n);
	}
	for (int r = 0; r < rounds; r++) {
		for (int j = 0; j < subjects_count; j++) {
			int i = turn(r, j);

			if (!measured(&subjects[i]))
				continue;
			subjects[i].forget(caches[i], n);
			samples[i][r] = time_steps(subjects[i].hit, caches[i], all, n, 1, NULL, 0);
		}
	}
	rows(what, n, 1, samples, rounds);
	for (int i = 0; i < subjects_count; i++)
		subjects[i].close(caches[i]);
	free(all);
}

/* ---- ends ---- */

static void bench_end_one(size_t n)
{
	double samples[SUBJECTS_MAX][ROUNDS_MAX];
	uint32_t *all;

	if (!wanted("end one"))
		return;
	all = all_numbers(n, true);
	for (int threads = 1; threads <= THREADS_MAX; threads++) {
		void *caches[SUBJECTS_MAX];

		for (int i = 0; i < subjects_count; i++)
			caches[i] = subjects[i].open(n);
		for (int r = 0; r < rounds; r++) {
			for (int j = 0; j < subjects_count; j++) {
				int i = turn(r, j);

				if (!measured(&subjects[i]))
					continue;
				subjects[i].hit(caches[i], all, n);
				samples[i][r] = time_steps(subjects[i].end_each, caches[i], all, n, threads, NULL, 0);
			}
		}
		rows("end one", n, threads, samples, rounds);
		for (int i = 0; i < subjects_count; i++)
			subjects[i].close(caches[i]);
	}
	free(all);
}

/* Ours alone. */
static void bench_end_all(size_t n)
{
	const struct subject *s = &subjects[0];
	uint32_t *all = all_numbers(n, false);
	double each[ROUNDS_MAX], start;
	void *cache = s->open(n);

	for (int r = 0; r < rounds; r++) {
		s->hit(cache, all, n);
		start = now_ns();
		s->forget(cache, n);
		each[r] = (now_ns() - start) / (double)n;
	}
	row("end of all", n, 1, s->name, each, rounds, NULL);
	s->close(cache);
	free(all);
}

/* ---- memory ---- */

static double resident(void)
{
	unsigned long all, pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu %lu", &all, &pages) != 2)
		die("/proc/self/statm");
	fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double memory_of(const struct child_args *a)
{
	double before = resident();
	void *cache = a->subject->open(a->n);

	a->subject->hit(cache, a->all, a->n);
	a->subject->hit(cache, a->all, a->n);
	return resident() - before;
}

static void bench_memory(size_t n)
{
	double samples[SUBJECTS_MAX][ROUNDS_MAX];
	uint32_t *all = all_numbers(n, false);

	for (int i = 0; i < subjects_count; i++)
		samples[i][0] = in_child(memory_of, &subjects[i], all, n, 1) / (double)n;
	rows("memory (bytes)", n, 1, samples, 1);
	free(all);
}

static int usage(void)
{
	fprintf(stderr, "usage: bench-cache [--json] [--quick] [--only WHAT] [--cache NAME] [--regions N] [--rounds N] [--cpus A,B]\n");
	return 2;
}

static void bench_regions(size_t n)
{
	if (n >= 65536 && wanted("memory"))
		bench_memory(n);
	if (!strncmp(only, "hit", 3) || !*only)
		bench_hits(n);
	if (!strncmp(only, "gain", 4) || !*only) {
		static int where[THREADS_MAX];
		static bool chosen;

		if (!chosen) {
			memcpy(where, cpus, sizeof(where));
			processors_choose(where, json);
			chosen = true;
		}
		bench_gain(n, gain_rounds, where);
	}
	if (n < 1024)
		return;
	bench_misses(n, false, "miss in order");
	bench_misses(n, true, "miss at random");
	bench_misses_again(n, false, "again in order");
	bench_misses_again(n, true, "again at random");
	bench_end_one(n);
	if (wanted("end of all"))
		bench_end_all(n);
}

int main(int argc, char **argv)
{
	static const size_t counts[] = { 16, 1024, 65536, 1000000 };
	size_t regions = 0;
	int last = 4;

	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(argv[i], "--json")) {
			json = true;
			continue;
		}
		if (!strcmp(argv[i], "--quick")) {
			rounds = 3;
			gain_rounds = 21;
			hits = 1 << 17;
			last = 3;
			continue;
		}
		if (!value)
			return usage();
		if (!strcmp(argv[i], "--only"))
			only = value;
		else if (!strcmp(argv[i], "--cache"))
			only_cache = value;
		else if (!strcmp(argv[i], "--regions"))
			regions = strtoul(value, NULL, 0);
		else if (!strcmp(argv[i], "--rounds"))
			rounds = gain_rounds = atoi(value);
		else if (strcmp(argv[i], "--cpus") || sscanf(value, "%d,%d", &cpus[0], &cpus[1]) != THREADS_MAX)
			return usage();
		i++;
	}
	if (rounds < 1 || (rounds > ROUNDS_MAX && strncmp(only, "gain", 4)))
		return usage();
	stay_on(cpus[0]);
	if (!json)
		printf("%-17s %8s %2s  %-8s %9s %9s %9s   of UCX's (half of the rounds)\n", "ns per", "regions", "th", "cache", "median",
		       "min", "max");
	if (regions)
		bench_regions(regions);
	for (int i = 0; i < last && !regions; i++)
		bench_regions(counts[i]);
	if (json)
		printf("\n]\n");
	if (subjects_count < SUBJECTS_MAX)
		fprintf(stderr, "bench-cache was built without UCX (Debian: libucx-dev), so there is nothing to compare with\n");
	return 0;
}
