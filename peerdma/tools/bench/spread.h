/* SPDX-License-Identifier: MIT */
/* spread.h - the clock, and where the samples of a measurement lie.  For `peerdma bench` and for the programs of bench/. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Half of the samples lie between low and high. */
struct spread {
	double min, low, median, high, p90, p99, max;
};

static inline double clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline double now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline int spread_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The smallest sample that so many of a hundred are not above. */
static inline double spread_percentile(const double *sorted, uint64_t n, unsigned int percent)
{
	uint64_t rank = (n * percent + 99) / 100;

	return sorted[rank ? rank - 1 : 0];
}

/* Sorts the samples, of which there is at least one. */
static inline struct spread spread_of(double *samples, uint64_t n)
{
	qsort(samples, n, sizeof(*samples), spread_compare);
	return (struct spread){
		.min = samples[0], .low = spread_percentile(samples, n, 25),
		.median = spread_percentile(samples, n, 50),
		.high = spread_percentile(samples, n, 75), .p90 = spread_percentile(samples, n, 90),
		.p99 = spread_percentile(samples, n, 99), .max = samples[n - 1],
	};
}

#if defined(__x86_64__)
static inline uint64_t ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}
#endif
