/* SPDX-License-Identifier: MIT */
/*
 * copy.h - methods to copy bytes through a view.
 *
 * A method copies whole lines only. `view` is aligned to LINE, the other side is not. copy.c copies
 * the bytes before and after the lines by naturally aligned accesses, which is right for uncached
 * memory, too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LINE 64		/* size of a write-combining buffer */

struct copy_method {
	const char *name;
	bool (*works)(void);		/* on this CPU; NULL: on every CPU */
	void (*to)(char *view, const char *from, size_t lines);
	/* The caller has made a fence before. */
	void (*from)(char *to, const char *view, size_t lines);
};

/* Sorted from best to worst; "plain" is last. Ends with a NULL name. */
extern const struct copy_method copy_methods[];

/* NULL, or why the method that PEERDMA_COPY names is not used. */
const char *copy_why_ignored(void);
