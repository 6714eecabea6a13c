/* SPDX-License-Identifier: MIT */
/*
 * pins_table.h - /sys/kernel/debug/peerdma/pins: pins and their owners.
 *
 * One line per pin, fields separated by tabs, names of the fields in the first
 * line.  Fields are found by name: later modules may add some, in any place.
 */
#pragma once

#include <stdint.h>
#include <stddef.h>

#define PINS_PATH "/sys/kernel/debug/peerdma/pins"

struct phys_range {
	uint64_t start;
	uint64_t length;	/* start + length does not wrap */
};

/* Numbers that the table does not have are 0, text is "". */
struct pin {
	uint64_t id;		/* the kernel's log calls the pin so */
	/* And the program that made it so; 0: it has none, or it is not in the table */
	uint64_t handle;
	uint64_t pid;
	char *comm, *client, *provider, *state, *flags;	/* cleaned */
	uint64_t addr;
	uint64_t length;
	uint64_t pinned_length;
	uint64_t page_shift;	/* below 64 */
	uint64_t mappings, views, exports;
	uint64_t first_phys;
	uint64_t generation;
	struct phys_range *segments;	/* CPU physical; may be empty */
	size_t segment_count;
	char *devices;		/* "device:mappings,...", cleaned */
	uint64_t uid;		/* whose limits it counts against; UINT64_MAX: not in the table */
};

struct pins_table {
	struct pin *pins;
	size_t count;
	size_t malformed;	/* lines that are no pin, left out */
	size_t first_malformed;	/* line number, from 1 */
};

/* 0, -ENOMEM, or -EBADMSG: the first line does not name the fields that a pin must have. */
int pins_parse(const char *data, size_t length, struct pins_table *table);
/* pins_parse() of root's table, or file_read()'s errors. */
int pins_read(const char *root, struct pins_table *table);
void pins_free(struct pins_table *table);

/* Why pins_read() failed, and what to do.  One line. */
const char *pins_why(int error);
