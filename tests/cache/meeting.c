// SPDX-License-Identifier: MIT
/*
 * meeting.c - a thread ends while its cache is closed: the close returns when the thread no longer touches the
 * cache, and not before.
 */
#include <pthread.h>
#include <semaphore.h>

#include "toy.h"
#include "cache/thread_cache.h"

static sem_t ready, go, left, stop;
static bool armed;			/* the next orphan is the leaving thread's */
static _Atomic int yields;
static _Atomic bool released;
static _Thread_local bool leaves;

/* The closing thread has looked whether the thread cache's thread ends; now that one does. */
void meeting_before(uint32_t to)
{
	if (to != OWNER_ORPHAN || !armed)
		return;
	armed = false;
	MUST(!sem_post(&go) && !sem_wait(&left));
}

/* The leaving thread touches the cache next: not before the other has waited for that, twice. */
void meeting_after(uint32_t to)
{
	if (to != OWNER_LEAVING || !leaves)
		return;
	MUST(!sem_post(&left) && !sem_wait(&go));
}

int meeting_yield(void)
{
	/* Once after the exchange has failed, in any case, and once more if it waits. */
	if (++yields == 2) {
		released = true;
		MUST(!sem_post(&go));
	}
	return sched_yield();
}

static void *use(void *page)
{
	leaves = page == AT(20);
	touch(page, PAGE);
	MUST(!sem_post(&ready));
	MUST(!sem_wait(leaves ? &go : &stop));
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	MUST(!sem_init(&ready, 0, 0) && !sem_init(&go, 0, 0) && !sem_init(&left, 0, 0) && !sem_init(&stop, 0, 0));
	fresh();
	begin();
	/* The first stays.  The second's thread cache is looked at first: the last in, the first out. */
	for (uint64_t i = 0; i < 2; i++) {
		MUST(!pthread_create(&threads[i], NULL, use, AT(10 + 10 * i)));
		MUST(!sem_wait(&ready));
	}
	armed = true;
	peerdma_cache_close(cache);
	/* If not, the thread would go on with a cache that is gone. */
	MUST(released);
	MUST(toy.adds == 2 && toy.removes == 2);
	MUST(!sem_post(&stop));
	for (int i = 0; i < 2; i++)
		MUST(!pthread_join(threads[i], NULL));
	return 0;
}
