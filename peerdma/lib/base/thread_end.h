/* SPDX-License-Identifier: MIT */
/* thread_end.h - functions that run when a thread ends. */
#pragma once

#include <stdbool.h>

/*
 * A static object of each file that has thread-local memory. fn() frees the calling thread's part.
 */
struct thread_end {
	void (*fn)(void);
	struct thread_end *next;	/* used by thread_end.c */
	bool known;			/* used by thread_end.c */
};

/*
 * From here on end->fn() runs when the calling thread ends. False: it cannot. fn() may run more
 * than once in a thread, and also in threads that never made this call. Allocates memory only at
 * its first call in a process, and where pthread_setspecific() does.
 */
bool thread_end_register(struct thread_end *end);
