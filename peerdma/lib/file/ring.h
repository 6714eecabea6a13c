/* SPDX-License-Identifier: MIT */
/*
 * ring.h - io_uring, by liburing.  A ring gives one completion for each thing that it was given:
 * steps of transfers, and words, which do nothing and wake the thread that waits.
 *
 * The ring's caller gives and submits under a lock of its own.  One thread at a time takes
 * completions and waits, without the lock.
 */
#pragma once

#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

#include "transfer.h"

struct ring {
#ifdef HAVE_LIBURING
	struct io_uring uring;
#endif
	struct own_fd fd;	/* none: not open */
	bool usable;		/* atomic: open, and the kernel takes what it is given */
	void **given;		/* and not submitted yet */
	uint32_t count;
};

/* Room for so many that are given and whose completion was not taken.  0, or -errno. */
int ring_open(struct ring *ring, uint32_t entries);
/* Why io_uring is not used, from the error of any function here: a constant. */
const char *ring_why(int error);
/* data: not NULL. */
void ring_give(struct ring *ring, const struct step *step, void *data);
void ring_give_word(struct ring *ring);
/* 0; or -errno: from now on the ring is not usable, and `given' are those that it does not take. */
int ring_submit(struct ring *ring);
/* False: there is no completion now.  *data is NULL for a word. */
bool ring_take(struct ring *ring, void **data, int *result);
/* Waits for n completions.  0, -ETIME, -EINTR, or another -errno: it cannot wait. */
int ring_wait(struct ring *ring, uint32_t n, const struct timespec *timeout);
/* owner: not in a forked child, which has the descriptor only. */
void ring_close(struct ring *ring, bool owner);
