/* SPDX-License-Identifier: MIT */
/*
 * cancel.h - pthread_cancel() is held off where a thread that ended half-way would keep
 * a lock, a hold, or a region that others wait for.
 *
 *	int was = cancel_off();
 *	...
 *	cancel_back(was);
 *
 * This is for deferred cancellation.  A thread with PTHREAD_CANCEL_ASYNCHRONOUS may call
 * no function of the library, as it may call few of the C library's.
 */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

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

/* pthread_cond_wait() as no point of cancellation: it would end with the lock held. */
static inline void cancel_safe_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	int was = cancel_off();

	pthread_cond_wait(cond, lock);
	cancel_back(was);
}

#endif
