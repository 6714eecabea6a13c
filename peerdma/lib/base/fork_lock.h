/* SPDX-License-Identifier: MIT */
/* fork_lock.h - a lock that fork() waits for: a child has what it guards as it is between two changes. */
#ifndef FORK_LOCK_H
#define FORK_LOCK_H

#include <pthread.h>

/* Once in a file, of a static pthread_mutex_t. */
#define HOLD_OVER_FORK(lock)								\
	static void before_fork(void)							\
	{										\
		pthread_mutex_lock(&(lock));						\
	}										\
											\
	static void after_fork(void)							\
	{										\
		pthread_mutex_unlock(&(lock));						\
	}										\
											\
	__attribute__((constructor)) static void watch_forks(void)			\
	{										\
		pthread_atfork(before_fork, after_fork, after_fork);			\
	}

#endif
