// SPDX-License-Identifier: MIT
/*
 * measure.c - threads that make the same call, each call or batch of calls timed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define SAMPLES_MIN	5
#define PROGRESS_NS	2e9

/* What reading the clock costs is no call's; the least of many looks. */
static double clock_cost(void)
{
	double cost = 1e9;

	for (int i = 0; i < 1000; i++) {
		double from = now_ns(), took = now_ns() - from;

		cost = took < cost ? took : cost;
	}
	return cost;
}

struct worker {
	const struct bench_case *c;
	const struct bench_options *options;
	unsigned int number;
	pthread_barrier_t *ready;
	int *failed;			/* any of them: none measures */
	int error;
	char why[256];
	double *samples, from, to;
	uint64_t count, calls;
	pthread_t thread;
};

static void remember_error(struct worker *w, int error)
{
	const char *why = peerdma_last_error();

	w->error = error;
	snprintf(w->why, sizeof(w->why), "%s", error == -ENOMEM && !*why ? "out of memory" : why);
	__atomic_store_n(w->failed, 1, __ATOMIC_RELAXED);
}

static void sample(struct worker *w, void *state)
{
	const struct bench_case *c = w->c;
	double cost = clock_cost(), limit, took;
	int ret = 0;

	/* What the first calls alone pay, such as memory touched for the first time. */
	for (int i = 0; !ret && i < 3; i++)
		ret = c->calls(state, c->batch);
	w->from = now_ns();
	limit = w->from + w->options->seconds * 1e9;
	while (!ret && w->count < w->options->count &&
	       (w->count < SAMPLES_MIN || now_ns() < limit)) {
		double from = now_ns();

		ret = c->calls(state, c->batch);
		took = now_ns() - from - cost;
		w->samples[w->count++] = (took > 0 ? took : 0) / c->batch;
	}
	w->to = now_ns();
	w->calls = w->count * c->batch;
	if (ret)
		remember_error(w, ret);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	void *state = NULL;
	int ret;

	w->samples = malloc(w->options->count * sizeof(*w->samples));
	ret = w->samples ? w->c->begin(w->c->arg, w->number, &state) : -ENOMEM;
	if (ret)
		remember_error(w, ret);
	pthread_barrier_wait(w->ready);
	if (!__atomic_load_n(w->failed, __ATOMIC_RELAXED))
		sample(w, state);
	if (!ret)
		w->c->end(state);
	return NULL;
}

static void progress(const struct bench_result *r)
{
	static double began, told;
	double now = now_ns();
	char label[96];

	if (!began)
		began = told = now;
	if (now - told < PROGRESS_NS)
		return;
	told = now;
	fflush(stdout);
	fprintf(stderr, "peerdma: bench: %.0f s: %s %s\n", (now - began) / 1e9, r->what,
		bench_label(r, label));
}

static void keep(struct bench *b, const struct bench_result *r)
{
	if (b->count == b->room) {
		b->room = b->room ? b->room * 2 : 64;
		b->results = realloc(b->results, b->room * sizeof(*b->results));
		if (!b->results) {
			warn("out of memory");
			exit(EXIT_ERROR);
		}
	}
	b->results[b->count++] = *r;
}

/* All threads' samples as one, and what they have done together. */
static int summarize(const struct worker *w, unsigned int threads, struct bench_result *r)
{
	double *all, from = w[0].from, to = w[0].to;
	uint64_t n = 0, calls = 0;

	for (unsigned int i = 0; i < threads; i++)
		n += w[i].count;
	all = malloc((n ? n : 1) * sizeof(*all));
	if (!all || !n) {
		free(all);
		return -ENOMEM;
	}
	n = 0;
	for (unsigned int i = 0; i < threads; i++) {
		memcpy(all + n, w[i].samples, w[i].count * sizeof(*all));
		n += w[i].count;
		calls += w[i].calls;
		from = w[i].from < from ? w[i].from : from;
		to = w[i].to > to ? w[i].to : to;
	}
	r->samples = n;
	r->times = spread_of(all, n);
	r->rate = to > from ? (double)calls * 1e9 / (to - from) : 0;
	free(all);
	return 0;
}

static void measure(struct bench *b, const struct bench_case *c, unsigned int threads)
{
	struct bench_result r = {
		.what = c->what, .name = c->name, .of = c->of, .size = c->size, .threads = threads,
		.batch = c->batch,
		.moves = c->moves,
	};
	struct worker *w = calloc(threads, sizeof(*w));
	pthread_barrier_t ready;
	unsigned int begun = 0;
	int failed = 0;

	if (!w) {
		bench_leave_out(b, c->what, "out of memory");
		return;
	}
	progress(&r);
	pthread_barrier_init(&ready, NULL, threads);
	for (; begun < threads; begun++) {
		w[begun] = (struct worker){ .c = c, .options = &b->options, .number = begun,
					    .ready = &ready, .failed = &failed };
		if (pthread_create(&w[begun].thread, NULL, work, &w[begun])) {
			/* Those that have begun would wait for ever. */
			warn("bench: only %u of %u threads could be started", begun, threads);
			exit(EXIT_ERROR);
		}
	}
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(w[i].thread, NULL);
	pthread_barrier_destroy(&ready);
	for (unsigned int i = 0; i < threads; i++) {
		if (w[i].error) {
			bench_leave_out(b, c->what, w[i].why);
			failed = 1;
			break;
		}
	}
	if (!failed && !summarize(w, threads, &r))
		keep(b, &r);
	for (unsigned int i = 0; i < threads; i++)
		free(w[i].samples);
	free(w);
}

void bench_measure(struct bench *b, const struct bench_case *c)
{
	for (size_t i = 0; i < b->options.thread_count; i++)
		measure(b, c, b->options.threads[i]);
}

void bench_leave_out(struct bench *b, const char *what, const char *why)
{
	for (size_t i = 0; i < b->left_out_count; i++) {
		if (!strcmp(b->left_out[i].what, what) && !strcmp(b->left_out[i].why, why))
			return;
	}
	if (b->left_out_count == sizeof(b->left_out) / sizeof(b->left_out[0]))
		return;
	b->left_out[b->left_out_count].what = what;
	snprintf(b->left_out[b->left_out_count++].why, sizeof(b->left_out[0].why), "%s", why);
}

size_t bench_sizes(const struct bench *b, const uint64_t *usual, const uint64_t **sizes)
{
	size_t n = 0;

	*sizes = b->options.sizes;
	if (b->options.size_count)
		return b->options.size_count;
	*sizes = usual;
	while (usual[n])
		n++;
	return n;
}
