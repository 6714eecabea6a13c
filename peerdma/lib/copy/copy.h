/* SPDX-License-Identifier: MIT */
/*
 * copy.h - ways to move bytes through a view.
 *
 * A way only moves whole lines: `view' is aligned to LINE, the other side is
 * not.  What is left at both ends copy.c moves itself, in naturally aligned steps,
 * which is what uncached memory wants as well.
 */
#ifndef PEERDMA_LIB_COPY_H
#define PEERDMA_LIB_COPY_H

#include <stdbool.h>
#include <stddef.h>

#define LINE 64		/* bytes of a write-combining buffer */

struct copy_method {
	const char *name;
	bool (*works)(void);		/* on this CPU; NULL: on every one */
	void (*to)(char *view, const char *from, size_t lines);
	/* After a fence. */
	void (*from)(char *to, const char *view, size_t lines);
};

/* The best one first, "plain" last; ends with a NULL name. */
extern const struct copy_method copy_methods[];

#endif
