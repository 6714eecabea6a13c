// SPDX-License-Identifier: MIT
/* comparison.c - see comparison.h. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "comparison.h"

#define ROUNDS_MAX	1001

void comparison_options(struct comparison *c, int argc, char **argv)
{
	static const struct option known[] = {
		{ "json", no_argument, NULL, 'j' }, { "repeats", required_argument, NULL, 'r' }, { 0 }
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (opt == 'j')
			c->json = true;
		else if (opt == 'r')
			c->rounds = atoi(optarg);
		if (opt == '?' || c->rounds < 1 || c->rounds > ROUNDS_MAX) {
			fprintf(stderr, "usage: %s [--json] [--repeats 1..%d]\n", c->program, ROUNDS_MAX);
			exit(2);
		}
	}
}

static void *need(const struct comparison *c, size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p) {
		fprintf(stderr, "%s: out of memory\n", c->program);
		exit(1);
	}
	return p;
}

static void summarize(const struct comparison *c, const double *samples)
{
	double *values = need(c, (size_t)c->rounds, sizeof(*values));

	for (int cell = 0; cell < c->row_count * c->subject_count; cell++) {
		const double *own = samples + cell * c->rounds;
		const double *first = samples + (cell - cell % c->subject_count) * c->rounds;
		struct compared *out = &c->results[cell];

		out->measured = !isnan(own[0]);
		for (int r = 0; r < c->rounds; r++)
			values[r] = own[r] / first[r];
		out->ratio = spread_of(values, (uint64_t)c->rounds);
		memcpy(values, own, (size_t)c->rounds * sizeof(*values));
		out->value = spread_of(values, (uint64_t)c->rounds);
	}
	free(values);
}

void comparison_run(struct comparison *c)
{
	size_t cells = (size_t)c->row_count * (size_t)c->subject_count;
	double *samples = need(c, cells * (size_t)c->rounds, sizeof(*samples));

	c->results = need(c, cells, sizeof(*c->results));
	for (int r = -1; r < c->rounds; r++) {
		for (int row = 0; row < c->row_count; row++) {
			for (int i = 0; i < c->subject_count; i++) {
				int subject = r & 1 ? c->subject_count - 1 - i : i;
				int cell = row * c->subject_count + subject;

				samples[cell * c->rounds + (r < 0 ? 0 : r)] = c->measure(row, subject);
			}
		}
	}
	summarize(c, samples);
	free(samples);
}

static void print_row(const struct comparison *c, int row, int subject)
{
	const struct compared *r = compared(c, row, subject);
	int digits = r->value.median < 1000;

	printf("%-16s %-22s %10.*f (%.*f to %.*f)", c->rows[row], c->subjects[subject], digits, r->value.median, digits,
	       r->value.low, digits, r->value.high);
	if (subject)
		printf("   %.3f (%.3f to %.3f)", r->ratio.median, r->ratio.low, r->ratio.high);
	printf("\n");
}

static void json_row(const struct comparison *c, int row, int subject, bool first)
{
	const struct compared *r = compared(c, row, subject);

	printf("%s\n {\"row\": \"%s\", \"subject\": \"%s\", \"min\": %.2f, \"low\": %.2f, \"median\": %.2f, \"high\": %.2f, "
	       "\"max\": %.2f", first ? "" : ",", c->rows[row], c->subjects[subject], r->value.min, r->value.low,
	       r->value.median, r->value.high, r->value.max);
	if (subject && compared(c, row, 0)->measured)
		printf(", \"ratio\": %.4f, \"ratio_low\": %.4f, \"ratio_high\": %.4f", r->ratio.median, r->ratio.low, r->ratio.high);
	printf("}");
}

void comparison_print(const struct comparison *c)
{
	bool first = true;

	if (c->json)
		printf("{\"bench\": \"%s\", \"what\": \"%s\", \"rounds\": %d, \"results\": [", c->program, c->what, c->rounds);
	else
		printf("%s; median of %d rounds (half of them), ratio to the first\n\n", c->what, c->rounds);
	for (int row = 0; row < c->row_count; row++) {
		for (int subject = 0; subject < c->subject_count; subject++) {
			if (!compared(c, row, subject)->measured)
				continue;
			if (c->json)
				json_row(c, row, subject, first);
			else
				print_row(c, row, subject);
			first = false;
		}
	}
	printf(c->json ? "]}\n" : "\n");
}
