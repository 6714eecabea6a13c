/* SPDX-License-Identifier: MIT */
/*
 * uncancelled.h - no call of these libraries is a cancellation point (pthreads(7)). A thread that
 * was cancelled inside a call would leave locks held and data half changed.
 */
#pragma once

#include <pthread.h>

static inline int sgu_uncancelled_begin(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void sgu_uncancelled_end(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/*
 * Disables cancellation up to the end of the block. For functions that call a cancellation point of
 * the C library.
 */
#define SGU_UNCANCELLED	\
	const int cancelled_before __attribute__((unused, cleanup(sgu_uncancelled_end))) = \
		sgu_uncancelled_begin()
