/* SPDX-License-Identifier: MIT */
/*
 * pair.h - do two machines fit each other?
 *
 *   pair_facts.c   what decides it, of each
 *   pair_gids.c    the addresses of RoCE among that
 *   pair.c         both beside each other: what differs, what follows, what to do
 *   pair_render.c  text and JSON
 *   pair_remote.c  the bundle of another machine, by a remote shell
 *   pair_probe.c   moves data between both: asks pair_serve.c there, by lines (pair_line.c);
 *                  each has a pair_end.c
 */
#pragma once

#include "side.h"

enum pair_verdict {		/* best first */
	PAIR_SAME,
	PAIR_DIFFERS,		/* and that keeps nothing from working well */
	PAIR_UNKNOWN,
	PAIR_SLOW,
	PAIR_BROKEN,
};

struct pair_row {
	const char *fact;
	char value[2][96];
	enum pair_verdict verdict;
	bool counts;		/* PAIR_UNKNOWN: the verdict depends on it */
	char consequence[320];	/* "" none */
	const char *remedy;	/* NULL: none */
};

#define PAIR_ROWS_MAX	16
struct pair_table {
	const struct rail *rail[2];	/* NULL: of the machines */
	struct pair_row rows[PAIR_ROWS_MAX];
	unsigned int count;
};

struct pairing {
	const char *name[2];		/* A, B */
	struct side *side[2];
	struct pair_table *tables;	/* the machines' first, then one for each rail */
	unsigned int count;
	enum pair_verdict verdict;
};

/* 0 or -ENOMEM.  The sides are open, and must outlive it. */
int pair_run(struct pairing *p);
void pair_free(struct pairing *p);

const char *pair_word(enum pair_verdict v);

struct tool;
void pair_text(const struct pairing *p, const struct tool *tool);
int pair_json(const struct pairing *p);		/* the exit code of printing */
