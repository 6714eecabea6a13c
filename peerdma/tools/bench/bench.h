/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what the files of `peerdma bench` share.
 *
 *   cmd_bench.c	options, the order of things, JSON
 *   subjects.c		where the memory is, and the back-end that pins it
 *   bench_cache.c	what is measured, a file for each
 *   bench_query.c
 *   bench_pin.c	pin, map, copy
 *   measure.c		threads, samples, progress
 *   spread.h		the clock, percentiles; of bench/, too, as gpu.c and empty_cache.h are
 *   bars.c, plot.c	pictures
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peerdma.h"
#include "base/tool.h"
#include "spread.h"

#define BENCH_SIZES_MAX		32
#define BENCH_THREADS_MAX	64

struct bench_options {
	uint64_t sizes[BENCH_SIZES_MAX];	/* 0 of them: those of each case */
	size_t size_count;
	unsigned int threads[BENCH_SIZES_MAX];
	size_t thread_count;
	uint64_t count;				/* samples of each thread, at most */
	double seconds;				/* for each case, at most */
	const char *pci;			/* map for this device; NULL: none */
};

/* Nanoseconds for one call; a sample is the mean of `batch` calls in a row. */
struct bench_result {
	const char *what;			/* "cache" */
	const char *name;			/* "hit" */
	const char *of;				/* what size counts: "regions" or "bytes" */
	uint64_t size;
	unsigned int threads, batch;
	uint64_t samples;
	struct spread times;
	double rate;				/* calls of all threads in a second */
	bool moves;				/* each call moves `size` bytes */
};

struct bench {
	const struct tool *tool;
	struct bench_options options;
	struct bench_result *results;
	size_t count, room;
	struct {
		const char *what;
		char why[256];
	} left_out[16];
	size_t left_out_count;

	/* subjects.c */
	struct peerdma *ctx;			/* NULL: nothing can be pinned */
	char why_not[256];			/* peerdma_last_error(), then */
	bool gpu, software;			/* there is one; it is softgpu */
	char gpu_name[64], why_no_gpu[256];
	char host_provider[16], device_provider[16]; /* of pins made; "" none yet */
};

/* ---- measure.c ---- */

struct bench_case {
	const char *what, *name, *of;
	uint64_t size;
	unsigned int batch;
	bool moves;
	void *arg;
	/* Each thread's own: *state is handed to the others.  0 or -errno, with peerdma_last_error()'s text. */
	int (*begin)(void *arg, unsigned int thread, void **state);
	int (*calls)(void *state, unsigned int n);
	void (*end)(void *state);
};

/* Measures it with each number of threads; a case that cannot be begun is left out, and why is kept. */
void bench_measure(struct bench *b, const struct bench_case *c);
void bench_leave_out(struct bench *b, const char *what, const char *why);

/* ---- what there is to measure ---- */

void bench_cache(struct bench *b);
void bench_query(struct bench *b);
void bench_pin(struct bench *b);
void bench_map(struct bench *b);
void bench_copy(struct bench *b);

/* The sizes to sweep: the user's, or these up to the 0. */
size_t bench_sizes(const struct bench *b, const uint64_t *usual, const uint64_t **sizes);

/* ---- subjects.c ---- */

void subjects_open(struct bench *b);
void subjects_close(struct bench *b);
/* NULL: no memory.  Host memory is touched; a GPU's is had from CUDA. */
void *subject_alloc(bool device, size_t length);
void subject_free(bool device, void *p, size_t length);
/* Once for each kind of memory: the back-end that has pinned it. */
void subject_provider(struct bench *b, bool device, struct peerdma_region *region);

/* ---- bars.c, plot.c ---- */

/* "hit, 1024 regions, 2 threads" */
const char *bench_label(const struct bench_result *r, char buf[96]);
const char *bench_time(double ns, char buf[32]);	/* "5.9 ns", "1.2 ms" */
void bench_bars(const struct bench *b);
bool bench_can_plot(void);			/* gnuplot can be run */
/* Leaves the file as it is, or none.  0 or -errno */
int bench_can_write(const char *path);
/* 0, -ECANCELED gnuplot has failed, or -errno */
int bench_plot(const struct bench *b, const char *path);
