/* SPDX-License-Identifier: MIT */
/*
 * thread.h - the libraries' own threads.
 *
 * Signals of the program are handled by the program's threads: a program may wait for them in one
 * thread, or expect that they interrupt its calls. Signals that a thread raises itself, by a bad
 * access for example, are not blocked, because functions of the program run in these threads, too.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

static inline void sgu_thread_signals(sigset_t *blocked)
{
	sigfillset(blocked);
	sigdelset(blocked, SIGBUS);
	sigdelset(blocked, SIGFPE);
	sigdelset(blocked, SIGILL);
	sigdelset(blocked, SIGSEGV);
	sigdelset(blocked, SIGSYS);
	sigdelset(blocked, SIGTRAP);
}

/* As pthread_create(); detached: nothing joins the thread. */
static inline int sgu_thread_create(pthread_t *id, bool detached, void *(*run)(void *arg),
				    void *arg)
{
	sigset_t blocked, before;
	pthread_attr_t attr;
	int err = pthread_attr_init(&attr);

	if (err)
		return err;
	if (detached)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sgu_thread_signals(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	err = pthread_create(id, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return err;
}
