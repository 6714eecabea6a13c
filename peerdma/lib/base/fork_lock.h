/* SPDX-License-Identifier: MIT */
/* fork_lock.h - holds a lock during fork(), so that a child never inherits half-changed data. */
#pragma once

#include <pthread.h>

/* Use once in a file, with a static pthread_mutex_t. */
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
