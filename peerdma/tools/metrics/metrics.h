/* SPDX-License-Identifier: MIT */
/*
 * metrics.h - what `peerdma metrics` exposes to Prometheus.
 *
 *   families.c  the families: name, type, unit, help
 *   collect.c   fills them, from the same sources as pins, bar1, cache, top and doctor
 *   text.c      OpenMetrics' text, or Prometheus' older one
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/tool.h"

enum metric {
	METRIC_SOURCE_READABLE,
	METRIC_MODULE_INFO,
	METRIC_PINS, METRIC_PINNED_BYTES,
	METRIC_OPERATIONS, METRIC_REVOCATIONS, METRIC_VIEW_FAULTS,
	METRIC_USER_OBJECTS, METRIC_USER_OBJECTS_LIMIT, METRIC_USER_MEMORY,
	METRIC_USER_MEMORY_LIMIT, METRIC_GPU_INFO, METRIC_BAR1_SIZE, METRIC_BAR1_USED,
	METRIC_APERTURE_HELD, METRIC_APERTURE_FREE_RUN, METRIC_DEVICE_MAPPINGS,
	METRIC_PROCESS_PINS, METRIC_PROCESS_PINNED, METRIC_PROCESS_REVOCATIONS,
	METRIC_CACHE_GETS, METRIC_CACHE_HITS, METRIC_CACHE_FAILURES, METRIC_CACHE_ENDED,
	METRIC_CACHE_REGIONS, METRIC_CACHE_REGISTERED, METRIC_CACHE_APERTURE,
	METRIC_DOCTOR_MACHINE, METRIC_DOCTOR_VERDICT, METRIC_DOCTOR_FINDINGS,
	METRICS,
};

struct metric_family {
	const char *name;	/* without the suffix _total of a counter */
	const char *unit;	/* NULL: none; else the end of the name */
	const char *help;
	bool counter;		/* else a gauge */
	bool worst;		/* samples of the same labels: the largest counts, not their sum */
};
extern const struct metric_family metric_families[METRICS];

#define METRIC_UNLIMITED UINT64_MAX	/* "+Inf" */

struct metric_sample {
	char *labels;		/* {a="b",c="d"}, escaped; "" none */
	uint64_t value;
};

struct metrics {
	struct metric_samples {
		struct metric_sample *samples;
		size_t count, room;
	} of[METRICS];
	bool no_memory;
	bool malformed;		/* a source made no sense, which has been reported */
	bool something;		/* a source that counts pins, memory or caches could be read */
};

/* collect.c.  0 or -ENOMEM. */
int metrics_collect(const struct tool *tool, bool processes, bool doctor, struct metrics *m);

/* text.c.  Labels: pairs of name and value, ended by NULL. */
void metric_add(struct metrics *m, enum metric which, uint64_t value,
		...) __attribute__((sentinel));
enum metrics_format { METRICS_OPENMETRICS, METRICS_PROMETHEUS };
/* Sorts what is in m, and joins samples of the same labels. */
void metrics_print(struct metrics *m, enum metrics_format format, FILE *to);
void metrics_free(struct metrics *m);
