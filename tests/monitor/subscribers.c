// SPDX-License-Identifier: MIT
/*
 * subscribers.c - an event looks at a place of the list while its subscriber leaves: the place must count right
 * for the next one.  The list's own stores and additions stop here, so that each thread goes on when it is told to.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

static void before_add(void);
static void before_sub(void);
static void before_store(const void *at);

#undef atomic_fetch_add
#define atomic_fetch_add(p, n) (before_add(), atomic_fetch_add_explicit(p, n, memory_order_seq_cst))
#undef atomic_fetch_sub
#define atomic_fetch_sub(p, n) (before_sub(), atomic_fetch_sub_explicit(p, n, memory_order_seq_cst))
#undef atomic_store
#define atomic_store(p, v) (before_store(p), atomic_store_explicit(p, v, memory_order_seq_cst))
#include "../../peerdma/lib/monitor/subscribers.c"
#include "../check.h"

static struct subscribers list;
static sem_t looked, go_on, counted, left;
static _Thread_local bool in_event;
static bool stepped;

static void sleep_on(sem_t *s)
{
	while (sem_wait(s))
		;
}

/* It has seen the function, and not counted itself yet. */
static void before_add(void)
{
	if (!in_event)
		return;
	in_event = false;
	MUST(!sem_post(&looked));
	sleep_on(&go_on);
}

/* It leaves again when the other has left. */
static void before_sub(void)
{
	MUST(!sem_post(&counted));
	sleep_on(&left);
}

static void step(void)
{
	if (stepped)
		return;
	stepped = true;
	MUST(!sem_post(&go_on));
	sleep_on(&counted);
}

/* The subscriber that leaves has seen that no event is inside. */
static void before_store(const void *at)
{
	if (at == &list.places[0].inside)
		step();
}

static void subscriber(void *arg, const struct peerdma_hook_event *event)
{
}

static void *event(void *unused)
{
	const struct peerdma_hook_event none = { .kind = PEERDMA_HOOK_FREE };

	in_event = true;
	subscribers_call(&list, &none);
	return unused;
}

int main(void)
{
	pthread_t thread;

	alarm(20);
	MUST(!sem_init(&looked, 0, 0) && !sem_init(&go_on, 0, 0) && !sem_init(&counted, 0, 0) && !sem_init(&left, 0, 0));
	MUST(!subscribers_add(&list, subscriber, NULL));
	MUST(!pthread_create(&thread, NULL, event, NULL));
	sleep_on(&looked);
	subscribers_remove(&list, subscriber, NULL);
	step();
	MUST(!sem_post(&left));
	MUST(!pthread_join(thread, NULL));
	MUST(!list.places[0].inside);
	MUST(!subscribers_add(&list, subscriber, NULL));
	subscribers_remove(&list, subscriber, NULL);
	return 0;
}
