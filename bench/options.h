/* SPDX-License-Identifier: MIT */
/* options.h - the options of the benchmarks that compare paths by rounds. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_REPEATS	101

struct options {
	bool json;
	int repeats;
};

/* Exits with 2 where they are wrong. */
static inline void options_take(struct options *options, int argc, char **argv, const char *program)
{
	static const struct option known[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "repeats", required_argument, NULL, 'r' },
		{ 0 }
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (opt == 'j')
			options->json = true;
		else if (opt == 'r')
			options->repeats = atoi(optarg);
		if (opt == '?' || options->repeats < 1 || options->repeats > MAX_REPEATS) {
			fprintf(stderr, "usage: %s [--json] [--repeats 1..%d]\n", program, MAX_REPEATS);
			exit(2);
		}
	}
}

#endif
