// SPDX-License-Identifier: MIT
/*
 * cache.c - the registration cache beside UCX's: the same regions, the same order of
 * addresses, registration that does nothing, in turns.
 *
 *	hit	a get and its put, of one region out of n at random; and ours alone
 *		with a word to look at, as pins have
 *	hit, CPU  the same by the threads' own time: where it does not grow with threads,
 *		they share nothing, and throughput grows as they do
 *	miss	the first get of a region and its put, in order of addresses and in none;
 *		a fresh cache in a fresh process each time, its memory not touched before,
 *		and once more with the same cache after everything was invalidated
 *	end	an invalidation of one region among n, and its share of one of all
 *	memory	resident bytes per idle region, one thread's tables included
 *
 * usage: bench-cache [--json] [--quick]
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef HAVE_UCX
#include <ucs/memory/rcache.h>
#endif

#include "peerdma_cache.h"
#include "stats.h"

#define ROUNDS_MAX	15
#define THREADS_MAX	2
#define BASE		((char *)(1ULL << 44))
#define STRIDE		8192UL
#define LENGTH		4096UL

static int rounds = 9;
static size_t hits = 1 << 21;		/* of each thread, each round */
static bool json, first_row = true;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* What the calling thread had of a processor: beside others' work, that is what can be compared. */
static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "bench-cache: %s\n", what);
	exit(1);
}

/* ---- the two caches ---- */

struct subject {
	const char *name;
	void *(*open)(size_t n);
	void (*close)(void *cache);
	void (*hit)(void *cache, const uint32_t *which, size_t n);	/* n gets and puts */
	void (*forget)(void *cache, size_t n);				/* of all n regions */
};

static int add(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	(void)arg;
	(void)addr;
	(void)length;
	out->handle = NULL;
	return 0;
}

static void end(void *arg, uint64_t addr, uint64_t length, void *handle)
{
	(void)arg;
	(void)addr;
	(void)length;
	(void)handle;
}

static void *our_open(size_t n)
{
	static const struct peerdma_cache_ops ops = { .size = sizeof(ops), .add = add, .remove = end };
	struct peerdma_cache *cache;

	(void)n;
	if (peerdma_cache_create(&ops, NULL, NULL, &cache))
		die(peerdma_last_error());
	return cache;
}

/* As a cache of pins has it: a word for each region, side by side in pages that only the kernel writes. */
static int add_word(void *arg, uint64_t addr, uint64_t length, struct peerdma_registration *out)
{
	static uint32_t words[1 << 20];

	(void)arg;
	(void)length;
	out->word = &words[(addr - (uintptr_t)BASE) / STRIDE % (1 << 20)];
	return 0;
}

static void *our_open_words(size_t n)
{
	static const struct peerdma_cache_ops ops = {
		.size = sizeof(ops), .monitors = PEERDMA_MONITOR_WORD, .add = add_word, .remove = end,
	};
	struct peerdma_cache *cache;

	(void)n;
	if (peerdma_cache_create(&ops, NULL, NULL, &cache))
		die(peerdma_last_error());
	return cache;
}

static void our_close(void *cache)
{
	peerdma_cache_close(cache);
}

static void our_forget(void *cache, size_t n)
{
	if (peerdma_cache_invalidate(cache, BASE, n * STRIDE) != (int)n)
		die("not all were invalidated");
}

static void our_hit(void *cache, const uint32_t *which, size_t n)
{
	struct peerdma_cached *hold;

	for (size_t i = 0; i < n; i++) {
		if (peerdma_cache_get(cache, BASE + which[i] * STRIDE, LENGTH, &hold))
			die(peerdma_last_error());
		peerdma_cache_put(cache, hold);
	}
}

#ifdef HAVE_UCX
static ucs_status_t ucx_add(void *context, ucs_rcache_t *rcache, void *arg, ucs_rcache_region_t *region, uint16_t flags)
{
	(void)context;
	(void)rcache;
	(void)arg;
	(void)region;
	(void)flags;
	return UCS_OK;
}

static void ucx_end(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region)
{
	(void)context;
	(void)rcache;
	(void)region;
}

static void ucx_dump(void *context, ucs_rcache_t *rcache, ucs_rcache_region_t *region, char *buf, size_t max)
{
	(void)context;
	(void)rcache;
	(void)region;
	if (max)
		*buf = 0;
}

static void *ucx_open(size_t n)
{
	static const ucs_rcache_ops_t ops = { ucx_add, ucx_end, ucx_dump };
	ucs_rcache_params_t params;
	ucs_rcache_t *rcache;

	(void)n;
	memset(&params, 0, sizeof(params));
	params.region_struct_size = sizeof(ucs_rcache_region_t);
	params.alignment = UCS_RCACHE_MIN_ALIGNMENT;
	params.max_alignment = 4096;
	params.ops = &ops;
	params.flags = UCS_RCACHE_FLAG_NO_PFN_CHECK;
	params.max_regions = (unsigned long)-1;
	params.max_size = (size_t)-1;
	params.max_unreleased = (size_t)-1;
	if (ucs_rcache_create(&params, "bench", NULL, &rcache) != UCS_OK)
		die("ucs_rcache_create");
	return rcache;
}

static void ucx_close(void *cache)
{
	ucs_rcache_destroy(cache);
}

static void ucx_gone(void *arg)
{
	(void)arg;
}

static void ucx_forget(void *cache, size_t n)
{
	ucs_rcache_region_t *region;

	for (size_t i = 0; i < n; i++) {
		if (ucs_rcache_get(cache, BASE + i * STRIDE, LENGTH, PROT_READ | PROT_WRITE, NULL, &region) != UCS_OK)
			die("ucs_rcache_get");
		ucs_rcache_region_invalidate(cache, region, ucx_gone, NULL);
		ucs_rcache_region_put(cache, region);
	}
}

static void ucx_hit(void *cache, const uint32_t *which, size_t n)
{
	ucs_rcache_region_t *region;

	for (size_t i = 0; i < n; i++) {
		if (ucs_rcache_get(cache, BASE + which[i] * STRIDE, LENGTH, PROT_READ | PROT_WRITE, NULL, &region) != UCS_OK)
			die("ucs_rcache_get");
		ucs_rcache_region_put(cache, region);
	}
}
#endif

static const struct subject subjects[] = {
	{ "peerdma", our_open, our_close, our_hit, our_forget },
#ifdef HAVE_UCX
	{ "ucx", ucx_open, ucx_close, ucx_hit, ucx_forget },
#endif
};

#define SUBJECTS ((int)(sizeof(subjects) / sizeof(subjects[0])))

/* ---- measuring ---- */

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

static void shuffle(uint32_t *p, size_t n)
{
	for (size_t i = n; i > 1; i--) {
		size_t j = next_random() % i;
		uint32_t t = p[i - 1];

		p[i - 1] = p[j];
		p[j] = t;
	}
}

static void row(const char *what, size_t n, int threads, const char *name, double *samples, int count, double other)
{
	struct stats s = stats_of(samples, count);

	if (json) {
		printf("%s\n  {\"what\": \"%s\", \"regions\": %zu, \"threads\": %d, \"cache\": \"%s\", \"median\": %.2f, \"min\": %.2f, \"max\": %.2f}",
		       first_row ? "[" : ",", what, n, threads, name, s.median, s.min, s.max);
		first_row = false;
		return;
	}
	printf("%-15s %8zu %2d  %-8s %9.1f %9.1f %9.1f", what, n, threads, name, s.median, s.min, s.max);
	if (other > 0)
		printf("   1/%.1f", other / s.median);
	printf("\n");
	fflush(stdout);
}

/* The other's first, for ours to be compared with. */
static void rows(const char *what, size_t n, int threads, double samples[SUBJECTS][ROUNDS_MAX], int count)
{
	double other = 0;

	for (int i = SUBJECTS; i--;) {
		row(what, n, threads, subjects[i].name, samples[i], count, i ? 0 : other);
		other = stats_of(samples[i], count).median;
	}
}

struct work {
	const struct subject *subject;
	void *cache;
	const uint32_t *which;
	size_t n;
	const uint32_t *all;
	size_t regions;
	pthread_barrier_t *begin;
	double from, to, cpu;
};

static double last_cpu;		/* of a hit in time_hits()'s last run: the mean of its threads */

static void *worker(void *arg)
{
	struct work *w = arg;

	/* Its tables are warm. */
	for (int i = 0; i < 3; i++)
		w->subject->hit(w->cache, w->all, w->regions);
	w->subject->hit(w->cache, w->which, w->n);
	pthread_barrier_wait(w->begin);
	w->from = now_ns();
	w->cpu = -cpu_ns();
	w->subject->hit(w->cache, w->which, w->n);
	w->cpu += cpu_ns();
	w->to = now_ns();
	return NULL;
}

/* ns per hit, all threads' hits counted: with two threads it halves if nothing is in the way. */
static double time_hits(const struct subject *s, void *cache, const uint32_t *which, int threads, const uint32_t *all,
			size_t regions)
{
	struct work w[THREADS_MAX];
	pthread_t t[THREADS_MAX];
	pthread_barrier_t begin;
	double start, end;

	if (threads > THREADS_MAX)	/* also for gcc with a sanitizer, which counts further */
		die("threads");
	if (threads == 1) {
		start = now_ns();
		last_cpu = -cpu_ns();
		s->hit(cache, which, hits);
		last_cpu = (last_cpu + cpu_ns()) / (double)hits;
		return (now_ns() - start) / (double)hits;
	}
	pthread_barrier_init(&begin, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++) {
		w[i] = (struct work){ s, cache, which + (size_t)i * hits / 2, hits / 2, all, regions, &begin, 0, 0, 0 };
		if (pthread_create(&t[i], NULL, worker, &w[i]))
			die("pthread_create");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&begin);
	start = w[0].from;
	end = w[0].to;
	last_cpu = 0;
	for (int i = 0; i < threads; i++) {
		last_cpu += w[i].cpu / (double)(hits / 2 * (size_t)threads);
		start = w[i].from < start ? w[i].from : start;
		end = w[i].to > end ? w[i].to : end;
	}
	return (end - start) / (double)(hits / 2 * (size_t)threads);
}

/* Ours alone: hits that look at a word, as those of pins do. */
static void bench_word_hits(size_t n, const uint32_t *all, const uint32_t *which)
{
	double samples[ROUNDS_MAX];
	void *cache = our_open_words(n);

	for (int i = 0; i < 3; i++)
		our_hit(cache, all, n);
	our_hit(cache, which, hits);
	for (int threads = 1; threads <= THREADS_MAX; threads++) {
		for (int r = 0; r < rounds; r++)
			samples[r] = time_hits(&subjects[0], cache, which, threads, all, n);
		row("hit, word", n, threads, "peerdma", samples, rounds, 0);
	}
	our_close(cache);
}

static void bench_hits(size_t n)
{
	double samples[SUBJECTS][ROUNDS_MAX], cpu[SUBJECTS][ROUNDS_MAX];
	uint32_t *all = numbers(n), *which = numbers(hits);
	void *caches[SUBJECTS];

	for (size_t i = 0; i < n; i++)
		all[i] = (uint32_t)i;
	for (size_t i = 0; i < hits; i++)
		which[i] = (uint32_t)(next_random() % n);
	for (int i = 0; i < SUBJECTS; i++) {
		caches[i] = subjects[i].open(n);
		subjects[i].hit(caches[i], all, n);
		subjects[i].hit(caches[i], all, n);
		subjects[i].hit(caches[i], which, hits);
	}
	for (int threads = 1; threads <= THREADS_MAX; threads++) {
		for (int r = 0; r < rounds; r++) {
			for (int i = 0; i < SUBJECTS; i++) {
				samples[i][r] = time_hits(&subjects[i], caches[i], which, threads, all, n);
				cpu[i][r] = last_cpu;
			}
		}
		rows("hit", n, threads, samples, rounds);
		rows("hit, CPU", n, threads, cpu, rounds);
	}
	for (int i = 0; i < SUBJECTS; i++)
		subjects[i].close(caches[i]);
	bench_word_hits(n, all, which);
	free(all);
	free(which);
}

/*
 * What a function says in a process of its own, where nothing that others have left
 * behind matters: memory that an allocator keeps is as good as touched.
 */
static double in_child(double (*fn)(const struct subject *, const uint32_t *, size_t), const struct subject *s,
		       const uint32_t *all, size_t n)
{
	double said = 0;
	int fds[2];
	pid_t pid;

	if (pipe(fds))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		said = fn(s, all, n);
		_exit(write(fds[1], &said, sizeof(said)) != sizeof(said));
	}
	if (read(fds[0], &said, sizeof(said)) != sizeof(said))
		die("the child said nothing");
	waitpid(pid, NULL, 0);
	close(fds[0]);
	close(fds[1]);
	return said;
}

static double ns_per_miss(const struct subject *s, const uint32_t *all, size_t n)
{
	void *cache = s->open(n);
	double start = now_ns();

	s->hit(cache, all, n);
	return (now_ns() - start) / (double)n;
}

static void bench_misses(size_t n, bool shuffled)
{
	double samples[SUBJECTS][ROUNDS_MAX];
	uint32_t *all = numbers(n);

	for (size_t i = 0; i < n; i++)
		all[i] = (uint32_t)i;
	if (shuffled)
		shuffle(all, n);
	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < SUBJECTS; i++)
			samples[i][r] = in_child(ns_per_miss, &subjects[i], all, n);
	}
	rows(shuffled ? "miss at random" : "miss in order", n, 1, samples, rounds);
	free(all);
}

/* The same cache after all was invalidated, so that no page is touched for the first time. */
static void bench_misses_again(size_t n, bool shuffled)
{
	double samples[SUBJECTS][ROUNDS_MAX];
	uint32_t *all = numbers(n);
	void *caches[SUBJECTS];
	double start;

	for (size_t i = 0; i < n; i++)
		all[i] = (uint32_t)i;
	if (shuffled)
		shuffle(all, n);
	for (int i = 0; i < SUBJECTS; i++) {
		caches[i] = subjects[i].open(n);
		subjects[i].hit(caches[i], all, n);
	}
	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < SUBJECTS; i++) {
			subjects[i].forget(caches[i], n);
			start = now_ns();
			subjects[i].hit(caches[i], all, n);
			samples[i][r] = (now_ns() - start) / (double)n;
		}
	}
	rows(shuffled ? "again at random" : "again in order", n, 1, samples, rounds);
	for (int i = 0; i < SUBJECTS; i++)
		subjects[i].close(caches[i]);
	free(all);
}

/* Ours alone. */
static void bench_ends(size_t n)
{
	double one[ROUNDS_MAX], each[ROUNDS_MAX];
	struct peerdma_cache *cache = our_open(n);
	uint32_t *all = numbers(n);
	double start;

	for (size_t i = 0; i < n; i++)
		all[i] = (uint32_t)i;
	our_hit(cache, all, n);
	for (int r = 0; r < rounds; r++) {
		size_t some = n < 1000 ? n : 1000;

		start = now_ns();
		for (size_t i = 0; i < some; i++)
			peerdma_cache_invalidate(cache, BASE + next_random() % n * STRIDE, LENGTH);
		one[r] = (now_ns() - start) / (double)some;
		our_hit(cache, all, n);
		start = now_ns();
		our_forget(cache, n);
		each[r] = (now_ns() - start) / (double)n;
		our_hit(cache, all, n);
	}
	row("end one", n, 1, "peerdma", one, rounds, 0);
	row("end of all", n, 1, "peerdma", each, rounds, 0);
	our_close(cache);
	free(all);
}

static double resident(void)
{
	unsigned long all, pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu %lu", &all, &pages) != 2)
		die("/proc/self/statm");
	fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double memory_of(const struct subject *s, const uint32_t *all, size_t n)
{
	double before = resident();
	void *cache = s->open(n);

	s->hit(cache, all, n);
	s->hit(cache, all, n);
	return resident() - before;
}

static void bench_memory(size_t n)
{
	double samples[SUBJECTS][ROUNDS_MAX];
	uint32_t *all = numbers(n);

	for (size_t i = 0; i < n; i++)
		all[i] = (uint32_t)i;
	for (int i = 0; i < SUBJECTS; i++)
		samples[i][0] = in_child(memory_of, &subjects[i], all, n) / (double)n;
	rows("memory (bytes)", n, 1, samples, 1);
	free(all);
}

int main(int argc, char **argv)
{
	static const size_t counts[] = { 16, 1024, 65536, 1000000 };
	int last = 4;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			json = true;
		} else if (!strcmp(argv[i], "--quick")) {
			rounds = 3;
			hits = 1 << 17;
			last = 3;
		} else {
			fprintf(stderr, "usage: bench-cache [--json] [--quick]\n");
			return 2;
		}
	}
	if (!json)
		printf("%-15s %8s %2s  %-8s %9s %9s %9s\n", "ns per", "regions", "th", "cache", "median", "min", "max");
	for (int i = 2; i < last; i++)
		bench_memory(counts[i]);
	for (int i = 0; i < last; i++)
		bench_hits(counts[i]);
	for (int i = 1; i < last; i++) {
		bench_misses(counts[i], false);
		bench_misses(counts[i], true);
		bench_misses_again(counts[i], false);
		bench_misses_again(counts[i], true);
		bench_ends(counts[i]);
	}
	if (json)
		printf("\n]\n");
#ifndef HAVE_UCX
	fprintf(stderr, "bench-cache was built without UCX (Debian: libucx-dev), so there is nothing to compare with\n");
#endif
	return 0;
}
