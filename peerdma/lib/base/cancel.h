/* SPDX-License-Identifier: MIT */
/*
 * cancel.h - disables pthread_cancel() in code where a cancelled thread would keep a lock, a
 * reference, or a region that other threads wait for.
 *
 *	int was = cancel_off();
 *	...
 *	cancel_back(was);
 *
 * This covers deferred cancellation. A thread with PTHREAD_CANCEL_ASYNCHRONOUS must not call the
 * library, as it must not call most of the C library.
 */
#pragma once

#include <pthread.h>

static inline int cancel_off(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was;
}

static inline void cancel_back(int was)
{
	pthread_setcancelstate(was, &was);
}

/*
 * pthread_cond_wait() without being a cancellation point: a cancelled thread would keep the lock.
 */
static inline void cancel_safe_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	int was = cancel_off();

	pthread_cond_wait(cond, lock);
	cancel_back(was);
}
