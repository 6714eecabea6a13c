/* SPDX-License-Identifier: MIT */
/* stats.h - the middle and the ends of a few samples, the clock and the time stamp counter. */
#ifndef STATS_H
#define STATS_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Half of the samples lie between low and high. */
struct stats {
	double min, low, median, high, max;
};

static int stats_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the samples. */
static inline struct stats stats_of(double *samples, int n)
{
	qsort(samples, n, sizeof(*samples), stats_compare);
	return (struct stats){
		.min = samples[0], .low = samples[n / 4], .median = samples[n / 2],
		.high = samples[3 * n / 4], .max = samples[n - 1],
	};
}

static inline double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline uint64_t ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

#endif
