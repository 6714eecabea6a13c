// SPDX-License-Identifier: MIT
/*
 * thread_end.c - memory of a thread's own, made when the thread first needs it, goes
 * with the thread.
 *
 * Where it is stands in words that need no call to be found (initial-exec); one key of
 * pthreads', for all of them, is there for what it calls at the end.
 */
#include <pthread.h>

#include "internal.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_there;

/* Another library's end of the thread may come later and call into this one: what is made anew for that ends in turn. */
static void thread_ends(void *unused)
{
	(void)unused;
	fronts_end();
	remembered_end();
	text_end();
}

static void key_make(void)
{
	key_there = !pthread_key_create(&key, thread_ends);
}

bool thread_end_told(void)
{
	pthread_once(&once, key_make);
	return key_there && !pthread_setspecific(key, &once);
}
