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
 *	curve	hits of many threads: cache_curve.c
 *	miss	the first get of a region and its put, in order of addresses and in none;
 *		a fresh cache in a fresh process each time, its memory not touched before
 *	again	and once more with the same cache after everything was invalidated
 *	end one	an invalidation of one region, all n of them in no order; end of all: a
 *		region's share of one of all
 *	memory	resident bytes per idle region, one thread's tables included
 *
 * usage: bench-cache [--json] [--quick] [--only WHAT] [--cache NAME] [--regions N] [--rounds N] [--cpus A,B] [--threads N,...]
 *
 * WHAT is the beginning of a row's name.  --cpus: threads stay on these processors,
 * which should be two cores, not one core's two threads; gain looks for two itself.
 */
#include <math.h>
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

/* What is measured now. */
static struct {
	size_t n;
	const uint32_t *all, *which;
	void *caches[SUBJECTS_MAX];
	double cpu[THREADS_MAX][SUBJECTS_MAX];
} now;

static void open_caches(size_t n, const uint32_t *all, const uint32_t *which)
{
	now.n = n;
	now.all = all;
	now.which = which;
	for (int i = 0; i < subjects_count; i++)
		now.caches[i] = subjects[i].open(n);
}

static void close_caches(void)
{
	for (int i = 0; i < subjects_count; i++)
		subjects[i].close(now.caches[i]);
}

/* ---- hits ---- */

/* Ours alone: hits that look at a word, as those of pins do. */
static void bench_word_hits(size_t n, const uint32_t *all, const uint32_t *which)
{
	const struct subject *s = &subjects[0];
	double *samples = calloc((size_t)rounds, sizeof(*samples));
	void *cache = our_open_words(n);

	if (!samples)
		die("out of memory");
	for (int i = 0; i < 3; i++)
		s->hit(cache, all, n);
	s->hit(cache, which, hits);
	for (int threads = 1; threads <= THREADS_MAX; threads++) {
		struct spread spread;

		for (int r = 0; r < rounds; r++)
			samples[r] = time_steps(s->hit, cache, which, hits, threads, all, n);
		spread = spread_of(samples, (uint64_t)rounds);
		row("hit, word", n, threads, "peerdma", &spread, NULL);
	}
	s->close(cache);
	free(samples);
}

/* The second half of the rows is the threads' own time in the first half. */
static double hit(int r, int i)
{
	int threads = r % THREADS_MAX + 1;
	double ns;

	if (r >= THREADS_MAX)
		return now.cpu[threads - 1][i];
	ns = time_steps(subjects[i].hit, now.caches[i], now.which, hits, threads, now.all, now.n);
	now.cpu[threads - 1][i] = last_cpu;
	return ns;
}

static void bench_hits(size_t n)
{
	uint32_t *all = all_numbers(n, false), *which = some_numbers(hits, n);

	open_caches(n, all, which);
	for (int i = 0; i < subjects_count; i++) {
		subjects[i].hit(now.caches[i], all, n);
		subjects[i].hit(now.caches[i], all, n);
		subjects[i].hit(now.caches[i], which, hits);
	}
	compare((const char *const[]){ "hit", "hit, CPU" }, n, 2 * THREADS_MAX, hit);
	close_caches();
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

static double miss(int r, int i)
{
	return in_child(ns_per_miss, &subjects[i], now.all, now.n, r + 1);
}

static void bench_misses(size_t n, bool shuffled, const char *what)
{
	uint32_t *all;

	if (!wanted(what))
		return;
	now.all = all = all_numbers(n, shuffled);
	now.n = n;
	compare(&what, n, THREADS_MAX, miss);
	free(all);
}

static double miss_again(int r, int i)
{
	(void)r;
	subjects[i].forget(now.caches[i], now.n);
	return time_steps(subjects[i].hit, now.caches[i], now.all, now.n, 1, NULL, 0);
}

/* The same cache after all was invalidated, so that no page is touched for the first time. */
static void bench_misses_again(size_t n, bool shuffled, const char *what)
{
	uint32_t *all;

	if (!wanted(what))
		return;
	all = all_numbers(n, shuffled);
	open_caches(n, all, NULL);
	for (int i = 0; i < subjects_count; i++)
		subjects[i].hit(now.caches[i], all, n);
	compare(&what, n, 1, miss_again);
	close_caches();
	free(all);
}

/* ---- ends ---- */

static double end_one(int r, int i)
{
	subjects[i].hit(now.caches[i], now.all, now.n);
	return time_steps(subjects[i].end_each, now.caches[i], now.all, now.n, r + 1, NULL, 0);
}

static void bench_end_one(size_t n)
{
	uint32_t *all;

	if (!wanted("end one"))
		return;
	all = all_numbers(n, true);
	open_caches(n, all, NULL);
	compare((const char *const[]){ "end one" }, n, THREADS_MAX, end_one);
	close_caches();
	free(all);
}

/* Ours alone. */
static double end_all(int r, int i)
{
	double start;

	(void)r;
	if (i)
		return NAN;
	subjects[i].hit(now.caches[i], now.all, now.n);
	start = now_ns();
	subjects[i].forget(now.caches[i], now.n);
	return (now_ns() - start) / (double)now.n;
}

static void bench_end_all(size_t n)
{
	uint32_t *all = all_numbers(n, false);

	open_caches(n, all, NULL);
	compare((const char *const[]){ "end of all" }, n, 1, end_all);
	close_caches();
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

static double memory(int r, int i)
{
	(void)r;
	return in_child(memory_of, &subjects[i], now.all, now.n, 1) / (double)now.n;
}

static void bench_memory(size_t n)
{
	uint32_t *all = all_numbers(n, false);
	int asked = rounds;

	now.all = all;
	now.n = n;
	rounds = 1;
	compare((const char *const[]){ "memory (bytes)" }, n, 1, memory);
	rounds = asked;
	free(all);
}

static int usage(void)
{
	fprintf(stderr, "usage: bench-cache [--json] [--quick] [--only WHAT] [--cache NAME] [--regions N] [--rounds N] [--cpus A,B] [--threads N,...]\n");
	return 2;
}

/* False: not 1 to 8 numbers from 1 to 64, commas between. */
static bool threads_from(const char *text)
{
	choice.thread_counts = 0;
	do {
		char *end;
		long n = strtol(text, &end, 10);

		if (choice.thread_counts == CURVE_COUNTS_MAX || n < 1 || n > CURVE_THREADS_MAX || (*end && *end != ','))
			return false;
		choice.threads[choice.thread_counts++] = (int)n;
		text = end + (*end == ',');
	} while (*text);
	return true;
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
	bench_curve(n);
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
		else if (!strcmp(argv[i], "--threads") && threads_from(value))
			;
		else if (strcmp(argv[i], "--cpus") || sscanf(value, "%d,%d", &choice.cpus[0], &choice.cpus[1]) != THREADS_MAX)
			return usage();
		i++;
	}
	if (rounds < 1)
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
