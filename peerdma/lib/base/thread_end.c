// SPDX-License-Identifier: MIT
/*
 * thread_end.c - see thread_end.h.
 *
 * One pthread key runs all clean-up functions when a thread ends.  The memory itself
 * is found through words that need no call (initial-exec), not through the key.
 */
#include <pthread.h>

#include "fork_lock.h"
#include "thread_end.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_there;
static struct thread_end *ends;		/* atomic: only ever added to */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A destructor of another library may run later and call into this one: what is made anew for that is freed in turn. */
static void thread_ends(void *unused)
{
	(void)unused;
	for (struct thread_end *e = __atomic_load_n(&ends, __ATOMIC_ACQUIRE); e; e = e->next)
		e->fn();
}

static void key_make(void)
{
	key_there = !pthread_key_create(&key, thread_ends);
}

static void make_known(struct thread_end *end)
{
	pthread_mutex_lock(&lock);
	if (!end->known) {
		end->next = ends;
		__atomic_store_n(&ends, end, __ATOMIC_RELEASE);
		__atomic_store_n(&end->known, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
}

bool thread_end_register(struct thread_end *end)
{
	pthread_once(&once, key_make);
	if (!__atomic_load_n(&end->known, __ATOMIC_ACQUIRE))
		make_known(end);
	return key_there && !pthread_setspecific(key, &once);
}

/* Every error comes by here for its text: also that of a child, which would find the lock held by a thread that it does not have. */
HOLD_OVER_FORK(lock)
