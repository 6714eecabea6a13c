/* SPDX-License-Identifier: MIT */
/* thread_end.h - functions that run when a thread ends. */
#ifndef BASE_THREAD_END_H
#define BASE_THREAD_END_H

#include <stdbool.h>

/* Static, one for each file that has memory of threads.  fn() frees what the calling thread has of it. */
struct thread_end {
	void (*fn)(void);
	struct thread_end *next;	/* thread_end.c's */
	bool known;			/* likewise */
};

/*
 * From here on end->fn() runs when the calling thread ends; false: it cannot.  fn() may
 * run more than once in a thread, and in threads that never made this call.  Allocates
 * once in each process, and otherwise only where pthread_setspecific() does.
 */
bool thread_end_register(struct thread_end *end);

#endif
