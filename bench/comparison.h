/* SPDX-License-Identifier: MIT */
/*
 * comparison.h - subjects that are measured beside each other, in rows of one condition each.
 *
 * Every round measures each subject in each row once, forwards and backwards in turns, and one more round before the
 * first warms up.  A ratio is taken in each round: what makes a machine slower for a while does so for both.
 */
#ifndef COMPARISON_H
#define COMPARISON_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "spread.h"

struct compared {
	bool measured;
	struct spread value, ratio;	/* ratio: to the first subject */
};

struct comparison {
	const char *program;		/* "bench-copy" */
	const char *what;		/* a line about what the values are */
	const char *const *rows, *const *subjects;
	int row_count, subject_count;
	int rounds;
	bool json;
	/* NAN: this subject is not measured in this row. */
	double (*measure)(int row, int subject);
	struct compared *results;	/* [row_count][subject_count] */
};

/* --json and --repeats N; exits with 2 where they are wrong. */
void comparison_options(struct comparison *c, int argc, char **argv);
void comparison_run(struct comparison *c);
/* A table, or one JSON object. */
void comparison_print(const struct comparison *c);

static inline const struct compared *compared(const struct comparison *c, int row, int subject)
{
	return &c->results[row * c->subject_count + subject];
}

/* The median. */
static inline double value_of(const struct comparison *c, int row, int subject)
{
	return compared(c, row, subject)->value.median;
}

#endif
