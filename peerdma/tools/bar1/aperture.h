/* SPDX-License-Identifier: MIT */
/*
 * aperture.h - which bytes of an aperture which process's pins hold, and a
 * picture of it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pins/pins_table.h"

struct owner {
	uint64_t pid;
	const char *comm;	/* the table's */
	size_t pins;		/* in this aperture */
	uint64_t held;		/* distinct bytes of it */
	struct phys_range *ranges;	/* sorted, disjoint, within the aperture */
	size_t count, room;
};

/* The stretches that no pin of peerdma holds; class i: those of [2^i, 2^(i+1)) bytes. */
#define FREE_CLASSES	64
struct free_runs {
	uint64_t count, bytes, largest;
	struct free_class {
		uint64_t count, bytes;
	} classes[FREE_CLASSES];
};

struct aperture {
	struct phys_range range;	/* CPU physical */
	struct owner *owners;		/* most bytes first */
	size_t count;
	uint64_t held;			/* distinct bytes of all owners: pins may share */
	struct free_runs free;
};

/* Sorts the pins that lie (partly) in range by owner.  0 or -ENOMEM.  The table must outlive it. */
int aperture_fill(struct aperture *a, const struct phys_range *range,
		  const struct pins_table *table);
void aperture_free(struct aperture *a);

/* free_runs.c: of sorted, disjoint ranges within `in`. */
void free_runs_fill(struct free_runs *f, const struct phys_range *in, const struct phys_range *held,
		    size_t count);
/* How much of what is free lies outside the largest run. */
unsigned int free_runs_percent(const struct free_runs *f);

/* draw.c, free_runs.c: to stdout. */
struct tool;
void aperture_draw(const struct tool *tool, const struct aperture *a, const char *indent);
void free_runs_draw(const struct tool *tool, const struct free_runs *f, const char *indent);
