// SPDX-License-Identifier: MIT
/*
 * sandbox.c - membarrier(2) is forbidden after the cache was made: hits make fences from
 * then on, and what a silent thread may hold ends when that thread calls or ends.
 */
#include <pthread.h>
#include <semaphore.h>

#include "sandbox.h"
#include "toy.h"

static sem_t used, next;
static int ends;

static void ended(void *arg, const struct peerdma_cached *region)
{
	ends++;
}

static void wait_for(sem_t *s)
{
	while (sem_wait(s))
		;
}

/* Uses two regions, is silent, makes a call, is silent, ends. */
static void *other(void *unused)
{
	for (int i = 0; i < 3; i++) {
		touch(AT(0), PAGE);
		touch(AT(2), PAGE);
		touch(AT(8), PAGE);
	}
	sem_post(&used);
	wait_for(&next);
	touch(AT(8), PAGE);
	sem_post(&used);
	wait_for(&next);
	return unused;
}

static void begin_with(pthread_t *t)
{
	fresh();
	options.ended = ended;
	begin();
	MUST(!sem_init(&used, 0, 0) && !sem_init(&next, 0, 0));
	touch(AT(4), PAGE);
	MUST(!pthread_create(t, NULL, other, NULL));
	wait_for(&used);
}

int main(void)
{
	struct peerdma_cached *held;
	pthread_t t;
	int first;

	alarm(60);
	/* Two caches: of one the other thread makes a call, of the other it does not. */
	begin_with(&t);
	sandbox_enter();
	held = get(AT(2), PAGE);
	/* What the other thread did not use ends at once. */
	MUST(invalidate(AT(4), PAGE) == 1 && toy.removes == 1 && !counters().stuck);
	/* What it used does not, and no get finds it. */
	MUST(invalidate(AT(0), 3 * PAGE) == 2 && toy.removes == 1 && counters().stuck == 2);
	/* One is held by this thread, the other by the other thread, perhaps: who holds it is notified at once. */
	MUST(ends == 2);
	first = toy.adds;
	touch(AT(0), PAGE);
	MUST(toy.adds == first + 1);
	peerdma_cache_put(cache, held);
	MUST(toy.removes == 1);
	/* It calls: it has had its say, and now makes fences. */
	sem_post(&next);
	wait_for(&used);
	MUST(toy.removes == 3 && !counters().stuck && !counters().dead);
	/* From here on nothing is in doubt. */
	MUST(invalidate(AT(8), PAGE) == 1 && toy.removes == 4 && !counters().stuck);
	sem_post(&next);
	MUST(!pthread_join(t, NULL));
	MUST(invalidate(AT(0), PAGE) == 1 && toy.removes == 5);
	finish();
	return 0;
}
