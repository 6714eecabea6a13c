/* SPDX-License-Identifier: MIT */
/* copy_options.h - the options of fpga-copy. */
#ifndef FPGA_COPY_OPTIONS_H
#define FPGA_COPY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { EXIT_OK, EXIT_WRONG, EXIT_USAGE, EXIT_MISSING, EXIT_FAILED };

#define HOST		(-1)	/* host memory, in place of a GPU's index */

struct options {
	int src, dst;		/* a GPU's index, or HOST */
	const struct gpu_make *src_make, *dst_make;	/* which kind of memory */
	uint64_t size;
	uint64_t seed;
	const char *cards;
	const char *file;
	bool bounce;
	bool revoke;
	bool json;
	bool list;
};

/* Exits with EXIT_USAGE and a reason, or after --help. */
void options_parse(int argc, char **argv, struct options *opt);

#endif
