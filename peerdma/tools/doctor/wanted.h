/* SPDX-License-Identifier: MIT */
/*
 * wanted.h - what an administrator wants of a machine: ways that must work, and findings that are
 * accepted.  From the command line (--need, --ignore) and a file.
 */
#pragma once

#include <stdbool.h>

#include "machine/machine.h"

#define WANTED_FILE	"/etc/peerdma/doctor.conf"
#define WANTED_MAX	32

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
		char check[32], subject[64];	/* subject "": any */
	} ignored[WANTED_MAX];
	unsigned int ignored_count;
};

/*
 * The words of an option, with commas between.  false: one is unknown, and why says which, and what
 * was meant.  from: "--need", or "FILE:3".
 */
bool wanted_need(struct wanted *w, const char *from, const char *words, char why[256]);
bool wanted_ignore(struct wanted *w, const char *from, const char *words, char why[256]);

/* Is nothing wanted, in so many words?  w NULL: no. */
bool wanted_none(const struct wanted *w);

/* Is what this check looks at asked for by name?  w NULL: no. */
bool wanted_check(const struct wanted *w, const char *check);

/*
 * Lines "need = WORDS" and "ignore = WORDS", comments from '#' on.  0; -ENOENT: there is no such
 * file; -EINVAL: why says what is wrong in which line; or another -errno.
 */
int wanted_read(struct wanted *w, const char *file, char why[256]);
