// SPDX-License-Identifier: MIT
/*
 * checked_locks.c - the program's pthread_mutex_unlock() ends it if the thread does not hold the mutex, whichever library calls it: so a
 * lock that is not taken is noticed without a second thread that happens to come by. Only for glibc, and not for sanitizers,
 * which have one of their own.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __GLIBC__
static _Thread_local int self;	/* the thread's number; 0: not asked for yet, -1: any will do */

/* Others' handlers in the child may come before this file's. */
static void forks(void)
{
	if (!self)
		self = (int)syscall(SYS_gettid);
}

/* A child has another number, and holds what its parent's thread held. */
static void forked(void)
{
	self = -1;
}

static void __attribute__((constructor)) begin(void)
{
	pthread_atfork(forks, NULL, forked);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	static int (*real)(pthread_mutex_t *mutex);
	static const char said[] = "a mutex is unlocked that its thread does not hold\n";
	int (*unlock)(pthread_mutex_t *) = __atomic_load_n(&real, __ATOMIC_RELAXED);

	if (!unlock) {
		*(void **)&unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
		__atomic_store_n(&real, unlock, __ATOMIC_RELAXED);
	}
	if (!self)
		self = (int)syscall(SYS_gettid);
	if (self > 0 ? mutex->__data.__owner != self : !mutex->__data.__owner) {
		if (write(STDERR_FILENO, said, sizeof(said) - 1) > 0)
			abort();
		abort();
	}
	return unlock(mutex);
}
#endif
