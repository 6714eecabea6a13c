// SPDX-License-Identifier: MIT
/*
 * thread_end.c - see thread_end.h.
 *
 * One pthread key runs all clean-up functions at thread exit. Its value is not used: each file
 * finds its memory by thread-local variables (initial-exec).
 */
#include <pthread.h>

#include "fork_lock.h"
#include "thread_end.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_there;
static struct thread_end *ends;		/* atomic: entries are never removed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Runs at thread exit. A destructor of another library may run later, call this library, and
 * allocate again. Then pthread runs this function again, which frees that memory, too.
 */
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

/*
 * Each error registers its text here, also in a forked child. Without this, the child might find
 * the lock held by a thread that does not exist in the child.
 */
HOLD_OVER_FORK(lock)
