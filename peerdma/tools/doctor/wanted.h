/* SPDX-License-Identifier: MIT */
/*
 * wanted.h - what an administrator wants of a machine: ways that must work, and findings that are
 * accepted.  From the command line (--need, --ignore) and a file.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "machine/machine.h"

#define WANTED_FILE	"/etc/peerdma/doctor.conf"
#define WANTED_MAX	32
/* A message has room for the path of a file, and for all words that may stand in it. */
#define WANTED_WHY	(PATH_MAX + 2048)

struct need {
	const char *word;		/* as it was asked for: "rdma" */
	unsigned int ways;		/* one of them */
	enum device_kind peer;		/* DEVICE_OTHER: any */
	const char *check;		/* that finds nothing wrong, beside the ways; NULL: none */
};

struct wanted {
	struct need needs[WANTED_MAX];
	unsigned int need_count;
	bool none;			/* "none": no path is wanted */
	unsigned int gpus, adapters;	/* so many at least: "gpus:8"; 0: any number */
	struct {
		const char *check;
		char subject[128];	/* "": any */
	} ignored[WANTED_MAX];
	unsigned int ignored_count;
};

/*
 * The words of an option, with commas between.  false: one is unknown, and why says which, and what
 * was meant.  from: "--need", or "FILE:3".
 */
bool wanted_need(struct wanted *w, const char *from, const char *words, char why[WANTED_WHY]);
bool wanted_ignore(struct wanted *w, const char *from, const char *words, char why[WANTED_WHY]);

/*
 * After the checks have run: one more ignored "CHECK:SUBJECT" that names no finding, and the subject that was
 * meant (NULL: none is near).  *n counts them, from 0 on.  false: there are no more.
 */
struct doctor;
bool wanted_names_nothing(const struct doctor *d, unsigned int *n, char name[128],
			  const char **meant);

/* Is nothing wanted, in so many words?  w NULL: no. */
bool wanted_none(const struct wanted *w);

/* Is what this check looks at asked for by name?  w NULL: no. */
bool wanted_check(const struct wanted *w, const char *check);

/*
 * Lines "need = WORDS" and "ignore = WORDS", comments from '#' on.  0; -ENOENT: there is no such
 * file; or another -errno: why says what is wrong, and in which line.
 */
int wanted_read(struct wanted *w, const char *file, char why[WANTED_WHY]);
