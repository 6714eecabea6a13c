// SPDX-License-Identifier: MIT
/*
 * cache.c - the registration cache beside UCX's: the same regions, the same order of
 * addresses, registration that does nothing, in turns.
 *
 *	hit	a get and its put, of one region out of n at random; and ours alone
 *		with a word to look at, as pins have
 *	hit, CPU  the same by the threads' own time: where it does not grow with threads,
 *		they share nothing, and throughput grows as they do
 *	at	a get and its put of 64 bytes in great regions: the same address in each, or any:
 *		cache_offsets.c
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
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache_bench.h"
#include "cache_subjects.h"
#include "spread.h"

static int gain_rounds = 201;

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
	if (!strncmp(choice.only, "hit", 3) || !*choice.only)
		bench_hits(n);
	if (!strncmp(choice.only, "gain", 4) || !*choice.only) {
		static int where[THREADS_MAX];
		static bool chosen;

		if (!chosen) {
			memcpy(where, choice.cpus, sizeof(where));
			processors_choose(where, choice.json);
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
			choice.json = true;
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
			choice.only = value;
		else if (!strcmp(argv[i], "--cache"))
			choice.cache = value;
		else if (!strcmp(argv[i], "--regions"))
			regions = strtoul(value, NULL, 0);
		else if (!strcmp(argv[i], "--rounds"))
			rounds = gain_rounds = atoi(value);
		else if (strcmp(argv[i], "--cpus") || sscanf(value, "%d,%d", &choice.cpus[0], &choice.cpus[1]) != THREADS_MAX)
			return usage();
		i++;
	}
	if (rounds < 1 || (rounds > ROUNDS_MAX && strncmp(choice.only, "gain", 4)))
		return usage();
	stay_on(choice.cpus[0]);
	if (!choice.json)
		printf("%-17s %8s %2s  %-8s %9s %9s %9s   of UCX's (half of the rounds)\n", "ns per", "regions", "th", "cache", "median",
		       "min", "max");
	bench_offsets();
	if (regions)
		bench_regions(regions);
	for (int i = 0; i < last && !regions; i++)
		bench_regions(counts[i]);
	if (choice.json)
		printf("\n]\n");
	if (subjects_count < SUBJECTS_MAX)
		fprintf(stderr, "bench-cache was built without UCX (Debian: libucx-dev), so there is nothing to compare with\n");
	return 0;
}
