// SPDX-License-Identifier: MIT
/* events.c - who wants to know, and telling them. */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#include "hooks.h"

#define SUBSCRIBERS 16

/* fn is written last and read first.  `inside' keeps a pair in place while it is called. */
static struct {
	_Atomic(peerdma_hook_fn) fn;
	_Atomic(void *) arg;
	_Atomic unsigned int inside;
	_Atomic bool taken;
	pid_t process;
} subscribers[SUBSCRIBERS];

EXPORT int peerdma_hooks_subscribe(peerdma_hook_fn fn, void *arg)
{
	if (!fn)
		return -EINVAL;
	for (int i = 0; i < SUBSCRIBERS; i++) {
		bool is = false;

		if (!atomic_compare_exchange_strong(&subscribers[i].taken, &is, true))
			continue;
		atomic_store(&subscribers[i].arg, arg);
		subscribers[i].process = getpid();
		atomic_store(&subscribers[i].fn, fn);
		return 0;
	}
	return -ENOSPC;
}

EXPORT void peerdma_hooks_unsubscribe(peerdma_hook_fn fn, void *arg)
{
	for (int i = 0; i < SUBSCRIBERS; i++) {
		if (atomic_load(&subscribers[i].fn) != fn || atomic_load(&subscribers[i].arg) != arg)
			continue;
		atomic_store(&subscribers[i].fn, NULL);
		/* A forked child has none of the threads that may have been in it. */
		while (atomic_load(&subscribers[i].inside) && subscribers[i].process == getpid())
			sched_yield();
		atomic_store(&subscribers[i].taken, false);
		return;
	}
}

/* Alone in its cache line: others read it all the time.  Never 0. */
static _Alignas(64) _Atomic uint64_t making = PEERDMA_HOOKS_MAKING_ONE;

EXPORT const uint64_t *peerdma_hooks_making(void)
{
	return (const uint64_t *)&making;
}

void making_begins(void)
{
	atomic_fetch_add(&making, PEERDMA_HOOKS_MAKING_ONE + 1);
}

void making_ends(void)
{
	atomic_fetch_sub(&making, 1);
}

void hook_count(struct hook *h)
{
	atomic_fetch_add_explicit(&h->events, 1, memory_order_relaxed);
}

void hook_tell(struct hook *h, uint32_t kind, uint32_t after, uint64_t addr, uint64_t length)
{
	const struct peerdma_hook_event event = {
		.kind = kind, .after = after, .addr = addr, .length = length, .call = h->name,
	};

	if (!after)
		hook_count(h);
	if (!length)	/* cuMemFree(0), which many programs begin with */
		return;
	for (int i = 0; i < SUBSCRIBERS; i++) {
		peerdma_hook_fn fn;

		if (!atomic_load(&subscribers[i].fn))
			continue;
		/* Counted before the second look: whoever unsubscribes sees the one or we see the other. */
		atomic_fetch_add(&subscribers[i].inside, 1);
		fn = atomic_load(&subscribers[i].fn);
		if (fn)
			fn(atomic_load(&subscribers[i].arg), &event);
		atomic_fetch_sub(&subscribers[i].inside, 1);
	}
}
