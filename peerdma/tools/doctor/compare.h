/* SPDX-License-Identifier: MIT */
/*
 * compare.h - what differs between two machines, by consequence.
 *
 *   compare.c         findings of the doctor beside each other
 *   compare_files.c   files that both were read, and no finding shows
 *   differences.c     the list of differences
 *   compare_render.c  text and JSON
 *
 * PCI addresses of devices that have a label are replaced by it: that a GPU is in another slot is no difference.
 */
#pragma once

#include "doctor.h"

enum difference_kind {		/* in this order */
	/* B's verdict is worse, or B alone has this finding and it is not ok */
	DIFFERENCE_WORSE,
	/* A alone has this finding: in B there is no such device, or nothing to check */
	DIFFERENCE_MISSING,
	DIFFERENCE_FACT,	/* the same verdict on other values */
	DIFFERENCE_BETTER,	/* B's verdict is better, or B alone has it and it is ok */
	DIFFERENCE_FILE,	/* of no finding */
	DIFFERENCES,
};

struct difference {
	enum difference_kind kind;
	const struct finding *a, *b;	/* NULL: there is none; both: a file */
	char *path, *a_text, *b_text;	/* of a file; cleaned */
	unsigned int order;		/* of being found */
};

struct comparison {
	const char *name[2];		/* A, B */
	const struct doctor *side[2];
	struct difference *all;
	size_t count, room;
	size_t kinds[DIFFERENCES];	/* how many of each */
};

/* 0 or -ENOMEM.  Both have been run, and must outlive it. */
int compare_run(struct comparison *c, const struct doctor *a, const struct doctor *b);
void compare_free(struct comparison *c);

/* ---- between the files ---- */

int compare_files(struct comparison *c);
/* NULL: out of memory */
struct difference *compare_add(struct comparison *c, enum difference_kind kind);
/* malloc()ed: text with labels in place of addresses. */
char *compare_relabel(const struct machine *m, const char *text);

/* ---- compare_render.c ---- */

struct tool;
void compare_text(const struct comparison *c, const struct tool *tool, bool all);
int compare_json(const struct comparison *c);
