/* SPDX-License-Identifier: MIT */
/*
 * aperture.h - which bytes of an aperture which process's pins hold, and a
 * picture of it.
 */
#ifndef PEERDMA_APERTURE_H
#define PEERDMA_APERTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pins_table.h"

struct owner {
	uint64_t pid;
	const char *comm;	/* the table's */
	size_t pins;		/* in this aperture */
	uint64_t held;		/* distinct bytes of it */
	struct phys_range *ranges;	/* sorted, disjoint, within the aperture */
	size_t count, room;
};

struct aperture {
	struct phys_range range;	/* CPU physical */
	struct owner *owners;		/* most bytes first */
	size_t count;
	uint64_t held;			/* distinct bytes of all owners: pins may share */
};

/* Sorts the pins that lie (partly) in range by owner.  0 or -ENOMEM.  The table must outlive it. */
int aperture_fill(struct aperture *a, const struct phys_range *range, const struct pins_table *table);
void aperture_free(struct aperture *a);

/* draw.c: to stdout. */
struct tool;
void aperture_draw(const struct tool *tool, const struct aperture *a, const char *indent);

#endif
