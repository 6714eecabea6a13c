/* SPDX-License-Identifier: MIT */
/*
 * transfer.h - a transfer between a file and memory, in steps.
 *
 *	transfer_begin(&t);		finds out what memory it is, and holds its pin
 *	while (transfer_next(&t, &step))
 *		transfer_took(&t, &step, n);	n: what making the step has returned
 *	transfer_end(&t);		t.done is the result
 *
 * Any thread may make the next step, one at a time.  A caller that makes the steps itself may stop
 * anywhere and have another thread make the rest: transfer_rest().
 */
#pragma once

#include "file.h"

struct transfer {
	struct peerdma_file *file;
	void *ptr;
	uint64_t length, offset;
	bool write;			/* to the file */
	struct peerdma_cached *hold;	/* NULL: it is host memory */
	ssize_t done;			/* bytes, or -errno if there are none */
	bool over;
	uint64_t refused_to;		/* what is before that is not transferred directly: */
	const char *refused;		/* why the kernel refused it, a constant */
};

enum way {
	STEP_DISK,	/* pread() or pwrite() of fd: the disk transfers to GPU memory */
	STEP_HOST,	/* the same, of host memory */
	STEP_COPY,	/* bounce() */
};

struct step {
	enum way way;
	struct part part;	/* STEP_HOST: without a region */
	int fd;
	char *memory;
	uint64_t moved;		/* by a caller that makes the step in pieces */
};

/* 0, -EINVAL or -EPERM: what is checked before anything is done. */
int transfer_check(const char *call, const struct transfer *t);
/* 0, or -errno: then no transfer_end(). */
int transfer_begin(struct transfer *t);
/* False: it is over. */
bool transfer_next(struct transfer *t, struct step *step);
void transfer_took(struct transfer *t, const struct step *step, ssize_t n);
/* Makes all further steps; returns the result. */
ssize_t transfer_rest(struct transfer *t);
void transfer_end(struct transfer *t);
